//! No secret is shown, also where a peer repeats one in what it says.

use http::HeaderValue;
use url::Url;

use super::Examination;
use crate::perform::mask::mask;

/// A shorter value would hide words that are none of it.
const SHORTEST: usize = 4;

/// A longer word before a credential is a part of it.
const LONGEST_SCHEME: usize = 12;

/// What must not be shown.
#[derive(Default)]
pub(super) struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    pub(super) fn add(&mut self, secret: &str) {
        if secret.len() >= SHORTEST {
            self.secrets.push(secret.to_owned());
        }
    }

    /// A credential in a header, without its scheme.
    pub(super) fn add_header(&mut self, value: &HeaderValue) {
        let Ok(text) = value.to_str() else {
            return;
        };
        match text.split_once(' ') {
            // The scheme is no secret, and stands in other texts.
            Some((scheme, credential)) if scheme.len() <= LONGEST_SCHEME => self.add(credential),
            Some(_) | None => self.add(text),
        }
    }

    /// What of an address may be a secret: the values of its query, and whatever stands before the host. A name of the
    /// query is none: parts of it stand in other texts.
    pub(super) fn add_url(&mut self, url: &Url) {
        for pair in url.query().unwrap_or_default().split('&') {
            self.add(pair.split_once('=').map_or(pair, |(_, value)| value));
        }
        for (_, value) in url.query_pairs() {
            self.add(&value);
        }
        self.add(url.password().unwrap_or_default());
    }

    fn clean(&self, text: &mut String) {
        *text = mask(text, &self.secrets);
    }

    /// Everything that came from outside.
    pub(super) fn redact(&self, examination: &mut Examination) {
        for step in &mut examination.steps {
            self.clean(&mut step.asked);
            self.clean(&mut step.answered);
            step.details.iter_mut().for_each(|line| self.clean(line));
        }
        if let Some(fault) = &mut examination.fault {
            self.clean(&mut fault.message);
        }
        if let Some(proof) = &mut examination.proof {
            self.clean(&mut proof.asked);
            self.clean(&mut proof.answered);
        }
        if let Some(act) = &mut examination.act {
            self.clean(&mut act.what);
        }
    }
}

/// An address without what may be a secret in it.
pub(super) fn shown(url: &Url) -> String {
    let mut bare = url.clone();
    bare.set_query(None);
    bare.set_fragment(None);
    // A url that cannot have them has none.
    let _ = bare.set_username("");
    let _ = bare.set_password(None);
    bare.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        let url: Url = "https://me:hunter2@a.test/mcp?key=K1K1#x".parse().unwrap();
        assert_eq!(shown(&url), "https://a.test/mcp");
        let mut redactor = Redactor::default();
        redactor.add_url(&url);
        redactor.add_header(&HeaderValue::from_static("Bearer AT12345"));
        let mut text = "GET https://a.test/x?key=K1K1: no AT12345, hunter2".to_owned();
        redactor.clean(&mut text);
        assert_eq!(text, "GET https://a.test/x?key=…: no …, …");
        redactor.add("abcdefghijklmnop");
        let mut text = "it starts with abcdefghij".to_owned();
        redactor.clean(&mut text);
        assert_eq!(text, "it starts with …");
    }
}
