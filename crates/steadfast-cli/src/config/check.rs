//! What a file must be besides well-formed: everything is found out when the file is read, not when a
//! booking is at stake.

use std::net::SocketAddr;

use steadfast::config::check::web_address;
use steadfast::config::{Email, Issuer, Server, Servers, Span};
use steadfast_core::code::{self, Code};
use steadfast_core::merged::names;
use steadfast_gateway::directory::is_name;
use url::Url;

use super::schema::File;
use super::{Issue, Tree};

/// Everything that is wrong in `file`, in the order of its tables.
pub(super) fn check(file: &File, tree: &Tree<'_>, listen: Option<SocketAddr>) -> Vec<Issue> {
    let mut checker = Checker {
        tree: Some(tree),
        issues: Vec::new(),
    };
    checker.gateway(file, listen);
    checker.network(file);
    checker.store(file);
    checker.delays(file);
    checker.renewal(file);
    checker.repeat(file);
    if let Some(webhook) = &file.notify.webhook {
        checker.web_address(&["notify", "webhook"], webhook);
    }
    if let Some(Err((key, why))) = file.notify.email.as_ref().map(Email::check) {
        checker.refuse(&["notify", "email", key], why);
    }
    for (name, agent) in &file.agents {
        checker.name(&["agents", name]);
        if let Servers::Some(servers) = &agent.servers {
            for server in servers {
                checker.known_server(file, name, server);
            }
        }
    }
    for (name, server) in &file.servers {
        checker.name(&["servers", name]);
        checker.server(name, server);
    }
    checker.issues
}

/// Everything that is wrong in one server that comes from elsewhere.
pub(super) fn check_server(name: &str, server: &Server) -> Vec<Issue> {
    let mut checker = Checker {
        tree: None,
        issues: Vec::new(),
    };
    checker.name(&["servers", name]);
    checker.server(name, server);
    checker.issues
}

struct Checker<'c, 't> {
    /// Where to look up places; none where there is no text.
    tree: Option<&'c Tree<'t>>,
    issues: Vec<Issue>,
}

impl Checker<'_, '_> {
    fn refuse(&mut self, path: &[&str], why: impl AsRef<str>) {
        self.refuse_as(code::CONFIG_BAD_VALUE, path, why);
    }

    fn refuse_as(&mut self, code: Code, path: &[&str], why: impl AsRef<str>) {
        self.issues.push(Issue {
            place: self.tree.and_then(|tree| tree.place_of(path)),
            code,
            message: format!("{}: {}", path.join("."), why.as_ref()),
        });
    }

    fn gateway(&mut self, file: &File, listen: Option<SocketAddr>) {
        let gateway = &file.gateway;
        if let Some(url) = &gateway.public_url {
            self.web_address(&["gateway", "public_url"], url);
        }
        if let Some(url) = &gateway.client_metadata_url {
            self.client_metadata_url(url);
        }
        if gateway.config_check == Span::default() {
            self.refuse(&["gateway", "config_check"], "must be longer than zero");
        }
        if gateway.keep_alive == Span::default() {
            self.refuse(&["gateway", "keep_alive"], "must be longer than zero");
        }
        for issuer in &gateway.issuers {
            let named = |other: &&Issuer| other.issuer == issuer.issuer;
            let why = match issuer.check() {
                Err((key, why)) => format!("{}: {key} {why}", issuer.issuer),
                Ok(()) if gateway.issuers.iter().filter(named).count() > 1 => {
                    format!("{} is there more than once", issuer.issuer)
                }
                Ok(()) => continue,
            };
            self.refuse(&["gateway", "issuers"], why);
        }
        let Some(agent) = &gateway.anonymous_agent else {
            return;
        };
        let path = ["gateway", "anonymous_agent"];
        if !file.agents.contains_key(agent) {
            self.refuse(&path, format!("there is no agent `{agent}` in this file"));
        }
        let listen = listen.unwrap_or(gateway.listen);
        if !listen.ip().is_loopback() {
            let why = format!(
                "whoever reaches {listen} would be `{agent}`: only a loopback listener may have it"
            );
            self.refuse(&path, why);
        }
    }

    fn network(&mut self, file: &File) {
        if let Some(proxy) = &file.network.proxy
            && (proxy.scheme() != "http" || proxy.host_str().is_none())
        {
            self.refuse(
                &["network", "proxy"],
                "a proxy is given as http://host:port",
            );
        }
        if let Some(path) = &file.network.ca_file
            && let Err(error) = std::fs::File::open(path)
        {
            let why = format!("{} cannot be read: {error}", path.display());
            self.refuse_as(code::FILE_UNREADABLE, &["network", "ca_file"], why);
        }
    }

    fn store(&mut self, file: &File) {
        let path = ["store", "url"];
        match file.store.url.split_once(':') {
            Some(("sqlite", file)) if !file.trim_start_matches('/').is_empty() => {}
            Some(("postgres" | "postgresql", _)) => {
                self.refuse_as(
                    code::NOT_BUILT,
                    &path,
                    "PostgreSQL is not built yet; use sqlite:FILE",
                );
            }
            Some(_) | None => self.refuse(&path, "must be sqlite:FILE or postgres://…"),
        }
    }

