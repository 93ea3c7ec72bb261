//! The issuers: token endpoints on loopback that rotate refresh tokens, and refuse what comes too fast.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hdrhistogram::Histogram;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steadfast::clock;
use tokio::net::TcpListener;

use super::plan::Plan;
use crate::Outcome;

/// No token request is larger.
const LARGEST: usize = 4 << 10;

/// What the issuers saw. Times are in milliseconds of the clock that is not scaled.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Seen {
    pub(super) renewed: u64,
    /// Renewed after the access token had expired.
    pub(super) late: u64,
    /// Answered with 429.
    pub(super) refused: u64,
    /// A refresh token that was spent, or that nobody issued.
    pub(super) wrong: u64,
    /// How much of its life the access token had left: the least, what 99 of 100 had, and what half of them had.
    pub(super) left: [u64; 3],
}

/// The last refresh token of a grant, and when its access token expires.
#[derive(Debug)]
struct Holder {
    generation: u64,
    expires_at: i64,
}

/// How many requests an issuer has answered in this second.
#[derive(Debug, Default)]
struct Second {
    number: u64,
    answered: u32,
}

#[derive(Debug)]
pub(super) struct Issuers {
    plan: Plan,
    began: Instant,
    holders: Vec<Mutex<Holder>>,
    seconds: Vec<Mutex<Second>>,
    seen: Mutex<(Seen, Histogram<u64>)>,
}

impl Issuers {
    pub(super) fn new(plan: Plan) -> Outcome<Arc<Self>> {
        let holder = |number| {
            Mutex::new(Holder {
                generation: 1,
                expires_at: plan.expires_at(number).0,
            })
        };
        let longest = plan.hour().unsigned_abs().max(2);
        let left = Histogram::new_with_bounds(1, longest, 3)?;
        Ok(Arc::new(Self {
            holders: (0..plan.options.grants).map(holder).collect(),
            seconds: (0..plan.options.issuers)
                .map(|_| Mutex::default())
                .collect(),
            seen: Mutex::new((Seen::default(), left)),
            began: Instant::now(),
            plan,
        }))
    }

    /// Answers until the runtime ends.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener) -> Outcome {
        loop {
            let (stream, _) = listener.accept().await?;
            let issuers = Arc::clone(&self);
            let service = service_fn(move |request| {
                let issuers = Arc::clone(&issuers);
                async move { Ok::<_, Infallible>(issuers.answer(request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let issuer = path.strip_prefix("/issuer-");
        let issuer = issuer.and_then(|rest| rest.strip_suffix("/token")?.parse::<usize>().ok());
        let second = issuer.and_then(|issuer| self.seconds.get(issuer));
        let (Some(issuer), Some(second)) = (issuer, second) else {
            return json(StatusCode::NOT_FOUND, "{}".to_owned());
        };
        if !self.has_room(&mut second.lock()) {
            self.seen.lock().0.refused += 1;
            let mut refusal = json(StatusCode::TOO_MANY_REQUESTS, "{}".to_owned());
            let headers = refusal.headers_mut();
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return refusal;
        }
        let body = Limited::new(request.into_body(), LARGEST).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let renewed = presented(&body).and_then(|token| self.renew(issuer, token));
        match renewed {
            Some(answer) => json(StatusCode::OK, answer),
            None => {
                self.seen.lock().0.wrong += 1;
                let refusal = r#"{"error":"invalid_grant"}"#;
                json(StatusCode::BAD_REQUEST, refusal.to_owned())
            }
        }
    }

    fn has_room(&self, second: &mut Second) -> bool {
        let number = self.began.elapsed().as_secs();
        if second.number != number {
            *second = Second {
                number,
                answered: 0,
            };
        }
        let has_room = second.answered < self.plan.options.rate;
        second.answered += u32::from(has_room);
        has_room
    }

    /// The answer, where this is the last refresh token of a grant of this issuer.
    fn renew(&self, issuer: usize, (number, generation): (usize, u64)) -> Option<String> {
        let mut holder = self.holders.get(number)?.lock();
        if self.plan.issuer_of(number) != issuer || holder.generation != generation {
            return None;
        }
        let now = clock::wall().0;
        let left = holder.expires_at - now;
        let next = generation + 1;
        *holder = Holder {
            generation: next,
            expires_at: now + self.plan.hour(),
        };
        drop(holder);
        let (seen, histogram) = &mut *self.seen.lock();
        seen.renewed += 1;
        seen.late += u64::from(left <= 0);
        histogram.saturating_record(left.max(0).unsigned_abs());
        let lifetime = self.plan.options.hour;
        Some(format!(
            r#"{{"access_token":"{}","token_type":"Bearer","expires_in":{lifetime},"refresh_token":"{}"}}"#,
            access_token(number, next),
            refresh_token(number, next)
        ))
    }

    pub(super) fn seen(&self) -> Seen {
        let (seen, left) = &*self.seen.lock();
        Seen {
            left: [
                left.min(),
                left.value_at_quantile(0.01),
                left.value_at_quantile(0.5),
            ],
            ..seen.clone()
        }
    }
}

pub(super) async fn listen() -> Outcome<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

pub(super) fn access_token(number: usize, generation: u64) -> String {
    format!("access-{number}-{generation}")
}

pub(super) fn refresh_token(number: usize, generation: u64) -> String {
    format!("refresh-{number}-{generation}")
}

/// Which grant the refresh token in a form is of, and which of its generations.
fn presented(form: &[u8]) -> Option<(usize, u64)> {
    let form = std::str::from_utf8(form).ok()?;
    let mut fields = form.split('&');
    let token = fields.find_map(|field| field.strip_prefix("refresh_token=refresh-"))?;
    let (number, generation) = token.split_once('-')?;
    Some((number.parse().ok()?, generation.parse().ok()?))
}

fn json(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
