//! The defaults of schedulers, read once from environment variables.
//!
//! An unusable value is replaced by the default, and [`config_problems`] reports it.

use std::num::NonZero;
use std::str::FromStr;
use std::time::Duration;

use super::fixed::MAX_THREADS;
use crate::config::ConfigError;
use crate::sync::OnceLock;

const POOL_SIZE: &str = "MILLPOND_DEFAULT_POOL_SIZE";
const SIZE: &str = "MILLPOND_BOUNDED_ELASTIC_SIZE";
const QUEUE_SIZE: &str = "MILLPOND_BOUNDED_ELASTIC_QUEUE_SIZE";
const TTL: &str = "MILLPOND_BOUNDED_ELASTIC_TTL_SECONDS";
const VIRTUAL: &str = "MILLPOND_BOUNDED_ELASTIC_ON_VIRTUAL_THREADS";

/// The default sizes and times of schedulers; see [`defaults`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Defaults {
    /// Threads of the parallel scheduler. Set by `MILLPOND_DEFAULT_POOL_SIZE`, at most 65536.
    /// Default: the number of processors.
    pub pool_size: usize,
    /// Threads of the bounded-elastic scheduler. Set by `MILLPOND_BOUNDED_ELASTIC_SIZE`. Default:
    /// ten per processor.
    pub bounded_elastic_size: usize,
    /// Tasks that may wait for each of those threads. Set by `MILLPOND_BOUNDED_ELASTIC_QUEUE_SIZE`.
    /// Default: 100000.
    pub bounded_elastic_queue_size: usize,
    /// How long each of those threads may be idle. Set by `MILLPOND_BOUNDED_ELASTIC_TTL_SECONDS`.
    /// Default: 60 s.
    pub bounded_elastic_ttl: Duration,
    /// Whether the bounded-elastic scheduler starts a new thread for every task. Only the value
    /// `true` of `MILLPOND_BOUNDED_ELASTIC_ON_VIRTUAL_THREADS`, in any letter case, enables this.
    pub bounded_elastic_on_virtual_threads: bool,
}

/// Returns the defaults in force. They are read from the environment at the first use; later
/// changes of the environment have no effect.
///
/// # Examples
/// ```
/// use millpond::schedulers;
///
/// let defaults = schedulers::defaults();
/// assert!(defaults.pool_size > 0 && defaults.bounded_elastic_size > 0);
/// assert_eq!(schedulers::parallel().to_string(), "schedulers::parallel()");
/// ```
pub fn defaults() -> &'static Defaults {
    &environment().0
}

/// Returns one error for each environment variable whose value is unusable. The default is in force
/// for each of them.
///
/// # Examples
/// ```
/// use millpond::schedulers;
///
/// for problem in schedulers::config_problems() {
///     eprintln!("{problem}");
/// }
/// ```
pub fn config_problems() -> &'static [ConfigError] {
    &environment().1
}

fn environment() -> &'static (Defaults, Vec<ConfigError>) {
    static READ: OnceLock<(Defaults, Vec<ConfigError>)> = OnceLock::new();
    READ.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Defaults::read(cores, |name| Some(std::env::var_os(name)?.to_string_lossy().into_owned()))
    })
}

impl Defaults {
    /// Reads the defaults from the variables that `lookup` returns. Also returns the problems
    /// found.
    fn read(cores: usize, lookup: impl Fn(&str) -> Option<String>) -> (Defaults, Vec<ConfigError>) {
        let mut reader = Reader { lookup, problems: Vec::new() };
        let defaults = Defaults {
            pool_size: reader.fixed_threads(POOL_SIZE, cores.min(MAX_THREADS)),
            bounded_elastic_size: reader.number(SIZE, cores.saturating_mul(10)),
            bounded_elastic_queue_size: reader.number(QUEUE_SIZE, 100_000),
            bounded_elastic_ttl: Duration::from_secs(reader.number(TTL, 60)),
            bounded_elastic_on_virtual_threads: reader.switch(VIRTUAL),
        };
        (defaults, reader.problems)
    }
}

struct Reader<L> {
    lookup: L,
    problems: Vec<ConfigError>,
}

impl<L: Fn(&str) -> Option<String>> Reader<L> {
    /// Reads a number above zero.
    fn number<N: FromStr + From<u8> + PartialOrd>(&mut self, variable: &'static str, default: N) -> N {
        let Some(value) = (self.lookup)(variable) else { return default };
        match value.parse::<N>() {
            Ok(number) if number > N::from(0) => number,
            _ => {
                self.report(variable, value, "a whole number above zero");
                default
            }
        }
    }

    /// Reads the number of threads of a fixed scheduler, which has an upper bound.
    fn fixed_threads(&mut self, variable: &'static str, default: usize) -> usize {
        let threads = self.number(variable, default);
        if threads > MAX_THREADS {
            self.report(variable, threads.to_string(), "a whole number above zero, and at most 65536");
            return default;
        }
        threads
    }

