//! Phrases that are parsed, phrases that are refused, and how they are shown.

use std::fmt;

use super::*;

const MS: Nanos = 1_000_000;

fn refused<T: fmt::Debug>(result: Result<T, String>, what_to_do: &str) {
    let error = result.expect_err(what_to_do);
    assert!(error.contains(what_to_do) && !error.contains('\n'), "{error}");
}

#[test]
fn arrivals_are_parsed() {
    let ready = |text| match arrivals(text) {
        Ok(ArrivalWords::Ready(arrivals)) => arrivals,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(ready("constant 200/s"), Arrivals::Constant(200.0));
    assert_eq!(ready("poisson 1.5k/s"), Arrivals::Poisson(1500.0));
    assert_eq!(ready("ramp 0/s..500/s over 30s"), Arrivals::Ramp { from: 0.0, to: 500.0, over: 30_000 * MS });
    assert_eq!(ready("burst 100"), Arrivals::Burst { count: 100, every: None });
    assert_eq!(ready("burst 1k every 1s"), Arrivals::Burst { count: 1000, every: Some(1000 * MS) });
    assert_eq!(arrivals("ramp 1/s..5/s"), Ok(ArrivalWords::Ramp(1.0, 5.0)));
}

#[test]
fn a_file_of_arrivals_may_name_its_column_and_its_unit() {
    let file = |path: &str, column: Option<&str>, unit| {
        Ok(ArrivalWords::File(FileWords { path: path.into(), column: column.map(str::to_owned), unit }))
    };
    assert_eq!(arrivals("a.csv"), file("a.csv", None, TimeUnit::Seconds));
    assert_eq!(arrivals("csv log of today"), file("log of today", None, TimeUnit::Seconds));
    assert_eq!(arrivals("my log.csv in ms"), file("my log.csv", None, TimeUnit::Millis));
    assert_eq!(
        arrivals("a.csv column started at in us"),
        file("a.csv", Some("started at"), TimeUnit::Micros)
    );
    refused(arrivals("a.csv in days"), "use s, ms, us or ns");
}

#[test]
fn bad_arrivals_are_refused_with_a_valid_form() {
    refused(arrivals("sometimes"), "use constant, poisson, ramp, burst or FILE.csv");
    refused(arrivals(""), "unknown arrival process");
    refused(arrivals("poisson"), "write poisson 200/s");
    refused(arrivals("poisson 200 / s"), "write poisson 200/s");
    refused(arrivals("poisson often"), "'often' is not a number");
    refused(arrivals("constant 0/s"), "give 0.000001/s");
    refused(arrivals("ramp 10/s"), "write ramp 10/s..500/s over 30s");
    refused(arrivals("ramp 10/s..0/s over 3s"), "give 0.000001/s");
    refused(arrivals("ramp 1/s..2/s over 0"), "above zero");
    refused(arrivals("burst"), "write burst 100");
    refused(arrivals("burst 0"), "above zero");
    refused(arrivals("burst 1.5"), "not a whole number");
    for burst in ["burst 1G", "burst 99999999999", "burst 21M every 1s"] {
        refused(arrivals(burst), "a plan simulates at most 20 000 000 tasks in a run");
    }
    refused(arrivals("burst 5 each 1s"), "burst 100 every 1s");
}

fn kinds(text: &str) -> Vec<Kind> {
    let MixWords::Kinds(kinds) = mix(text).unwrap() else { panic!("{text} is a file") };
    kinds.into_iter().map(|kind| kind.kind(0.25)).collect()
}

#[test]
fn durations_are_parsed_alone_or_as_a_mixture() {
    let one = |length| vec![Kind { weight: 1.0, length, cpu: 0.25 }];
    assert_eq!(kinds("20ms"), one(Length::Fixed(20e6)));
    assert_eq!(kinds("fixed 20ms"), one(Length::Fixed(20e6)));
    assert_eq!(kinds("10ms..30ms"), one(Length::Uniform(10e6, 30e6)));
    assert_eq!(kinds("uniform 10ms..30ms"), one(Length::Uniform(10e6, 30e6)));
    assert_eq!(kinds("exponential 20ms"), one(Length::Exponential(20e6)));
    assert_eq!(kinds("100% exponential 20ms"), one(Length::Exponential(20e6)));
    assert_eq!(kinds("log-normal 20ms sigma 0.8"), one(Length::LogNormal(20e6, 0.8)));
    let [Kind { length: Length::LogNormal(median, sigma), .. }] = kinds("log-normal 20ms p99 200ms")[..]
    else {
        panic!("not log-normal")
    };
    assert_eq!(median, 20e6);
    assert!((median * (sigma * NORMAL_P99).exp() - 200e6).abs() < 1.0, "{sigma}");
    assert_eq!(
        kinds("90% 5ms, 10% exponential 200ms cpu 80%"),
        [
            Kind { weight: 0.9, length: Length::Fixed(5e6), cpu: 0.25 },
            Kind { weight: 0.1, length: Length::Exponential(200e6), cpu: 0.8 },
        ]
    );
}

#[test]
fn bad_durations_are_refused_with_a_valid_form() {
    refused(mix("50% 5ms, 50%"), "'50%' has no time; write 50% 20ms");
    refused(mix("50% 5ms, 50% 6ms,"), "remove the comma");
    refused(mix("log-normal 36500d sigma 5"), "a mean of more than a hundred years");
    refused(mix("log-normal 1ns p99 36500d"), "a mean of more than a hundred years");
    refused(mix("long"), "'long' is not a duration");
    refused(mix(""), "is not a duration");
    refused(mix("20"), "write 20ms or 20s");
    refused(mix("30ms..10ms"), "ends before it begins");
    refused(mix("gamma 20ms"), "use 20ms, 10ms..30ms");
    refused(mix("log-normal 20ms"), "log-normal 20ms p99 200ms");
    refused(mix("log-normal 20ms p99 2ms"), "the first time is the median");
    refused(mix("log-normal 0 p99 2ms"), "above zero");
    refused(mix("log-normal 20ms sigma 9"), "at most 5");
    refused(mix("90% 5ms"), "add the others");
    refused(mix("90% 5ms, 20% 10ms"), "they must add up to 100%");
    refused(mix("90% 5ms, 10ms"), "write 10% 10ms");
    refused(mix("100% 5ms, 0% 10ms"), "remove it");
    refused(mix("5ms cpu 120%"), "more than 100%");
    refused(mix("900000h"), "a hundred years");
}

#[test]
fn pools_are_parsed_with_all_settings() {
    let usual = Pool {
        core: 4,
        maximum: 4,
        queue: None,
        keep_alive: KEEP_ALIVE,
        core_time_out: false,
        rule: GrowthRule::QueueFirst,
        policy: Policy::Abort,
    };
    assert_eq!(pool("core=4").unwrap().pool, usual);
    assert_eq!(pool("fixed 4").unwrap(), NamedPool { name: "fixed 4".to_owned(), pool: usual.clone() });
    assert_eq!(pool("small: core 4").unwrap().name, "small");
    let cached = Pool { core: 0, maximum: usize::MAX, queue: Some(0), ..usual.clone() };
    assert_eq!(pool("cached").unwrap(), NamedPool { name: "cached".to_owned(), pool: cached });
    let all = "core=4, max=16, queue=100, keep-alive=10s, eager, core-time-out, policy=block 500ms";
    assert_eq!(
        pool(all).unwrap(),
        NamedPool {
            name: "4-16 q100".to_owned(),
            pool: Pool {
                maximum: 16,
                queue: Some(100),
                keep_alive: 10_000 * MS,
                core_time_out: true,
                rule: GrowthRule::Eager,
                policy: Policy::Block(Some(500 * MS)),
                ..usual
            },
        }
    );
    for (text, queue) in [
        ("unbounded", None),
        ("linked", None),
        ("linked 7", Some(7)),
        ("array 7", Some(7)),
        ("7", Some(7)),
        ("0", Some(0)),
        ("synchronous", Some(0)),
    ] {
        assert_eq!(pool(&format!("core=1,queue={text}")).unwrap().pool.queue, queue, "{text}");
    }
    for (text, policy) in [
        ("abort", Policy::Abort),
        ("discard", Policy::Discard),
        ("discard-oldest", Policy::DiscardOldest),
        ("caller-runs", Policy::CallerRuns),
        ("block", Policy::Block(None)),
    ] {
        assert_eq!(pool(&format!("core=1,policy={text}")).unwrap().pool.policy, policy, "{text}");
    }
}

#[test]
fn bad_pools_are_refused_with_a_valid_form() {
    refused(pool("max=4"), "write core=4, fixed 4 or cached");
    refused(pool(""), "remove the comma");
    refused(pool("core=0"), "max must be above zero");
    refused(pool("core=4,max=2"), "raise max or lower core");
    refused(pool("core=4,core=5"), "core is set twice");
    refused(pool("fixed 4,max=5"), "max is set twice");
    refused(pool("core=4,"), "remove the comma");
    refused(pool("core=many"), "'many' is not a number");
    refused(pool("core=4,size=5"), "unknown pool setting 'size 5'; use core=N");
    refused(pool("core=4,queue=heap 5"), "unknown queue 'heap 5'");
    refused(pool("core=4,policy=panic"), "unknown policy 'panic'; use abort");
    refused(pool("core=1G"), "at most 100M");
}

#[test]
fn pools_are_shown_with_the_settings_that_matter() {
    let shown = |text| Phrase(&pool(text).unwrap().pool).to_string();
    assert_eq!(shown("fixed 4"), "core 4, max 4, unbounded queue");
    assert_eq!(shown("cached"), "core 0, max unlimited, synchronous queue, keep-alive 60 s");
    assert_eq!(
        shown("core=4,max=16,queue=100,keep-alive=1500ms,eager,policy=block 1s"),
        "core 4, max 16, queue 100, eager, keep-alive 1.5 s, block up to 1 s"
    );
}

#[test]
fn shares_and_rates_are_shown_with_three_digits() {
    for (share, text) in
        [(0.0, "0%"), (0.001, "0.1%"), (0.00012, "0.012%"), (0.1234, "12.3%"), (1.0, "100%"), (0.05, "5%")]
    {
        assert_eq!(percent(share), text);
    }
    for (rate, text) in [
        (0.0, "0/s"),
        (1.0 / 3600.0, "1/h"),
        (1e-6, "0.004/h"),
        (0.05, "3/min"),
        (0.5, "0.5/s"),
        (199.84, "199.8/s"),
        (20_000.0, "20 000/s"),
    ] {
        assert_eq!(PerSecond(rate).to_string(), text);
    }
}

#[test]
fn a_file_of_durations_names_its_column() {
    let words =
        FileWords { path: "a b.csv".into(), column: Some("took, net".into()), unit: TimeUnit::Millis };
    assert_eq!(mix("a b.csv column took, net in ms"), Ok(MixWords::File(words)));
    refused(mix("a.csv in ms"), "write a.csv column duration in ms");
}
