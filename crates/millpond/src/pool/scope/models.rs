//! Models of the end of a scope against threads that hold one of its tasks.

use loom::thread;

use super::*;
use crate::loom_tests::model;

/// Creates the state of a scope on the calling thread, without a pool.
fn scope_state() -> Arc<ScopeState> {
    Arc::new(ScopeState {
        pending: AtomicUsize::new(0),
        owner: ThreadContext::current(),
        tasks: Mutex::default(),
        owner_helps: false,
        has_new: AtomicBool::new(false),
        pool: 0,
        panics: Mutex::default(),
    })
}

/// 1 while a value that borrows from the scope exists, 2 after its drop.
struct Borrows(Arc<AtomicUsize>);

impl Drop for Borrows {
    fn drop(&mut self) {
        self.0.store(2, Ordering::Relaxed);
    }
}

/// Returns a task of the scope without a handle. Its closure borrows and returns a value that
/// borrows.
fn stray(state: &Arc<ScopeState>, borrowed: &Arc<AtomicUsize>) -> Task {
    let borrowed = Arc::clone(borrowed);
    let id = TaskId::fresh();
    let work = move || {
        borrowed.store(1, Ordering::Relaxed);
        Borrows(borrowed)
    };
    let task = CellRef::new(ScopedCell {
        cell: TaskCell::new(id, work, true),
        scope: Arc::clone(state),
        is_counted: AtomicBool::new(false),
        making: AtomicU8::new(MADE),
    })
    .into_tracked();
    state.push(task.clone());
    Task::tracked(id, task)
}

/// Calls `act` with such a task on another thread while the scope ends. Nothing borrows after that.
fn end_against(act: fn(Task)) {
    let (state, borrowed) = (scope_state(), Arc::new(AtomicUsize::new(0)));
    let task = stray(&state, &borrowed);
    let other = thread::spawn(move || act(task));
    drop(EndOfScope { state: &state });
    let at_the_end = borrowed.load(Ordering::Relaxed);
    assert_ne!(at_the_end, 1, "a value that borrows outlives the scope");
    other.join().unwrap();
    assert_eq!(borrowed.load(Ordering::Relaxed), at_the_end, "a task ran after the scope");
}

#[test]
fn a_stray_is_run_against_the_end_of_its_scope() {
    model(|| end_against(Task::run));
}

#[test]
fn a_stray_enters_an_owner_against_the_end_of_its_scope() {
    model(|| {
        end_against(|task| {
            task.entered(7);
            task.run();
        });
    });
}
