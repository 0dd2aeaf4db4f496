//! Files of every released schema can be opened, upgraded and used. The fixtures are never changed.

mod common;

use common::Folder;
use millpond_cluster::{Admin, Cluster, State, TaskFilter, TaskType};

const SQUARE: TaskType<u64, u64> = TaskType::new("square");

/// The file of a killed process of version 0.1.0: a waiting task, a running one, a succeeded one, a
/// dead letter and a periodic task.
const SCHEMA_1: &str = include_str!("fixtures/schema-1.sql");

#[test]
fn file_of_schema_1_is_upgraded_and_its_tasks_run() {
    let folder = Folder::new("upgrade");
    let path = folder.path("jobs.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch(SCHEMA_1).unwrap();
    let address = format!("sqlite:{}", path.display());
    let version = Admin::migrate(&address).unwrap();
    let cluster = Cluster::open(&address).unwrap();
    assert_eq!(cluster.admin().schema_version().unwrap(), version);
    let errors: Vec<_> = cluster
        .admin()
        .doctor()
        .unwrap()
        .into_iter()
        .filter(|finding| finding.severity == millpond_cluster::Severity::Error)
        .collect();
    assert!(errors.is_empty(), "{errors:?}");

    let tasks = cluster.admin().tasks(&TaskFilter::default()).unwrap().tasks;
    let states: Vec<State> = tasks.iter().map(|task| task.state).collect();
    assert_eq!(states, [State::Succeeded, State::Dead, State::Running, State::Ready]);
    let dead = cluster.admin().task(tasks[1].id).unwrap().unwrap();
    assert_eq!((dead.history.len(), dead.task.error.as_deref()), (2, Some("no luck")));
    assert_eq!(cluster.admin().periodics().unwrap()[0].name, "nightly");

    let _worker = cluster.worker().handle(&SQUARE, |_, n| Ok(n * n)).start().unwrap();
    let results: Vec<u64> = [0, 2, 3]
        .map(|number: usize| cluster.find(&SQUARE, tasks[number].id).unwrap().join().unwrap())
        .into();
    assert_eq!(results, [9, 16, 25]);
    let again = cluster.dead().retry(tasks[1].id).unwrap().unwrap();
    assert_eq!(cluster.find(&SQUARE, again).unwrap().join().unwrap(), 49);
}

#[test]
fn database_of_another_program_is_refused_and_left_as_it_is() {
    let folder = Folder::new("foreign");
    let path = folder.path("notes.db");
    let notes = rusqlite::Connection::open(&path).unwrap();
    notes.execute_batch("CREATE TABLE note(text); PRAGMA user_version = 7;").unwrap();
    let before = std::fs::read(&path).unwrap();
    let address = format!("sqlite:{}", path.display());
    let errors = [Cluster::open(&address).unwrap_err(), Admin::migrate(&address).unwrap_err()];
    for error in errors.map(|error| error.to_string()) {
        assert!(error.contains("is a database of another program"), "{error}");
    }
    assert!(std::fs::read(&path).unwrap() == before, "the file changed");
}

/// The statement that docs/cluster.md gives for programs in any language.
const SUBMIT: &str = "\
INSERT OR IGNORE INTO queue(name) VALUES('default');
INSERT INTO task(id, queue, name, class, state, created, submitter, args)
    VALUES(:uuid, 'default', 'resize-image', 1, 0, CAST(unixepoch('subsec') * 1000 AS INTEGER), 0, :json)
    ON CONFLICT(id) DO NOTHING;
UPDATE queue SET ready = ready + changes(), submitted = submitted + changes() WHERE name = 'default';
";

#[test]
fn task_submitted_by_plain_statements_runs_and_twice_is_once() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cluster.md");
    // The published crate does not contain the docs folder.
    if let Ok(text) = std::fs::read_to_string(docs) {
        assert!(text.contains(SUBMIT), "the statements in docs/cluster.md are others");
    }
    let folder = Folder::new("statements");
    let path = folder.path("jobs.db");
    let cluster = Cluster::open(&format!("sqlite:{}", path.display())).unwrap();
    let id = millpond_cluster::TaskId::from_name("photo:7");
    let uuid: String = id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    // Text instead of a blob, as most programs bind JSON.
    let statements = SUBMIT.replace(":uuid", &format!("X'{uuid}'")).replace(":json", "'7'");
    let mut other = rusqlite::Connection::open(&path).unwrap();
    for _ in 0..2 {
        let transaction = other.transaction().unwrap();
        transaction.execute_batch(&statements).unwrap();
        transaction.commit().unwrap();
    }
    assert_eq!(cluster.stats().unwrap().ready, 1);
    let resize = TaskType::<u64, u64>::new("resize-image");
    let _worker = cluster.worker().handle(&resize, |_, n| Ok(n * n)).start().unwrap();
    assert_eq!(cluster.find(&resize, id).unwrap().join().unwrap(), 49);
    let findings = cluster.admin().doctor().unwrap();
    assert!(findings.iter().all(|one| one.severity != millpond_cluster::Severity::Error), "{findings:?}");
}
