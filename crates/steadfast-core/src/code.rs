//! The registry of error codes. A code, its verdict and its hint are the same in the log, the API,
//! the command line and the console; `docs/errors/SFnnnn.md` is the page behind each.

use std::fmt;

use crate::fault::Verdict;

/// One entry of the registry.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code {
    number: u16,
    /// The name used where a code is too terse: in `fault.kind`, in metrics.
    pub name: &'static str,
    /// Who or what can mend it.
    pub verdict: Verdict,
    /// What to do, in one sentence.
    pub hint: &'static str,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SF{:04}", self.number)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} {}", self.name)
    }
}

impl Code {
    /// Finds a code by how it is written: `SF0021`, in any case.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        ALL.iter()
            .find(|code| code.to_string().eq_ignore_ascii_case(text.trim()))
            .copied()
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $konst:ident = $number:literal $name:literal $verdict:ident $hint:literal;)*) => {
        $($(#[$doc])* pub const $konst: Code = Code {
            number: $number, name: $name, verdict: Verdict::$verdict, hint: $hint,
        };)*
        /// The whole registry, by number.
        pub const ALL: &[Code] = &[$($konst),*];
    };
}

codes! {
    // Configuration and the command line.
    /// A key of the configuration is not known.
    CONFIG_UNKNOWN_KEY = 1 "config_unknown_key" Person "Correct the key: the message names the nearest known one.";
    /// A value of the configuration cannot be used.
    CONFIG_BAD_VALUE = 2 "config_bad_value" Person "Correct the value at the place that the message names.";
    /// A file cannot be read or is not of the expected form.
    FILE_UNREADABLE = 3 "file_unreadable" Person "Check that the file exists, that you may read it, and that it is of the form the message names.";
    /// The listen address cannot be used.
    ADDRESS_IN_USE = 4 "address_in_use" Person "Stop the other program, or choose another address with --listen (port 0 picks a free one).";
    /// No daemon answers.
    NO_DAEMON = 5 "no_daemon" Person "Start it with `steadfast serve`, or name a running one with --url and --token.";
    /// The daemon refused the admin token.
    BAD_ADMIN_TOKEN = 6 "bad_admin_token" Person "Use the token in `admin.token` of the data directory, or set STEADFAST_TOKEN.";
    /// Something of that name is not there.
    NOT_FOUND = 7 "not_found" Person "Check the name; `steadfast agent list` and `steadfast server list` show what exists.";
    /// Something of that name is there already, or came from a file and is read-only here.
    CONFLICT = 8 "conflict" Person "Choose another name, or change it where it was defined.";
    /// A `${vault:NAME}` reference cannot be resolved.
    VAULT_REFERENCE = 9 "vault_reference" Person "Set the secret with `steadfast vault set NAME`.";
    /// A part of Steadfast that is not built yet.
    NOT_BUILT = 10 "not_built" Person "This part comes with a later version; CHANGELOG.md says what is there today.";
    /// The server is switched off.
    SERVER_DISABLED = 11 "server_disabled" Person "Switch it on with `steadfast server enable NAME`.";
    /// The daemon stops.
    STOPPING = 12 "stopping" RetryAfter "Wait until it has started again, or ask another daemon.";

    // Faults of a connection.
    /// No answer in time.
    TIMEOUT = 21 "timeout" RetryAfter "Nothing to do: it is tried again. If it stays, check that the server is up and reachable.";
    /// The network refused or broke.
    NETWORK = 22 "network" RetryAfter "Nothing to do: it is tried again. If it stays, check the address, DNS and firewalls.";
    /// The TLS handshake failed.
    TLS = 23 "tls" RetryAfter "Check the server's certificate; add your own authority with network.ca_file.";
    /// The server answered with a 5xx status.
    SERVER_ERROR = 24 "server_error" RetryAfter "Nothing to do: it is tried again. If it stays, ask the server's operator.";
    /// The server asked to be called less often.
    RATE_LIMITED = 25 "rate_limited" RetryAfter "Nothing to do: the server's Retry-After is honoured.";
    /// The server no longer knows the session.
    SESSION_LOST = 26 "session_lost" RetryAfter "Nothing to do: a new session is opened.";
    /// Sessions are lost faster than they can be rebuilt.
    UNSTABLE_SESSIONS = 27 "unstable_sessions" RetryAfter "The server forgets sessions at once. Behind a load balancer it may need sticky sessions: try `cookies = true`.";
    /// The server and Steadfast share no revision, or the server broke its rules.
    PROTOCOL_MISMATCH = 28 "protocol_mismatch" RetryAfter "Compare the revisions that the message names; update the server or Steadfast.";
    /// Something answered that is not an MCP server.
    NOT_AN_MCP_ANSWER = 29 "not_an_mcp_answer" RetryAfter "Check the url: a sign-in page, a captive portal or a web page answered instead of the MCP server.";
    /// The server redirects to where Steadfast will not follow.
    REDIRECTED = 30 "redirected" Person "Set the server's url to the address that the message names, if you trust it.";
    /// The server wants a sign-in.
    SIGN_IN_REQUIRED = 31 "sign_in_required" Person "Sign in for this agent and server, or set the header that the server expects.";
    /// The grant does not cover what was asked.
    SCOPE_INSUFFICIENT = 32 "scope_insufficient" Person "Sign in again where there is a link; where there is none, ask the provider for the scope that the message names.";
    /// The server refuses, and not for a missing sign-in.
    FORBIDDEN = 33 "forbidden" RetryAfter "Ask the server's operator why it refuses; check the configured headers.";

    // Faults of a grant.
    /// The token endpoint answered 404, 405 or 410.
    TOKEN_ENDPOINT_MOVED = 34 "token_endpoint_moved" Rediscover "Nothing to do: the grant is kept, and the provider is asked where its token endpoint is now.";
    /// A renewal failed for a reason that time mends.
    RENEWAL_DELAYED = 35 "renewal_delayed" RetryAfter "Nothing to do: the grant is kept, and the renewal is tried again.";
    /// A renewal left, and its answer was not observed.
    RENEWAL_OUTCOME_LOST = 36 "renewal_outcome_lost" RetryAfter "Nothing to do: the renewal is asked for once more. If the provider then refuses it, sign in again.";
    /// The provider refused the grant.
    GRANT_REFUSED = 37 "grant_refused" Person "Sign in again for this agent and server; reloading does not help.";
    /// Freshly issued tokens were refused by the server.
    FRESH_TOKEN_REFUSED = 38 "fresh_token_refused" Person "The provider issues tokens that the server does not accept: sign in again, and check the server's audience and scopes.";
    /// The server relies on another authorization server than before.
    ISSUER_CHANGED = 39 "issuer_changed" Person "Sign in again: the server names another authorization server, and the old grant is never sent there.";
    /// The provider refuses the client that the operator configured.
    CLIENT_REFUSED = 40 "client_refused" Person "Correct `oauth` of the server: the provider refuses this client, its secret or its key. A corrected secret is tried at once; signing in does not help.";

    // Calls.
    /// The result of a call was not observed.
    NOT_OBSERVED = 41 "not_observed" Person "Look at the provider whether it happened; do not simply repeat the call.";
    /// A call could not be made because the server is not available.
    UNAVAILABLE = 42 "unavailable" RetryAfter "Wait: the connection comes back by itself; the message says when it is tried next.";
    /// An answer is larger than limits.max_message.
    TOO_LARGE = 43 "too_large" Person "Raise limits.max_message, or ask for less.";
    /// An answer carries the request's id and is not valid JSON-RPC.
    INVALID_ANSWER = 44 "invalid_answer" Person "Ask the server's operator: its answer cannot be read.";
    /// The call was cancelled by the agent.
    CANCELLED = 45 "cancelled" Person "Nothing to do.";
    /// A call may be a repeat of one whose outcome is not known.
    POSSIBLE_REPEAT = 46 "possible_repeat" Person "Find out what became of the first one with `steadfast operations show ID`; a call that is meant as a further one says so with dev.steadfast/repeat = intended.";
    /// An operation key was used for another call.
    OPERATION_KEY_TAKEN = 47 "operation_key_taken" Person "Use a new dev.steadfast/operationKey for each intention, and the same one only to ask for the same call again.";
    /// Operations wait for a person.
    OPERATIONS_HELD = 48 "operations_held" Person "Look up at the provider what became of them, and say so: `steadfast operations list --state held`, then `steadfast operations settle ID`.";
    /// An operation cannot be decided, or looked up, as it stands.
    OPERATION_NOT_DECIDED = 49 "operation_not_decided" Person "See how it stands with `steadfast operations show ID`.";

    // What a grant is worth.
    /// There is no refresh token.
    UNRENEWABLE = 50 "unrenewable" Person "Sign in again before the grant ends; it cannot be renewed without a refresh token.";

    // The store.
    /// The store cannot be opened, read or written.
    STORE_UNAVAILABLE = 51 "store_unavailable" Person "Check the file that the message names: its permissions, its disk, and whether another program holds it.";
    /// The store's file is damaged, or of a newer version.
    STORE_DAMAGED = 52 "store_damaged" Person "Nothing was changed. Restore the file from a backup, or move it away to start empty on purpose.";
    /// The key of the vault is missing, or is another one.
    VAULT_KEY = 53 "vault_key" Person "Bring back the key that sealed the store: STEADFAST_KEY, or vault.key in the data directory.";
    /// Somebody else holds a lease for longer than we wait.
    LEASE_HELD = 54 "lease_held" RetryAfter "Try again in a minute: the message names the lease, and which daemon on the same store holds it.";

    // What an agent or a browser sends.
    /// The Host header is not one of ours.
    BAD_HOST = 61 "bad_host" Person "Add the host to gateway.allowed_hosts if a reverse proxy of yours sends it.";
    /// The Origin header is not one of ours.
    BAD_ORIGIN = 62 "bad_origin" Person "Add the origin to gateway.allowed_origins if a page of yours sends it.";
    /// No credential, or not a valid one.
    BAD_CREDENTIAL = 63 "bad_credential" Person "Send `Authorization: Bearer <agent key>`; make a key with `steadfast agent key NAME`.";
    /// The agent does not have this server.
    UNKNOWN_SERVER = 64 "unknown_server" Person "Add the server to the agent: `steadfast agent add NAME --server SERVER`.";
    /// The body is not one JSON-RPC message.
    BAD_MESSAGE = 65 "bad_message" Person "Send one JSON-RPC 2.0 message with a method and, for a request, an id that is a string or a number.";
    /// Mirrored headers and body disagree.
    HEADER_MISMATCH = 66 "header_mismatch" Person "Send Mcp-Method, Mcp-Name and MCP-Protocol-Version as they are in the body.";
    /// The agent's session is not known.
    UNKNOWN_AGENT_SESSION = 67 "unknown_agent_session" Person "Initialize again, as the protocol asks on 404.";
    /// The event id is unknown, foreign or expired.
    UNKNOWN_EVENT = 68 "unknown_event" Person "Open a new stream; events before it may be lost.";
    /// The agent asked for a revision that is not spoken here.
    UNSUPPORTED_REVISION = 69 "unsupported_revision" Person "Use one of the revisions that the answer lists.";
    /// Several servers of the agent have what it asks for by name.
    AMBIGUOUS_NAME = 70 "ambiguous_name" Person "Set `prefix = true` for the agent, or take the tool away from one of the servers with tools_deny; a resource can be asked for as steadfast://SERVER/URI.";
    /// The state of a call that waited for its agent is not known for this call.
    UNKNOWN_REQUEST_STATE = 71 "unknown_request_state" Person "Find out at the server whether the first leg of the call was executed, before it is called anew.";
    /// The access token does not cover what is asked for.
    NOT_COVERED = 72 "not_covered" Person "Come back with a token for the resources that the answer names; a stream waits for it.";
    /// The issuer of an access token cannot be asked about it.
    ISSUER_UNAVAILABLE = 73 "issuer_unavailable" RetryAfter "Try again soon. If it stays, check that this daemon reaches the issuer of the token, and `gateway.issuers`.";
    /// Something went wrong that should not.
    INTERNAL = 99 "internal" OurBug "Please report it with the log lines around it.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_unique() {
        assert!(ALL.windows(2).all(|pair| pair[0].number < pair[1].number));
        assert_eq!(Code::find("sf0021"), Some(TIMEOUT));
        assert_eq!(Code::find("SF9999"), None);
    }
}
