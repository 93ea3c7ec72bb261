//! What SQLite's result codes mean for a person.

use crate::error::{Error, Problem};
use crate::place::Place;

// The primary result codes (sqlite.org/rescode.html): the low eight bits of a code.
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const READONLY: i32 = 8;
const INTERRUPT: i32 = 9;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const NOTADB: i32 = 26;
// Extended result codes: the whole code.
const IOERR_FSYNC: i32 = 1034;
const IOERR_DIR_FSYNC: i32 = 1290;

fn code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// Whether SQLite stopped because it was told to.
pub(super) fn interrupted(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| code & 0xff == INTERRUPT)
}

/// The error of a statement. Nothing of it was kept.
pub(super) fn classify(place: &Place, error: &sqlx::Error) -> Error {
    if let Some(database) = error.as_database_error() {
        if database.is_unique_violation() {
            return place.error(
                Problem::Conflict,
                "the key belongs to another agent already",
            );
        }
        let problem = match code(error).map(|code| code & 0xff) {
            Some(BUSY | LOCKED) => Problem::Locked,
            Some(READONLY) => Problem::ReadOnly,
            Some(CORRUPT) => Problem::Damaged,
            Some(FULL) => Problem::Full,
            Some(NOTADB) => Problem::Foreign,
            _ => Problem::Io,
        };
        return place.error(problem, format!("SQLite says: {}", database.message()));
    }
    match error {
        sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
            place.error(Problem::Closed, "the store has been closed")
        }
        sqlx::Error::PoolTimedOut => {
            place.error(Problem::Locked, "no connection came free in time")
        }
        // Their texts may quote what is stored.
        sqlx::Error::ColumnDecode { index, .. } => place.error(
            Problem::Damaged,
            format!("column {index} holds something of another type"),
        ),
        sqlx::Error::Decode(_) => {
            place.error(Problem::Damaged, "a column holds something of another type")
        }
        other => place.error(Problem::Io, other.to_string()),
    }
}

/// The error of a COMMIT. Where the sync itself failed, the pages may be on disk all the same.
pub(super) fn classify_commit(place: &Place, error: &sqlx::Error) -> Error {
    match code(error) {
        Some(IOERR_FSYNC | IOERR_DIR_FSYNC) => place.error(
            Problem::Unconfirmed,
            "the disk did not confirm that it keeps a change",
        ),
        _ => classify(place, error),
    }
}
