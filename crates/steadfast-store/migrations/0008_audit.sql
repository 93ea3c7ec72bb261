-- Who changed what, and when. schema.md says what each column is for.

CREATE TABLE audit (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    at     INTEGER NOT NULL,
    who    TEXT NOT NULL,
    via    TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;

-- Old entries are forgotten by their time.
CREATE INDEX audit_by_time ON audit (at);