    fn switch(&mut self, variable: &'static str) -> bool {
        let Some(value) = (self.lookup)(variable) else { return false };
        let yes = value.eq_ignore_ascii_case("true");
        if !yes && !value.is_empty() && !value.eq_ignore_ascii_case("false") {
            self.report(variable, value, "true or false");
        }
        yes
    }

    fn report(&mut self, variable: &'static str, value: String, expected: &'static str) {
        // Leaked once per process: the environment is read once.
        self.problems.push(ConfigError::BadVariable { variable, value: value.leak(), expected });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::schedulers::{DefaultFactory, Factory, SchedulerExt};

    fn read(variables: &[(&str, &str)]) -> (Defaults, Vec<String>) {
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let (defaults, problems) = Defaults::read(4, lookup);
        (defaults, problems.iter().map(ToString::to_string).collect())
    }

    /// RS-001
    #[test]
    fn without_variables_everything_follows_from_the_number_of_processors() {
        let (defaults, problems) = read(&[]);
        assert_eq!(
            defaults,
            Defaults {
                pool_size: 4,
                bounded_elastic_size: 40,
                bounded_elastic_queue_size: 100_000,
                bounded_elastic_ttl: Duration::from_secs(60),
                bounded_elastic_on_virtual_threads: false,
            }
        );
        assert_eq!(problems, [""; 0]);
    }

    /// RS-002
    #[test]
    fn each_variable_sets_its_own_figure() {
        let (defaults, problems) =
            read(&[(POOL_SIZE, "3"), (SIZE, "7"), (QUEUE_SIZE, "11"), (TTL, "5"), (VIRTUAL, "true")]);
        assert_eq!(
            defaults,
            Defaults {
                pool_size: 3,
                bounded_elastic_size: 7,
                bounded_elastic_queue_size: 11,
                bounded_elastic_ttl: Duration::from_secs(5),
                bounded_elastic_on_virtual_threads: true,
            }
        );
        assert_eq!(problems, [""; 0]);
    }

    /// RS-003
    #[test]
    fn only_the_word_true_switches_the_thread_per_task_on() {
        for (value, on, complaints) in [
            ("true", true, 0),
            ("TRUE", true, 0),
            ("True", true, 0),
            ("false", false, 0),
            ("False", false, 0),
            ("", false, 0),
            ("yes", false, 1),
            ("1", false, 1),
            (" true", false, 1),
        ] {
            let (defaults, problems) = read(&[(VIRTUAL, value)]);
            assert_eq!(defaults.bounded_elastic_on_virtual_threads, on, "{value:?}");
            assert_eq!(problems.len(), complaints, "{value:?}: {problems:?}");
        }
    }

    /// RS-004
    #[test]
    fn a_value_that_cannot_be_used_is_reported_and_the_default_takes_its_place() {
        for value in ["", "many", "0", "-3", "3.5", "99999999999999999999999"] {
            for name in [POOL_SIZE, SIZE, QUEUE_SIZE, TTL] {
                let (defaults, problems) = read(&[(name, value)]);
                assert_eq!(defaults, read(&[]).0, "{name}={value:?}");
                let told = format!("{name} is {value:?}, but it should be a whole number above zero");
                assert_eq!(problems, [told]);
            }
        }
    }

    /// A value above the bound used to be accepted, and the first use of the shared scheduler
    /// panicked.
    #[test]
    fn a_parallel_scheduler_can_be_made_whatever_the_variable_says() {
        let (most, more) = (MAX_THREADS.to_string(), (MAX_THREADS + 1).to_string());
        assert_eq!(read(&[(POOL_SIZE, &most)]).0.pool_size, MAX_THREADS);
        let largest = usize::MAX.to_string();
        for value in [&more, &largest] {
            let (defaults, problems) = read(&[(POOL_SIZE, value)]);
            assert_eq!(defaults, read(&[]).0);
            let told = format!(
                "{POOL_SIZE} is {value:?}, but it should be a whole number above zero, and at most {most}"
            );
            assert_eq!(problems, [told]);
        }
        let (defaults, problems) = read(&[(SIZE, &largest), (QUEUE_SIZE, &largest), (TTL, &largest)]);
        assert_eq!(problems, [""; 0]);
        let elastic = DefaultFactory.new_bounded_elastic(
            defaults.bounded_elastic_size,
            defaults.bounded_elastic_queue_size,
            "large",
            defaults.bounded_elastic_ttl,
        );
        let task = elastic.unwrap().schedule(|| {}).unwrap();
        assert_eq!(task.wait(Duration::MAX), Ok(true), "the others have no bound");
        let machine = Defaults::read(usize::MAX, |_| None).0.pool_size;
        assert_eq!(machine, MAX_THREADS);
    }

    #[test]
    fn every_problem_is_told_and_good_values_beside_it_count() {
        let (defaults, problems) = read(&[(POOL_SIZE, "x"), (SIZE, "7"), (TTL, "0"), (VIRTUAL, "perhaps")]);
        assert_eq!((defaults.pool_size, defaults.bounded_elastic_size), (4, 7));
        assert_eq!(problems.len(), 3);
        assert_eq!(problems[2], format!("{VIRTUAL} is \"perhaps\", but it should be true or false"));
    }
}
