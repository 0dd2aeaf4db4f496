//! Arrival times and random choices, with the arrival processes and generators of `plan`.

use std::time::Duration;

use millpond_sim::{Chance, Kind, Mix, Stream};

use super::super::workload::{Length, Submit, TaskPlan};

/// Arrival times of a step's tasks, counted from its beginning.
pub(super) fn times(submit: &Submit, chance: &mut Chance) -> Vec<Duration> {
    // A stream has its own random numbers, so each step needs its own seed.
    let seed = (chance.unit() * (1_u64 << 53) as f64) as u64;
    // Only the arrival times are used.
    let nothing = Mix::new(vec![Kind { weight: 1.0, length: Length::ZERO.0, cpu: 0.0 }]);
    let stream = Stream::new(std::slice::from_ref(&submit.arrivals), submit.limit, &nothing, seed);
    stream.map(|task| Duration::from_nanos(task.arrival)).collect()
}

pub(super) fn length(length: Length, chance: &mut Chance) -> Duration {
    Duration::from_nanos(length.0.draw(chance).round() as u64)
}

/// One task of `mix`, chosen by weight.
pub(super) fn choose<'a>(mix: &'a [TaskPlan], chance: &mut Chance) -> &'a TaskPlan {
    let (last, others) = mix.split_last().expect("a mix has been checked to have a task");
    if others.is_empty() {
        return last;
    }
    let mut at = chance.unit() * mix.iter().map(|task| task.weight).sum::<f64>();
    for task in others {
        at -= task.weight;
        if at <= 0.0 {
            return task;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use millpond_sim::{Arrivals, Limit};

    use super::*;

    fn submit(arrivals: Arrivals, limit: Limit) -> Submit {
        Submit { arrivals, limit, mix: vec![TaskPlan::default()], hold: false, lane: None }
    }

    #[test]
    fn the_same_seed_gives_the_same_times_and_each_step_has_its_own() {
        let poisson = submit(Arrivals::Poisson(1000.0), Limit::Until(1_000_000_000));
        let draw = |seed| {
            let mut chance = Chance::new(seed, 0);
            [times(&poisson, &mut chance), times(&poisson, &mut chance)]
        };
        let [first, second] = draw(7);
        assert!((800..1200).contains(&first.len()) && first.is_sorted(), "{}", first.len());
        assert_ne!(first, second);
        assert_eq!([first, second], draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn a_burst_comes_at_once() {
        let burst = submit(Arrivals::Burst { count: 3, every: None }, Limit::Count(3));
        assert_eq!(times(&burst, &mut Chance::new(1, 0)), [Duration::ZERO; 3]);
    }

    #[test]
    fn a_mix_is_drawn_by_weight() {
        let task = |weight| TaskPlan { weight, ..TaskPlan::default() };
        let mix = [task(3.0), task(1.0)];
        let mut chance = Chance::new(3, 0);
        let first = (0..10_000).filter(|_| choose(&mix, &mut chance).weight == 3.0).count();
        assert!((7_300..=7_700).contains(&first), "{first}");
    }
}
