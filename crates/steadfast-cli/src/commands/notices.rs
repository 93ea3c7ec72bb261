//! `steadfast notices`: what a person must know, open and cleared.

use serde_json::Value;

use crate::client::Client;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::{Cell, Look, Output, Table};

/// Runs the command. 3 where a notice is open.
pub(crate) async fn run(context: &Context) -> Result<Exit, Failure> {
    let answer = context.daemon()?.get(&["notices"]).await?;
    let notices: Vec<&Value> = answer["notices"].as_array().into_iter().flatten().collect();
    let output = context.output;
    if output.json {
        output.json(&answer)?;
    } else if notices.is_empty() {
        output.note("There are no notices: nothing waits for a person.");
    } else {
        output.raw(&table(&notices).render(output))?;
    }
    Ok(if notices.iter().any(|notice| is_open(notice)) {
        Exit::Person
    } else {
        Exit::Done
    })
}

/// How many are open, of this agent or of all.
pub(super) async fn count_open(daemon: &Client, agent: Option<&str>) -> Result<usize, Failure> {
    let answer = daemon.get(&["notices"]).await?;
    let notices = answer["notices"].as_array().into_iter().flatten();
    let counted =
        |notice: &&Value| is_open(notice) && agent.is_none_or(|agent| notice["agent"] == agent);
    Ok(notices.filter(counted).count())
}

/// The line below the connections, where any is open.
pub(super) fn footer(output: Output, open: usize) -> Result<(), Failure> {
    let notices = match open {
        0 => return Ok(()),
        1 => "1 notice is open".to_owned(),
        several => format!("{several} notices are open"),
    };
    output.line(output.paint(Look::Bold, &format!("\n{notices}: steadfast notices")))
}

fn is_open(notice: &Value) -> bool {
    notice["cleared_at"].is_null()
}

fn table(notices: &[&Value]) -> Table {
    let mut table = Table::new(&["AGENT", "SERVER", "STATE", "OPENED", "CLEARED"]);
    for notice in notices {
        let text = |pointer: &str| {
            let text = notice.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let state = if is_open(notice) {
            Cell::from("open").look(Look::Bad)
        } else {
            Cell::from("cleared").look(Look::Dim)
        };
        table.row(vec![
            text("/agent").into(),
            text("/server").into(),
            state,
            text("/opened_at").into(),
            text("/cleared_at").into(),
        ]);
        let fault = format!("{} {}", text("/fault/code"), text("/fault/message"));
        table.line(Cell::from(fault));
        if is_open(notice) {
            table.line(Cell::from(format!("what to do: {}", text("/fault/hint"))).look(Look::Dim));
            if let Some(link) = notice["link"].as_str() {
                table.line(Cell::from(format!("sign in: {link}")));
            }
            if notice["reload_helps"] == false {
                table.line(Cell::from("reloading does not help").look(Look::Dim));
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_notice_says_who_what_and_whether_reloading_helps() {
        let open = json!({
            "agent": "support", "server": "booking", "reload_helps": false,
            "fault": {"code": "SF0037", "message": "the provider refused", "hint": "Sign in again."},
            "opened_at": "2026-11-30T10:00:00Z", "cleared_at": null, "link": "http://a.test/s",
        });
        let mut cleared = open.clone();
        cleared["cleared_at"] = "2026-11-30T10:05:00Z".into();
        assert_eq!(
            table(&[&open, &cleared]).render(Output::new(false)),
            "AGENT    SERVER   STATE    OPENED                CLEARED\n\
             support  booking  open     2026-11-30T10:00:00Z\n  \
             SF0037 the provider refused\n  \
             what to do: Sign in again.\n  \
             sign in: http://a.test/s\n  \
             reloading does not help\n\
             support  booking  cleared  2026-11-30T10:00:00Z  2026-11-30T10:05:00Z\n  \
             SF0037 the provider refused\n"
        );
    }
}
