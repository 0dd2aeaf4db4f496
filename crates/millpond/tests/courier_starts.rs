//! A scheduler whose courier thread cannot be started at first.
//!
//! The courier is a thread of the standard library, started by the timer thread. So this file
//! replaces the function that starts threads by one that may refuse.
#![cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
#![allow(unsafe_code, reason = "replaces pthread_create")]

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millpond::schedulers::{self, Scheduler, SchedulerExt};

const LONG: Duration = Duration::from_secs(60);
/// The documented time until a scheduler tries again to start a thread.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// How many starts of the timer thread are still refused.
static REFUSALS: AtomicUsize = AtomicUsize::new(0);

type Body = extern "C" fn(*mut c_void) -> *mut c_void;
type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Body, *mut c_void) -> c_int;

/// # Safety
/// As for the function of the same name in libc.
// SAFETY: this function has the signature of the one that it replaces, and does the same.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    body: Body,
    argument: *mut c_void,
) -> c_int {
    let is_by_timer = std::thread::current().name() == Some("millpond-timer");
    let one_less = |left: usize| left.checked_sub(1);
    if is_by_timer && REFUSALS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
        return libc::EAGAIN;
    }
    // SAFETY: the name ends with a NUL. The next definition of this symbol is that of libc, which
    // has the type `Create`, and gets the arguments of the caller.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr());
        assert!(!next.is_null());
        transmute::<*mut c_void, Create>(next)(thread, attributes, body, argument)
    }
}

#[test]
fn due_work_waits_for_a_courier_thread_that_cannot_be_started_at_first() {
    let scheduler = schedulers::new_single("late").unwrap();
    let begin = Instant::now();
    REFUSALS.store(3, Ordering::SeqCst);
    // The first work needs a new thread, which the courier has to start.
    let ran = scheduler.schedule_after(Duration::from_millis(1), || ()).unwrap();
    assert_eq!(ran.wait(LONG), Ok(true));
    assert!(!ran.is_cancelled());
    assert_eq!(REFUSALS.load(Ordering::SeqCst), 0);
    assert!(begin.elapsed() >= 3 * RETRY_DELAY, "tried again after {:?}", begin.elapsed());
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    assert_eq!(scheduler.stats().completed, 1);
}
