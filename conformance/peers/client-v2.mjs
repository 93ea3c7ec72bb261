// TypeScript `@modelcontextprotocol/client` 2.x as a peer: client-v2.mjs URL KEY legacy|modern
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { ELICITED, SAMPLED, Updates, obey, report } from './line-protocol.mjs';
import { connect } from './stdio.mjs';

const [url, key, era] = process.argv.slice(2);
const client = new Client(
  { name: 'peer-typescript-v2', version: '1.0.0' },
  {
    capabilities: { elicitation: {}, sampling: {} },
    versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' },
  },
);
const updates = new Updates();
client.setRequestHandler('elicitation/create', () => ELICITED);
client.setRequestHandler('sampling/createMessage', () => SAMPLED);
client.setNotificationHandler('notifications/resources/updated', ({ params }) => updates.add(params.uri));
client.onerror = (error) => report({ event: `error: ${error.message}` });
const command = connect(url, key);
const transport = command
  ? new StdioClientTransport(command)
  : new StreamableHTTPClientTransport(new URL(url), {
      requestInit: { headers: { Authorization: `Bearer ${key}` } },
    });
await client.connect(transport);
client.onclose = () => report({ event: 'closed' });

let end;
async function subscribe(uri) {
  if (era === 'modern') {
    const subscription = await client.listen({ resourceSubscriptions: [uri] });
    end = () => subscription.close();
  } else {
    await client.subscribeResource({ uri });
    end = () => client.unsubscribeResource({ uri });
  }
  return 'subscribed';
}

await obey({
  list: () => client.listTools(undefined, { cacheMode: 'refresh' }),
  resources: () => client.listResources(undefined, { cacheMode: 'refresh' }),
  read: (uri) => client.readResource({ uri }, { cacheMode: 'refresh' }),
  request: (name, args, options) => client.callTool({ name, arguments: args }, options),
  subscribe,
  updated: () => updates.next(),
  unsubscribe: async () => (await end()) ?? 'unsubscribed',
  quit: () => {
    client.onclose = undefined;
    return client.close();
  },
});
