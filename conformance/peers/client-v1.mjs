// TypeScript `@modelcontextprotocol/sdk` 1.x as a peer: client-v1.mjs URL KEY
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { obey, report } from './line-protocol.mjs';

const [url, key] = process.argv.slice(2);
const client = new Client({ name: 'peer-typescript-v1', version: '1.0.0' });
client.onerror = (error) => report({ event: `error: ${error.message}` });
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${key}` } },
});
await client.connect(transport);
client.onclose = () => report({ event: 'closed' });

await obey({
  list: () => client.listTools(),
  call: (name, args) => client.callTool({ name, arguments: args }),
  quit: () => {
    client.onclose = undefined;
    return client.close();
  },
});
