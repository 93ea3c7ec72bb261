//! The MCP server behind everything: as fast as hyper, and no faster than it must be to be one. `/legacy` speaks
//! 2025-11-25 with sessions, `/modern` speaks 2026-07-28.

mod body;
mod legacy;
mod message;
mod modern;

use std::convert::Infallible;
use std::net::TcpListener;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use self::body::Body;
use self::message::Message;
use crate::protocol::Case;
use crate::{Outcome, threads};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Serves until standard input ends, or for good.
pub(crate) fn run() -> Outcome {
    threads::end_with_standard_input();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    println!("listening on http://{}", listener.local_addr()?);
    let results = threads::on_each(threads::half_of_the_machine(), |_| serve(&listener))?;
    results.into_iter().collect()
}

async fn serve(listener: &TcpListener) -> Outcome {
    let listener = tokio::net::TcpListener::from_std(listener.try_clone()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(
            hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(answer)),
        );
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await.map(|body| body.to_bytes()) else {
        return Ok(status(StatusCode::BAD_REQUEST));
    };
    let post = head.method == Method::POST;
    Ok(match head.uri.path() {
        "/legacy" if post => legacy::answer(&head.headers, &body),
        "/legacy" => legacy::answer_bodiless(&head.method),
        "/modern" if post => modern::answer(&head.headers, &body),
        "/modern" => status(StatusCode::METHOD_NOT_ALLOWED),
        _ => status(StatusCode::NOT_FOUND),
    })
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn json(status: StatusCode, message: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::whole(message));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, EVENTS);
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Runs a tool. `further` is what a result of the era must have besides.
fn call(message: &Message<'_>, further: &'static str) -> Response<Body> {
    let text = |end: &str| {
        message.result(&format!(
            r#"{further}"content":[{{"type":"text","text":"{}{end}"#,
            crate::protocol::RESULT_BEGINS
        ))
    };
    let small = || text(r#"it is sunny"}],"isError":false}}"#);
    let tool = Case::ALL
        .into_iter()
        .find(|case| Some(case.name()) == message.tool());
    match tool {
        Some(Case::Json) => json(StatusCode::OK, small().into()),
        Some(Case::Sse) => events(Body::one_event(&small())),
        Some(Case::Progress) => events(Body::progress(message.progress_token(), &small())),
        Some(Case::Large) => {
            let mut response = Response::new(Body::large(text("").into()));
            response.headers_mut().insert(CONTENT_TYPE, JSON);
            response
        }
        None => json(
            StatusCode::OK,
            message.error(-32602, "Unknown tool", None).into(),
        ),
    }
}

/// The tools as members of an array.
fn tools() -> String {
    let tools = Case::ALL.map(|case| {
        format!(
            r#"{{"name":"{}","description":"A tool of the bench: {case}","inputSchema":{{"type":"object","properties":{{"city":{{"type":"string"}}}}}},"annotations":{{"readOnlyHint":true}}}}"#,
            case.name()
        )
    });
    tools.join(",")
}
