//! Filling a store with many grants, for measurements.

use crate::error::{Error, Problem};
use crate::grants::GrantRecord;
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
    let mut writes = tokio::task::JoinSet::new();
    for grant in grants {
        while writes.len() >= TOGETHER {
            finish(&mut writes).await?;
        }
        let store = store.clone();
        writes.spawn(async move {
            let swap = store.swap_grant(&grant).await?;
            Ok((grant, swap.is_stored()))
        });
    }
    while !writes.is_empty() {
        finish(&mut writes).await?;
    }
    Ok(())
}

type Writes = tokio::task::JoinSet<Result<(GrantRecord, bool), Error>>;

async fn finish(writes: &mut Writes) -> Result<(), Error> {
    let failed = |why: String| Error::new(Problem::Io, "the filling", why);
    match writes.join_next().await {
        Some(Ok(written)) => match written? {
            (_, true) => Ok(()),
            (grant, false) => Err(failed(format!(
                "agent {} has a grant for {} already",
                grant.agent, grant.server
            ))),
        },
        Some(Err(error)) => Err(failed(error.to_string())),
        None => Ok(()),
    }
}
