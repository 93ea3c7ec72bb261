//! Questions of servers to agents: whose conversation may be asked, whether its agent can answer, and
//! what the server is told where nobody does (GW-05).

use crate::wire::json;

const ELICITATION: &str = "elicitation/create";
const SAMPLING: &str = "sampling/createMessage";
const ROOTS: &str = "roots/list";

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee {
    /// The conversation of this call, by its place among those in flight: the newest one of it.
    Call(usize),
    /// The only conversation that there is.
    Only,
    /// Nobody, and why.
    Nobody(&'static str),
}

/// Whose business a question is that came on a server's own stream, where it does not say which call
/// caused it. `in_flight` are the calls that the server owes an answer, oldest first, each with its
/// conversation; `None` for a call that stands alone. `present` is how many conversations there are.
///
/// A question is never given to a conversation that may not have caused it: what one agent, or one of
/// its conversations, is asked is nobody else's business.
pub fn addressee<C: PartialEq>(in_flight: &[Option<C>], present: usize) -> Addressee {
    let Some((newest, others)) = in_flight.split_last() else {
        return match present {
            0 => Addressee::Nobody("there is no conversation"),
            1 => Addressee::Only,
            _ => Addressee::Nobody("no call is in flight, and there are several conversations"),
        };
    };
    let is_one = match newest {
        Some(newest) => others.iter().all(|other| other.as_ref() == Some(newest)),
        None => others.is_empty(),
    };
    if is_one {
        Addressee::Call(others.len())
    } else {
        Addressee::Nobody("calls of several conversations are in flight")
    }
}

/// What tells an agent that the answer to a question is not waited for any more; `id` is the raw JSON of
/// the question's (2025-11-25 lifecycle, "Timeouts": "SHOULD issue a cancellation notification for that
/// request and stop waiting for a response").
#[must_use]
pub fn taken_back(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"no answer in time"}}}}"#
    )
}

/// Why a question is not answered by the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody may be asked, or the agent did not declare that it answers such questions.
    Unable,
    /// The agent answers such questions, but not in this form.
    Unsupported,
    /// The agent, or the call that caused the question, is gone; or nobody answered in time.
    Gone,
}

/// Whether an agent with these capabilities (raw JSON) can be asked this; `params` is raw JSON too.
/// Of methods that are not known here the agent must know itself.
///
/// # Errors
///
/// The refusal for the server.
pub fn check(capabilities: &[u8], method: &str, params: &[u8]) -> Result<(), Refusal> {
    match method {
        ELICITATION => elicitation(capabilities, params),
        SAMPLING => sampling(capabilities, params),
        ROOTS if !declared(capabilities, &["roots"]) => Err(Refusal::Unable),
        _ => Ok(()),
    }
}

/// 2025-11-25 client/elicitation, "Capabilities": an empty object stands for form mode only, and so
/// does a question without a mode.
fn elicitation(capabilities: &[u8], params: &[u8]) -> Result<(), Refusal> {
    if !declared(capabilities, &["elicitation"]) {
        return Err(Refusal::Unable);
    }
    let can = |mode| declared(capabilities, &["elicitation", mode]);
    let mode = json::at_path(params, 0..params.len(), &["mode"]);
    let mode = mode.and_then(|mode| json::text(params, mode));
    let is_able = match mode.as_deref() {
        Some("form") | None => can("form") || !can("url"),
        Some(mode) => can(mode),
    };
    is_able.then_some(()).ok_or(Refusal::Unsupported)
}

/// 2025-11-25 client/sampling, "Tools in Sampling": the client MUST have declared `sampling.tools`.
fn sampling(capabilities: &[u8], params: &[u8]) -> Result<(), Refusal> {
    if !declared(capabilities, &["sampling"]) {
        return Err(Refusal::Unable);
    }
    let asks = |key| json::at_path(params, 0..params.len(), &[key]).is_some();
    let with_tools = asks("tools") || asks("toolChoice");
    if with_tools && !declared(capabilities, &["sampling", "tools"]) {
        return Err(Refusal::Unsupported);
    }
    Ok(())
}

fn declared(capabilities: &[u8], path: &[&str]) -> bool {
    let found = json::at_path(capabilities, 0..capabilities.len(), path);
    let value = found.and_then(|range| capabilities.get(range));
    value.is_some_and(|value| !matches!(value, b"null" | b"false"))
}

