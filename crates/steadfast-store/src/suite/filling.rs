//! Filling a store with many grants or operations, for measurements.

use steadfast_core::operation::Fact;
use tokio::task::JoinSet;

use crate::error::{Error, Problem};
use crate::grants::GrantRecord;
use crate::operations::OperationRecord;
use crate::store::SharedStore;

/// How many writes wait at the same time, and so share a commit.
const TOGETHER: usize = 256;

/// Puts grants that are not there yet. They wait for their commits together, so that a hundred thousand take
/// seconds rather than minutes.
///
/// # Errors
/// When the store fails, or when one of the grants is there already.
pub async fn fill_grants(
    store: &SharedStore,
    grants: impl IntoIterator<Item = GrantRecord>,
) -> Result<(), Error> {
    let writes = grants.into_iter().map(|grant| {
        let store = store.clone();
        async move {
            let what = format!("a grant of agent {} for {}", grant.agent, grant.server);
            let swap = store.swap_grant(&grant).await?;
            Ok((what, swap.is_stored()))
        }
    });
    all(writes).await
}

/// Puts operations with all that is on record of them, likewise.
///
/// # Errors
/// When the store fails, or when one of them is there already.
pub async fn fill_operations(
    store: &SharedStore,
    operations: impl IntoIterator<Item = (OperationRecord, Vec<Fact>)>,
) -> Result<(), Error> {
    let writes = operations.into_iter().map(|(operation, facts)| {
        let store = store.clone();
        async move {
            let swap = store.intend(&operation, &facts).await?;
            Ok((operation.id.to_string(), swap.is_stored()))
        }
    });
    all(writes).await
}

/// What was written, and whether it was not there before.
type Written = Result<(String, bool), Error>;

async fn all<W>(writes: impl Iterator<Item = W>) -> Result<(), Error>
where
    W: Future<Output = Written> + Send + 'static,
{
    let mut waiting = JoinSet::new();
    for write in writes {
        while waiting.len() >= TOGETHER {
            finish(&mut waiting).await?;
        }
        waiting.spawn(write);
    }
    while !waiting.is_empty() {
        finish(&mut waiting).await?;
    }
    Ok(())
}

async fn finish(waiting: &mut JoinSet<Written>) -> Result<(), Error> {
    let failed = |why: String| Error::new(Problem::Io, "the filling", why);
    match waiting.join_next().await {
        Some(Ok(written)) => match written? {
            (_, true) => Ok(()),
            (what, false) => Err(failed(format!("{what} is there already"))),
        },
        Some(Err(error)) => Err(failed(error.to_string())),
        None => Ok(()),
    }
}
