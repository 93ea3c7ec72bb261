-- Grants, leases, registered clients, sign-ins, notices, the vault, metadata documents.
-- schema.md says what each table and column is for.

CREATE TABLE grants (
    agent          TEXT NOT NULL,
    server         TEXT NOT NULL,
    version        INTEGER NOT NULL,
    generation     INTEGER NOT NULL,
    state          TEXT NOT NULL,
    wake_at        INTEGER,
    issuer         TEXT NOT NULL,
    resource       TEXT,
    token_endpoint TEXT,
    client         TEXT NOT NULL,
    last_renewal   TEXT,
    sealed         BLOB,
    PRIMARY KEY (agent, server)
) STRICT;

-- The search for due grants reads this and nothing else, however many grants there are.
CREATE INDEX grants_due ON grants (issuer, wake_at, agent, server) WHERE wake_at IS NOT NULL;

CREATE TABLE leases (
    kind   TEXT NOT NULL CHECK (kind IN ('renewal', 'registration')),
    first  TEXT NOT NULL,
    second TEXT NOT NULL,
    number INTEGER NOT NULL,
    holder TEXT NOT NULL,
    until  INTEGER NOT NULL,
    PRIMARY KEY (kind, first, second)
) STRICT, WITHOUT ROWID;

CREATE TABLE clients (
    issuer        TEXT NOT NULL,
    redirect_uri  TEXT NOT NULL,
    version       INTEGER NOT NULL,
    client_id     TEXT NOT NULL,
    sealed        BLOB,
    auth          TEXT NOT NULL,
    expires_at    INTEGER,
    registered_at INTEGER NOT NULL,
    doubtful      INTEGER NOT NULL CHECK (doubtful IN (0, 1)),
    PRIMARY KEY (issuer, redirect_uri)
) STRICT;

CREATE TABLE sign_ins (
    agent          TEXT NOT NULL,
    server         TEXT NOT NULL,
    id             TEXT NOT NULL,
    state_hash     BLOB NOT NULL CHECK (length(state_hash) = 32),
    issuer         TEXT NOT NULL,
    token_endpoint TEXT NOT NULL,
    redirect_uri   TEXT NOT NULL,
    client         TEXT NOT NULL,
    scopes         TEXT NOT NULL,
    resource       TEXT,
    sealed         BLOB NOT NULL,
    started_at     INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    PRIMARY KEY (agent, server)
) STRICT;

CREATE INDEX sign_ins_by_state ON sign_ins (state_hash);

CREATE TABLE notices (
    agent      TEXT NOT NULL,
    server     TEXT NOT NULL,
    number     INTEGER NOT NULL,
    fault      TEXT NOT NULL,
    opened_at  INTEGER NOT NULL,
    cleared_at INTEGER,
    PRIMARY KEY (agent, server)
) STRICT;

CREATE TABLE tellings (
    agent   TEXT NOT NULL,
    server  TEXT NOT NULL,
    number  INTEGER NOT NULL,
    moment  TEXT NOT NULL CHECK (moment IN ('opened', 'cleared')),
    channel TEXT NOT NULL,
    PRIMARY KEY (agent, server, number, moment, channel)
) STRICT, WITHOUT ROWID;

CREATE TABLE vault_entries (
    name   TEXT PRIMARY KEY NOT NULL,
    sealed BLOB NOT NULL,
    set_at INTEGER NOT NULL
) STRICT;

CREATE TABLE documents (
    url         TEXT PRIMARY KEY NOT NULL,
    body        BLOB NOT NULL,
    etag        TEXT,
    fetched_at  INTEGER NOT NULL,
    fresh_until INTEGER NOT NULL
) STRICT;
