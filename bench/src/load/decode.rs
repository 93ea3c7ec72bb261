//! HTTP/1.1 answers, as they come. Written by hand because the load must cost little beside what it measures.

use std::ops::Range;

use memchr::memmem;

use crate::Outcome;

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) is_events: bool,
    pub(super) session: Option<String>,
    framing: Framing,
    end: usize,
}

#[derive(Debug)]
enum Framing {
    Length(usize),
    Chunked,
    Unsaid,
}

impl Head {
    /// Reads a head; `None` where it is not complete yet.
    pub(super) fn read(buffer: &[u8]) -> Outcome<Option<Self>> {
        let mut headers = [httparse::EMPTY_HEADER; 48];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(end) = response.parse(buffer)? else {
            return Ok(None);
        };
        let mut head = Self {
            status: response.code.unwrap_or_default(),
            is_events: false,
            session: None,
            framing: Framing::Unsaid,
            end,
        };
        for header in response.headers {
            let is = |name| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                head.framing = Framing::Length(std::str::from_utf8(header.value)?.parse()?);
            } else if is("transfer-encoding") {
                head.framing = Framing::Chunked;
            } else if is("content-type") {
                head.is_events = header.value.starts_with(b"text/event-stream");
            } else if is("mcp-session-id") {
                head.session = Some(String::from_utf8(header.value.to_vec())?);
            }
        }
        Ok(Some(head))
    }

    /// What reads the body that follows.
    pub(super) fn body(&self) -> Outcome<Body> {
        match (&self.framing, self.status) {
            (Framing::Chunked, _) => Ok(Body::Chunked(Chunks {
                at: self.end,
                state: State::Size,
            })),
            (Framing::Length(length), _) => Ok(Body::Whole(self.end..self.end + length)),
            // RFC 9112 section 6.3, rule 1.
            (Framing::Unsaid, 204) => Ok(Body::Whole(self.end..self.end)),
            (Framing::Unsaid, status) => {
                Err(format!("the answer ({status}) does not say how long it is").into())
            }
        }
    }
}

#[derive(Debug)]
pub(super) enum Body {
    Whole(Range<usize>),
    Chunked(Chunks),
}

/// A chunked body (RFC 9112 section 7.1) in a buffer that grows.
#[derive(Debug)]
pub(super) struct Chunks {
    at: usize,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Size,
    Data(usize),
    DataEnd,
    Trailer,
}

impl Chunks {
    /// Takes what is in the buffer by now; true at the body's end.
    pub(super) fn take(&mut self, buffer: &[u8], body: &mut Vec<u8>) -> Outcome<bool> {
        loop {
            match self.state {
                State::Size => {
                    let Some(line) = self.line(buffer) else {
                        return Ok(false);
                    };
                    let size = line.split(|byte| *byte == b';').next().unwrap_or(line);
                    let size = usize::from_str_radix(std::str::from_utf8(size)?.trim(), 16)?;
                    self.state = if size == 0 {
                        State::Trailer
                    } else {
                        State::Data(size)
                    };
                }
                State::Data(left) => {
                    let data = &buffer[self.at..];
                    let taken = left.min(data.len());
                    body.extend_from_slice(&data[..taken]);
                    self.at += taken;
                    if taken < left {
                        self.state = State::Data(left - taken);
                        return Ok(false);
                    }
                    self.state = State::DataEnd;
                }
                State::DataEnd => match self.line(buffer) {
                    Some([]) => self.state = State::Size,
                    Some(_) => return Err("a chunk is longer than its size".into()),
                    None => return Ok(false),
                },
                State::Trailer => match self.line(buffer) {
                    Some([]) => return Ok(true),
                    Some(_) => {}
                    None => return Ok(false),
                },
            }
        }
    }

    fn line<'a>(&mut self, buffer: &'a [u8]) -> Option<&'a [u8]> {
        let rest = &buffer[self.at..];
        let length = memmem::find(rest, b"\r\n")?;
        self.at += length + 2;
        Some(&rest[..length])
    }
}

/// Whether a stream's first event with a message is complete. A priming event has an id and no data.
pub(super) fn has_event(stream: &[u8]) -> bool {
    memmem::find_iter(stream, b"data:").any(|at| {
        let data = stream[at + b"data:".len()..].trim_ascii_start();
        data.starts_with(b"{") && memmem::find(data, b"\n\n").is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_body_is_read_at_every_cut() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
                       5\r\nhello\r\nb;x=y\r\n, and again\r\n0\r\n\r\n";
        let head = Head::read(answer).unwrap().unwrap();
        assert!(head.is_events && head.status == 200);
        for cut in head.end..answer.len() {
            let Body::Chunked(mut chunks) = head.body().unwrap() else {
                panic!("it is chunked");
            };
            let mut body = Vec::new();
            assert!(!chunks.take(&answer[..cut], &mut body).unwrap());
            assert!(chunks.take(answer, &mut body).unwrap());
            assert_eq!(body, b"hello, and again");
        }
    }

    #[test]
    fn a_head_is_complete_or_not() {
        let answer = b"HTTP/1.1 202 Accepted\r\nMcp-Session-Id: s1\r\nContent-Length: 0\r\n\r\n";
        assert!(Head::read(&answer[..40]).unwrap().is_none());
        let head = Head::read(answer).unwrap().unwrap();
        assert_eq!(head.session.as_deref(), Some("s1"));
        assert!(
            matches!(head.body().unwrap(), Body::Whole(body) if body == (answer.len()..answer.len()))
        );
    }

    #[test]
    fn a_priming_event_is_not_the_first_event() {
        assert!(!has_event(b"id: 1\ndata:\n\n"));
        assert!(!has_event(b"id: 1\ndata: \n\nid: 2\ndata: {\"a\":1}\n"));
        assert!(has_event(b"id: 1\ndata: \n\nid: 2\ndata: {\"a\":1}\n\n"));
    }
}
