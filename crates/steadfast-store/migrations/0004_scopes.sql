-- What step-ups ask for, and what was learned about authorization servers.
-- schema.md says what each column is for.

ALTER TABLE grants ADD COLUMN step_up TEXT;

CREATE TABLE issuers (
    issuer            TEXT PRIMARY KEY NOT NULL,
    no_offline_access INTEGER NOT NULL CHECK (no_offline_access IN (0, 1)),
    learned_at        INTEGER NOT NULL
) STRICT;
