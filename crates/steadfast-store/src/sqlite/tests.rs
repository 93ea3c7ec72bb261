use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::SharedRecords;
use crate::error::Problem;
use crate::records::Records as _;

async fn fresh() -> (SharedRecords, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steadfast.db");
    let records = SqliteRecords::open(path, SqliteOptions::default()).await;
    (Arc::new(records.unwrap()), folder)
}

mod suite {
    crate::instantiate!(super::fresh);
}
