// TypeScript `@modelcontextprotocol/sdk` as a server that wants tokens of another authorization server:
// protected-server.mjs PORT ISSUER
//
// Sessions of the legacy era, kept in memory: whoever kills it makes its clients begin anew.
import { randomUUID } from 'node:crypto';
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js';
import { InvalidTokenError } from '@modelcontextprotocol/sdk/server/auth/errors.js';
import {
  getOAuthProtectedResourceMetadataUrl,
  mcpAuthMetadataRouter,
} from '@modelcontextprotocol/sdk/server/auth/router.js';
import { createMcpExpressApp } from '@modelcontextprotocol/sdk/server/express.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';

const [port, issuer] = process.argv.slice(2);
const resource = new URL(`http://127.0.0.1:${port}/mcp`);
const scopes = ['tools'];
const answer = await fetch(`${issuer}/.well-known/openid-configuration`);
const oauthMetadata = await answer.json();

// RFC 7662: the authorization server says what a token is worth.
async function verifyAccessToken(token) {
  const asked = await fetch(oauthMetadata.introspection_endpoint, {
    method: 'POST',
    headers: { Authorization: `Basic ${btoa('mcp-server:of-the-mcp-server')}` },
    body: new URLSearchParams({ token }),
  });
  const said = await asked.json();
  if (!said.active) throw new InvalidTokenError('the token is not active');
  return {
    token,
    clientId: said.client_id,
    scopes: said.scope.split(' '),
    // `active` decides: the authorization server allows for clocks that differ, and the SDK would not.
    expiresAt: Number.MAX_SAFE_INTEGER,
    resource: new URL(said.aud),
  };
}

function serve() {
  const server = new McpServer({ name: 'peer-protected', version: '1.0.0' });
  server.registerTool('whoami', { description: 'Says what the token is for that it was called with.' }, ({ authInfo }) => ({
    content: [{ type: 'text', text: `${authInfo.scopes.join(' ')} for ${authInfo.resource}` }],
  }));
  return server;
}

const transports = new Map();
async function handle(request, response) {
  let transport = transports.get(request.headers['mcp-session-id']);
  if (!transport && isInitializeRequest(request.body)) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (session) => transports.set(session, transport),
    });
    await serve().connect(transport);
  }
  if (transport) {
    await transport.handleRequest(request, response, request.body);
  } else {
    response.status(404).json({ jsonrpc: '2.0', error: { code: -32001, message: 'Session not found' }, id: null });
  }
}

const app = createMcpExpressApp();
app.use(mcpAuthMetadataRouter({ oauthMetadata, resourceServerUrl: resource, scopesSupported: scopes }));
const protect = requireBearerAuth({
  verifier: { verifyAccessToken },
  requiredScopes: scopes,
  resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource),
  expectedResource: resource,
});
app.all('/mcp', protect, handle);
app.listen(port, '127.0.0.1', () => console.log(`listening on ${resource}`));
