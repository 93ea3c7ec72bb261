//! JSON as it is stored: `{"v":1,"value":…}`. A later version of Steadfast can tell what it reads, and an
//! earlier one notices that it cannot.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Problem;

const VERSION: u32 = 1;

#[derive(Serialize)]
struct Written<'a, T> {
    v: u32,
    value: &'a T,
}

#[derive(Deserialize)]
struct Read {
    v: u32,
    value: Box<RawValue>,
}

/// The text to be stored.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Written { v: VERSION, value })
}

/// What the stored text says. The error quotes nothing of it: the text may hold secrets.
pub(crate) fn decode<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let read: Read = serde_json::from_str(text).map_err(|_| Problem::Damaged)?;
    if read.v > VERSION {
        return Err(Problem::Newer);
    }
    serde_json::from_str(read.value.get()).map_err(|_| Problem::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_read_again_with_its_version() {
        let text = encode(&vec!["a", "b"]).unwrap();
        assert_eq!(text, r#"{"v":1,"value":["a","b"]}"#);
        assert_eq!(
            decode::<Vec<String>>(&text),
            Ok(vec!["a".into(), "b".into()])
        );
    }

    #[test]
    fn a_later_version_is_told_from_damage() {
        let later = r#"{"v":2,"value":{"of":"another form"}}"#;
        assert_eq!(decode::<Vec<String>>(later), Err(Problem::Newer));
        for damaged in ["", "[]", r#"{"v":1}"#, r#"{"v":1,"value":[1]}"#] {
            assert_eq!(decode::<Vec<String>>(damaged), Err(Problem::Damaged));
        }
    }
}
