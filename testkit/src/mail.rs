//! A mail server that takes what it is given, unless a test says otherwise (RFC 5321, AUTH PLAIN of RFC 4954).

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::PATIENCE;
use crate::tls::Tls;

/// One message that was handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The envelope's sender.
    pub from: String,
    /// The envelope's recipients.
    pub to: Vec<String>,
    /// User and password, where the client logged in.
    pub login: Option<(String, String)>,
    /// Headers and body as they came, with line feeds only.
    pub text: String,
}

impl Mail {
    /// The value of a header, on one line.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        let (headers, _) = self.text.split_once("\n\n")?;
        // RFC 5322 section 2.2.3: a line that begins with a space goes on with the one before.
        let unfolded = headers.replace("\n ", " ");
        let mut lines = unfolded.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_owned())
    }

    /// The body, decoded.
    #[must_use]
    pub fn body(&self) -> String {
        let body = self.text.split_once("\n\n").map_or("", |(_, body)| body);
        let encoding = self.header("Content-Transfer-Encoding");
        if encoding.as_deref() == Some("quoted-printable") {
            unquoted(body)
        } else {
            body.to_owned()
        }
    }
}

#[derive(Debug, Default)]
struct State {
    mails: Mutex<Vec<Mail>>,
    refusals: Mutex<VecDeque<String>>,
    arrived: Notify,
}

/// A mail server on a free port of 127.0.0.1. Dropping it frees the port.
#[derive(Debug)]
pub struct MailServer {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

impl Drop for MailServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl MailServer {
    /// Starts one without TLS.
    pub async fn start() -> Self {
        Self::try_start(None)
            .await
            .expect("a server on loopback starts")
    }

    /// Starts one that speaks TLS from the beginning.
    pub async fn start_tls(tls: &Tls) -> Self {
        let tls = Some(tls.clone());
        Self::try_start(tls)
            .await
            .expect("a server on loopback starts")
    }

    /// Waits until every refusal was given.
    pub async fn refused(&self) {
        let refused = async {
            loop {
                let next = self.state.arrived.notified();
                if self.state.refusals.lock().is_empty() {
                    return;
                }
                next.await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, refused).await;
        waited.expect("a message comes that is refused");
    }

    async fn try_start(tls: Option<Tls>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (state, tls) = (Arc::clone(&shared), tls.clone());
                tokio::spawn(async move {
                    // A client that goes away in the middle has handed nothing over.
                    let _ended = match tls {
                        Some(tls) => match tls.acceptor(false).accept(tcp).await {
                            Ok(stream) => serve(stream, &state).await,
                            Err(error) => Err(error),
                        },
                        None => serve(tcp, &state).await,
                    };
                });
            }
        });
        Ok(Self {
            address,
            state,
            accepting,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers the next message with this line instead of taking it, such as `451 4.3.0 Try again later`.
    pub fn refuse(&self, reply: &str) {
        self.state.refusals.lock().push_back(reply.to_owned());
    }

    /// What was handed over so far.
    #[must_use]
    pub fn mails(&self) -> Vec<Mail> {
        self.state.mails.lock().clone()
    }

    /// Waits until so many messages were handed over.
    pub async fn wait_for(&self, count: usize) -> Vec<Mail> {
        let arrived = async {
            loop {
                let next = self.state.arrived.notified();
                let mails = self.mails();
                if mails.len() >= count {
                    return mails;
                }
                next.await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, arrived).await;
        waited.unwrap_or_else(|_| panic!("{count} messages are expected: {:?}", self.mails()))
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: &State) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    stream.write_all(b"220 testkit\r\n").await?;
    let (mut from, mut to, mut login) = (String::new(), Vec::new(), None);
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let command = line.trim_end();
        let verb = command.split(' ').next().unwrap_or_default();
        let refusal = match verb.to_ascii_uppercase().as_str() {
            "MAIL" => {
                let refusal = state.refusals.lock().pop_front();
                state.arrived.notify_waiters();
                refusal
            }
            _ => None,
        };
        let reply = match (verb.to_ascii_uppercase().as_str(), refusal) {
            (_, Some(refusal)) => refusal,
            ("EHLO", None) => "250-testkit\r\n250-8BITMIME\r\n250 AUTH PLAIN".to_owned(),
            ("AUTH", None) => {
                login = logged_in(command);
                "235 welcome".to_owned()
            }
            ("MAIL", None) => {
                from = address(command);
                to.clear();
                "250 go on".to_owned()
            }
            ("RCPT", None) => {
                to.push(address(command));
                "250 go on".to_owned()
            }
            ("DATA", None) => {
                stream.write_all(b"354 go on\r\n").await?;
                let mail = Mail {
                    from: from.clone(),
                    to: to.clone(),
                    login: login.clone(),
                    text: text(&mut stream).await?,
                };
                state.mails.lock().push(mail);
                state.arrived.notify_waiters();
                "250 taken".to_owned()
            }
            ("QUIT", None) => {
                stream.write_all(b"221 bye\r\n").await?;
                return Ok(());
            }
            (_, None) => "250 yes".to_owned(),
        };
        stream.write_all(format!("{reply}\r\n").as_bytes()).await?;
    }
}

/// Up to the line with a dot; dots that were doubled are single again (RFC 5321 section 4.5.2).
async fn text(stream: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<String> {
    let mut text = String::new();
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let content = line.trim_end_matches(['\r', '\n']);
        if content == "." {
            return Ok(text);
        }
        text.push_str(content.strip_prefix('.').unwrap_or(content));
        text.push('\n');
    }
}

/// Quoted-printable, decoded (RFC 2045 section 6.7).
fn unquoted(text: &str) -> String {
    let joined = text.replace("=\n", "");
    let mut parts = joined.split('=');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).unwrap_or(("", part));
        bytes.extend(u8::from_str_radix(code, 16));
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What stands between the angle brackets.
fn address(command: &str) -> String {
    let path = command.split_once('<').map_or("", |(_, rest)| rest);
    path.split('>').next().unwrap_or_default().to_owned()
}

/// `AUTH PLAIN` with its initial response (RFC 4616).
fn logged_in(command: &str) -> Option<(String, String)> {
    let response = command.split(' ').nth(2)?;
    let text = String::from_utf8(STANDARD.decode(response).ok()?).ok()?;
    let mut parts = text.split('\0').skip(1);
    Some((parts.next()?.to_owned(), parts.next()?.to_owned()))
}
