-- The ledger of operations: what was meant, what left, what was seen, what was concluded.
-- schema.md says what each column is for.

CREATE TABLE operations (
    seq         INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    version     INTEGER NOT NULL,
    agent       TEXT NOT NULL,
    server      TEXT NOT NULL,
    tool        TEXT NOT NULL,
    digest      BLOB NOT NULL CHECK (length(digest) = 32),
    call_digest BLOB NOT NULL CHECK (length(call_digest) = 32),
    key_hash    BLOB CHECK (length(key_hash) = 32),
    leg_hash    BLOB CHECK (length(leg_hash) = 32),
    contract    TEXT NOT NULL,
    state       TEXT NOT NULL,
    state_name  TEXT NOT NULL,
    is_open     INTEGER NOT NULL CHECK (is_open IN (0, 1)),
    undelivered INTEGER NOT NULL CHECK (undelivered IN (0, 1)),
    driver      TEXT,
    wake_at     INTEGER,
    intended_at INTEGER NOT NULL,
    changed_at  INTEGER NOT NULL,
    sealed      BLOB NOT NULL,
    result      BLOB
) STRICT;

-- The check for repeats reads this and nothing else, however many operations there are.
CREATE INDEX operations_open ON operations (agent, server, call_digest, seq) WHERE is_open = 1;

-- One key is one operation, unless it is proven that nothing happened.
CREATE UNIQUE INDEX operations_by_key ON operations (agent, server, key_hash)
    WHERE key_hash IS NOT NULL AND state_name <> 'no_effect';

CREATE INDEX operations_by_leg ON operations (leg_hash) WHERE leg_hash IS NOT NULL;
CREATE INDEX operations_due ON operations (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX operations_driven ON operations (driver) WHERE driver IS NOT NULL;
CREATE INDEX operations_by_state ON operations (state_name, seq);
CREATE INDEX operations_by_agent ON operations (agent, seq);
CREATE INDEX operations_by_connection ON operations (agent, server, seq);
CREATE INDEX operations_by_server ON operations (server, seq);

-- Append-only.
CREATE TABLE operation_facts (
    operation INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    fact      TEXT NOT NULL,
    PRIMARY KEY (operation, number)
) STRICT, WITHOUT ROWID;
