//! Progress on its way to the agent that asked for it, and what becomes of any other (GW-03, GW-04).

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::wire::envelope::{self, Envelope};
use steadfast_core::wire::json;
use steadfast_core::wire::splice::{self, Edit};
use steadfast_core::{Millis, Mono};

use super::Job;

/// How often it is noted that progress was dropped.
const NOTE_EVERY: Millis = Millis::mins(1);

/// The token of a `notifications/progress`, where it can be one of ours.
pub(crate) fn token_of(message: &[u8], read: &Envelope) -> Option<i64> {
    let token = envelope::read_params(message, read).progress_of?;
    std::str::from_utf8(message.get(token)?).ok()?.parse().ok()
}

impl Job {
    /// The notification with the agent's own token. `None` for what must not reach the agent: it asked
    /// for none, the token is not that of this call, or the value goes backwards (2025-11-25 progress,
    /// "Progress Flow": "MUST increase with each notification").
    pub(crate) fn progress(&self, id: i64, message: &Bytes, read: &Envelope) -> Option<Bytes> {
        let asked = self.call.params.progress_token.clone()?;
        let params = envelope::read_params(message, read);
        let theirs = params.progress_of?;
        if token_of(message, read)? != id {
            return None;
        }
        let value = json::at_path(message, params.whole?, &["progress"])?;
        let value: f64 = std::str::from_utf8(message.get(value)?)
            .ok()?
            .parse()
            .ok()?;
        let mut last = self.progress.lock();
        if last.is_some_and(|last| value < last) {
            return None;
        }
        *last = Some(value);
        let edit = Edit {
            range: theirs,
            with: &self.call.message[asked],
        };
        Some(Bytes::from(splice::apply(message, &mut [edit])))
    }
}

/// Counts what is dropped, and says now and then that it is time to say so.
#[derive(Debug, Default)]
pub(crate) struct Stray(Mutex<(u64, Option<Mono>)>);

impl Stray {
    /// One more. How many there were since the last note, where it is time for one.
    pub(crate) fn note(&self, now: Mono) -> Option<u64> {
        let mut stray = self.0.lock();
        stray.0 += 1;
        if stray.1.is_some_and(|last| now.since(last) < NOTE_EVERY) {
            return None;
        }
        stray.1 = Some(now);
        Some(std::mem::take(&mut stray.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_make_one_note() {
        let stray = Stray::default();
        assert_eq!(stray.note(Mono(0)), Some(1));
        assert_eq!(stray.note(Mono(1)), None);
        assert_eq!(stray.note(Mono(59_999)), None);
        assert_eq!(stray.note(Mono(60_000)), Some(3));
        assert_eq!(stray.note(Mono(60_001)), None);
    }
}
