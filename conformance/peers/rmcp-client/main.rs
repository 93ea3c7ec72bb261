//! rmcp 3.x as a peer: `rmcp-client URL KEY legacy|modern` (the line protocol of `line-protocol.mjs`).
#![allow(
    deprecated,
    reason = "sampling and resources/subscribe are deprecated, and still spoken"
)]

mod handler;

use std::io::Write as _;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, JsonObject, ProtocolVersion,
    ReadResourceRequestParams, ServerNotification, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequestParams,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RunningService, Subscription};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::mpsc;

use crate::handler::{Handler, Progress};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || {
        arguments
            .next()
            .ok_or("usage: rmcp-client URL KEY legacy|modern")
    };
    let (url, key, era) = (argument()?, argument()?, argument()?);
    let mut peer = Peer::connect(&url, &key, &era).await?;
    report(&json!({ "ready": true }))?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        if line == "quit" {
            break;
        }
        report(&match peer.obey(&line).await {
            Ok(result) => json!({ "result": result }),
            Err(error) => json!({ "error": error.to_string() }),
        })?;
    }
    peer.client.cancel().await?;
    report(&json!({ "result": "bye" }))
}

struct Peer {
    client: RunningService<RoleClient, Handler>,
    progress: Progress,
    updates: mpsc::UnboundedReceiver<String>,
    /// The call that was begun.
    begun: Option<RequestHandle<RoleClient>>,
    subscribed: Option<Subscribed>,
}

/// A subscription, in the way of each era.
enum Subscribed {
    Legacy(String),
    Modern(Box<Subscription>),
}

impl Peer {
    async fn connect(url: &str, key: &str, era: &str) -> Result<Self, Failure> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(key);
        // A session that is lost is to be seen, not to be made anew.
        config.reinit_on_expired_session = false;
        let lifecycle = match era {
            "modern" => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
            _ => ClientLifecycleMode::Initialize,
        };
        let (handler, progress, updates) = Handler::new();
        let transport = StreamableHttpClientTransport::from_config(config);
        Ok(Self {
            client: handler.serve_with_lifecycle(transport, lifecycle).await?,
            progress,
            updates,
            begun: None,
            subscribed: None,
        })
    }

    async fn obey(&mut self, line: &str) -> Result<Value, Failure> {
        let mut words = line.splitn(3, ' ');
        let command = words.next().unwrap_or_default();
        let name = words.next().unwrap_or_default();
        let arguments = words.next().unwrap_or("{}");
        let client = &self.client;
        Ok(match command {
            "list" => serde_json::to_value(client.list_tools(None).await?)?,
            "resources" => serde_json::to_value(client.list_resources(None).await?)?,
            "read" => {
                let request = ReadResourceRequestParams::new(name);
                serde_json::to_value(client.read_resource(request).await?)?
            }
            "call" => serde_json::to_value(client.call_tool(call(name, arguments)?).await?)?,
            "progress" => {
                self.progress.forget();
                client.call_tool(call(name, arguments)?).await?;
                json!(self.progress.to_its_end().await)
            }
            "begin" => {
                let request = CallToolRequest::new(call(name, arguments)?);
                let request = ClientRequest::CallToolRequest(request);
                let options = PeerRequestOptions::no_options();
                self.begun = Some(client.send_cancellable_request(request, options).await?);
                json!("begun")
            }
            "cancel" => {
                let call = self.begun.take().ok_or("nothing was begun")?;
                call.cancel(Some("the peer has changed its mind".to_owned()))
                    .await?;
                json!({ "cancelled": true })
            }
            "subscribe" => self.subscribe(name).await?,
            "updated" => json!({ "uri": self.updated().await? }),
            "unsubscribe" => self.unsubscribe().await?,
            other => return Err(format!("unknown command: {other}").into()),
        })
    }

    async fn subscribe(&mut self, uri: &str) -> Result<Value, Failure> {
        let is_modern = self
            .client
            .peer_info()
            .is_some_and(|info| info.protocol_version == ProtocolVersion::V_2026_07_28);
        self.subscribed = Some(if is_modern {
            let filter = SubscriptionFilter::builder()
                .resource_subscription(uri)
                .build();
            Subscribed::Modern(Box::new(self.client.listen(filter).await?))
        } else {
            self.client
                .subscribe(SubscribeRequestParams::new(uri))
                .await?;
            Subscribed::Legacy(uri.to_owned())
        });
        Ok(json!("subscribed"))
    }

    async fn updated(&mut self) -> Result<String, Failure> {
        let Some(Subscribed::Modern(subscription)) = &mut self.subscribed else {
            return Ok(self.updates.recv().await.ok_or("there is no client")?);
        };
        while let Some(notification) = subscription.next().await? {
            if let ServerNotification::ResourceUpdatedNotification(update) = notification {
                return Ok(update.params.uri);
            }
        }
        Err("the subscription ended".into())
    }

    async fn unsubscribe(&mut self) -> Result<Value, Failure> {
        match self.subscribed.take().ok_or("nothing is subscribed to")? {
            Subscribed::Legacy(uri) => {
                let request = UnsubscribeRequestParams::new(uri);
                self.client.unsubscribe(request).await?;
            }
            Subscribed::Modern(mut subscription) => subscription.cancel().await?,
        }
        Ok(json!("unsubscribed"))
    }
}

fn call(tool: &str, arguments: &str) -> Result<CallToolRequestParams, Failure> {
    let arguments: JsonObject = serde_json::from_str(arguments)?;
    Ok(CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments))
}

fn report(message: &Value) -> Result<(), Failure> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{message}")?;
    Ok(stdout.flush()?)
}
