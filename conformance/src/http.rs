//! A client for the admin API.

use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::Failure;

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Admin {
    client: Client<HttpConnector, Empty<Bytes>>,
    base: String,
    token: String,
}

impl Admin {
    /// `base` is the address that the daemon listens on.
    pub(crate) fn new(base: &str, token: &str) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self {
            client,
            base: format!("{base}/api/v1"),
            token: token.trim().to_owned(),
        }
    }

    pub(crate) async fn request(&self, method: Method, path: &str) -> Result<Value, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(
                hyper::header::AUTHORIZATION,
                format!("Bearer {}", self.token),
            )
            .body(Empty::new())?;
        let answer = async {
            let response = self.client.request(request).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            if !status.is_success() {
                return Err(Failure::from(format!(
                    "{path}: {status}: {}",
                    String::from_utf8_lossy(&body)
                )));
            }
            Ok(serde_json::from_slice(&body)?)
        };
        tokio::time::timeout(TIMEOUT, answer).await?
    }
}
