//! `steadfast server`: the upstream servers.

use clap::Subcommand;
use serde_json::{Value, json};
use steadfast::config::{self, Servers};
use steadfast_core::code;
use steadfast_core::reference::Template;
use url::Url;

use super::agent::{defined, widen};
use crate::config::check_server;
use crate::context::Context;
use crate::directory::{Agent, Directory, Server};
use crate::failure::{Exit, Failure};
use crate::output::{Cell, Look, Output, Table};

/// What stands for a value that is not shown.
const MASK: &str = "…";

/// `server add|list|show|remove|enable|disable`.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Add a server
    Add {
        /// The name of the server
        name: String,
        /// Its MCP endpoint
        #[arg(value_name = "URL")]
        endpoint: Url,
        /// A header on every request, as 'Name: value' (may be given several times)
        #[arg(long = "header", value_name = "HEADER", value_parser = parse_header)]
        headers: Vec<(String, String)>,
        /// An agent that may use it (may be given several times)
        #[arg(long = "agent", value_name = "AGENT")]
        agents: Vec<String>,
    },
    /// List the servers
    List,
    /// Show the configuration of a server; secrets are masked
    Show {
        /// The name of the server
        name: String,
    },
    /// Remove a server and its connections
    Remove {
        /// The name of the server
        name: String,
    },
    /// Use a disabled server again
    Enable {
        /// The name of the server
        name: String,
    },
    /// Close the connections of a server, and keep its configuration
    Disable {
        /// The name of the server
        name: String,
    },
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        // The text may hold a secret, so it is not repeated.
        Some(_) | None => Err("a header is written as 'Name: value'".to_owned()),
    }
}

/// Runs the command.
pub(crate) async fn run(context: &Context, command: Command) -> Result<Exit, Failure> {
    let directory = context.directory().await?;
    let output = context.output;
    let done = match command {
        Command::Add {
            name,
            endpoint,
            headers,
            agents,
        } => {
            let server = config::Server {
                headers: headers.into_iter().collect(),
                ..config::Server::at(endpoint)
            };
            add(output, &directory, &name, server, &agents).await
        }
        Command::List => list(output, &directory).await,
        Command::Show { name } => show(output, &directory, &name).await,
        Command::Remove { name } => remove(output, &directory, &name).await,
        Command::Enable { name } => enable(output, &directory, &name, true).await,
        Command::Disable { name } => enable(output, &directory, &name, false).await,
    };
    directory.close().await;
    done.map(|()| Exit::Done)
}

async fn add(
    output: Output,
    directory: &Directory,
    name: &str,
    server: config::Server,
    agents: &[String],
) -> Result<(), Failure> {
    check_server(name, &server).map_err(Failure::usage)?;
    let there = directory.servers().await?;
    match there.iter().find(|there| there.name == name) {
        Some(there) if there.config != server => {
            let message = format!(
                "there is a server `{name}` already, at {}",
                shown_url(&there.config.url)
            );
            return Err(Failure::new(code::CONFLICT, message));
        }
        // The command may have been cut off before it came to the agents.
        Some(_) => {}
        None => directory.put_server(name, &server).await?,
    }
    for agent in agents {
        let message =
            || format!("the server `{name}` is there, and there is no agent `{agent}` to use it");
        let agent = directory
            .agent(agent)
            .await?
            .ok_or_else(|| Failure::new(code::NOT_FOUND, message()))?;
        widen(directory, agent, &[name.to_owned()]).await?;
    }
    if output.json {
        return output.json(&shown(&directory.server(name).await?));
    }
    output.line(format!("{name} is added: {}", shown_url(&server.url)))?;
    let users = users(&directory.agents().await?, name);
    if users.is_empty() {
        output.note(format!(
            "No agent uses it yet: `steadfast agent add NAME --server {name}`."
        ));
    }
    Ok(())
}

/// The agents that have a server.
fn users(agents: &[Agent], server: &str) -> Vec<String> {
    let users = agents
        .iter()
        .filter(|agent| agent.config.servers.include(server));
    users.map(|agent| agent.name.clone()).collect()
}

async fn list(output: Output, directory: &Directory) -> Result<(), Failure> {
    let servers = directory.servers().await?;
    if output.json {
        let servers: Vec<Value> = servers.iter().map(shown).collect();
        return output.json(&json!({"servers": servers}));
    }
    let agents = directory.agents().await?;
    let mut table = Table::new(&["SERVER", "URL", "ENABLED", "AGENTS", "DEFINED"]);
    for server in &servers {
        let enabled = if server.config.enabled {
            Cell::from("yes")
        } else {
            Cell::from("no").look(Look::Warning)
        };
        table.row(vec![
            server.name.clone().into(),
            shown_url(&server.config.url).into(),
            enabled,
            users(&agents, &server.name).join(", ").into(),
            defined(server.from_file).into(),
        ]);
    }
    output.raw(&table.render(output))
}

