//! Calls that a server refused with `insufficient_scope`: what they lack, and whether a person is asked for it
//! (2026-07-28 basic/authorization, "Step-Up Authorization Flow").
//!
//! What is asked for grows only, so that two operations do not take turns in evicting each other's scope (SC-01).
//! Nobody is asked where a sign-in would bring nothing new, nor more often than the limits allow.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::scopes::{OFFLINE_ACCESS, add};
use crate::fault::{Fault, Kind};
use crate::now::{Millis, Wall};
use crate::quirks::sanitise;

/// How often a person may be asked on account of one operation within the window ("no more than a few times").
const PER_OPERATION: usize = 3;
/// How many scopes, and how many operations that lack some, are remembered: both come from a peer.
const MOST: usize = 64;

/// The limits that an operator can set (`[sign_in]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How often a person may be asked for more, for one connection, within …
    pub step_ups: u32,
    /// … this long.
    pub window: Millis,
}

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was called, such as `tools/call create_booking`.
    pub operation: String,
    /// The scopes of the challenge; `None` where it names none.
    pub named: Option<Vec<String>>,
    /// `scopes_supported` of the protected resource: what is asked for where the challenge names nothing (SC-04).
    pub supported: Vec<String>,
}

/// What follows for one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A person is asked to sign in for more.
    Ask,
    /// Another sign-in would bring nothing that the last one did not.
    NothingNew,
    /// A person was asked too often.
    TooOften,
}

/// One operation that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lacking {
    /// The scopes that it wants.
    pub scopes: Vec<String>,
    /// Whether the server named them.
    pub named: bool,
    /// What follows.
    pub verdict: Verdict,
}

/// One time that a person was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// When.
    pub at: Wall,
    /// On account of which operations.
    pub operations: BTreeSet<String>,
}

/// What is known of the step-ups of one grant. Kept with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepUp {
    /// The scopes that the last sign-in asked for.
    pub requested: Vec<String>,
    /// Those of them that were not granted.
    pub denied: Vec<String>,
    /// What refused calls wanted since then, in the order of the refusals.
    pub wanted: Vec<String>,
    /// The operations that are refused now.
    pub lacking: BTreeMap<String, Lacking>,
    /// How often a person was asked.
    pub asked: Vec<Asked>,
}

impl StepUp {
    /// Takes note of a refusal of a call whose token had the scopes `granted`; what follows for its operation.
    pub fn refused(
        &mut self,
        refusal: Refusal,
        granted: &[String],
        now: Wall,
        policy: &Policy,
    ) -> Verdict {
        let named = refusal.named.is_some();
        let scopes = refusal.named.unwrap_or(refusal.supported);
        let scopes: Vec<String> = scopes.into_iter().filter(|it| is_scope(it)).collect();
        // `offline_access` is no requirement of a resource ("Refresh Tokens").
        let is_new = |scope: &&String| {
            let held = [granted, &self.denied];
            *scope != OFFLINE_ACCESS && !held.iter().any(|held| held.contains(scope))
        };
        let new: Vec<String> = scopes.iter().filter(is_new).cloned().collect();
        let verdict = if new.is_empty() {
            Verdict::NothingNew
        } else {
            self.ask(&refusal.operation, new, now, policy)
        };
        if self.lacking.len() >= MOST && !self.lacking.contains_key(&refusal.operation) {
            self.lacking.pop_first();
        }
        let lacking = Lacking {
            scopes,
            named,
            verdict,
        };
        self.lacking.insert(refusal.operation, lacking);
        verdict
    }

    /// Asks a person for `new`, unless that is too much. What several operations lack is asked for at once.
    fn ask(&mut self, operation: &str, new: Vec<String>, now: Wall, policy: &Policy) -> Verdict {
        self.asked.retain(|asked| {
            let age = now.0.saturating_sub(asked.at.0);
            age.unsigned_abs() < policy.window.0
        });
        let is_open = self.is_asking() && !self.asked.is_empty();
        let of_operation = |asked: &&Asked| asked.operations.contains(operation);
        let is_one_more = !is_open || self.asked.last().is_none_or(|it| !of_operation(&it));
        let times = self.asked.iter().filter(of_operation).count();
        let is_too_often = (!is_open && self.asked.len() >= policy.step_ups as usize)
            || (is_one_more && times >= PER_OPERATION)
            || self.wanted.len() + new.len() > MOST;
        if is_too_often {
            return Verdict::TooOften;
        }
        for scope in new {
            add(&mut self.wanted, &scope);
        }
        if !is_open {
            self.asked.push(Asked {
                at: now,
                operations: BTreeSet::new(),
            });
        }
        if let Some(asked) = self
            .asked
            .last_mut()
            .filter(|it| it.operations.len() < MOST)
        {
            asked.operations.insert(operation.to_owned());
        }
        Verdict::Ask
    }

