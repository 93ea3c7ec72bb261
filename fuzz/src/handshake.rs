//! The opening of a connection, against a server that may say anything.

use steadfast_core::connection::handshake::{
    Known, MOST_QUESTIONS, Next, Offer, Reply, State, Transport, begin, next,
};
use steadfast_core::fault::{Fault, Kind};
use steadfast_core::quirks::{Answer, Media};
use steadfast_core::{Era, Millis, Revision};

use crate::input::Input;

/// What servers say, besides any other bytes.
const BODIES: [&str; 12] = [
    "",
    "<html>sign in</html>",
    r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2025-11-25","2031-01-01"]}}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":[]}}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2026-07-28"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2025-06-18"]}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Unsupported protocol version: 2025-06-18"}}"#,
];

/// [`steadfast_core::connection::handshake`]: ends within its number of questions, and then stays ended.
pub fn handshake_step(data: &[u8]) {
    let mut input = Input(data);
    let known = known(&mut input);
    let offer = match input.byte() % 3 {
        0 => Offer::Either {
            legacy: revision(&mut input),
        },
        1 => Offer::LegacyOnly {
            legacy: revision(&mut input),
        },
        _ => Offer::ModernOnly,
    };
    let (mut state, _) = begin(known.as_ref(), offer);
    let fault = Fault::new(Kind::Network, "refused");
    let mut questions = 1;
    loop {
        let reply = match input.byte() % 8 {
            6 => Reply::Endpoint(input.pick([true, false])),
            7 => Reply::Fault(&fault),
            _ => Reply::Answer(answer(&mut input)),
        };
        let (after, what) = next(state, &reply);
        state = after;
        match what {
            Next::Ask(_) => questions += 1,
            Next::Open(ref known) => {
                assert_eq!(state, State::Opened(known.clone()));
                assert_eq!(known.era, known.revision.era());
                assert_eq!(next(state, &reply).1, what);
                return;
            }
            Next::Fail(ref fault) => {
                assert_eq!(state, State::Failed(fault.clone()));
                assert_eq!(next(state, &reply).1, what);
                return;
            }
        }
        assert!(questions <= MOST_QUESTIONS, "asked {questions} times");
    }
}

fn revision(input: &mut Input<'_>) -> Revision {
    input.pick(Revision::ALL)
}

fn known(input: &mut Input<'_>) -> Option<Known> {
    if input.pick([true, false]) {
        return None;
    }
    let revision = revision(input);
    let era = revision.era();
    let transport = match era {
        Era::Legacy => input.pick([Transport::StreamableHttp, Transport::HttpSse]),
        Era::Modern => Transport::StreamableHttp,
    };
    Some(Known {
        era,
        transport,
        revision,
        initialize_header: input.pick([false, true]),
        no_ping: input.pick([false, true]),
    })
}

fn answer<'a>(input: &mut Input<'a>) -> Answer<'a> {
    Answer {
        status: input.pick([
            200, 202, 301, 400, 401, 403, 404, 405, 406, 408, 429, 500, 501, 503,
        ]),
        media: input.pick([
            Media::Json,
            Media::EventStream,
            Media::Html,
            Media::Other,
            Media::None,
        ]),
        body: match usize::from(input.byte()) % (BODIES.len() + 1) {
            own if own == BODIES.len() => input.bytes(),
            common => BODIES[common].as_bytes(),
        },
        challenge: input.pick([None, Some("Bearer")]),
        retry_after: input.pick([None, Some(Millis::secs(3))]),
        session_attached: input.pick([false, true]),
        era: input.pick([Era::Modern, Era::Legacy]),
    }
}
