//! The one writer of a database. Writes that wait at the same time share a transaction and with it the
//! sync to disk, so that many consequential calls at once cost little more than one.
//!
//! Each write is answered after the commit of its transaction, and not before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::{mpsc, oneshot};

use super::fault;
use crate::error::{Error, Problem};
use crate::place::Place;

/// How many writes one transaction holds at most: it bounds how long the first of them waits for the others.
const BATCH: usize = 256;
/// How many writes may wait before their callers are held back.
const QUEUE: usize = 1_024;

/// The future of a write.
pub(super) type Work<'c, T> = std::pin::Pin<Box<dyn Future<Output = sqlx::Result<T>> + Send + 'c>>;

/// Hands writes to the task that owns the writing connection.
#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<Message>,
    place: Place,
    commits: Arc<AtomicU64>,
}

enum Message {
    Write(Box<dyn Write>),
    Close(oneshot::Sender<()>),
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Write(_) => "Write",
            Self::Close(_) => "Close",
        })
    }
}

impl Writer {
    /// Starts the task on a connection that has been checked and migrated.
    pub(super) fn start(db: SqliteConnection, reopen: SqliteConnectOptions, place: Place) -> Self {
        let (queue, inbox) = mpsc::channel(QUEUE);
        let commits = Arc::new(AtomicU64::new(0));
        let task = Task {
            db: Some(db),
            reopen,
            place: place.clone(),
            commits: Arc::clone(&commits),
        };
        tokio::spawn(task.run(inbox));
        Self {
            queue,
            place,
            commits,
        }
    }

    /// Runs `work` in a transaction and returns when it is durable. What `work` changed before it
    /// returned an error is taken back.
    pub(super) async fn write<T, W>(&self, work: W) -> Result<T, Error>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send + 'static,
    {
        self.hand_over(work, Survives::PowerLoss).await
    }

    /// The same for what need not be kept when the power is lost right after: it is not synced by itself.
    pub(super) async fn write_lazily<T, W>(&self, work: W) -> Result<T, Error>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send + 'static,
    {
        self.hand_over(work, Survives::Kill).await
    }

    async fn hand_over<T, W>(&self, work: W, survives: Survives) -> Result<T, Error>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Job {
            survives,
            work: Some(work),
            outcome: None,
            reply,
            place: self.place.clone(),
        };
        self.queue
            .send(Message::Write(Box::new(job)))
            .await
            .map_err(|_| self.closed())?;
        answer.await.map_err(|_| self.closed())?
    }

    /// How many transactions have been committed.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Commits what was handed over before, and closes the connection.
    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.queue.send(Message::Close(reply)).await.is_ok() {
            // An error means that another caller closed it just before.
            let _ = closed.await;
        }
    }

    fn closed(&self) -> Error {
        self.place
            .error(Problem::Closed, "the store has been closed")
    }
}

/// What a write that has returned is still there after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Survives {
    /// A loss of power, and a kill of the process.
    PowerLoss,
    /// A kill of the process: the operating system has it.
    Kill,
}

