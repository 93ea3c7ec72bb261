//! What each event does to a list.

use super::{Action, Complete, Context, Event, Fact, Life, Need, News, Standing, State, Step};
use crate::identity::Generation;
use crate::now::Mono;

/// Feeds one event.
#[must_use]
pub fn step(state: State, event: Event, cx: &Context<'_>) -> Step {
    match event {
        Event::Reopened { generation } if generation > state.generation => {
            let standing = raised(state.standing, News::Doubtful);
            // What is still under way belongs to an opening that is over.
            let state = State {
                generation,
                standing,
                asked: None,
            };
            entered(state, Vec::new(), cx)
        }
        Event::Reopened { .. } => Step::ignored(state, "an earlier opening", None),
        Event::Changed => news(state, News::Announced, cx),
        Event::Deaf => news(state, News::Deaf, cx),
        Event::Doubted => news(state, News::Doubtful, cx),
        Event::Asked { generation } => asked(state, generation, cx),
        Event::Failed { generation } => {
            if generation != state.generation || state.asked.is_none() {
                return Step::ignored(state, "nobody waits for this answer", None);
            }
            let asked = None;
            entered(State { asked, ..state }, Vec::new(), cx)
        }
        Event::Fetched {
            generation,
            size,
            life,
        } => match state.asked {
            Some(news) if generation == state.generation => {
                let answer = Complete { size, life, news };
                fetched(state, answer, cx)
            }
            Some(_) | None => Step::ignored(state, "nobody waits for this answer", None),
        },
    }
}

/// Folds a fact into a state.
#[must_use]
pub fn replay(_state: State, fact: &Fact) -> State {
    fact.state.clone()
}

/// What a use of the list needs first.
#[must_use]
pub fn need(state: &State, now: Mono) -> Need {
    match state.asked {
        Some(News::Quiet | News::Deaf) => return Need::Join,
        Some(News::Doubtful | News::Announced) => return Need::Wait,
        None => {}
    }
    let is_usable = match &state.standing {
        Standing::Unseen => false,
        Standing::Complete(complete) => is_fresh(complete, now),
        Standing::Held { complete, until } => complete.news < News::Doubtful && now < *until,
    };
    if is_usable { Need::Nothing } else { Need::Ask }
}

fn is_fresh(complete: &Complete, now: Mono) -> bool {
    match complete.life {
        Life::UntilNews => complete.news == News::Quiet,
        // 2026-07-28 server/utilities/caching, "Freshness Calculation": now < t_received + ttlMs. Whether the
        // server can be heard does not matter to it; a notification does ("Interaction with Notifications").
        Life::Until(end) => complete.news <= News::Deaf && now < end,
        Life::Never => false,
    }
}

fn asked(state: State, generation: Generation, cx: &Context<'_>) -> Step {
    if generation != state.generation {
        return Step::ignored(state, "another opening", None);
    }
    if state.asked.is_some() {
        return Step::ignored(state, "it is being asked for already", None);
    }
    let asked = Some(News::Quiet);
    entered(State { asked, ..state }, vec![Action::Fetch], cx)
}

fn news(state: State, news: News, cx: &Context<'_>) -> Step {
    let state = State {
        standing: raised(state.standing, news),
        asked: state.asked.map(|before| before.max(news)),
        ..state
    };
    entered(state, Vec::new(), cx)
}

fn raised(standing: Standing, news: News) -> Standing {
    let raise = |complete: Complete| Complete {
        news: complete.news.max(news),
        ..complete
    };
    match standing {
        Standing::Unseen => Standing::Unseen,
        Standing::Complete(complete) => Standing::Complete(raise(complete)),
        Standing::Held { complete, until } => Standing::Held {
            complete: raise(complete),
            until,
        },
    }
}

/// A complete answer. It takes the place of the list in force, unless that would lose over half of it and the
/// server did not say so: then it is believed only after the hold.
fn fetched(state: State, answer: Complete, cx: &Context<'_>) -> Step {
    let now = cx.now.mono;
    let hold_until = now + cx.policy.shrink_hold;
    let (standing, action) = match state.standing {
        Standing::Unseen => (Standing::Complete(answer), Action::Enforce),
        Standing::Complete(before) => judged(before, answer, hold_until, now),
        Standing::Held { complete, until } => judged(complete, answer, until, now),
    };
    let state = State {
        generation: state.generation,
        standing,
        asked: None,
    };
    entered(state, vec![action], cx)
}

fn judged(before: Complete, answer: Complete, until: Mono, now: Mono) -> (Standing, Action) {
    let announced = before.news.max(answer.news) == News::Announced;
    let shrank = answer.size < before.size.div_ceil(2);
    if announced || !shrank || now >= until {
        return (Standing::Complete(answer), Action::Enforce);
    }
    let complete = Complete {
        news: answer.news,
        ..before
    };
    (Standing::Held { complete, until }, Action::Hold)
}

fn entered(state: State, actions: Vec<Action>, cx: &Context<'_>) -> Step {
    let fact = Fact {
        at: cx.now.wall,
        state: state.clone(),
    };
    Step::entered(state, fact, actions, None)
}
