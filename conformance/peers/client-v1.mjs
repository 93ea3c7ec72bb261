// TypeScript `@modelcontextprotocol/sdk` 1.x as a peer: client-v1.mjs URL KEY
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { ELICITED, SAMPLED, Updates, obey, report } from './line-protocol.mjs';
import { connect } from './stdio.mjs';

const [url, key] = process.argv.slice(2);
const client = new Client(
  { name: 'peer-typescript-v1', version: '1.0.0' },
  { capabilities: { elicitation: {}, sampling: {} } },
);
const updates = new Updates();
client.setRequestHandler(ElicitRequestSchema, () => ELICITED);
client.setRequestHandler(CreateMessageRequestSchema, () => SAMPLED);
client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => updates.add(params.uri));
client.onerror = (error) => report({ event: `error: ${error.message}` });
const command = connect(url, key);
const transport = command
  ? new StdioClientTransport(command)
  : new StreamableHTTPClientTransport(new URL(url), {
      requestInit: { headers: { Authorization: `Bearer ${key}` } },
    });
await client.connect(transport);
client.onclose = () => report({ event: 'closed' });

let subscribed;
await obey({
  list: () => client.listTools(),
  resources: () => client.listResources(),
  read: (uri) => client.readResource({ uri }),
  request: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
  subscribe: (uri) => client.subscribeResource({ uri: (subscribed = uri) }),
  updated: () => updates.next(),
  unsubscribe: () => client.unsubscribeResource({ uri: subscribed }),
  quit: () => {
    client.onclose = undefined;
    return client.close();
  },
});
