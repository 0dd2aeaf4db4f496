//! The command line.

pub(crate) const USAGE: &str = "\
Measures a web service over SQLite, with its blocking queries on millpond or on tokio's spawn_blocking.

usage: service [--quick] [--only TABLE..] [--rounds N] [--seconds N]

  --quick        one round of two seconds: under two minutes, instead of nine
  --only TABLE.. only these tables: overload, fast, long-queue, point
  --rounds N     how often every variant is measured; 3 if not given, 5 for point queries
  --seconds N    how long a measurement takes; 6 if not given, 4 without slow queries
";

#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Keys of tables. Empty means all.
    pub(crate) only: Vec<String>,
    pub(crate) rounds: Option<usize>,
    pub(crate) seconds: Option<f64>,
}

/// Reads the arguments. `None` if help is requested.
pub(crate) fn parse(args: &[String]) -> Result<Option<Options>, String> {
    let mut options = Options::default();
    let mut args = args.iter().map(String::as_str).peekable();
    while let Some(arg) = args.next() {
        match arg {
            "--help" | "-h" => return Ok(None),
            "--quick" => {
                options.rounds.get_or_insert(1);
                options.seconds.get_or_insert(2.0);
            }
            "--only" => {
                while let Some(key) = args.next_if(|arg| !arg.starts_with('-')) {
                    if !crate::plan::KEYS.contains(&key) {
                        return Err(format!("no table is called {key:?}; --help tells them"));
                    }
                    options.only.push(key.to_owned());
                }
            }
            "--rounds" => options.rounds = Some(number(arg, args.next(), 1.0..=1000.0)? as usize),
            "--seconds" => options.seconds = Some(number(arg, args.next(), 0.5..=600.0)?),
            _ => return Err(format!("unknown argument {arg:?}; --help tells them")),
        }
    }
    Ok(Some(options))
}

fn number(name: &str, value: Option<&str>, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let number = value.and_then(|value| value.parse().ok()).filter(|number| range.contains(number));
    number.ok_or(format!("{name} needs a number from {} to {}", range.start(), range.end()))
}
