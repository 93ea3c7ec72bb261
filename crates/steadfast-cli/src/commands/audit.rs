//! `steadfast audit`: who changed what, and when.

use clap::Args;
use serde_json::Value;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::{Cell, Table};

/// `audit [--limit N]`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How many of the latest changes
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: u32,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Exit, Failure> {
    let limit = arguments.limit.to_string();
    let daemon = context.daemon()?;
    let answer = daemon.get_with(&["audit"], &[("limit", &limit)]).await?;
    let output = context.output;
    if output.json {
        output.json(&answer)?;
        return Ok(Exit::Done);
    }
    let changes = answer["audit"].as_array().map_or(&[][..], Vec::as_slice);
    if changes.is_empty() {
        output.note("Nothing was changed yet.");
    } else {
        output.raw(&table(changes).render(output))?;
    }
    Ok(Exit::Done)
}

fn table(changes: &[Value]) -> Table {
    let mut table = Table::new(&["WHEN", "WHO", "VIA", "ACTION", "TARGET", "WHAT"]);
    for change in changes {
        let cell = |key: &str| Cell::from(change[key].as_str().unwrap_or_default().to_owned());
        table.row(
            ["at", "who", "via", "action", "target", "detail"]
                .map(cell)
                .into(),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::Output;

    #[test]
    fn a_change_says_who_what_and_when() {
        let change = json!({
            "number": 7, "at": "2026-11-30T10:00:00.000Z", "who": "admin (anne)", "via": "cli",
            "action": "put_server", "target": "booking", "detail": "url",
        });
        assert_eq!(
            table(&[change]).render(Output::new(false)),
            "WHEN                      WHO           VIA  ACTION      TARGET   WHAT\n\
             2026-11-30T10:00:00.000Z  admin (anne)  cli  put_server  booking  url\n"
        );
    }
}
