//! Endless input in little memory.

use super::*;

/// The input is endless. At the job's failure, pipe, buffer and queue hold all that was read.
#[test]
fn endless_input_is_read_no_further_than_the_queue_has_room() {
    let directory = directory("run-endless");
    let command = format!("{}; exit 1", until("go"));
    let mut child = spawn(
        in_directory(&directory).args(["-j1", "--queue", "10", "--halt", "soon,1", "--shell", &command]),
    );
    let mut stdin = child.stdin.take().expect("piped");
    let line = [vec![b'y'; 1023], vec![b'\n']].concat();
    let counter = thread::spawn({
        let go = directory.join("go");
        move || {
            let count = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
            let seen = std::sync::Arc::clone(&count);
            let writing = thread::spawn(move || {
                while stdin.write_all(&line).is_ok() {
                    seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
            // 64 kB fit into the pipe alone. Above that, the command has begun to read.
            eventually("it reads", || count.load(std::sync::atomic::Ordering::Relaxed) > 70);
            File::create(go).unwrap();
            writing.join().expect("no panic");
            count.load(std::sync::atomic::Ordering::Relaxed)
        }
    });
    let ran = ended(child);
    assert_eq!(ran.status, 101, "{}", ran.stderr);
    let written = counter.join().expect("no panic");
    // The pipe (64), the read buffer (64), the queue (10), the running job and the one being
    // submitted, doubled as a margin.
    assert!(written < 300, "{written} kB were taken");
}

/// A hundred megabytes of arguments pass through a queue of ten. Each job prints the peak memory of
/// its parent.
#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_input() {
    let look = "while read key value; do case $key in VmHWM:) echo $key $value;; esac; done < /proc/$PPID/status; : {}";
    let argument = "x".repeat(100_000);
    let input = format!("{argument}\n").repeat(1000);
    for order in [&["-j2", "--queue", "10"][..], &["-j2", "--queue", "10", "-k"]] {
        let ran = run(&[order, &["--shell", look]].concat(), &input);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let peaks: Vec<u64> = lines(&ran.stdout).into_iter().map(kilobytes).collect();
        assert_eq!(peaks.len(), 1000);
        let peak = peaks.iter().max().unwrap();
        assert!(*peak < 40_000, "{peak} kB");
    }
}
