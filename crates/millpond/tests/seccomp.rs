//! Pools and schedulers under a system call filter.
//!
//! A service with systemd's `SystemCallFilter=~@resources` is killed by the first system call that
//! changes affinity, priority, scheduler, resource limits or memory policy. The library makes none
//! of these calls, and works without any call that the standard library does not make. A filter
//! cannot be removed and applies to all later threads, so each case runs in its own process.
#![allow(unsafe_code, reason = "installs a system call filter")]

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod linux {
    use std::env;
    use std::io;
    use std::mem::offset_of;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use libc::{c_long, c_ulong, seccomp_data, sock_filter, sock_fprog};
    use millpond::schedulers::{self, Scheduler, SchedulerExt};
    use millpond::{ExecutorExt, ExecutorService, ThreadPoolExecutor, executors};

    /// Passes the name of the case to the child process.
    const CASE: &str = "MILLPOND_SECCOMP_CASE";
    /// Exit code of a child that was not allowed to install its filter.
    const REFUSED: i32 = 77;
    const LONG: Duration = Duration::from_secs(60);

    #[cfg(target_arch = "x86_64")]
    const ARCH: u32 = 0xc000_003e; // AUDIT_ARCH_X86_64
    #[cfg(target_arch = "aarch64")]
    const ARCH: u32 = 0xc000_00b7; // AUDIT_ARCH_AARCH64

    /// The same number on every architecture. Some versions of `libc` have no name for it.
    const SYS_SET_MEMPOLICY_HOME_NODE: c_long = 450;

    /// What a filter does with a system call.
    #[derive(Clone, Copy)]
    enum Verdict {
        Kill,
        Refuse,
    }

    impl Verdict {
        fn code(self) -> u32 {
            match self {
                Verdict::Kill => libc::SECCOMP_RET_KILL_PROCESS,
                Verdict::Refuse => libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM).unwrap(),
            }
        }
    }

    /// A filter that allows all system calls except the named ones.
    struct Filter(Vec<sock_filter>);

    impl Filter {
        fn new() -> Filter {
            let mut filter = Filter(Vec::new());
            filter.load(offset_of!(seccomp_data, arch));
            // A call of another architecture has other numbers.
            filter.unless_equal(ARCH, Verdict::Kill);
            filter
        }

        fn op(&mut self, code: u32, k: u32, skip_if_true: u8, skip_if_false: u8) {
            let code = u16::try_from(code).unwrap();
            self.0.push(sock_filter { code, jt: skip_if_true, jf: skip_if_false, k });
        }

        /// Loads the 32-bit word at `offset` of the call's `seccomp_data`.
        fn load(&mut self, offset: usize) {
            self.op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, u32::try_from(offset).unwrap(), 0, 0);
        }

        fn load_argument(&mut self, argument: usize, high_half: bool) {
            let high_half = if cfg!(target_endian = "little") { high_half } else { !high_half };
            self.load(offset_of!(seccomp_data, args) + 8 * argument + 4 * usize::from(high_half));
        }

        fn ends_with(&mut self, verdict: Verdict) {
            self.op(libc::BPF_RET | libc::BPF_K, verdict.code(), 0, 0);
        }

        fn if_equal(&mut self, value: u32, verdict: Verdict) {
            self.op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, 0, 1);
            self.ends_with(verdict);
        }

        fn unless_equal(&mut self, value: u32, verdict: Verdict) {
            self.op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, 1, 0);
            self.ends_with(verdict);
        }

        /// Applies `verdict` to every call of this number.
        fn call(mut self, number: c_long, verdict: Verdict) -> Filter {
            self.load(offset_of!(seccomp_data, nr));
            self.if_equal(u32::try_from(number).unwrap(), verdict);
            self
        }

        /// Applies `verdict` to calls of this number whose `argument` is `value`.
        fn call_with(mut self, number: c_long, argument: usize, value: u32, verdict: Verdict) -> Filter {
            self.load(offset_of!(seccomp_data, nr));
            // Another call: skip the three instructions that check the argument.
            self.op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, u32::try_from(number).unwrap(), 0, 3);
            self.load_argument(argument, false);
            self.if_equal(value, verdict);
            self
        }

        /// Applies `verdict` to calls of this number whose pointer `argument` is not null.
        fn call_with_pointer(mut self, number: c_long, argument: usize, verdict: Verdict) -> Filter {
            self.load(offset_of!(seccomp_data, nr));
            self.op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, u32::try_from(number).unwrap(), 0, 6);
            self.load_argument(argument, false);
            self.unless_equal(0, verdict);
            self.load_argument(argument, true);
            self.unless_equal(0, verdict);
            self
        }

        /// Installs the filter for this thread and all threads that it starts.
        fn install(mut self) -> io::Result<()> {
            self.op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0);
            let program =
                sock_fprog { len: u16::try_from(self.0.len()).unwrap(), filter: self.0.as_mut_ptr() };
            let none: c_ulong = 0;
            let yes: c_ulong = 1;
            let mode = c_ulong::from(libc::SECCOMP_MODE_FILTER);
            // SAFETY: both calls get the number of arguments that their option has, each of the
            // width of a long. The kernel copies the program before it returns, and `self.0` lives
            // until then.
            let failed = unsafe {
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, none, none, none) != 0
                    || libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, none, none) != 0
            };
            if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
        }
    }

    /// The setters of systemd's group `@resources`. Getters pass, such as `prlimit64` without a new
    /// limit.
    fn no_setters_of_resources() -> Filter {
        [
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_setattr,
            libc::SYS_sched_setparam,
            libc::SYS_sched_setscheduler,
            libc::SYS_setpriority,
            libc::SYS_ioprio_set,
            libc::SYS_setrlimit,
            libc::SYS_mbind,
            libc::SYS_migrate_pages,
            libc::SYS_move_pages,
            libc::SYS_set_mempolicy,
            SYS_SET_MEMPOLICY_HOME_NODE,
        ]
        .into_iter()
        .fold(Filter::new(), |filter, number| filter.call(number, Verdict::Kill))
        .call_with_pointer(libc::SYS_prlimit64, 2, Verdict::Kill)
    }

    /// Everything that the library itself asks of the system; see `docs/service.md`. It asks for the
    /// number of a thread and of the cores through the standard library, which also sets the names
    /// of threads.
    fn nothing_beyond_std() -> Filter {
        let filter = [
            #[cfg(target_arch = "x86_64")]
            libc::SYS_readlink,
            libc::SYS_readlinkat,
            libc::SYS_sched_getaffinity,
        ]
        .into_iter()
        .fold(Filter::new(), |filter, number| filter.call(number, Verdict::Refuse));
        [libc::PR_SET_TIMERSLACK, libc::PR_GET_TIMERSLACK, libc::PR_SET_NAME]
            .into_iter()
            .map(|option| u32::try_from(option).unwrap())
            .fold(filter, |filter, option| filter.call_with(libc::SYS_prctl, 0, option, Verdict::Refuse))
    }

    /// Every way of the standard library to start a thread.
    fn no_new_threads() -> Filter {
        [libc::SYS_clone, libc::SYS_clone3]
            .into_iter()
            .fold(Filter::new(), |filter, number| filter.call(number, Verdict::Refuse))
    }

    fn set_affinity() -> i32 {
        // SAFETY: all bits zero is an empty set, a valid value of this type.
        let mut cores: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let size = size_of_val(&cores);
        // SAFETY: `cores` has room for `size` bytes, and both calls read or write no more than
        // that.
        unsafe {
            libc::sched_getaffinity(0, size, &raw mut cores);
            libc::sched_setaffinity(0, size, &raw const cores)
        }
    }

    fn get_affinity() -> i32 {
        // SAFETY: all bits zero is an empty set, a valid value of this type.
        let mut cores: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `cores` has room for the size that is passed.
        unsafe { libc::sched_getaffinity(0, size_of_val(&cores), &raw mut cores) }
    }

    fn set_timer_slack() -> i32 {
        let nanos: c_ulong = 1000;
        // SAFETY: the option has one argument, a number.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos) }
    }

    fn set_name() -> i32 {
        // SAFETY: the option has one argument, a string of at most 15 bytes that ends with a NUL.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"another".as_ptr()) }
    }

    #[track_caller]
    fn assert_refused(result: i32) {
        let error = io::Error::last_os_error();
        assert_eq!((result, error.raw_os_error()), (-1, Some(libc::EPERM)));
    }

    fn pools_of_all_kinds() {
        let ran = Arc::new(AtomicUsize::new(0));
        let count = |ran: &Arc<AtomicUsize>| {
            let ran = Arc::clone(ran);
            move || _ = ran.fetch_add(1, Ordering::SeqCst)
        };
        let fixed = executors::fixed(2).unwrap();
        let cached = executors::cached();
        let bounded = executors::bounded(1, 2, 1000).unwrap();
        for _ in 0..200 {
            let handles = [&fixed, &cached, &bounded].map(|pool| pool.submit(count(&ran)).unwrap());
            handles.into_iter().for_each(|handle| handle.join().unwrap());
        }
        assert_eq!(ran.load(Ordering::SeqCst), 600);

        // Joins in place: a worker waits for a task of its own pool.
        let single = Arc::new(executors::fixed(1).unwrap());
        let inner = Arc::clone(&single);
        let nested = move || inner.submit(|| 7).unwrap().join().unwrap();
        assert_eq!(single.submit(nested).unwrap().join().unwrap(), 7);
        single.close();

        [fixed, cached, bounded].iter().for_each(ExecutorService::close);
    }

    /// One thread submits and waits, one worker runs: they wake each other repeatedly.
    fn round_trips() {
        let pool = executors::fixed(4).unwrap();
        let begin = Instant::now();
        for n in 0..20_000_u32 {
            assert_eq!(pool.submit(move || n).unwrap().join().unwrap(), n);
            if begin.elapsed() > Duration::from_secs(5) {
                break; // round trips are slow on a busy machine: fewer suffice
            }
        }
        pool.close();
    }

    fn scheduled_pools() {
        let pool = executors::scheduled(2);
        let begin = Instant::now();
        for micros in [0, 50, 200, 3000] {
            let delay = Duration::from_micros(micros);
            let before = Instant::now();
            let due = pool.schedule(delay, Instant::now).unwrap().join().unwrap();
            assert!(due - before >= delay);
        }
        let ran = Arc::new(AtomicUsize::new(0));
        let series = pool
            .schedule_at_fixed_rate(Duration::ZERO, Duration::from_micros(300), {
                let ran = Arc::clone(&ran);
                move || _ = ran.fetch_add(1, Ordering::SeqCst)
            })
            .unwrap();
        while ran.load(Ordering::SeqCst) < 20 {
            assert!(begin.elapsed() < LONG, "the series stands still");
            std::thread::sleep(Duration::from_micros(100));
        }
        assert!(series.cancel(false));
        pool.close();
    }

    fn all_schedulers() {
        for scheduler in [schedulers::single(), schedulers::parallel(), schedulers::bounded_elastic()] {
            let ran = Arc::new(AtomicUsize::new(0));
            let count = || {
                let ran = Arc::clone(&ran);
                move || _ = ran.fetch_add(1, Ordering::SeqCst)
            };
            let worker = scheduler.create_worker();
            let mut tasks = Vec::new();
            for _ in 0..50 {
                tasks.push(scheduler.schedule(count()).unwrap());
                tasks.push(scheduler.schedule_after(Duration::from_micros(400), count()).unwrap());
                tasks.push(worker.schedule(count()).unwrap());
                tasks.push(worker.schedule_after(Duration::from_millis(1), count()).unwrap());
            }
            let begin = Instant::now();
            while ran.load(Ordering::SeqCst) < 200 {
                assert!(begin.elapsed() < LONG, "{} of 200 tasks ran", ran.load(Ordering::SeqCst));
                std::thread::sleep(Duration::from_micros(100));
            }
            worker.dispose();
        }
        schedulers::shutdown_now();
    }

    /// The system cuts the name of the thread, the library shortens it.
    fn long_names() {
        let builder = ThreadPoolExecutor::builder().core_pool_size(2).maximum_pool_size(2);
        let pool = builder.thread_name_prefix("image-resizer-thread-").build().unwrap();
        let name = || std::thread::current().name().map(str::to_owned);
        let names = [pool.submit(name).unwrap(), pool.submit(name).unwrap()].map(|name| name.join());
        let begins = |name: &str| name.starts_with("image-resizer-thread-");
        assert!(names.iter().flatten().flatten().all(|name| begins(name)), "{names:?}");
        pool.close();
    }

    /// The filter of the only worker applies to no other thread. From then on it cannot start the
    /// temporary threads that deep joins otherwise get.
    fn deep_joins_without_new_threads() {
        // Without `unwrap`: each level would escape the message of the level below once more.
        fn descend(pool: &ThreadPoolExecutor, depth: usize) -> Option<usize> {
            if depth == 0 {
                return Some(0);
            }
            let inner = pool.clone();
            let below = pool.submit(move || descend(&inner, depth - 1)).ok()?.join().ok()??;
            Some(below + 1)
        }
        let pool = executors::fixed(1).unwrap();
        let inside = pool.clone();
        let outermost = move || {
            no_new_threads().install().unwrap();
            let refused = std::thread::Builder::new().spawn(|| ()).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
            descend(&inside, 300)
        };
        let depth = pool.submit(outermost).unwrap().join_timeout(LONG).expect("no join hangs");
        assert_eq!(depth.unwrap(), Some(300));
        pool.close();
    }

    fn everything() {
        pools_of_all_kinds();
        long_names();
        scheduled_pools();
        all_schedulers();
        round_trips();
    }

    /// Runs in the child processes; does nothing in the parent.
    #[test]
    fn child() {
        let Ok(case) = env::var(CASE) else { return };
        let (filter, body): (Filter, fn()) = match case.as_str() {
            "pools under the killing filter" => (no_setters_of_resources(), everything),
            "pools under the refusing filter" => (nothing_beyond_std(), everything),
            "deep joins without new threads" => (Filter::new(), deep_joins_without_new_threads),
            "control: set affinity" => (no_setters_of_resources(), || _ = set_affinity()),
            "control: set timer slack" => (nothing_beyond_std(), || assert_refused(set_timer_slack())),
            "control: get affinity" => (nothing_beyond_std(), || assert_refused(get_affinity())),
            "control: read a link" => (nothing_beyond_std(), || {
                let error = std::fs::read_link("/proc/thread-self").unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EPERM));
            }),
            "control: set name" => (nothing_beyond_std(), || assert_refused(set_name())),
            "control: get a limit" => (no_setters_of_resources(), || {
                let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                // SAFETY: `limit` has room for what the call writes.
                assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
            }),
            other => panic!("no such case: {other}"),
        };
        if let Err(error) = filter.install() {
            println!("{error}");
            std::process::exit(REFUSED);
        }
        body();
    }

    /// Runs `case` in a child. `None`: the system does not allow filters, and the test is skipped.
    fn run(case: &str) -> Option<Output> {
        let arguments = ["linux::child", "--exact", "--nocapture", "--test-threads=1"];
        let output =
            Command::new(env::current_exe().unwrap()).args(arguments).env(CASE, case).output().unwrap();
        if output.status.code() == Some(REFUSED) {
            let why = String::from_utf8_lossy(&output.stdout);
            println!("SKIPPED: this system refuses to install a seccomp filter: {why}");
            return None;
        }
        Some(output)
    }

    #[track_caller]
    fn assert_success(case: &str) {
        let Some(output) = run(case) else { return };
        let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let passed = output.status.success() && out.contains("1 passed");
        assert!(passed, "{case}: {}\n{out}\n{err}", output.status);
    }

    #[test]
    fn setters_of_resources_are_never_called() {
        assert_success("pools under the killing filter");
    }

    #[test]
    fn a_refusal_of_all_calls_beyond_std_is_harmless() {
        assert_success("pools under the refusing filter");
    }

    #[test]
    fn deep_joins_run_in_place_if_no_thread_can_be_started() {
        assert_success("deep joins without new threads");
    }

    #[test]
    fn the_killing_filter_is_in_force() {
        let Some(output) = run("control: set affinity") else { return };
        assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{output:?}");
        assert_success("control: get a limit");
    }

    #[test]
    fn the_refusing_filter_is_in_force() {
        assert_success("control: set timer slack");
        assert_success("control: set name");
        assert_success("control: get affinity");
        assert_success("control: read a link");
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
#[test]
fn pools_under_a_system_call_filter() {
    println!("SKIPPED: seccomp filters exist on Linux only, and Miri has none");
}
