//! What it costs that every consequential call is on record before it leaves, and whether a large ledger is slower than a
//! small one.

mod cost;
mod ledger;

use crate::Outcome;
use crate::bounds::Bounds;
use crate::options::OperationsOptions;

/// Measures, prints, and fails where a bound is exceeded.
pub(crate) fn run(options: &OperationsOptions) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        tokio::select! {
            measured = measure(options) => measured,
            // Dropping the run ends what it started.
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        }
    })
}

async fn measure(options: &OperationsOptions) -> Outcome {
    let mut bounds = Bounds::default();
    cost::measure(options, &mut bounds).await?;
    ledger::measure(options.operations, &mut bounds).await?;
    bounds.kept()
}
