//! What the event log costs, beside SQLite itself with the same bytes, in the same batches, in the same run: appending with
//! every batch synced, reading back, finding the first event of a replay, and one event alone, as it waits for its disk.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqliteConnection};
use steadfast_core::Wall;
use steadfast_store::{
    EventLog as _, EventStreamRecord, EventWrite, SqliteEvents, SqliteOptions, StreamName,
};

use crate::Outcome;
use crate::bounds::Bounds;
use crate::options::EventsOptions;

/// How many events one transaction holds: as many as the gateway hands over at most.
const TOGETHER: u64 = 512;
/// What a replay reads at a time, in bytes.
const PART: usize = 256 << 10;
/// How often the small things are measured.
const REPEATED: u64 = 200;

/// Appending may take this many times as long as SQLite's own batched inserts.
const MOST_APPENDING: f64 = 1.5;
/// Replay must reach this part of SQLite's own reads.
const LEAST_REPLAY: f64 = 0.5;
/// The first event of a replay must be there after this long.
const FIRST_EVENT: Duration = Duration::from_millis(5);

/// What was measured.
#[derive(Debug)]
struct Measured {
    appended: [Duration; 2],
    read: [Duration; 2],
    first: Histogram<u64>,
    alone: Histogram<u64>,
}

/// Measures, prints, and fails where a bound is exceeded.
pub(crate) fn run(options: &EventsOptions) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let measured = runtime.block_on(measure(options))?;
    report(options, &measured);
    judge(&measured).kept()
}

async fn measure(options: &EventsOptions) -> Outcome<Measured> {
    let folder = tempfile::Builder::new()
        .prefix("steadfast-bench-")
        .tempdir()?;
    let data = Bytes::from(vec![b'x'; options.size]);
    let mut raw = raw(&folder.path().join("raw.db")).await?;
    let log = SqliteEvents::open(folder.path().join("events.db"), SqliteOptions::default()).await?;
    let stream = open(&log, 1).await?;
    let (mut appended, mut done) = ([Duration::ZERO; 2], 0);
    // In turns, so that both meet the same disk.
    while done < options.events {
        let until = options.events.min(done + 8 * TOGETHER);
        appended[0] += insert(&mut raw, done..until, &data).await?;
        appended[1] += append(&log, stream, done..until, &data).await?;
        done = until;
    }
    let read = [
        read_raw(&mut raw, options.events).await?,
        replay(&log, stream, options.events).await?,
    ];
    let mut first = Histogram::new(3)?;
    for number in 0..REPEATED {
        let from = 1 + number * options.events / REPEATED;
        let began = Instant::now();
        let kept = log.stream(stream).await?.ok_or("the stream is gone")?;
        let part = log.read(stream, from.max(kept.kept.start), PART).await?;
        if part.is_empty() {
            return Err("an event is gone".into());
        }
        first.record(micros(began.elapsed()))?;
    }
    let other = open(&log, 2).await?;
    let mut alone = Histogram::new(3)?;
    for number in 0..REPEATED {
        let took = append(&log, other, number..number + 1, &data).await?;
        alone.record(micros(took))?;
    }
    Ok(Measured {
        appended,
        read,
        first,
        alone,
    })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// SQLite as the log has it, with one table and nothing else.
async fn raw(path: &Path) -> Outcome<SqliteConnection> {
    let mut db = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .connect()
        .await?;
    sqlx::query("CREATE TABLE raw (id INTEGER PRIMARY KEY, stream BLOB, at INTEGER, data BLOB)")
        .execute(&mut db)
        .await?;
    Ok(db)
}

async fn insert(
    db: &mut SqliteConnection,
    numbers: std::ops::Range<u64>,
    data: &Bytes,
) -> Outcome<Duration> {
    let began = Instant::now();
    let mut next = numbers.start;
    while next < numbers.end {
        let mut transaction = db.begin().await?;
        let until = numbers.end.min(next + TOGETHER);
        for _ in next..until {
            sqlx::query("INSERT INTO raw (stream, at, data) VALUES (?, ?, ?)")
                .bind(&[1_u8; 16][..])
                .bind(1_i64)
                .bind(&data[..])
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
        next = until;
    }
    Ok(began.elapsed())
}

async fn open(log: &SqliteEvents, number: u8) -> Outcome<StreamName> {
    let name = StreamName([number; 16]);
    let record = EventStreamRecord {
        name,
        agent: "bench".into(),
        session: [number; 32],
        about: "{}".to_owned(),
        owner: "bench".to_owned(),
        opened_at: Wall(1),
    };
    log.write(vec![EventWrite::Open(Box::new(record))]).await?;
    Ok(name)
}

async fn append(
    log: &SqliteEvents,
    stream: StreamName,
    numbers: std::ops::Range<u64>,
    data: &Bytes,
) -> Outcome<Duration> {
    let began = Instant::now();
    let mut next = numbers.start;
    while next < numbers.end {
        let until = numbers.end.min(next + TOGETHER);
        let events = (next..until).map(|number| EventWrite::Append {
            stream,
            number: number + 1,
            at: Wall(1),
            data: data.clone(),
        });
        log.write(events.collect()).await?;
        next = until;
    }
    Ok(began.elapsed())
}

async fn read_raw(db: &mut SqliteConnection, events: u64) -> Outcome<Duration> {
    let began = Instant::now();
    let rows = sqlx::query("SELECT data FROM raw ORDER BY id")
        .fetch_all(db)
        .await?;
    let mut bytes = 0;
    for row in &rows {
        bytes += row.try_get::<&[u8], _>("data")?.len();
    }
    if rows.len() as u64 != events || bytes == 0 {
        return Err("a row is gone".into());
    }
    Ok(began.elapsed())
}

async fn replay(log: &SqliteEvents, stream: StreamName, events: u64) -> Outcome<Duration> {
    let began = Instant::now();
    let mut next = 1;
    loop {
        let part = log.read(stream, next, PART).await?;
        if part.is_empty() {
            break;
        }
        next += part.len() as u64;
    }
    if next != events + 1 {
        return Err("an event is gone".into());
    }
    Ok(began.elapsed())
}

fn report(options: &EventsOptions, measured: &Measured) {
    let rate = |time: Duration| options.events as f64 / time.as_secs_f64();
    println!("{} events of {} bytes", options.events, options.size);
    for (what, [raw, log]) in [("appended", measured.appended), ("replayed", measured.read)] {
        println!(
            "{what}: {:.0} per second; SQLite alone {:.0}; {:.2} times its time",
            rate(log),
            rate(raw),
            log.as_secs_f64() / raw.as_secs_f64()
        );
    }
    for (what, times) in [
        ("first event of a replay", &measured.first),
        ("one event alone, until it is on disk", &measured.alone),
    ] {
        let [half, most] = [0.5, 0.99].map(|part| times.value_at_quantile(part) as f64 / 1_000.0);
        println!("{what}: median {half:.2} ms, 99 of 100 within {most:.2} ms");
    }
}

fn judge(measured: &Measured) -> Bounds {
    let mut bounds = Bounds::default();
    let [raw, log] = measured.appended.map(|time| time.as_secs_f64());
    bounds.keep("the time to append", log <= MOST_APPENDING * raw);
    let [raw, log] = measured.read.map(|time| time.as_secs_f64());
    bounds.keep("the rate of replay", raw >= LEAST_REPLAY * log);
    let first = measured.first.value_at_quantile(0.99);
    bounds.keep("the first event of a replay", first <= micros(FIRST_EVENT));
    bounds
}
