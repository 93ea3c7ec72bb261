//! A scripted server plays each case of the field; every script must be used up and end as told.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod eras;
mod initialize;
mod properties;

use super::*;
use crate::quirks::Media;
use Revision as R;

const ENDPOINT: Ask = Ask::Endpoint;
const DISCOVER: Ask = Ask::Discover(R::V2026_07_28);
const INITIALIZE: Ask = plain(R::V2025_11_25);

const fn plain(revision: R) -> Ask {
    Ask::Initialize {
        revision,
        header: false,
    }
}

const fn with_header(revision: R) -> Ask {
    Ask::Initialize {
        revision,
        header: true,
    }
}

/// What a scripted server gives.
#[derive(Clone, Debug)]
enum Given {
    Http(u16, Media, String),
    Challenge(u16, &'static str),
    Endpoint(bool),
    Fault(Fault),
}

use Given::{Challenge, Endpoint};

fn http(status: u16, body: &str) -> Given {
    let media = if body.starts_with('<') {
        Media::Html
    } else {
        Media::Json
    };
    Given::Http(status, media, body.to_owned())
}

fn result(body: &str) -> Given {
    http(
        200,
        &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{body}}}"#),
    )
}

fn discovered(versions: &str) -> Given {
    result(&format!(
        r#"{{"resultType":"complete","supportedVersions":[{versions}],"capabilities":{{}}}}"#
    ))
}

fn initialized(version: &str) -> Given {
    result(&format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}"#
    ))
}

fn error(status: u16, code: i64, message: &str) -> Given {
    http(
        status,
        &format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"{message}"}}}}"#),
    )
}

/// An error that was given before the message was read.
fn unread(status: u16, code: i64, message: &str) -> Given {
    http(
        status,
        &format!(
            r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":"{message}"}}}}"#
        ),
    )
}

fn unsupported(status: u16, supported: &str) -> Given {
    http(
        status,
        &format!(
            r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32022,"message":"Unsupported protocol version","data":{{"supported":[{supported}],"requested":"2026-07-28"}}}}}}"#
        ),
    )
}

fn give(state: State, given: &Given) -> (State, Next) {
    let answer = |status, media, body, challenge| Answer {
        status,
        media,
        body,
        challenge,
        retry_after: None,
        session_attached: false,
        era: Era::Legacy,
    };
    match given {
        Given::Http(status, media, body) => next(
            state,
            &Reply::Answer(answer(*status, *media, body.as_bytes(), None)),
        ),
        Given::Challenge(status, challenge) => next(
            state,
            &Reply::Answer(answer(*status, Media::None, b"", Some(challenge))),
        ),
        Given::Endpoint(came) => next(state, &Reply::Endpoint(*came)),
        Given::Fault(fault) => next(state, &Reply::Fault(fault)),
    }
}

/// Plays a script; gives the questions asked, and the end where it came.
fn play(known: Option<&Known>, offer: Offer, script: &[Given]) -> (Vec<Ask>, Option<Next>) {
    let (mut state, ask) = begin(known, offer);
    let mut asked = vec![ask];
    for given in script {
        let (after, what) = give(state, given);
        state = after;
        match what {
            Next::Ask(ask) => asked.push(ask),
            end @ (Next::Open(_) | Next::Fail(_)) => return (asked, Some(end)),
        }
    }
    (asked, None)
}

fn known(era: Era, revision: R) -> Known {
    Known {
        era,
        transport: Transport::StreamableHttp,
        revision,
        initialize_header: false,
        no_ping: false,
    }
}

fn legacy(revision: R) -> Next {
    Next::Open(known(Era::Legacy, revision))
}

fn modern() -> Next {
    Next::Open(known(Era::Modern, R::V2026_07_28))
}

/// First contact with the default offer: the whole script must be used, and end so.
#[track_caller]
fn first_contact(script: &[Given], asked: &[Ask], end: Next) {
    assert_eq!(
        play(None, Offer::default(), script),
        (asked.to_vec(), Some(end))
    );
}

#[track_caller]
fn first_contact_fails(script: &[Given], asked: &[Ask], kind: Kind, message: &str) {
    fails(None, Offer::default(), script, asked, kind, message);
}

#[track_caller]
fn fails(
    known: Option<&Known>,
    offer: Offer,
    script: &[Given],
    asked: &[Ask],
    kind: Kind,
    message: &str,
) {
    let (questions, end) = play(known, offer, script);
    assert_eq!(questions, asked);
    let Some(Next::Fail(fault)) = end else {
        panic!("expected a fault, got {end:?}")
    };
    assert_eq!((fault.kind, fault.message.as_str()), (kind, message));
}