    /// Somebody signed in, having been asked for `requested`, and this was granted. Whether it is enough is for the
    /// next calls to say: a broader scope may imply the one that was wanted.
    pub fn signed_in(&mut self, requested: &[String], granted: &[String]) {
        self.requested = requested.to_vec();
        self.denied = requested.to_vec();
        self.denied.retain(|scope| !granted.contains(scope));
        self.wanted.retain(|scope| !requested.contains(scope));
        self.lacking.clear();
    }

    /// The server takes an operation that it had refused.
    pub fn works(&mut self, operation: &str) {
        self.lacking.remove(operation);
    }

    /// Whether the operation was refused last time.
    #[must_use]
    pub fn lacks(&self, operation: &str) -> bool {
        self.lacking.contains_key(operation)
    }

    /// Whether a person is asked for more now.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        let mut lacking = self.lacking.values();
        lacking.any(|it| it.verdict == Verdict::Ask)
    }

    /// What is wrong; `None` where no operation is refused.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        let with = |verdict| {
            let mut lacking = self.lacking.iter();
            lacking.find(|(_, it)| it.verdict == verdict)
        };
        let found = with(Verdict::Ask)
            .or_else(|| with(Verdict::TooOften))
            .or_else(|| with(Verdict::NothingNew));
        let (operation, lacking) = found?;
        let operation = sanitise(operation);
        let scopes = sanitise(&lacking.scopes.join(" "));
        let message = match lacking.verdict {
            Verdict::Ask => {
                let wanted = sanitise(&self.wanted.join(" "));
                format!("the grant lacks the scope {wanted}, which {operation} wants")
            }
            Verdict::TooOften => format!(
                "step-up refused: {operation} wants the scope {scopes}, and somebody was asked for more \
                 {} times already",
                self.asked.len(),
            ),
            Verdict::NothingNew if !lacking.named => {
                format!("insufficient scope for {operation}, and the server named none")
            }
            Verdict::NothingNew if lacking.scopes.iter().any(|it| self.denied.contains(it)) => {
                format!(
                    "{operation} wants the scope {scopes}, which the authorization server did not grant"
                )
            }
            Verdict::NothingNew => format!(
                "the server refuses {operation} for the scope {scopes}, which is granted already"
            ),
        };
        Some(Fault::new(Kind::ScopeInsufficient, message))
    }
}

