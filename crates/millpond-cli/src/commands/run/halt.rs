//! The rules of `--halt`: `never`, `soon,3`, `now,20%`.

/// A percentage of failures applies from this many finished jobs on: fewer are not significant.
pub(super) const JUDGED_FROM: u64 = 10;

/// When failures end the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Halt {
    Never,
    /// No job is started any more; running jobs may finish.
    Soon(Failures),
    /// Running jobs are terminated too.
    Now(Failures),
}

/// How many failures end the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Failures {
    Count(u64),
    /// Of the finished jobs.
    Percent(f64),
}

impl Failures {
    pub(super) fn reached(self, failed: u64, finished: u64) -> bool {
        match self {
            Failures::Count(count) => failed >= count,
            Failures::Percent(percent) => {
                finished >= JUDGED_FROM && failed > 0 && failed as f64 * 100.0 >= percent * finished as f64
            }
        }
    }
}

/// Parses a rule.
pub(super) fn parse(text: &str) -> Result<Halt, String> {
    let wanted = || format!("'{text}' is not a rule such as never, soon,3, now,1 or soon,20%");
    if let Some((when, percent)) = text.split_once(",fail=").filter(|(_, count)| count.ends_with('%')) {
        return Err(format!(
            "fail={percent} is a share of all jobs in GNU parallel, but their number is not known here; \
             write {when},{percent} for a share of the finished jobs"
        ));
    }
    let (when, how_many) = match text.split_once([',', '=', ' ']) {
        Some((when, how_many)) => (when, how_many.trim()),
        None => (text, "1"),
    };
    let how_many = how_many.strip_prefix("fail=").unwrap_or(how_many);
    let failures = match how_many.strip_suffix('%') {
        Some(percent) => percent.parse().ok().filter(|p| *p > 0.0 && *p <= 100.0).map(Failures::Percent),
        None => how_many.parse().ok().filter(|count| *count > 0).map(Failures::Count),
    };
    match (when, failures) {
        ("never", _) if text == "never" => Ok(Halt::Never),
        ("soon", Some(failures)) => Ok(Halt::Soon(failures)),
        ("now", Some(failures)) => Ok(Halt::Now(failures)),
        _ => Err(wanted()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        assert_eq!(parse("never"), Ok(Halt::Never));
        assert_eq!(parse("now"), Ok(Halt::Now(Failures::Count(1))));
        assert_eq!(parse("soon,3"), Ok(Halt::Soon(Failures::Count(3))));
        assert_eq!(parse("soon=3"), Ok(Halt::Soon(Failures::Count(3))));
        assert_eq!(parse("soon 3"), Ok(Halt::Soon(Failures::Count(3))));
        assert_eq!(parse("now,fail=1"), Ok(Halt::Now(Failures::Count(1))));
        assert_eq!(parse("soon,2.5%"), Ok(Halt::Soon(Failures::Percent(2.5))));
        for text in
            ["", "later", "soon,", "soon,0", "now,0%", "now,101%", "soon,-1", "never,1", "now,success=1", "2"]
        {
            assert!(parse(text).expect_err(text).contains(&format!("'{text}'")));
        }
    }

    #[test]
    fn a_share_of_all_jobs_is_refused_with_the_replacement() {
        assert!(parse("soon,fail=20%").expect_err("a share of all jobs").contains("write soon,20% "));
    }

    #[test]
    fn a_share_counts_from_the_tenth_job_on_and_needs_a_failure() {
        let half = Failures::Percent(50.0);
        assert!(!half.reached(9, 9));
        assert!(!half.reached(4, 10));
        assert!(half.reached(5, 10));
        assert!(!Failures::Percent(0.001).reached(0, 1000));
    }

    #[test]
    fn a_count_is_reached_by_as_many() {
        assert!(!Failures::Count(2).reached(1, 1));
        assert!(Failures::Count(2).reached(2, 2));
    }
}