    /// Zero is no delay where it would mean "never" or "at once, for ever".
    fn delays(&mut self, file: &File) {
        let retry = &file.retry;
        for (key, span) in [
            ("first", retry.first),
            ("max", retry.max),
            ("connect_timeout", retry.connect_timeout),
            ("request_timeout", retry.request_timeout),
            ("silence_timeout", retry.silence_timeout),
            ("call_timeout", retry.call_timeout),
            ("session_rebuild_window", retry.session_rebuild_window),
            ("stream_open_timeout", retry.stream_open_timeout),
            ("stream_recheck", retry.stream_recheck),
            ("input_wait", retry.input_wait),
            ("asleep_after", retry.asleep_after),
        ] {
            if span == Span::default() {
                self.refuse(&["retry", key], "must be longer than zero");
            }
        }
        if retry.concurrent_reconnects == 0 {
            self.refuse(
                &["retry", "concurrent_reconnects"],
                "must be at least 1, or nothing ever connects",
            );
        }
        if retry.max < retry.first {
            let why = format!(
                "is {}, less than retry.first, which is {}",
                retry.max, retry.first
            );
            self.refuse(&["retry", "max"], why);
        }
        if file.limits.max_message.0 == 0 {
            self.refuse(&["limits", "max_message"], "must be larger than zero");
        }
    }

    /// A renewal that is never due, or always, is as good as none.
    fn renewal(&mut self, file: &File) {
        let renewal = &file.renewal;
        for (key, span) in [
            ("window", renewal.window),
            ("assumed_lifetime", renewal.assumed_lifetime),
            ("check_every", renewal.check_every),
            ("retry_first", renewal.retry_first),
            ("retry_max", renewal.retry_max),
        ] {
            if span == Span::default() {
                self.refuse(&["renewal", key], "must be longer than zero");
            }
        }
        for (key, number) in [
            ("per_issuer_concurrency", renewal.per_issuer_concurrency),
            ("refused_after", renewal.refused_after),
            ("fresh_token_refusals", renewal.fresh_token_refusals),
        ] {
            if number == 0 {
                self.refuse(&["renewal", key], "must be at least 1");
            }
        }
        if renewal.probes > 0 && renewal.probe_every == Span::default() {
            let why = "must be longer than zero where there are probes";
            self.refuse(&["renewal", "probe_every"], why);
        }
        if renewal.retry_max < renewal.retry_first {
            let (max, first) = (renewal.retry_max, renewal.retry_first);
            let why = format!("is {max}, less than renewal.retry_first, which is {first}");
            self.refuse(&["renewal", "retry_max"], why);
        }
        if renewal.lease < Span::secs(1) {
            let why = "must be at least 1s: a renewal has half of it for each request";
            self.refuse(&["renewal", "lease"], why);
        }
        if file.sign_in.attempt_lifetime == Span::default() {
            let why = "must be longer than zero, or nobody can sign in";
            self.refuse(&["sign_in", "attempt_lifetime"], why);
        }
    }

    /// A lookup that may take no time finds nothing out.
    fn repeat(&mut self, file: &File) {
        let repeat = &file.repeat;
        for (key, span) in [
            ("lookup_first", repeat.lookup_first),
            ("lookup_max", repeat.lookup_max),
            ("lookup_limit", repeat.lookup_limit),
        ] {
            if span == Span::default() {
                self.refuse(&["repeat", key], "must be longer than zero");
            }
        }
        if repeat.lookup_max < repeat.lookup_first {
            let (max, first) = (repeat.lookup_max, repeat.lookup_first);
            let why = format!("is {max}, less than repeat.lookup_first, which is {first}");
            self.refuse(&["repeat", "lookup_max"], why);
        }
    }

    fn name(&mut self, path: &[&str]) {
        if let Some(name) = path.last()
            && !is_name(name)
        {
            self.refuse(path, "a name has 1 to 64 of A-Z a-z 0-9 _ -, and no `__`");
        }
        if *path == ["servers", names::OURS] {
            self.refuse(
                path,
                "tools of Steadfast's own are named after it; choose another name",
            );
        }
    }

    fn known_server(&mut self, file: &File, agent: &str, server: &str) {
        if file.servers.contains_key(server) {
            return;
        }
        let distance = |name: &&String| strsim::damerau_levenshtein(server, name);
        let nearest = file.servers.keys().min_by_key(distance);
        let hint = match nearest {
            Some(nearest) if distance(&nearest) <= server.len() / 3 + 1 => {
                format!("; did you mean `{nearest}`?")
            }
            Some(_) | None => String::new(),
        };
        let why = format!(
            "the agent `{agent}` has the server `{server}`, which is not in this file{hint}"
        );
        self.refuse(&["agents", agent, "servers"], why);
    }

    fn server(&mut self, name: &str, server: &Server) {
        for wrong in server.check() {
            let keys = wrong.place.iter().map(String::as_str);
            let path: Vec<&str> = ["servers", name].into_iter().chain(keys).collect();
            self.refuse_as(wrong.code, &path, wrong.why);
        }
    }

    fn web_address(&mut self, path: &[&str], url: &Url) {
        if let Err(why) = web_address(url) {
            self.refuse(path, why);
        }
    }

    /// The address is the client id (draft-ietf-oauth-client-id-metadata-document-00, section 3).
    fn client_metadata_url(&mut self, url: &Url) {
        let path = ["gateway", "client_metadata_url"];
        self.web_address(&path, url);
        if url.scheme() == "http" || url.path() == "/" {
            let why = "authorization servers take an https address with a path";
            self.refuse(&path, why);
        }
    }
}
