-- The events of the streams of legacy agents, in a file of their own. schema.md says what each column is for.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE streams (
    name      BLOB PRIMARY KEY NOT NULL CHECK (length(name) = 16),
    agent     TEXT NOT NULL,
    session   BLOB NOT NULL CHECK (length(session) = 32),
    about     TEXT NOT NULL,
    owner     TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    ended     INTEGER NOT NULL DEFAULT 0 CHECK (ended IN (0, 1)),
    left_at   INTEGER,
    horizon   INTEGER NOT NULL DEFAULT 1
) STRICT, WITHOUT ROWID;

CREATE INDEX streams_left ON streams (left_at) WHERE left_at IS NOT NULL;
CREATE INDEX streams_held ON streams (owner, opened_at) WHERE left_at IS NULL;
CREATE INDEX streams_of_session ON streams (session);

CREATE TABLE requirements (
    stream   BLOB NOT NULL,
    resource TEXT NOT NULL,
    last     INTEGER,
    PRIMARY KEY (stream, resource)
) STRICT, WITHOUT ROWID;

-- In the order of appending: what is written together lies together, however many streams it is of.
CREATE TABLE events (
    seq    INTEGER PRIMARY KEY,
    stream BLOB NOT NULL,
    number INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    data   BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX events_of_stream ON events (stream, number);
