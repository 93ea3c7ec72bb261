//! What every fake server has: a listener on loopback, its connections, and the ways to take them away.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::http1::Link;
use crate::http2;
use crate::log::Event;
use crate::port::{Listening, Port};
use crate::shared::Shared;
use crate::stream::Stream;
use crate::tls::Tls;
use crate::wire::Stop;

/// Where a server is to listen, and how it is spoken to.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    /// The host name in what the server says about itself; its address without one.
    pub(crate) host: Option<String>,
    pub(crate) tls: Option<Tls>,
    pub(crate) http2: bool,
}

impl Default for Place {
    /// A free port of 127.0.0.1, without TLS.
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            host: None,
            tls: None,
            http2: true,
        }
    }
}

impl Place {
    /// Listens there; the state is made for the origin that results.
    pub(crate) fn open(self, state: impl FnOnce(String) -> Arc<Shared>) -> io::Result<Host> {
        let port = Port::reserve(self.address)?;
        let listener = port.listen()?;
        let authority = match &self.host {
            Some(host) => format!("{host}:{}", port.address().port()),
            None => port.address().to_string(),
        };
        let host = Host {
            shared: state(format!("{}://{authority}", scheme(self.tls.as_ref()))),
            port,
            tls: self.tls,
            http2: self.http2,
            accepting: Mutex::new(None),
        };
        host.accept(listener);
        Ok(host)
    }
}

fn scheme(tls: Option<&Tls>) -> &'static str {
    match tls {
        Some(_) => "https",
        None => "http",
    }
}

/// A server that listens. Dropping it resets its connections and frees the port.
pub(crate) struct Host {
    pub(crate) shared: Arc<Shared>,
    port: Port,
    tls: Option<Tls>,
    http2: bool,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

impl Host {
    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// The origin under another host name.
    pub(crate) fn origin_as(&self, host: &str) -> String {
        let scheme = scheme(self.tls.as_ref());
        format!("{scheme}://{host}:{}", self.port.address().port())
    }

    /// Resets every connection and closes the listener: the port refuses.
    pub(crate) async fn stop(&self) {
        self.shared.stop.send_modify(|stops| *stops += 1);
        let accepting = self.accepting.lock().take();
        if let Some(accepting) = accepting {
            let _ended = accepting.await;
        }
    }

    /// Listens again on the same port.
    pub(crate) fn resume(&self) {
        let listener = self.port.listen();
        let listener = listener.expect("the port of a stopped server is held for it");
        self.accept(listener);
    }

    fn accept(&self, listener: Listening) {
        let (shared, tls, http2) = (Arc::clone(&self.shared), self.tls.clone(), self.http2);
        let mut stop = self.shared.stop.subscribe();
        // A clone has seen what this has seen: a stop that comes between accept and spawn is not lost.
        let connection_stop = stop.clone();
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok((tcp, _)) = accepted else { break };
                        let stop = connection_stop.clone();
                        connections.spawn(connection(tcp, tls.clone(), http2, Arc::clone(&shared), stop));
                    }
                    Some(_) = connections.join_next() => {}
                    _ = stop.changed() => break,
                }
            }
            drop(listener);
            while connections.join_next().await.is_some() {}
        });
        *self.accepting.lock() = Some(accepting);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shared.stop.send_modify(|stops| *stops += 1);
    }
}

async fn connection(
    tcp: TcpStream,
    tls: Option<Tls>,
    http2: bool,
    shared: Arc<Shared>,
    stop: watch::Receiver<u64>,
) {
    let number = shared.connection_numbers.fetch_add(1, Ordering::Relaxed) + 1;
    let open = shared.connections.enter();
    shared.log.event(Event::Opened { connection: number });
    serve(tcp, tls, http2, number, Arc::clone(&shared), stop).await;
    // Counted out first: whoever waits for the event may ask for the count.
    drop(open);
    shared.log.event(Event::Closed { connection: number });
}

async fn serve(
    tcp: TcpStream,
    tls: Option<Tls>,
    http2: bool,
    number: u64,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<u64>,
) {
    // Small writes must leave when they are made: cuts and drips are about single segments.
    let _already_closed = tcp.set_nodelay(true);
    let stopped = async move {
        let _server_gone = stop.changed().await;
    };
    tokio::pin!(stopped);
    let negotiated = tokio::select! {
        negotiated = negotiate(tcp, tls, http2) => negotiated,
        () = &mut stopped => return,
    };
    let Ok((stream, is_http2)) = negotiated else {
        return;
    };
    if is_http2 {
        return http2::serve(stream, number, shared, stopped).await;
    }
    let mut link = Link::new(stream, number);
    let outcome = tokio::select! {
        outcome = link.serve(&shared) => outcome,
        () = &mut stopped => Stop::Reset,
    };
    if outcome == Stop::Reset {
        link.stream.reset_on_drop();
    } else {
        let _peer_gone = link.stream.shutdown().await;
    }
}

/// Does the TLS handshake, if any, and finds out which HTTP version the peer speaks.
async fn negotiate(tcp: TcpStream, tls: Option<Tls>, http2: bool) -> io::Result<(Stream, bool)> {
    if let Some(tls) = tls {
        let stream = tls.acceptor(http2).accept(tcp).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        return Ok((Stream::Tls(Box::new(stream.into())), is_http2));
    }
    // RFC 9113, 3.3: with prior knowledge the client begins with the preface "PRI * HTTP/2.0".
    let mut start = [0; 4];
    let is_http2 = http2 && tcp.peek(&mut start).await? == start.len() && start == *b"PRI ";
    Ok((Stream::Plain(tcp), is_http2))
}
