//! `conform` answers every line of its input with one line, however invalid, and continues.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

fn conform(input: &[u8]) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_conform"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The answer to one line. Asserts that it is an error with the scenario's id.
fn error_for(scenario: Value) -> String {
    let answers = conform(scenario.to_string().as_bytes());
    assert_eq!(answers.len(), 1, "{scenario}");
    assert_eq!(answers[0]["id"], scenario["id"], "{scenario}");
    assert_eq!(answers[0].as_object().unwrap().len(), 2, "{}", answers[0]);
    answers[0]["error"].as_str().unwrap_or_else(|| panic!("{}", answers[0])).to_owned()
}

fn pool(config: Value, steps: Value) -> Value {
    json!({"id": "x", "kind": "pool", "config": config, "steps": steps})
}

fn config() -> Value {
    json!({"core": 1, "max": 1, "keep_alive_ms": 60000, "queue": {"kind": "linked"}, "policy": "abort"})
}

fn queue(queue: Value, steps: Value) -> Value {
    json!({"id": "x", "kind": "queue", "config": {"queue": queue}, "steps": steps})
}

fn scheduled(core: i64, steps: Value) -> Value {
    json!({"id": "x", "kind": "scheduled", "config": {"core": core}, "steps": steps})
}

#[test]
fn no_input_gives_no_output() {
    assert!(conform(b"").is_empty());
    assert!(conform(b"\n  \n\n").is_empty());
}

#[test]
fn lines_that_are_no_scenarios_are_answered_in_order() {
    let good = queue(json!({"kind": "linked"}), json!([{"op": "size"}]));
    let mut input = b"nonsense\n{\"id\":7}\n\xff\xfe\n[]\n\n{\"id\":\"a\",\"kind\":\"pool\"}\n".to_vec();
    input.extend(good.to_string().bytes());
    let answers = conform(&input);
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&Value::Null, &json!(7), &Value::Null, &Value::Null, &json!("a"), &json!("x")]);
    assert!(answers[..5].iter().all(|answer| answer["error"].is_string()));
    assert_eq!(answers[5]["results"], json!([0]));
}

#[test]
fn what_cannot_be_played_is_said() {
    let unknown_op = pool(config(), json!([{"op": "fly"}]));
    assert!(error_for(unknown_op).contains("fly"));
    let no_task = pool(config(), json!([{"op": "release"}]));
    assert!(error_for(no_task).contains("missing field `t`"));
    let twice = pool(config(), json!([{"op": "execute", "t": 1}, {"op": "submit", "t": 1}]));
    assert!(error_for(twice).contains("task 1 is handed in twice"));
    let mut bad_policy = config();
    bad_policy["policy"] = json!("shrug");
    assert!(error_for(pool(bad_policy, json!([]))).contains("shrug"));
    let mut bad_queue = config();
    bad_queue["queue"] = json!({"kind": "delay"});
    assert!(error_for(pool(bad_queue, json!([]))).contains("delay"));
    assert!(error_for(json!({"id": "s", "kind": "teapot"})).contains("teapot"));
}

#[test]
fn scheduled_scenarios_that_cannot_be_played_say_why() {
    let once = |t: i64| json!({"op": "schedule", "t": t, "delay_ms": 50});
    let twice = error_for(scheduled(1, json!([once(1), once(1)])));
    assert!(twice.contains("task 1 is handed in twice"), "{twice}");
    let far = error_for(scheduled(1, json!([{"op": "advance", "slots": 4_000_000_000_u32}])));
    assert!(far.contains("4000000000 slots"), "{far}");
    assert!(error_for(scheduled(1, json!([{"op": "doze"}]))).contains("doze"));
    assert!(error_for(json!({"id": "s", "kind": "scheduled", "steps": []})).contains("config"));
}

#[test]
fn a_scheduled_pool_of_less_than_nothing_is_refused_as_the_reference_refuses_it() {
    let answers = conform(scheduled(-1, json!([{"op": "advance", "slots": 1}])).to_string().as_bytes());
    assert_eq!(
        answers,
        [json!({"id": "x", "kind": "scheduled", "construct": "illegal_argument", "steps": []})]
    );
}

#[test]
fn a_queue_step_that_would_block_for_ever_is_an_error() {
    let take = json!([{"op": "take"}]);
    assert!(error_for(queue(json!({"kind": "array", "capacity": 1}), take.clone())).contains("block"));
    assert!(error_for(queue(json!({"kind": "synchronous"}), take)).contains("block"));
    let put = json!([{"op": "put", "v": 1}, {"op": "put", "v": 2}]);
    assert!(error_for(queue(json!({"kind": "array", "capacity": 1}), put)).contains("block"));
    let far = json!([{"op": "put", "v": 1, "delay_ms": 3_600_000}, {"op": "take"}]);
    assert!(error_for(queue(json!({"kind": "delay"}), far)).contains("block"));
}

#[test]
fn unknown_fields_are_ignored() {
    let scenario = json!({"id": "x", "kind": "pool", "mood": "fine", "config": config(),
        "steps": [{"op": "execute", "t": 1, "gate": "open", "colour": "blue"}]});
    let answers = conform(scenario.to_string().as_bytes());
    assert_eq!(answers[0]["construct"], "ok");
    assert_eq!(
        answers[0]["steps"][0]["events"],
        json!([["before", 1], ["start", 1], ["end", 1, "ok"], ["after", 1, false]])
    );
}

#[test]
fn negative_sizes_are_refused_as_the_reference_refuses_them() {
    for (key, value) in [("core", json!(-1)), ("max", json!(-3)), ("keep_alive_ms", json!(-1))] {
        let mut config = config();
        config[key] = value;
        let answers = conform(pool(config, json!([{"op": "purge"}])).to_string().as_bytes());
        assert_eq!(answers[0]["construct"], "illegal_argument");
        assert_eq!(answers[0]["steps"], json!([]));
    }
}