impl Refusal {
    /// The answer to a question of this method with this id (raw JSON).
    #[must_use]
    pub fn response(self, id: &str, method: &str) -> String {
        let error = |code: i32, message: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#
            )
        };
        match (self, method) {
            // 2025-11-25 client/roots, "Error Handling"; the same for the others.
            (Self::Unable, _) => error(-32601, "nobody at the agent's side answers this"),
            // 2025-11-25 client/elicitation, "Error Handling": a mode that was not declared.
            (Self::Unsupported, _) => error(-32602, "the agent does not answer this kind of it"),
            // client/elicitation, "Response Actions": dismissed without a choice. Servers have a way
            // for it, as they have not for every error.
            (Self::Gone, ELICITATION) => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"cancel"}}}}"#)
            }
            // client/sampling, "Error Handling".
            (Self::Gone, SAMPLING) => error(-1, "the agent is gone, or did not answer in time"),
            (Self::Gone, _) => error(-32603, "the agent is gone, or did not answer in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_goes_to_the_conversation_that_caused_it_or_to_nobody() {
        const NONE_THERE: &str = "there is no conversation";
        const IDLE: &str = "no call is in flight, and there are several conversations";
        const SEVERAL: &str = "calls of several conversations are in flight";
        let (a, b, alone) = (Some('a'), Some('b'), None);
        let cases: [(&[Option<char>], usize, Addressee); 12] = [
            (&[], 0, Addressee::Nobody(NONE_THERE)),
            (&[], 1, Addressee::Only),
            (&[], 2, Addressee::Nobody(IDLE)),
            (&[a], 1, Addressee::Call(0)),
            (&[a], 3, Addressee::Call(0)),
            (&[a, a, a], 2, Addressee::Call(2)),
            (&[a, b], 2, Addressee::Nobody(SEVERAL)),
            (&[b, a, b], 2, Addressee::Nobody(SEVERAL)),
            // A call that stands alone is a conversation of its own, whoever else is there.
            (&[alone], 0, Addressee::Call(0)),
            (&[alone], 2, Addressee::Call(0)),
            (&[alone, alone], 0, Addressee::Nobody(SEVERAL)),
            (&[alone, a], 1, Addressee::Nobody(SEVERAL)),
        ];
        for (in_flight, present, expected) in cases {
            let found = addressee(in_flight, present);
            assert_eq!(found, expected, "{in_flight:?} of {present}");
        }
    }

    #[test]
    fn an_agent_is_asked_only_what_it_declared() {
        let tools = r#"{"messages":[],"tools":[]}"#;
        let cases = [
            ("{}", ROOTS, "{}", Err(Refusal::Unable)),
            (r#"{"roots":{}}"#, ROOTS, "{}", Ok(())),
            (r#"{"roots":null}"#, ROOTS, "{}", Err(Refusal::Unable)),
            ("{}", SAMPLING, "{}", Err(Refusal::Unable)),
            (r#"{"sampling":{}}"#, SAMPLING, "{}", Ok(())),
            (
                r#"{"sampling":{}}"#,
                SAMPLING,
                tools,
                Err(Refusal::Unsupported),
            ),
            (r#"{"sampling":{"tools":{}}}"#, SAMPLING, tools, Ok(())),
            ("{}", ELICITATION, "{}", Err(Refusal::Unable)),
            ("{}", "vendor/question", "{}", Ok(())),
        ];
        for (capabilities, method, params, expected) in cases {
            let found = check(capabilities.as_bytes(), method, params.as_bytes());
            assert_eq!(found, expected, "{method} {params} by {capabilities}");
        }
    }

    #[test]
    fn modes_of_elicitation_are_told_apart() {
        let cases = [
            (r#"{"elicitation":{}}"#, [true, true, false]),
            (r#"{"elicitation":{"form":{}}}"#, [true, true, false]),
            (r#"{"elicitation":{"url":{}}}"#, [false, false, true]),
            (
                r#"{"elicitation":{"form":{},"url":{}}}"#,
                [true, true, true],
            ),
        ];
        let questions = ["{}", r#"{"mode":"form"}"#, r#"{"mode":"url"}"#];
        for (capabilities, expected) in cases {
            let can = questions.map(|question| {
                check(capabilities.as_bytes(), ELICITATION, question.as_bytes()).is_ok()
            });
            assert_eq!(can, expected, "{capabilities}");
        }
        let odd = check(
            br#"{"elicitation":{}}"#,
            ELICITATION,
            br#"{"mode":"voice"}"#,
        );
        assert_eq!(odd, Err(Refusal::Unsupported));
    }

    #[test]
    fn a_server_always_gets_an_answer_with_its_own_id() {
        for refusal in [Refusal::Unable, Refusal::Unsupported, Refusal::Gone] {
            for method in [ELICITATION, SAMPLING, ROOTS, "vendor/question"] {
                let response = refusal.response(r#""s\u0031""#, method);
                let read = crate::wire::envelope::read(response.as_bytes()).unwrap();
                assert_eq!(&response[read.id.unwrap()], r#""s\u0031""#, "{response}");
            }
        }
        let gone = Refusal::Gone.response("1", ELICITATION);
        assert!(gone.contains(r#""result":{"action":"cancel"}"#), "{gone}");
    }
}
