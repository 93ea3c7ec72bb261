//! HTTP/2 by prior knowledge and by ALPN, and its ways to break off.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use bytes::Bytes;
use h2::Reason;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use testkit::reply::event_stream;
use testkit::script::post;
use testkit::{Behaviour, Ending, PATIENCE, Reply, RequestLog, Server, Step, Tls};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

type Client = SendRequest<Full<Bytes>>;

async fn client(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Client {
    let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

async fn send(
    client: &mut Client,
    method: &str,
    params: Value,
) -> Result<Response<Incoming>, hyper::Error> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let request =
        Request::post("http://rs.test/mcp").header("accept", "application/json, text/event-stream");
    client
        .send_request(request.body(Full::from(body)).unwrap())
        .await
}

async fn prior_knowledge(server: &Server) -> Client {
    client(TcpStream::connect(server.address()).await.unwrap()).await
}

fn reason(error: &hyper::Error) -> Option<Reason> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<h2::Error>()?.reason()
}

#[tokio::test]
async fn prior_knowledge_shares_a_connection() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut client = prior_knowledge(&server).await;
    for session in ["S1", "S2"] {
        let answer = send(&mut client, "initialize", json!({})).await.unwrap();
        assert_eq!(answer.headers()["mcp-session-id"], session);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(
            serde_json::from_slice::<Value>(&body).unwrap()["result"]["protocolVersion"],
            "2025-11-25"
        );
    }
    let requests = server.log().posts("initialize");
    assert!(
        requests
            .iter()
            .all(|request| request.http2 && request.connection == 1)
    );
}

#[tokio::test]
async fn every_way_to_break_off_a_stream_looks_as_it_is_named() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut client = prior_knowledge(&server).await;
    server
        .script()
        .on(post("refused"))
        .reply(Reply::new().step(Step::Refuse));
    server
        .script()
        .on(post("stream"))
        .reply(event_stream().body(": a\n\n").mid_chunk());
    server
        .script()
        .on(post("reset"))
        .reply(event_stream().body(": a\n\n").rst());
    server
        .script()
        .on(post("silent"))
        .reply(Reply::new().black_hole());

    let refused = send(&mut client, "refused", json!({})).await.unwrap_err();
    assert_eq!(reason(&refused), Some(Reason::REFUSED_STREAM));
    let cut = send(&mut client, "stream", json!({}))
        .await
        .unwrap()
        .into_body()
        .collect()
        .await
        .unwrap_err();
    assert_eq!(reason(&cut), Some(Reason::INTERNAL_ERROR));

    // One stream that is dropped leaves the connection to the others.
    let silent = send(&mut client, "silent", json!({}));
    let log = server.log();
    tokio::select! {
        answer = silent => panic!("answered: {answer:?}"),
        seen = log.wait_for(|log| log.count("silent") == 1, PATIENCE) => seen.unwrap(),
    }
    let index = log.posts("silent")[0].index;
    let gone = |log: &RequestLog| {
        log.ending(index)
            .is_some_and(|(_, how)| how == Ending::PeerGone)
    };
    log.wait_for(gone, PATIENCE).await.unwrap();
    assert_eq!(
        send(&mut client, "initialize", json!({}))
            .await
            .unwrap()
            .status(),
        200
    );

    let reset = send(&mut client, "reset", json!({}))
        .await
        .unwrap()
        .into_body()
        .collect()
        .await
        .unwrap_err();
    assert_eq!(
        reason(&reset),
        None,
        "the connection went, not the stream: {reset:?}"
    );
    assert!(send(&mut client, "initialize", json!({})).await.is_err());
}

#[tokio::test]
async fn alpn_chooses_the_version_and_the_certificate_is_trusted_by_its_authority() {
    let tls = Tls::new(&["rs.test"]).unwrap();
    let server = Server::builder(Behaviour::legacy("2025-11-25"))
        .tls(&tls)
        .start()
        .await;
    assert_eq!(
        server.url_as("rs.test"),
        format!("https://rs.test:{}/mcp", server.address().port())
    );
    let stream = connect(&tls, &server, &[b"h2", b"http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut client = client(stream).await;
    assert_eq!(
        send(&mut client, "initialize", json!({}))
            .await
            .unwrap()
            .status(),
        200
    );

    let only_http1 = Server::builder(Behaviour::legacy("2025-11-25"))
        .tls(&tls)
        .http1_only()
        .start()
        .await;
    let stream = connect(&tls, &only_http1, &[b"h2", b"http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}

async fn connect(tls: &Tls, server: &Server, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(tls.ca_pem().as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let tcp = TcpStream::connect(server.address()).await.unwrap();
    let name = ServerName::try_from("rs.test").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await
        .unwrap()
}
