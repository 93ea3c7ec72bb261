//! Replays every committed input, and gives every target some random ones besides.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use steadfast_fuzz::TARGETS;

fn names_in(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn every_committed_input_is_replayed() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in TARGETS {
        let inputs = names_in(&corpus.join(name));
        assert!(!inputs.is_empty(), "no inputs for {name}");
        for input in inputs {
            let bytes = fs::read(corpus.join(name).join(&input)).unwrap();
            let outcome = std::panic::catch_unwind(|| target(&bytes));
            assert!(outcome.is_ok(), "{name}/{input} fails, see above");
        }
    }
}

#[test]
fn every_target_has_a_corpus_and_a_binary_and_no_other_exists() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let targets: BTreeSet<_> = TARGETS.map(|(name, _)| name.to_owned()).into();
    assert_eq!(names_in(&here.join("corpus")), targets);
    let binaries = names_in(&here.join("targets/fuzz_targets"));
    let binaries: BTreeSet<_> = binaries
        .iter()
        .map(|file| file.strip_suffix(".rs").unwrap().to_owned())
        .collect();
    assert_eq!(binaries, targets);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_stood_by_every_target(data in prop::collection::vec(any::<u8>(), 0..300)) {
        for (_, target) in TARGETS {
            target(&data);
        }
    }

    /// Small numbers are the first choices: walks of short delays and present attempts.
    #[test]
    fn small_bytes_are_stood_by_every_target(data in prop::collection::vec(0_u8..16, 0..600)) {
        for (_, target) in TARGETS {
            target(&data);
        }
    }
}