async fn show(output: Output, directory: &Directory, name: &str) -> Result<(), Failure> {
    let value = shown(&directory.server(name).await?);
    if output.json {
        return output.json(&value);
    }
    let mut table = Table::default();
    for (key, value) in value.as_object().into_iter().flatten() {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        table.row(vec![Cell::from(key.as_str()).look(Look::Bold), text.into()]);
    }
    output.raw(&table.render(output))
}

/// A server as people may see it.
fn shown(server: &Server) -> Value {
    let mut shown = json!({
        "name": server.name,
        "source": if server.from_file { "file" } else { "admin" },
    });
    let config = shown_config(&serde_json::to_value(&server.config).unwrap_or_default());
    if let (Some(shown), Value::Object(config)) = (shown.as_object_mut(), config) {
        shown.extend(config);
    }
    shown
}

/// The configuration of a server or an agent as people may see it.
pub(super) fn shown_config(config: &Value) -> Value {
    let mut shown = config.clone();
    if let Some(url) = shown.get_mut("url")
        && let Some(parsed) = url.as_str().and_then(|url| Url::parse(url).ok())
    {
        *url = shown_url(&parsed).into();
    }
    for (_, value) in shown
        .get_mut("headers")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
    {
        mask(value);
    }
    for secret in [
        "/oauth/client_secret",
        "/oauth/private_key",
        "/oauth/identity/assertion",
        "/oauth/identity/client_secret",
    ] {
        if let Some(secret) = shown.pointer_mut(secret) {
            mask(secret);
        }
    }
    shown
}

fn mask(value: &mut Value) {
    if value.is_null() {
        return;
    }
    let template = value.as_str().map(Template::read);
    *value = match template {
        Some(Ok(template)) if template.names().next().is_some() => template.masked(MASK).into(),
        Some(Ok(_) | Err(_)) | None => MASK.into(),
    };
}

/// A URL without the values of its query: keys of providers stand there.
pub(super) fn shown_url(url: &Url) -> String {
    let Some(query) = url.query() else {
        return url.to_string();
    };
    let masked: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, _)) => format!("{name}={MASK}"),
            None => MASK.to_owned(),
        })
        .collect();
    let mut bare = url.clone();
    bare.set_query(None);
    format!("{bare}?{}", masked.join("&"))
}

async fn remove(output: Output, directory: &Directory, name: &str) -> Result<(), Failure> {
    directory.remove_server(name).await?;
    // A name that stayed behind would give the agent whatever is added under it later.
    for agent in directory.agents().await? {
        if let Servers::Some(servers) = &agent.config.servers
            && servers.iter().any(|server| server == name)
            && !agent.from_file
        {
            let left = servers
                .iter()
                .filter(|server| *server != name)
                .cloned()
                .collect();
            let config = config::Agent {
                servers: Servers::Some(left),
                ..agent.config
            };
            directory.put_agent(&agent.name, &config).await?;
        }
    }
    if output.json {
        return output.json_line(&json!({"server": name, "removed": true}));
    }
    output.line(format!("{name} is removed"))
}

async fn enable(
    output: Output,
    directory: &Directory,
    name: &str,
    enabled: bool,
) -> Result<(), Failure> {
    let mut server = directory.server(name).await?;
    if server.config.enabled != enabled {
        server.config.enabled = enabled;
        directory.put_server(name, &server.config).await?;
    }
    if output.json {
        return output.json(&shown(&server));
    }
    output.line(format!(
        "{name} is {}",
        if enabled { "enabled" } else { "disabled" }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_without_repeating_them() {
        assert_eq!(
            parse_header("X-Key: a:b"),
            Ok(("X-Key".into(), "a:b".into()))
        );
        assert_eq!(
            parse_header("secret").unwrap_err(),
            "a header is written as 'Name: value'"
        );
        assert!(parse_header(": b").is_err());
    }

    #[test]
    fn secrets_are_masked_and_references_are_shown() {
        let mut config = config::Server::at("https://a.test/mcp?key=canary&x".parse().unwrap());
        config.headers.insert("X-Key".into(), "canary".into());
        config
            .headers
            .insert("X-Other".into(), "canary ${vault:NAME}".into());
        config.oauth = Some(config::Oauth {
            client_secret: Some("canary".into()),
            private_key: Some("canary".into()),
            identity: Some(config::Identity {
                issuer: "https://idp.test".into(),
                client_id: "b".into(),
                client_secret: Some("canary".into()),
                assertion: "canary".into(),
                assertion_type: config::AssertionType::IdToken,
            }),
            ..config::Oauth::default()
        });
        let server = Server {
            name: "a".into(),
            from_file: false,
            has_key: false,
            config,
        };
        let text = shown(&server).to_string();
        assert!(!text.contains("canary"), "{text}");
        assert!(
            text.contains("${vault:NAME}") && text.contains("https://a.test/mcp?key=…&…"),
            "{text}"
        );
    }
}
