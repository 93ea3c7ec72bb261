//! Threads with a runtime each: what a fast server or load generator is made of.

use std::future::Future;
use std::io::{self, Read as _};

/// How many threads the upstream has, and how many the load: half of the machine, so that what is between
/// them has the rest.
pub(crate) fn half_of_the_machine() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

/// Runs `work` on so many threads, each with a single-threaded runtime of its own.
pub(crate) fn on_each<F, T>(count: usize, work: impl Fn(usize) -> F + Sync) -> io::Result<Vec<T>>
where
    F: Future<Output = T>,
    T: Send,
{
    let runtimes = (0..count)
        .map(|_| {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
        })
        .collect::<io::Result<Vec<_>>>()?;
    let work = &work;
    Ok(std::thread::scope(|scope| {
        let threads: Vec<_> = runtimes
            .into_iter()
            .enumerate()
            .map(|(index, runtime)| scope.spawn(move || runtime.block_on(work(index))))
            .collect();
        threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    }))
}

/// Ends this process when its standard input does: the driver holds the other end, so that no part outlives
/// a driver that was killed.
pub(crate) fn end_with_standard_input() {
    std::thread::spawn(|| {
        let mut ignored = [0; 64];
        while matches!(io::stdin().read(&mut ignored), Ok(1..)) {}
        std::process::exit(0);
    });
}
