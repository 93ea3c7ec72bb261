//! Which scopes to ask for.

/// The scope with which providers issue refresh tokens (OpenID Connect Core 1.0 section 11).
pub const OFFLINE_ACCESS: &str = "offline_access";

/// What is known when somebody is about to sign in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// What the operator configured; wins over what the server says.
    pub configured: &'a [String],
    /// The `scope` of the challenge; `None` where there was none.
    pub challenged: Option<&'a [String]>,
    /// `scopes_supported` of the protected resource; `None` where it is undefined.
    pub resource: Option<&'a [String]>,
    /// `scopes_supported` of the authorization server.
    pub issuer: &'a [String],
    /// What was granted or asked for before.
    pub before: &'a [String],
    /// Whether the authorization server refused `offline_access` before.
    pub no_offline_access: bool,
}

/// The scopes of a sign-in; `None` to omit the parameter. Grows only: what was granted before is asked for again, or
/// two operations would take turns in evicting each other's scope (SC-01).
#[must_use]
pub fn to_ask(known: &Known<'_>) -> Option<Vec<String>> {
    let base = if known.configured.is_empty() {
        known.challenged.or(known.resource)
    } else {
        Some(known.configured)
    };
    let mut scopes: Vec<String> = Vec::new();
    let challenged = known.challenged.unwrap_or_default();
    for scope in known
        .before
        .iter()
        .chain(base.unwrap_or_default())
        .chain(challenged)
    {
        add(&mut scopes, scope);
    }
    let offers = known.issuer.iter().any(|scope| scope == OFFLINE_ACCESS);
    if offers && !known.no_offline_access {
        add(&mut scopes, OFFLINE_ACCESS);
    }
    (!scopes.is_empty()).then_some(scopes)
}

/// What a refused call needs beyond what is held: the union to sign in with, or `None` where nothing new results and
/// another sign-in would change nothing (SC-04).
#[must_use]
pub fn step_up(known: &Known<'_>) -> Option<Vec<String>> {
    let wanted = to_ask(known)?;
    let is_new = |scope: &String| !known.before.contains(scope) && scope != OFFLINE_ACCESS;
    wanted.iter().any(is_new).then_some(wanted)
}

fn add(scopes: &mut Vec<String>, scope: &str) {
    if !scopes.iter().any(|known| known == scope) {
        scopes.push(scope.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(scopes: &[&str]) -> Vec<String> {
        scopes.iter().map(|scope| (*scope).to_owned()).collect()
    }

    #[test]
    fn the_challenge_comes_before_what_the_resource_supports() {
        let (read, all) = (list(&["read"]), list(&["read", "write"]));
        let known = Known {
            challenged: Some(&read),
            resource: Some(&all),
            ..Known::default()
        };
        assert_eq!(to_ask(&known), Some(read.clone()));
        let known = Known {
            resource: Some(&all),
            ..Known::default()
        };
        assert_eq!(to_ask(&known), Some(all));
        assert_eq!(
            to_ask(&Known::default()),
            None,
            "undefined: the parameter is omitted"
        );
    }

    #[test]
    fn sc_01_scopes_grow_and_never_shrink() {
        let mut before = list(&["init"]);
        for (challenge, expected) in [
            ("read", list(&["init", "read"])),
            ("write", list(&["init", "read", "write"])),
        ] {
            let challenged = list(&[challenge]);
            let known = Known {
                challenged: Some(&challenged),
                before: &before,
                ..Known::default()
            };
            let asked = step_up(&known).unwrap();
            assert_eq!(asked, expected);
            before = asked;
        }
    }

    #[test]
    fn sc_03_offline_access_is_asked_for_where_it_is_offered_and_was_not_refused() {
        let (issuer, resource) = (list(&["openid", "offline_access"]), list(&["read"]));
        let mut known = Known {
            resource: Some(&resource),
            issuer: &issuer,
            ..Known::default()
        };
        assert_eq!(to_ask(&known), Some(list(&["read", "offline_access"])));
        known.no_offline_access = true;
        assert_eq!(to_ask(&known), Some(list(&["read"])));
    }

    #[test]
    fn sc_04_a_challenge_without_scopes_leads_to_one_step_up_at_most() {
        let resource = list(&["api.read"]);
        let granted = list(&["init"]);
        let mut known = Known {
            resource: Some(&resource),
            before: &granted,
            ..Known::default()
        };
        let union = step_up(&known).unwrap();
        assert_eq!(union, list(&["init", "api.read"]));
        known.before = &union;
        assert_eq!(step_up(&known), None);
        let nothing = Known {
            before: &granted,
            ..Known::default()
        };
        assert_eq!(step_up(&nothing), None);
    }
}
