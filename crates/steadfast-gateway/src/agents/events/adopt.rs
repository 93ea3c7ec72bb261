//! Going on with a stream that this daemon does not hold: it has ended, or its daemon is no more, or another one has it.

use std::sync::Arc;

use steadfast_core::replay::Access;
use steadfast_store::{Error, EventStream};

use super::{About, CallOnRecord, EventLog, Reader, Stream, requirements_of};
use crate::agents::session::Session;

/// What a resumed stream is.
#[derive(Debug)]
pub(crate) enum Resumed {
    /// One that this daemon holds, or one of which no more is known than what is on disk.
    Held(Reader),
    /// The one that the session listens on, from now on in this daemon.
    Listening(Reader),
    /// The answer to calls of a daemon that is no more: nobody reads their servers' answers. The stream waits to be told.
    Interrupted {
        stream: Arc<Stream>,
        calls: Vec<CallOnRecord>,
        reader: Reader,
    },
}

pub(super) async fn resume(
    log: &Arc<EventLog>,
    kept: EventStream,
    session: &Arc<Session>,
    next: u64,
    access: &Access,
) -> Result<Resumed, Error> {
    let (name, owner) = (kept.record.name, &kept.record.owner);
    let requirements = requirements_of(&kept);
    let as_it_is = |ended| {
        let (log, access) = (Arc::clone(log), access.clone());
        let requirements = requirements.clone();
        Reader::of_disk(log, name, ended, requirements, next, access)
    };
    if kept.ended {
        return Ok(Resumed::Held(as_it_is(true)));
    }
    let Ok(about) = serde_json::from_str::<About>(&kept.record.about) else {
        // A later version wrote it, and knows how to go on.
        return Ok(Resumed::Held(as_it_is(false)));
    };
    let is_elsewhere = *owner != log.owner && log.store.is_present(owner).await?;
    if is_elsewhere || !log.log.adopt(name, owner, &log.owner).await? {
        return Ok(Resumed::Held(as_it_is(false)));
    }
    let (calls, listening) = (about.calls.clone(), about.listening);
    let stream = Stream::going_on(
        log,
        name,
        session.key,
        about,
        kept.kept.end,
        requirements.clone(),
    );
    if listening {
        let present = session.listening(|| Arc::clone(&stream));
        if !Arc::ptr_eq(&present, &stream) {
            // The agent has opened another one: of this one there is only the rest.
            stream.end();
            return Ok(Resumed::Held(as_it_is(true)));
        }
    }
    log.held.lock().insert(name, Arc::clone(&stream));
    let reader = stream.reader(next, false, access.clone());
    Ok(if listening {
        Resumed::Listening(reader)
    } else {
        Resumed::Interrupted {
            stream,
            calls,
            reader,
        }
    })
}
