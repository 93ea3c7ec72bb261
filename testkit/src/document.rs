//! A metadata document that a test may bend: members set or removed, status, headers, the whole body.

use bytes::Bytes;
use serde_json::Value;

use crate::exchange::Exchange;
use crate::wire::Flow;

/// What a test changed in a metadata document; what it left alone follows from the server's settings.
#[derive(Clone, Debug, Default)]
pub struct Document {
    changes: Vec<(String, Option<Value>)>,
    headers: Vec<(String, String)>,
    status: Option<u16>,
    content: Option<(String, Bytes)>,
}

impl Document {
    /// Gives a member this value, whatever would be true.
    pub fn set(&mut self, member: &str, value: impl Into<Value>) -> &mut Self {
        self.changes.push((member.to_owned(), Some(value.into())));
        self
    }

    /// Leaves a member out.
    pub fn remove(&mut self, member: &str) -> &mut Self {
        self.changes.push((member.to_owned(), None));
        self
    }

    /// Adds a response header, such as `Cache-Control`.
    pub fn header(&mut self, name: &str, value: &str) -> &mut Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Answers with this status instead of 200.
    pub fn status(&mut self, status: u16) -> &mut Self {
        self.status = Some(status);
        self
    }

    /// Answers with this content instead of the document.
    pub fn content(&mut self, content_type: &str, body: impl Into<Bytes>) -> &mut Self {
        self.content = Some((content_type.to_owned(), body.into()));
        self
    }

    /// Takes every change back.
    pub fn restore(&mut self) {
        *self = Self::default();
    }

    /// The document with the changes made.
    pub(crate) fn apply(&self, mut document: Value) -> Value {
        if let Value::Object(members) = &mut document {
            for (member, change) in &self.changes {
                match change {
                    Some(value) => members.insert(member.clone(), value.clone()),
                    None => members.shift_remove(member),
                };
            }
        }
        document
    }

    /// Answers a request with the document.
    pub(crate) async fn send(&self, exchange: &mut Exchange<'_>, document: Value) -> Flow {
        let (content_type, body) = self.content.clone().unwrap_or_else(|| {
            let text = self.apply(document).to_string();
            ("application/json".to_owned(), text.into())
        });
        for (name, value) in &self.headers {
            exchange.wire.header(name, value);
        }
        exchange
            .content(self.status.unwrap_or(200), &content_type, &body)
            .await
    }
}
