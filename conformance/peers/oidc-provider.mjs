// `oidc-provider` as the authorization server of one protected resource: oidc-provider.mjs PORT RESOURCE STATE LOG
//
// Rotation, resource indicators, dynamic registration, introspection and revocation are on. What it has issued is in the
// SQLite file STATE, so that it can be restarted. Whatever a person or a client makes it do is a line in LOG: see
// `src/grants/log.rs`.
import { createHash } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { Provider, errors } from 'oidc-provider';

const [port, resource, state, log] = process.argv.slice(2);
// Seconds. The gateway renews a token after half of its life.
const ACCESS_TOKEN_LIFETIME = 2;
const LONG = 3600;
const TOKENS = ['AccessToken', 'RefreshToken'];

const database = new DatabaseSync(state);
database.exec('CREATE TABLE IF NOT EXISTS models (model TEXT, id TEXT, payload TEXT, PRIMARY KEY (model, id))');

// What `oidc-provider` calls an adapter: where its models are kept.
class Stored {
  constructor(model) {
    this.model = model;
  }

  async upsert(id, payload) {
    database.prepare('REPLACE INTO models VALUES (?, ?, ?)').run(this.model, id, JSON.stringify(payload));
  }

  async find(id) {
    return this.#one('id = ?', id);
  }

  async findByUid(uid) {
    return this.#one("payload ->> 'uid' = ?", uid);
  }

  async consume(id) {
    const payload = await this.find(id);
    await this.upsert(id, { ...payload, consumed: Math.floor(Date.now() / 1000) });
  }

  async destroy(id) {
    this.#remove('id = ?', id);
  }

  async revokeByGrantId(grantId) {
    this.#remove("payload ->> 'grantId' = ?", grantId);
  }

  #one(where, value) {
    const found = database.prepare(`SELECT payload FROM models WHERE model = ? AND ${where}`).get(this.model, value);
    return found && JSON.parse(found.payload);
  }

  #remove(where, value) {
    database.prepare(`DELETE FROM models WHERE model = ? AND ${where}`).run(this.model, value);
  }
}

const provider = new Provider(`http://127.0.0.1:${port}`, {
  adapter: Stored,
  // The MCP server, which asks what a token is worth.
  clients: [
    {
      client_id: 'mcp-server',
      client_secret: 'of-the-mcp-server',
      grant_types: [],
      redirect_uris: [],
      response_types: [],
    },
  ],
  // The browser's session outlives a restart.
  cookies: { keys: ['for-tests-only'] },
  features: {
    devInteractions: { enabled: true },
    introspection: { enabled: true, allowedPolicy: (_, client) => client.clientId === 'mcp-server' },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo(_, indicator) {
        if (indicator !== resource) throw new errors.InvalidTarget();
        // A scope of the resource, and none of the provider's own: a registration that names it is refused.
        return { scope: 'tools', accessTokenFormat: 'opaque', accessTokenTTL: ACCESS_TOKEN_LIFETIME };
      },
    },
    revocation: { enabled: true },
  },
  rotateRefreshToken: true,
  ttl: { AccessToken: ACCESS_TOKEN_LIFETIME, Grant: LONG, Interaction: LONG, RefreshToken: LONG, Session: LONG },
});

function write(line) {
  appendFileSync(log, `${JSON.stringify(line)}\n`);
}

// Tells one token from another, and gives none away.
function mark(token) {
  return token && createHash('sha256').update(token).digest('hex').slice(0, 12);
}

// How many tokens are good for anything.
async function live() {
  let count = 0;
  for (const model of TOKENS) {
    for (const { id } of database.prepare('SELECT id FROM models WHERE model = ?').all(model)) {
      const token = await provider[model].find(id);
      if (token && !token.consumed) count += 1;
    }
  }
  return count;
}

provider.on('registration_create.success', () => write({ event: 'registered' }));
provider.on('interaction.started', (_, { name }) => write({ event: 'prompted', prompt: name }));
provider.on('authorization.success', () => write({ event: 'authorized' }));
provider.on('server_error', (_, error) => console.error(error));
provider.use(async (ctx, next) => {
  await next();
  if (ctx.oidc?.route === 'token') {
    const { grant_type: grant, refresh_token: presented } = ctx.oidc.params ?? {};
    const { error, refresh_token: issued } = ctx.body ?? {};
    write({ event: 'token', grant, presented: mark(presented), issued: mark(issued), error });
  } else if (ctx.oidc?.route === 'revocation') {
    write({ event: 'revoked', status: ctx.status, live: await live() });
  }
});

const server = provider.listen(port, '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${port}`));
process.on('SIGTERM', () => {
  // What is under way is answered; connections that are only kept open would hold it up.
  server.close(() => process.exit(0));
  setInterval(() => server.closeIdleConnections(), 20);
});
