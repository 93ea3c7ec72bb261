// TypeScript `@modelcontextprotocol/client` 2.x as a peer: client-v2.mjs URL KEY legacy|modern
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { obey, report } from './line-protocol.mjs';

const [url, key, era] = process.argv.slice(2);
const client = new Client(
  { name: 'peer-typescript-v2', version: '1.0.0' },
  { versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' } },
);
client.onerror = (error) => report({ event: `error: ${error.message}` });
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${key}` } },
});
await client.connect(transport);
client.onclose = () => report({ event: 'closed' });

await obey({
  list: () => client.listTools(undefined, { cacheMode: 'refresh' }),
  call: (name, args) => client.callTool({ name, arguments: args }),
  quit: () => {
    client.onclose = undefined;
    return client.close();
  },
});