/// RFC 6749 appendix A.4, and no longer than any scope is.
fn is_scope(text: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    (1..=256).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy {
        step_ups: 4,
        window: Millis::mins(60),
    };
    const NOW: Wall = Wall(1_000_000_000);

    fn list(scopes: &[&str]) -> Vec<String> {
        scopes.iter().map(|scope| (*scope).to_owned()).collect()
    }

    fn refusal(operation: &str, named: Option<&[&str]>, supported: &[&str]) -> Refusal {
        Refusal {
            operation: operation.to_owned(),
            named: named.map(list),
            supported: list(supported),
        }
    }

    fn refuse(state: &mut StepUp, operation: &str, scope: &str, granted: &[&str]) -> Verdict {
        let refusal = refusal(operation, Some(&[scope]), &[]);
        state.refused(refusal, &list(granted), NOW, &POLICY)
    }

    fn message(state: &StepUp) -> String {
        let fault = state.fault().unwrap();
        assert_eq!(fault.kind, Kind::ScopeInsufficient);
        assert!(fault.person_needed());
        fault.message
    }

    #[test]
    fn sc_01_what_several_operations_lack_is_asked_for_at_once() {
        let mut state = StepUp::default();
        assert_eq!(refuse(&mut state, "a", "read", &["init"]), Verdict::Ask);
        assert_eq!(refuse(&mut state, "b", "write", &["init"]), Verdict::Ask);
        assert_eq!(refuse(&mut state, "b", "write", &["init"]), Verdict::Ask);
        assert_eq!(state.wanted, ["read", "write"]);
        assert_eq!(state.asked.len(), 1, "one sign-in for both");
        let said = message(&state);
        assert_eq!(said, "the grant lacks the scope read write, which a wants");
        let all = list(&["init", "read", "write"]);
        state.signed_in(&all, &all);
        assert_eq!(state.fault(), None);
        assert_eq!((state.wanted.len(), &state.requested), (0, &all));
    }

    #[test]
    fn what_was_not_granted_is_not_asked_for_again() {
        let mut state = StepUp::default();
        refuse(&mut state, "a", "read", &["init"]);
        state.signed_in(&list(&["init", "read"]), &list(&["init"]));
        let verdict = refuse(&mut state, "a", "read", &["init"]);
        assert_eq!(verdict, Verdict::NothingNew);
        assert!(message(&state).contains("did not grant"), "{state:?}");
        assert!(state.wanted.is_empty() && !state.is_asking());
        // Another operation lacks something else: that is worth asking for.
        assert_eq!(refuse(&mut state, "b", "write", &["init"]), Verdict::Ask);
        assert!(message(&state).contains("write"), "{state:?}");
        state.works("b");
        assert!(message(&state).contains("did not grant"), "{state:?}");
        state.works("a");
        assert_eq!(state.fault(), None);
    }

    #[test]
    fn a_scope_that_was_narrowed_away_is_asked_for_again() {
        let mut state = StepUp::default();
        let all = list(&["init", "read"]);
        state.signed_in(&all, &all);
        assert_eq!(refuse(&mut state, "a", "read", &["init"]), Verdict::Ask);
        state.signed_in(&all, &all);
        let verdict = refuse(&mut state, "a", "read", &["init", "read"]);
        assert_eq!(verdict, Verdict::NothingNew);
        assert!(message(&state).contains("granted already"), "{state:?}");
    }

    #[test]
    fn sc_04_a_challenge_without_scopes_leads_to_one_step_up_at_most() {
        let mut state = StepUp::default();
        let unnamed = || refusal("a", None, &["api.read"]);
        let granted = list(&["init"]);
        let verdict = state.refused(unnamed(), &granted, NOW, &POLICY);
        assert_eq!(
            (verdict, &*state.wanted),
            (Verdict::Ask, &*list(&["api.read"]))
        );
        let all = list(&["init", "api.read"]);
        state.signed_in(&all, &all);
        let verdict = state.refused(unnamed(), &all, NOW, &POLICY);
        assert_eq!(verdict, Verdict::NothingNew);
        assert!(message(&state).contains("the server named none"));
        let mut state = StepUp::default();
        let nothing = refusal("a", None, &[]);
        let verdict = state.refused(nothing, &granted, NOW, &POLICY);
        assert_eq!(verdict, Verdict::NothingNew);
        assert!(message(&state).contains("the server named none"));
    }

    /// A server that wants something else after each sign-in: how often a person was asked.
    fn insatiable(state: &mut StepUp, operation: impl Fn(u32) -> String, now: Wall) -> u32 {
        let mut granted = Vec::new();
        for round in 0..20 {
            let scope = format!("s{}-{round}", now.0);
            let refusal = refusal(&operation(round), Some(&[&scope]), &[]);
            match state.refused(refusal, &granted, now, &POLICY) {
                Verdict::Ask => {
                    granted.push(scope);
                    state.signed_in(&granted, &granted);
                }
                Verdict::TooOften => return round,
                Verdict::NothingNew => panic!("round {round} is new"),
            }
        }
        20
    }

    #[test]
    fn nobody_is_asked_for_ever() {
        let mut state = StepUp::default();
        assert_eq!(insatiable(&mut state, |_| "a".to_owned(), NOW), 3);
        assert!(message(&state).starts_with("step-up refused"), "{state:?}");
        // Another operation has what is left of the connection's own limit.
        assert_eq!(insatiable(&mut state, |n| format!("b{n}"), NOW), 1);
        let later = Wall(NOW.0 + 3_600_000);
        assert_eq!(insatiable(&mut state, |n| format!("c{n}"), later), 4);
    }

    #[test]
    fn what_a_peer_can_fill_is_bounded() {
        let mut state = StepUp::default();
        let long = "x".repeat(257);
        let named = ["a b", "\"", "ä", &long, "", "offline_access"];
        let strange = refusal("a", Some(&named), &[]);
        let verdict = state.refused(strange, &[], NOW, &POLICY);
        assert_eq!(verdict, Verdict::NothingNew);
        for number in 0..200 {
            refuse(
                &mut state,
                &format!("o{number}"),
                &format!("s{number}"),
                &[],
            );
        }
        assert_eq!((state.lacking.len(), state.wanted.len()), (MOST, MOST));
        assert!(state.asked[0].operations.len() <= MOST);
    }
}