/// A write in the queue, whatever it returns.
#[async_trait]
trait Write: Send {
    /// What it is to survive.
    fn survives(&self) -> Survives;
    /// Whether its caller no longer waits for it.
    fn abandoned(&self) -> bool;
    /// Does it; whether its changes are to be kept.
    async fn apply(&mut self, db: &mut SqliteConnection) -> bool;
    /// Tells its caller.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

struct Job<T, W> {
    survives: Survives,
    work: Option<W>,
    outcome: Option<sqlx::Result<T>>,
    reply: oneshot::Sender<Result<T, Error>>,
    place: Place,
}

#[async_trait]
impl<T, W> Write for Job<T, W>
where
    T: Send,
    W: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send,
{
    fn survives(&self) -> Survives {
        self.survives
    }

    fn abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    async fn apply(&mut self, db: &mut SqliteConnection) -> bool {
        let Some(work) = self.work.take() else {
            return false;
        };
        let outcome = work(db).await;
        let keep = outcome.is_ok();
        self.outcome = Some(outcome);
        keep
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        let answer = match (committed, self.outcome) {
            (_, Some(Err(error))) => Err(fault::classify(&self.place, &error)),
            (Err(error), _) => Err(error),
            (Ok(()), Some(Ok(value))) => Ok(value),
            // An abandoned write was not begun, and nobody reads this.
            (Ok(()), None) => return,
        };
        // The caller may have gone away meanwhile.
        let _ = self.reply.send(answer);
    }
}

struct Task {
    /// None after a transaction failed as a whole: a new connection has no doubtful state.
    db: Option<SqliteConnection>,
    reopen: SqliteConnectOptions,
    place: Place,
    commits: Arc<AtomicU64>,
}

impl Task {
    async fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
        let mut messages = Vec::with_capacity(BATCH);
        while inbox.recv_many(&mut messages, BATCH).await > 0 {
            let mut writes = Vec::with_capacity(messages.len());
            let mut close = None;
            for message in messages.drain(..) {
                match message {
                    Message::Write(write) if close.is_none() => writes.push(write),
                    // Dropped: its caller is told that the store has been closed.
                    Message::Write(_) => {}
                    Message::Close(reply) => close = Some(reply),
                }
            }
            self.transact(writes).await;
            if let Some(reply) = close {
                self.finish().await;
                // The caller may have gone away meanwhile.
                let _ = reply.send(());
                return;
            }
        }
        self.finish().await;
    }

    async fn finish(&mut self) {
        if let Some(db) = self.db.take()
            && let Err(error) = db.close().await
        {
            tracing::warn!(error = %fault::classify(&self.place, &error), "the store did not close cleanly");
        }
    }

    /// Commits a batch and answers each of its writes. Those that need no sync go first: they wait for none.
    async fn transact(&mut self, mut writes: Vec<Box<dyn Write>>) {
        writes.retain(|write| !write.abandoned());
        let (lazy, synced): (Vec<_>, Vec<_>) = writes
            .into_iter()
            .partition(|write| write.survives() == Survives::Kill);
        self.commit(lazy, &LAZY).await;
        self.commit(synced, &SYNCED).await;
    }

    async fn commit(&mut self, mut writes: Vec<Box<dyn Write>>, frame: &Frame) {
        if writes.is_empty() {
            return;
        }
        let committed = self.attempt(&mut writes, frame).await;
        match &committed {
            Ok(()) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
            }
            // Closing it takes back what it had begun.
            Err(_) => self.db = None,
        }
        for write in writes {
            write.answer(committed.clone());
        }
    }

    async fn attempt(&mut self, writes: &mut [Box<dyn Write>], frame: &Frame) -> Result<(), Error> {
        let place = self.place.clone();
        let failed = |error: sqlx::Error| fault::classify(&place, &error);
        let db = match &mut self.db {
            Some(db) => db,
            none => none.insert(self.reopen.connect().await.map_err(failed)?),
        };
        execute(db, frame.begin).await.map_err(failed)?;
        for (number, write) in writes.iter_mut().enumerate() {
            if number > 0 {
                execute(db, NEXT).await.map_err(failed)?;
            }
            if !write.apply(db).await {
                execute(db, "ROLLBACK TO one").await.map_err(failed)?;
            }
        }
        execute(db, frame.commit)
            .await
            .map_err(|error| fault::classify_commit(&place, &error))
    }
}

/// What stands around the writes of a transaction. Each is within a savepoint, so that one that fails takes back only
/// itself. What can be said in one breath is: each statement goes to the thread of the connection and back.
struct Frame {
    begin: &'static str,
    commit: &'static str,
}

const SYNCED: Frame = Frame {
    begin: "BEGIN IMMEDIATE; SAVEPOINT one",
    commit: "RELEASE one; COMMIT",
};
/// In a write-ahead log a commit without a sync is lost with the power only, and never damages the file
/// (sqlite.org/pragma.html#pragma_synchronous). Whatever needs a sync syncs what came before it as well.
const LAZY: Frame = Frame {
    begin: "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE; SAVEPOINT one",
    commit: "RELEASE one; COMMIT; PRAGMA synchronous = FULL",
};
const NEXT: &str = "RELEASE one; SAVEPOINT one";

async fn execute(db: &mut SqliteConnection, statement: &'static str) -> sqlx::Result<()> {
    sqlx::query(statement).execute(db).await.map(|_| ())
}
