//! What others say, without the secrets that they were told: some repeat one in their errors, or a part of it (SEC-01).

/// So many characters of a secret in a row are told to nobody.
const SLICE: usize = 8;

/// `said` without any part of these.
pub(crate) fn mask(said: &str, secrets: &[impl AsRef<str>]) -> String {
    let mut is_hidden = vec![false; said.len()];
    let secrets = secrets.iter().map(AsRef::as_ref);
    for secret in secrets.filter(|secret: &&str| !secret.is_empty()) {
        let length = secret.len().min(SLICE);
        for slice in secret.as_bytes().windows(length) {
            for at in memchr::memmem::find_iter(said.as_bytes(), slice) {
                let hidden = is_hidden.iter_mut().skip(at).take(length);
                hidden.for_each(|it| *it = true);
            }
        }
    }
    let mut masked = String::with_capacity(said.len());
    let mut was_hidden = false;
    for (at, character) in said.char_indices() {
        let bytes = is_hidden.iter().skip(at).take(character.len_utf8());
        let hide = bytes.copied().any(|it| it);
        match (hide, was_hidden) {
            (false, _) => masked.push(character),
            (true, false) => masked.push('…'),
            (true, true) => {}
        }
        was_hidden = hide;
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_masked_wherever_it_is_echoed() {
        let said = "bad RT1-abc, really RT1-abc; secret s3";
        assert_eq!(
            mask(said, &["RT1-abc", "s3", ""]),
            "bad …, really …; secret …"
        );
    }

    #[test]
    fn a_part_of_what_was_sent_is_masked_too() {
        let secret = ["abcdefghijklmnopqrst"];
        assert_eq!(mask("starts with abcdefghij", &secret), "starts with …");
        assert_eq!(mask("é has klmnopqrst in it", &secret), "é has … in it");
        assert_eq!(
            mask("abcdefg is not enough", &secret),
            "abcdefg is not enough"
        );
        assert_eq!(mask("naïve", &["ï", "x"]), "na…ve");
    }
}
