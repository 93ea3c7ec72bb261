//! `--only`: words of one kind widen what is measured, words of several kinds narrow it.

use clap::ValueEnum;

use super::CLIENTS;
use crate::Outcome;
use crate::protocol::{Case, Era};
use crate::routes::Route;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    Calls,
    Memory,
}

#[derive(Debug, Default)]
pub(super) struct Selection {
    routes: Vec<Route>,
    eras: Vec<Era>,
    cases: Vec<Case>,
    clients: Vec<usize>,
    parts: Vec<Part>,
}

impl Selection {
    pub(super) fn read(words: &[String]) -> Outcome<Self> {
        let mut selection = Self::default();
        for word in words {
            if let Ok(route) = Route::from_str(word, true) {
                selection.routes.push(route);
            } else if let Ok(era) = Era::from_str(word, true) {
                selection.eras.push(era);
            } else if let Ok(case) = Case::from_str(word, true) {
                selection.cases.push(case);
            } else if let Ok(part) = Part::from_str(word, true) {
                selection.parts.push(part);
            } else if let Some(clients) = word.parse().ok().filter(|n| CLIENTS.contains(n)) {
                selection.clients.push(clients);
            } else {
                return Err(format!("--only: nothing is called `{word}`; see --help").into());
            }
        }
        Ok(selection)
    }

    pub(super) fn has_route(&self, route: Route) -> bool {
        chosen(&self.routes, &route)
    }

    pub(super) fn has_era(&self, era: Era) -> bool {
        chosen(&self.eras, &era)
    }

    pub(super) fn has_case(&self, case: Case) -> bool {
        chosen(&self.cases, &case)
    }

    pub(super) fn has_clients(&self, clients: usize) -> bool {
        chosen(&self.clients, &clients)
    }

    pub(super) fn has_part(&self, part: Part) -> bool {
        chosen(&self.parts, &part)
    }
}

/// No word of a kind means all of that kind.
fn chosen<T: PartialEq>(words: &[T], one: &T) -> bool {
    words.is_empty() || words.contains(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(words: &[&str]) -> Selection {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Selection::read(&words).unwrap()
    }

    #[test]
    fn words_of_one_kind_widen_and_of_several_narrow() {
        let all = selection(&[]);
        assert!(all.has_route(Route::Nginx) && all.has_clients(64) && all.has_part(Part::Memory));
        let some = selection(&["nginx", "hop", "json", "16"]);
        assert!(some.has_route(Route::Nginx) && some.has_route(Route::Hop));
        assert!(!some.has_route(Route::Direct) && !some.has_case(Case::Sse));
        assert!(some.has_clients(16) && !some.has_clients(1) && some.has_era(Era::Modern));
    }

    #[test]
    fn an_unknown_word_is_refused() {
        assert!(Selection::read(&["nginks".into()]).is_err());
        assert!(Selection::read(&["17".into()]).is_err());
    }
}
