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
    /// What was granted or asked for before, in this order.
    pub before: &'a [&'a [String]],
    /// What calls wanted that were refused for their scope ([`step_up`](super::step_up)).
    pub wanted: &'a [String],
    /// Whether the authorization server refused `offline_access` before.
    pub no_offline_access: bool,
}

/// The scopes of a sign-in; `None` to omit the parameter. Grows only: what was granted before is asked for again, or
/// two operations would take turns in evicting each other's scope (SC-01).
#[must_use]
pub fn to_ask(known: &Known<'_>) -> Option<Vec<String>> {
    // A step-up asks for the union with what was refused, and not for all that there is.
    let supported = known.resource.filter(|_| known.wanted.is_empty());
    let base = if known.configured.is_empty() {
        known.challenged.or(supported)
    } else {
        Some(known.configured)
    };
    let mut scopes: Vec<String> = Vec::new();
    let challenged = known.challenged.unwrap_or_default();
    let before = known.before.iter().copied().flatten();
    for scope in before
        .chain(base.unwrap_or_default())
        .chain(challenged)
        .chain(known.wanted)
    {
        add(&mut scopes, scope);
    }
    let offers = known.issuer.iter().any(|scope| scope == OFFLINE_ACCESS);
    if known.no_offline_access {
        scopes.retain(|scope| scope != OFFLINE_ACCESS);
    } else if offers {
        add(&mut scopes, OFFLINE_ACCESS);
    }
    (!scopes.is_empty()).then_some(scopes)
}

pub(super) fn add(scopes: &mut Vec<String>, scope: &str) {
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
        let (mut before, resource) = (list(&["init"]), list(&["everything"]));
        for (wanted, expected) in [
            ("read", list(&["init", "read"])),
            ("write", list(&["init", "read", "write"])),
        ] {
            let wanted = list(&[wanted]);
            let known = Known {
                before: &[&before],
                wanted: &wanted,
                resource: Some(&resource),
                ..Known::default()
            };
            let asked = to_ask(&known).unwrap();
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
        let granted = list(&["read", "offline_access"]);
        let before = [&*granted];
        known.before = &before;
        known.no_offline_access = true;
        assert_eq!(to_ask(&known), Some(list(&["read"])));
    }
}
