//! The cookies of a load balancer, for one connection generation: enough to stay on one backend
//! (`cookies = true`), and nothing more. Domain, path and expiry do not matter: they go back to the one
//! address that they came from, and are forgotten when the connection opens again.

use std::collections::BTreeMap;
use std::fmt;

use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;

/// More cookies than this are not a load balancer's.
const MOST: usize = 16;

/// The cookies of one server. No `Debug` of what is in it: a cookie may be a credential.
#[derive(Default)]
pub(crate) struct Jar(Mutex<Cookies>);

#[derive(Default)]
struct Cookies {
    /// How often it was emptied.
    batch: u64,
    by_name: BTreeMap<String, String>,
}

impl fmt::Debug for Jar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jar").finish_non_exhaustive()
    }
}

impl Jar {
    /// Which generation of cookies is in it: to be asked before a request leaves.
    pub(crate) fn batch(&self) -> u64 {
        self.0.lock().batch
    }

    /// Takes note of what the server sets (RFC 6265 section 5.2: the first pair is name and value). An answer to a
    /// request of an earlier generation comes from a backend that was left.
    pub(crate) fn take(&self, batch: u64, headers: &HeaderMap) {
        for value in headers.get_all(SET_COOKIE) {
            let Ok(text) = value.to_str() else {
                continue;
            };
            let mut parts = text.split(';').map(str::trim);
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            let is_gone = parts.any(|part| part.eq_ignore_ascii_case("max-age=0"));
            let mut cookies = self.0.lock();
            if cookies.batch != batch {
                return;
            }
            let jar = &mut cookies.by_name;
            if is_gone {
                jar.remove(name);
            } else if jar.len() < MOST || jar.contains_key(name) {
                jar.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    /// Adds them to a request.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        let cookies = self.0.lock();
        let jar = &cookies.by_name;
        if jar.is_empty() {
            return;
        }
        let pairs: Vec<String> = jar
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if let Ok(mut value) = HeaderValue::from_str(&pairs.join("; ")) {
            value.set_sensitive(true);
            headers.insert(COOKIE, value);
        }
    }

    /// A new generation starts without them.
    pub(crate) fn clear(&self) {
        let mut cookies = self.0.lock();
        cookies.batch += 1;
        cookies.by_name.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_returned_until_it_is_cleared() {
        let jar = Jar::default();
        let mut answer = HeaderMap::new();
        answer.append(SET_COOKIE, "lb=a1; Path=/; HttpOnly".parse().unwrap());
        answer.append(SET_COOKIE, "zone=b=2".parse().unwrap());
        answer.append(SET_COOKIE, "junk".parse().unwrap());
        jar.take(jar.batch(), &answer);
        let cookie = |jar: &Jar| {
            let mut headers = HeaderMap::new();
            jar.add_to(&mut headers);
            headers
                .get(COOKIE)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(cookie(&jar).as_deref(), Some("lb=a1; zone=b=2"));
        let mut gone = HeaderMap::new();
        gone.append(SET_COOKIE, "zone=; Max-Age=0".parse().unwrap());
        jar.take(jar.batch(), &gone);
        assert_eq!(cookie(&jar).as_deref(), Some("lb=a1"));
        let before = jar.batch();
        jar.clear();
        assert_eq!(cookie(&jar), None);
        jar.take(before, &answer);
        assert_eq!(cookie(&jar), None, "it answers a request from before");
    }
}
