//! The model of the pool agrees with the recorded traces of the reference. So the generator, which
//! relies on the model, only makes scenarios with determined outcomes.

mod support;

use conformance::model::{Model, Run};
use conformance::scenario::{KeepAlive, PoolConfig, PoolStep, Program};
use serde_json::{Value, json};

/// Plays the steps on the model alone, and returns the observables that it knows.
fn observe(config: &PoolConfig, steps: &[PoolStep]) -> Vec<Value> {
    let Some(mut model) = Model::new(config) else { return Vec::new() };
    for step in steps {
        if let PoolStep::Execute(spec) | PoolStep::Submit(spec) = step {
            model.announce(spec);
        }
    }
    let timed = KeepAlive::of(config.keep_alive_ms) == KeepAlive::Timed;
    let mut observed = Vec::new();
    for step in steps {
        let long = timed && matches!(step, PoolStep::Sleep { ms } if *ms >= 3 * config.keep_alive_ms);
        model.play(step, long);
        observed.push(json!({
            "pool_size": model.pool_size(),
            "active": model.busy().len(),
            "queued": model.queued(),
            "largest": model.largest(),
            "completed": model.completed(),
            "shutdown": model.run() > Run::Running,
            "terminating": model.run() > Run::Running && !model.is_terminated(),
            "terminated": model.is_terminated(),
            "core": model.core(),
            "max": model.max(),
            "keep_alive_ms": model.keep_alive(),
            "allow_core_timeout": model.allow_core(),
        }));
    }
    observed
}

#[test]
fn the_model_observes_what_was_recorded_on_the_reference() {
    for (scenario, trace) in support::recorded() {
        let Program::Pool { config, steps } = &scenario.program else { continue };
        let recorded: Vec<&Value> =
            trace["steps"].as_array().unwrap().iter().map(|record| &record["obs"]).collect();
        let observed = observe(config, steps);
        for (n, (expected, actual)) in recorded.iter().zip(&observed).enumerate() {
            assert_eq!(*expected, actual, "{}: step {n} ({})", scenario.id, steps[n].op());
        }
        assert_eq!(recorded.len(), observed.len(), "{}", scenario.id);
    }
}
