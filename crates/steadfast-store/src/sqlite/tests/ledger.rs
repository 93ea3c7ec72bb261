//! The check for repeats and the lists read an index, however many operations there are.

use super::{open, place, plan};
use crate::operations::OperationFilter;
use crate::sqlite::operations::{GIVEN, SIMILAR, list};

#[tokio::test]
async fn nothing_reads_the_whole_ledger() {
    let (_folder, path) = place();
    let records = open(&path).await.unwrap();
    let of = |agent: bool, server: bool, state: bool| OperationFilter {
        agent: agent.then(|| "a".into()),
        server: server.then(|| "crm".into()),
        state: state.then(|| "held".to_owned()),
        before: None,
    };
    let statements = [
        (SIMILAR, "operations_open"),
        (GIVEN, "(id=?)"),
        (list(&of(false, false, true)), "operations_by_state"),
        (list(&of(true, true, true)), "operations_by_state"),
        (list(&of(true, true, false)), "operations_by_connection"),
        (list(&of(false, true, false)), "operations_by_server"),
        (list(&of(false, false, false)), "INTEGER PRIMARY KEY"),
        (list(&of(true, false, false)), "operations_by_agent"),
    ];
    for (sql, index) in statements {
        let plan = plan(&records, sql).await;
        assert!(
            plan.iter().any(|step| step.contains(index)),
            "{sql}: {plan:#?}"
        );
        for step in &plan {
            let is_whole = step.starts_with("SCAN operations");
            assert!(!is_whole, "{sql}: {plan:#?}");
            assert!(
                !step.contains("TEMP B-TREE FOR ORDER BY") || sql == SIMILAR,
                "{plan:#?}"
            );
        }
    }
}
