//! Rules that are asked before the default behaviour answers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::log::Request;
use crate::reply::Reply;

type Condition = Arc<dyn Fn(&Request) -> bool + Send + Sync>;
type Answer = Arc<dyn Fn(&Request, u64) -> Option<Reply> + Send + Sync>;

/// Which requests a rule is about. Every condition that is added must hold.
#[derive(Clone)]
pub struct Matcher {
    conditions: Vec<Condition>,
    skip: u64,
    times: Option<u64>,
}

/// Any request.
#[must_use]
pub fn any() -> Matcher {
    Matcher {
        conditions: Vec::new(),
        skip: 0,
        times: None,
    }
}

/// A request with this HTTP method.
#[must_use]
pub fn http(method: &str) -> Matcher {
    let method = method.to_owned();
    any().when(move |request| request.method == method)
}

/// A GET.
#[must_use]
pub fn get() -> Matcher {
    http("GET")
}

/// A DELETE.
#[must_use]
pub fn delete() -> Matcher {
    http("DELETE")
}

/// A POST whose message has this JSON-RPC method.
#[must_use]
pub fn post(rpc_method: &str) -> Matcher {
    let rpc_method = rpc_method.to_owned();
    http("POST").when(move |request| request.rpc_method() == Some(&rpc_method))
}

/// A `tools/call` of this tool.
#[must_use]
pub fn call(tool: &str) -> Matcher {
    post("tools/call").tool(tool)
}

impl Matcher {
    /// Only where the condition holds.
    #[must_use]
    pub fn when(mut self, condition: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.conditions.push(Arc::new(condition));
        self
    }

    /// Only calls of this tool.
    #[must_use]
    pub fn tool(self, tool: &str) -> Self {
        let tool = tool.to_owned();
        self.when(move |request| request.tool() == Some(&tool))
    }

    /// Only with this session id; `"any"` for whichever, `"none"` for requests without one.
    #[must_use]
    pub fn session(self, session: &str) -> Self {
        let session = session.to_owned();
        self.when(move |request| match session.as_str() {
            "any" => request.session().is_some(),
            "none" => request.session().is_none(),
            id => request.session() == Some(id),
        })
    }

    /// Only with this header value.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.when(move |request| request.header(&name) == Some(&value))
    }

    /// Only with this header, whatever its value.
    #[must_use]
    pub fn has_header(self, name: &str) -> Self {
        let name = name.to_owned();
        self.when(move |request| request.header(&name).is_some())
    }

    /// Only with a form in the body that has this field, such as `grant_type` with `refresh_token`.
    #[must_use]
    pub fn form(self, field: &str, value: &str) -> Self {
        let (field, value) = (field.to_owned(), value.to_owned());
        self.when(move |request| request.form().get(&field) == Some(&value))
    }

    /// Only on this path, without its query.
    #[must_use]
    pub fn path(self, path: &str) -> Self {
        let path = path.to_owned();
        self.when(move |request| request.path_only() == path)
    }

    /// Only on the connection with this number, from 1.
    #[must_use]
    pub fn connection(self, number: u64) -> Self {
        self.when(move |request| request.connection == number)
    }

    /// Only the first so many of the requests that match.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Only from the one after so many matching requests on.
    #[must_use]
    pub fn after(mut self, skip: u64) -> Self {
        self.skip = skip;
        self
    }

    /// Only the nth request that matches, from 1.
    #[must_use]
    pub fn nth(self, n: u64) -> Self {
        self.after(n.saturating_sub(1)).times(1)
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher")
            .field("skip", &self.skip)
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}

struct Rule {
    number: u64,
    matcher: Matcher,
    seen: AtomicU64,
    answer: Answer,
}

impl Rule {
    fn answer(&self, request: &Request) -> Option<Reply> {
        if !self
            .matcher
            .conditions
            .iter()
            .all(|condition| condition(request))
        {
            return None;
        }
        let turn = self
            .seen
            .fetch_add(1, Ordering::Relaxed)
            .checked_sub(self.matcher.skip)?;
        if self.matcher.times.is_some_and(|times| turn >= times) {
            return None;
        }
        (self.answer)(request, turn)
    }
}

/// The rules of a server, in order: the first that matches answers. May be changed while the server runs.
#[derive(Clone, Default)]
pub struct Script {
    rules: Arc<Mutex<Vec<Arc<Rule>>>>,
    numbers: Arc<AtomicU64>,
}

impl Script {
    /// Begins a rule; it counts once it has a reply.
    pub fn on(&self, matcher: Matcher) -> NewRule<'_> {
        NewRule {
            script: self,
            matcher,
            first: false,
        }
    }

    /// Begins a rule that is asked before all present ones.
    pub fn first_on(&self, matcher: Matcher) -> NewRule<'_> {
        NewRule {
            script: self,
            matcher,
            first: true,
        }
    }

    /// Removes every rule: the default behaviour answers.
    pub fn clear(&self) {
        self.rules.lock().clear();
    }

    pub(crate) fn reply(&self, request: &Request) -> Option<Reply> {
        let rules = self.rules.lock().clone();
        rules.iter().find_map(|rule| rule.answer(request))
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("rules", &self.rules.lock().len())
            .finish_non_exhaustive()
    }
}

/// A rule without its reply.
#[must_use = "a rule without a reply does nothing"]
#[derive(Debug)]
pub struct NewRule<'a> {
    script: &'a Script,
    matcher: Matcher,
    first: bool,
}

impl NewRule<'_> {
    /// The same reply each time.
    pub fn reply(self, reply: Reply) -> RuleHandle {
        self.add(Arc::new(move |_, _| Some(reply.clone())))
    }

    /// One reply after the other; after the last the rule no longer matches.
    pub fn replies(self, replies: impl IntoIterator<Item = Reply>) -> RuleHandle {
        let replies: Vec<_> = replies.into_iter().collect();
        self.add(Arc::new(move |_, turn| {
            replies.get(usize::try_from(turn).ok()?).cloned()
        }))
    }

    /// A reply made from the request.
    pub fn reply_with(
        self,
        reply: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> RuleHandle {
        self.add(Arc::new(move |request, _| Some(reply(request))))
    }

    fn add(self, answer: Answer) -> RuleHandle {
        let number = self.script.numbers.fetch_add(1, Ordering::Relaxed);
        let rule = Arc::new(Rule {
            number,
            matcher: self.matcher,
            seen: AtomicU64::new(0),
            answer,
        });
        let mut rules = self.script.rules.lock();
        let place = if self.first { 0 } else { rules.len() };
        rules.insert(place, Arc::clone(&rule));
        RuleHandle {
            script: self.script.clone(),
            rule,
        }
    }
}

/// A rule in force. Dropping the handle leaves the rule in place.
#[derive(Clone)]
pub struct RuleHandle {
    script: Script,
    rule: Arc<Rule>,
}

impl RuleHandle {
    /// Takes the rule away.
    pub fn remove(&self) {
        self.script
            .rules
            .lock()
            .retain(|rule| rule.number != self.rule.number);
    }

    /// How many requests satisfied its conditions, whether or not it was their turn.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.rule.seen.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for RuleHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleHandle")
            .field("number", &self.rule.number)
            .field("seen", &self.seen())
            .finish()
    }
}
