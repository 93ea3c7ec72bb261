//! One connection in a line, and its token pill.

use jiff::Timestamp;
use steadfast::report::GrantReport;
use steadfast::{Report, wording};

/// One connection, as a table shows it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) agent: String,
    pub(super) server: String,
    /// The address of its page.
    pub(super) path: String,
    pub(super) state: String,
    /// `good`, `busy`, `person` or `off`.
    pub(super) tone: &'static str,
    pub(super) age: String,
    pub(super) fault: Option<String>,
    pub(super) next: Option<String>,
    pub(super) pill: Option<Pill>,
    pub(super) tools: Option<usize>,
    /// Only a person can help: said as that, and never as if it were tried again.
    pub(super) waits: bool,
    pub(super) can_sign_in: bool,
    /// `Sign in`, or `Re-authorize` where there was a grant before.
    pub(super) sign_in: &'static str,
}

/// How the sign-in stands.
#[derive(Clone, Debug)]
pub(super) struct Pill {
    pub(super) tone: &'static str,
    pub(super) text: String,
}

impl Row {
    pub(super) fn new(report: &Report, now: Timestamp) -> Self {
        let waits = wording::needs_person(report);
        let tone = match report.state.as_str() {
            _ if waits => "person",
            "connected" => "good",
            "disabled" => "off",
            _ => "busy",
        };
        let asks = report.sign_in_url.is_some()
            || report.state == "awaiting_sign_in"
            || matches!(report.grant.state.as_str(), "refused" | "unrenewable");
        Self {
            agent: report.agent.clone(),
            server: report.server.clone(),
            path: format!("/connections/{}/{}", report.agent, report.server),
            state: wording::state(report),
            tone,
            age: wording::age(report, now),
            fault: report
                .fault
                .as_ref()
                .map(|fault| format!("{} {}", fault.code, fault.message)),
            next: wording::next(report, now).filter(|_| !waits),
            pill: pill(&report.grant, now),
            tools: report.tools,
            waits,
            can_sign_in: asks,
            sign_in: match report.grant.state.as_str() {
                "none" => "Sign in",
                _ => "Re-authorize",
            },
        }
    }
}

/// How a grant stands, in few words; `None` where there is none.
pub(super) fn pill(grant: &GrantReport, now: Timestamp) -> Option<Pill> {
    let when = |at: &Option<String>| {
        at.as_deref().map_or_else(
            || "at an unknown time".to_owned(),
            |at| wording::until(at, now),
        )
    };
    let (tone, text) = match grant.state.as_str() {
        "none" => return None,
        "valid" => (
            "good",
            format!(
                "valid, ends {}, renews {}",
                when(&grant.expires_at),
                when(&grant.renews_at)
            ),
        ),
        "due" | "renewing" => ("busy", "renewing".to_owned()),
        "delayed" => (
            "busy",
            format!(
                "renewal delayed, ends {}, next try {}",
                when(&grant.expires_at),
                when(&grant.renews_at)
            ),
        ),
        "suspect" => (
            "busy",
            format!("in doubt, ends {}", when(&grant.expires_at)),
        ),
        "unrenewable" => (
            "person",
            format!("cannot be renewed, ends {}", when(&grant.expires_at)),
        ),
        "refused" => ("person", "refused".to_owned()),
        other => ("off", other.to_owned()),
    };
    Some(Pill { tone, text })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(state: &str, grant: &str, person: bool) -> Report {
        serde_json::from_value(json!({
            "agent": "a", "server": "s", "state": state, "since": "2026-11-30T09:59:00Z", "revision": null,
            "era": null, "session_age_s": null, "tools": null, "last_answer_at": null,
            "fault": {"code": "SF0031", "kind": "x", "message": "why", "hint": "do", "person_needed": person},
            "next": {"at": "2026-11-30T10:00:03Z", "kind": "reconnect", "reason": "reconnect, attempt 4"},
            "grant": {"state": grant, "expires_at": "2026-11-30T10:30:00Z", "renews_at": "2026-11-30T10:10:00Z"},
            "sign_in_url": null,
        }))
        .unwrap()
    }

    #[test]
    fn what_waits_for_a_person_is_never_shown_as_coming_back() {
        let now = "2026-11-30T10:00:00Z".parse().unwrap();
        for (state, grant, person, tone, waits) in [
            ("retrying", "valid", false, "busy", false),
            ("retrying", "refused", true, "person", true),
            ("connected", "refused", true, "person", true),
            ("awaiting_sign_in", "none", true, "person", true),
            ("misconfigured", "none", false, "person", true),
            ("disabled", "none", false, "off", false),
        ] {
            let row = Row::new(&report(state, grant, person), now);
            assert_eq!((row.tone, row.waits), (tone, waits), "{state} {grant}");
            assert_eq!(row.next.is_none(), waits, "{state} {grant}");
        }
    }

    #[test]
    fn a_pill_says_when() {
        let now = "2026-11-30T10:00:00Z".parse().unwrap();
        let text = |grant: &str| pill(&report("connected", grant, false).grant, now);
        assert!(text("none").is_none());
        for (grant, tone, said) in [
            ("valid", "good", "valid, ends in 30m 0s, renews in 10m 0s"),
            ("renewing", "busy", "renewing"),
            (
                "delayed",
                "busy",
                "renewal delayed, ends in 30m 0s, next try in 10m 0s",
            ),
            ("unrenewable", "person", "cannot be renewed, ends in 30m 0s"),
            ("refused", "person", "refused"),
        ] {
            let pill = text(grant).unwrap();
            assert_eq!((pill.tone, pill.text.as_str()), (tone, said));
        }
    }
}
