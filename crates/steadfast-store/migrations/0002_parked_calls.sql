-- Calls of modern agents on legacy servers that wait for their second leg.
-- schema.md says what each column is for.

CREATE TABLE parked_calls (
    state_hash BLOB PRIMARY KEY NOT NULL CHECK (length(state_hash) = 32),
    agent      TEXT NOT NULL,
    server     TEXT NOT NULL,
    session    TEXT,
    rpc_id     INTEGER NOT NULL,
    cursor     TEXT,
    questions  TEXT NOT NULL,
    method     TEXT NOT NULL,
    tool       TEXT,
    digest     BLOB NOT NULL CHECK (length(digest) = 32),
    sent_at    INTEGER NOT NULL,
    bytes_sent INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX parked_calls_by_expiry ON parked_calls (expires_at);
