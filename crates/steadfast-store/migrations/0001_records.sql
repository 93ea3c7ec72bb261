-- Agents, servers, what was learned about addresses, sessions in both directions, history.
-- schema.md says what each table and column is for.

CREATE TABLE agents (
    name       TEXT PRIMARY KEY NOT NULL,
    config     TEXT NOT NULL,
    source     TEXT NOT NULL CHECK (source IN ('file', 'admin')),
    key_hash   BLOB UNIQUE CHECK (length(key_hash) = 32),
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE servers (
    name   TEXT PRIMARY KEY NOT NULL,
    config TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('file', 'admin'))
) STRICT;

CREATE TABLE eras (
    address TEXT PRIMARY KEY NOT NULL,
    known   TEXT NOT NULL
) STRICT;

CREATE TABLE sessions (
    agent             TEXT NOT NULL,
    server            TEXT NOT NULL,
    address           TEXT NOT NULL,
    id                TEXT,
    revision          TEXT NOT NULL,
    initialize_result TEXT NOT NULL,
    opened_at         INTEGER NOT NULL,
    state             TEXT NOT NULL,
    PRIMARY KEY (agent, server)
) STRICT;

CREATE TABLE history (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    agent      TEXT NOT NULL,
    server     TEXT NOT NULL,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    fault      TEXT,
    reason     TEXT NOT NULL
) STRICT;

CREATE INDEX history_of_connection ON history (agent, server, seq);

CREATE TABLE agent_sessions (
    id_hash       BLOB PRIMARY KEY NOT NULL CHECK (length(id_hash) = 32),
    agent         TEXT NOT NULL,
    server        TEXT,
    revision      TEXT NOT NULL,
    client_info   TEXT NOT NULL,
    capabilities  TEXT NOT NULL,
    log_level     TEXT,
    subscriptions TEXT NOT NULL,
    opened_at     INTEGER NOT NULL,
    used_at       INTEGER NOT NULL
) STRICT;

CREATE INDEX agent_sessions_by_use ON agent_sessions (used_at);

CREATE TABLE meta (
    key   TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT;
