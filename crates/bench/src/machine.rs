//! The machine, and how busy it was with other work. Read from /proc; unknown where there is none.

use std::fs;

/// Ticks of all processors since the machine started.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    all: u64,
    busy: u64,
    /// The part of `busy` used by this process and its children.
    own: u64,
}

impl Load {
    /// The current load. `children` are running child processes; those that have ended are
    /// included.
    pub fn now(children: impl Iterator<Item = u32>) -> Option<Load> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let ticks: Vec<u64> =
            stat.lines().next()?.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; the later fields are contained in user
        // and nice.
        let all: u64 = ticks.iter().take(8).sum();
        let idle = ticks.get(3)? + ticks.get(4)?;
        let of_children: u64 = children.filter_map(|id| own_ticks(&id.to_string())).sum();
        let own = own_ticks("self")? + of_children;
        Some(Load { all, busy: all - idle, own })
    }

    /// The share of the machine that other processes used since `before`, from 0 to 1. Includes
    /// steal.
    pub fn others_since(self, before: Load) -> Option<f64> {
        let all = self.all - before.all;
        let own = self.own.saturating_sub(before.own);
        let others = (self.busy - before.busy).saturating_sub(own);
        (all > 0).then(|| others as f64 / all as f64)
    }
}

/// User and system time of a process, including its children that have ended.
fn own_ticks(process: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses and may contain any character. The state is the first field after
    // it.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

/// The threads of this process.
pub fn threads() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Nanoseconds that these threads have run. `None` if the system does not report it.
pub fn cpu_time(threads: &[String]) -> Option<u64> {
    let of = |thread: &String| {
        let stat = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    };
    threads.iter().map(of).sum()
}

/// The resident bytes of this process.
pub fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// One line: processor, number of cores, memory, system.
pub fn description() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown processor".into());
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let memory = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(String::new(), |kib| format!(", {} MiB", kib / 1024));
    let release = read("/proc/sys/kernel/osrelease");
    format!("{processor}, {cores} cores{memory}, {} {}", std::env::consts::OS, major_minor(&release))
}

/// The version of a release such as `6.18.44-generic`, without the patch level and the suffix.
fn major_minor(release: &str) -> String {
    let version = release.trim().split('-').next().unwrap_or_default();
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// Today's date in UTC, for example 2031-05-17.
pub fn date() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (mut year, mut day) = (1970, now.as_secs() / 86_400);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_of = |year| if leap(year) { 366 } else { 365 };
    while day >= days_of(year) {
        day -= days_of(year);
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", day + 1)
}
