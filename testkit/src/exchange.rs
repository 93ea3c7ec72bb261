//! One request and its response: plays the script's steps, or lets the behaviour answer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::behaviour;
use crate::issuer;
use crate::log::{Ending, Event, Request};
use crate::reply::{Reply, Step, run};
use crate::session::Outbox;
use crate::shared::{Role, Shared};
use crate::sse;
use crate::wire::{Flow, Framing, Stop, Transport, Wire};

pub(crate) struct Exchange<'a> {
    pub(crate) request: Arc<Request>,
    pub(crate) wire: Wire<'a>,
    pub(crate) shared: Arc<Shared>,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(request: Arc<Request>, wire: Wire<'a>, shared: Arc<Shared>) -> Self {
        Self {
            request,
            wire,
            shared,
        }
    }

    /// Answers the request and notes in the log how that ended.
    pub(crate) async fn play(mut self) -> Flow {
        let outcome = self.answer().await;
        self.note(outcome);
        outcome
    }

    /// The same on an HTTP/2 stream, including what the outcome means for the connection.
    pub(crate) async fn play_http2(mut self) {
        let outcome = self.answer().await;
        self.note(outcome);
        if let (Transport::Http2(channel), Err(stop)) = (&mut self.wire.transport, outcome) {
            match stop {
                Stop::Close | Stop::Reset => {
                    channel.end_connection(stop);
                    // Kept until then: letting go of the channel would end the stream as if it were complete.
                    channel.peer_gone().await;
                }
                Stop::Refuse => channel.refuse(),
                Stop::Done | Stop::PeerGone => {}
            }
        }
    }

    fn note(&self, outcome: Flow) {
        let ending = match outcome {
            Ok(()) | Err(Stop::Done) => Ending::Complete,
            Err(Stop::PeerGone) => Ending::PeerGone,
            Err(Stop::Close | Stop::Reset | Stop::Refuse) => Ending::Cut,
        };
        self.shared.log.event(Event::Ended {
            index: self.request.index,
            ending,
        });
    }

    async fn answer(&mut self) -> Flow {
        let reply = self.shared.script.reply(&self.request).unwrap_or_else(run);
        self.steps(&reply).await?;
        self.wire.finish().await
    }

    async fn steps(&mut self, reply: &Reply) -> Flow {
        let steps = reply.resolve(&self.request);
        for (position, step) in steps.iter().enumerate() {
            match step {
                Step::Body(bytes) => {
                    if let Some(length) = length_of(&steps[position..]) {
                        self.wire.send_head(Framing::Length(length)).await?;
                    }
                    self.wire.body(bytes).await?;
                }
                other => self.step(other).await?,
            }
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Flow {
        match step {
            Step::Status(status) => self.wire.head.status = Some(*status),
            Step::Header(name, value) => self.wire.header(name, value),
            Step::Head => self.wire.send_head(Framing::Chunked).await?,
            Step::Repeat {
                bytes,
                every,
                times,
            } => self.repeat(bytes, *every, *times).await?,
            Step::Delay(time) => self.wire.pause(*time).await?,
            Step::WaitFor(gate) => {
                let gates = self.shared.gates.clone();
                self.wire.until(gates.wait(gate)).await?;
            }
            Step::Row => {
                let tool = self.request.tool().unwrap_or_default();
                self.shared.row(tool, &self.request);
            }
            Step::Run => self.run().await?,
            Step::Before(bytes) => self.wire.before = Some(bytes.clone()),
            Step::CutAfter(bytes, end) => self.wire.cut = Some((*bytes, *end)),
            Step::Drip(bytes, pause) => self.wire.drip = Some((*bytes, *pause)),
            Step::UntilClose => self.wire.until_close = true,
            Step::Raw(bytes) => {
                if let Transport::Http1(link) = &mut self.wire.transport {
                    link.write(bytes).await?;
                }
                return Err(Stop::Close);
            }
            Step::End(end) => return Err(self.wire.end(*end).await),
            Step::Refuse => return Err(Stop::Refuse),
            Step::CloseIdleAfter(limit) => {
                if let Transport::Http1(link) = &mut self.wire.transport {
                    link.idle_limit = Some(*limit);
                }
            }
            Step::Exit => {
                self.shared.exit();
                return Err(Stop::Reset);
            }
            // Resolved or handled by the caller.
            Step::Body(_) | Step::Rpc(_) | Step::RpcEvent(..) => {}
        }
        Ok(())
    }

    async fn run(&mut self) -> Flow {
        let shared = Arc::clone(&self.shared);
        match &shared.role {
            Role::McpServer => behaviour::answer(self).await,
            Role::Issuer(state) => issuer::answer(self, state).await,
        }
    }

    async fn repeat(&mut self, bytes: &[u8], every: Duration, times: Option<u64>) -> Flow {
        let mut left = times;
        while left != Some(0) {
            self.wire.pause(every).await?;
            self.wire.body(bytes).await?;
            left = left.map(|left| left - 1);
        }
        Ok(())
    }

    /// A response that is one JSON value.
    pub(crate) async fn json(&mut self, status: u16, body: &Value) -> Flow {
        self.json_text(status, &body.to_string()).await
    }

    pub(crate) async fn json_text(&mut self, status: u16, body: &str) -> Flow {
        if self.wire.before.is_some() {
            self.begin_stream().await?;
            return self
                .wire
                .body(sse::event(None, None, body).as_bytes())
                .await;
        }

        self.content(status, "application/json", body.as_bytes())
            .await
    }

    /// A response with any content.
    pub(crate) async fn content(&mut self, status: u16, content_type: &str, body: &[u8]) -> Flow {
        self.wire.head.status.get_or_insert(status);
        self.wire.header("content-type", content_type);
        self.wire
            .send_head(Framing::Length(body.len() as u64))
            .await?;
        self.wire.body(body).await
    }

    /// A response without a body.
    pub(crate) async fn empty(&mut self, status: u16) -> Flow {
        self.wire.head.status.get_or_insert(status);
        self.wire.send_head(Framing::Length(0)).await
    }

    /// A JSON-RPC result with the request's id.
    pub(crate) async fn result(&mut self, result: Value) -> Flow {
        let id = self.request.rpc_id().cloned();
        self.json(
            200,
            &json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        )
        .await
    }

    /// A JSON-RPC error with the request's id.
    pub(crate) async fn error(
        &mut self,
        status: u16,
        code: i64,
        message: &str,
        data: Option<Value>,
    ) -> Flow {
        let id = self.request.rpc_id().cloned();
        let mut error = json!({ "code": code, "message": message });
        if let Some(data) = data {
            error["data"] = data;
        }
        self.json(
            status,
            &json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        )
        .await
    }

    /// The head of an event stream.
    pub(crate) async fn begin_stream(&mut self) -> Flow {
        self.wire.header("content-type", "text/event-stream");
        self.wire.header("cache-control", "no-store");
        self.wire.header("x-accel-buffering", "no");
        self.wire.send_head(Framing::Chunked).await?;
        match self.wire.before.take() {
            Some(before) => self.wire.body(&before).await,
            None => Ok(()),
        }
    }

    /// Sends the frames of an outbox from a position on as events, until it is closed.
    pub(crate) async fn pump(&mut self, outbox: &Outbox, from: usize) -> Flow {
        let mut next = from;
        while let Some(frame) = self.wire.until(outbox.frame(next)).await? {
            let mut text = sse::event(frame.id.as_deref(), frame.name.as_deref(), &frame.data);
            if let Some(retry) = frame.retry {
                text.insert_str(0, &format!("retry: {retry}\n"));
            }
            self.wire.body(text.as_bytes()).await?;
            next += 1;
        }
        Ok(())
    }
}

/// The length of the whole body, if all of it is there from the first byte on.
fn length_of(steps: &[Step]) -> Option<u64> {
    steps.iter().try_fold(0, |length, step| match step {
        Step::Body(bytes) => Some(length + bytes.len() as u64),
        _ => None,
    })
}
