//! Describes the first difference of two traces in one line.

use serde_json::Value;

/// The first difference between an expected and an actual trace; none if they are equal.
pub fn first_difference(expected: &Value, actual: &Value) -> Option<String> {
    if expected == actual {
        return None;
    }
    let in_head = ["id", "error", "kind", "construct"].iter().find_map(|key| in_field(expected, actual, key));
    let in_list = || ["steps", "results"].iter().find_map(|key| in_entries(&expected[*key], &actual[*key]));
    Some(in_head.or_else(in_list).unwrap_or_else(|| say("trace", expected, actual)))
}

fn in_entries(expected: &Value, actual: &Value) -> Option<String> {
    if expected == actual {
        return None;
    }
    let (Some(left), Some(right)) = (expected.as_array(), actual.as_array()) else {
        return Some(say("steps", expected, actual));
    };
    let apart = left.iter().zip(right).enumerate().find(|(_, (x, y))| x != y);
    let Some((n, (x, y))) = apart else {
        return Some(format!("expected {} entries, got {}", left.len(), right.len()));
    };
    let what = in_record(x, y).unwrap_or_else(|| say("result", x, y));
    match x["op"].as_str() {
        Some(op) => Some(format!("step {n} ({op}): {what}")),
        None => Some(format!("step {n}: {what}")),
    }
}

fn in_record(expected: &Value, actual: &Value) -> Option<String> {
    let fields = expected["obs"].as_object();
    ["op", "result", "events"]
        .iter()
        .find_map(|key| in_field(expected, actual, key))
        .or_else(|| fields?.keys().find_map(|key| in_field(&expected["obs"], &actual["obs"], key)))
}

fn in_field(expected: &Value, actual: &Value, key: &str) -> Option<String> {
    let (x, y) = (&expected[key], &actual[key]);
    (x != y).then(|| say(key, x, y))
}

fn say(what: &str, expected: &Value, actual: &Value) -> String {
    format!("{what}: expected {expected}, got {actual}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equal_traces_have_no_difference() {
        let trace = json!({"id": "a", "kind": "queue", "construct": "ok", "results": [1, true]});
        assert_eq!(first_difference(&trace, &trace.clone()), None);
    }

    #[test]
    fn true_is_not_one() {
        let expected = json!({"results": [true]});
        let actual = json!({"results": [1]});
        assert_eq!(
            first_difference(&expected, &actual).as_deref(),
            Some("step 0: result: expected true, got 1")
        );
    }

    #[test]
    fn the_first_differing_field_of_the_first_differing_step_is_named() {
        let record =
            |active: i64| json!({"op": "purge", "result": "ok", "events": [], "obs": {"active": active}});
        let expected = json!({"steps": [record(1), record(1)]});
        let actual = json!({"steps": [record(1), record(2)]});
        assert_eq!(
            first_difference(&expected, &actual).as_deref(),
            Some("step 1 (purge): active: expected 1, got 2")
        );
    }

    #[test]
    fn an_error_is_named_before_the_missing_steps() {
        let expected = json!({"id": "a", "kind": "pool", "steps": []});
        let actual = json!({"id": "a", "error": "no rest"});
        assert_eq!(
            first_difference(&expected, &actual).as_deref(),
            Some("error: expected null, got \"no rest\"")
        );
    }
}
