//! The Grafana board.

use serde_json::Value;

/// The board's file, parsed as JSON.
pub(crate) fn read() -> Value {
    serde_json::from_str(include_str!("../../grafana/millpond.json")).expect("the board is JSON")
}

/// Every query of the panels and the annotations.
pub(crate) fn queries() -> Vec<String> {
    let mut queries = Vec::new();
    collect(&read(), &mut queries);
    assert!(queries.len() > 20, "the board has queries: {queries:?}");
    queries
}

fn collect(value: &Value, queries: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            queries
                .extend(fields.get("expr").map(|query| query.as_str().expect("a query is text").to_owned()));
            fields.values().for_each(|value| collect(value, queries));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, queries)),
        _ => {}
    }
}
