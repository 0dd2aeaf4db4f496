//! The stored schema and its version.

use rusqlite::Connection;

use crate::error::{Certainty, EngineError};

/// Marks the file as a millpond file: "MPND".
pub(super) const APPLICATION_ID: i32 = 0x4d50_4e44;

/// The step at index `n` upgrades version `n` to `n + 1`.
const STEPS: &[&str] = &[include_str!("../sql/schema-1.sql")];

/// The version that this build reads and writes.
pub(super) const VERSION: u32 = STEPS.len() as u32;

/// Creates the schema in an empty file, and refuses one of another version.
pub(super) fn open(conn: &Connection, path: &str) -> Result<(), EngineError> {
    match version(conn).map_err(|error| super::map(error, path))? {
        VERSION => refuse_foreign(conn, path),
        0 => upgrade(conn, path, STEPS),
        older if older < VERSION => Err(EngineError::new(
            Certainty::Permanent,
            format!(
                "'{path}' has schema {older} but this version needs {VERSION}: \
                 run `millpond cluster --on sqlite:{path} --write migrate`"
            ),
        )),
        newer => Err(EngineError::new(
            Certainty::Permanent,
            format!("'{path}' has schema {newer}, written by a newer version; this one knows {VERSION}"),
        )),
    }
}

/// Upgrades the schema to the newest version, in one transaction.
pub(super) fn migrate(conn: &Connection, path: &str) -> Result<(), EngineError> {
    upgrade(conn, path, STEPS)
}

pub(super) fn version(conn: &Connection) -> rusqlite::Result<u32> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Refuses a non-empty database of another program.
pub(super) fn refuse_foreign(conn: &Connection, path: &str) -> Result<(), EngineError> {
    let number =
        |sql| conn.query_row(sql, [], |row| row.get::<_, i32>(0)).map_err(|error| super::map(error, path));
    // In this order: another process may create the schema between the two reads.
    let is_empty = number("SELECT count(*) FROM sqlite_schema")? == 0;
    match number("PRAGMA application_id")? {
        APPLICATION_ID => Ok(()),
        0 if is_empty => Ok(()),
        _ => Err(foreign(path)),
    }
}

fn foreign(path: &str) -> EngineError {
    let message = format!("'{path}' is a database of another program");
    EngineError::new(Certainty::Permanent, message)
}

fn upgrade(conn: &Connection, path: &str, steps: &[&str]) -> Result<(), EngineError> {
    conn.execute_batch("BEGIN IMMEDIATE").map_err(|error| super::map(error, path))?;
    let result = upgrade_inside(conn, path, steps);
    let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = conn.execute_batch(end).map_err(|error| super::map(error, path));
    result.and(ended)
}

fn upgrade_inside(conn: &Connection, path: &str, steps: &[&str]) -> Result<(), EngineError> {
    let map = |error| super::map(error, path);
    // Read again under the lock: another process may have upgraded meanwhile.
    let from = version(conn).map_err(map)? as usize;
    let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
    let tables: u32 = conn.query_row(tables, [], |row| row.get(0)).map_err(map)?;
    if from == 0 && tables > 0 {
        return Err(foreign(path));
    }
    for step in steps.get(from..).unwrap_or_default() {
        conn.execute_batch(step).map_err(map)?;
    }
    conn.pragma_update(None, "application_id", APPLICATION_ID).map_err(map)?;
    conn.pragma_update(None, "user_version", steps.len().max(from) as u32).map_err(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: &[&str] = &[
        include_str!("../sql/schema-1.sql"),
        "ALTER TABLE task ADD COLUMN lane TEXT; CREATE TABLE lane(x);",
    ];

    #[test]
    fn upgrade_runs_only_the_missing_steps_and_twice_is_once() {
        let conn = Connection::open_in_memory().unwrap();
        open(&conn, "test").unwrap();
        assert_eq!(version(&conn).unwrap(), 1);
        upgrade(&conn, "test", NEXT).unwrap();
        upgrade(&conn, "test", NEXT).unwrap();
        assert_eq!(version(&conn).unwrap(), 2);
        conn.execute_batch("SELECT lane FROM task").unwrap();
    }

    #[test]
    fn failed_upgrade_leaves_the_old_schema() {
        let conn = Connection::open_in_memory().unwrap();
        open(&conn, "test").unwrap();
        let broken = [NEXT[0], "CREATE TABLE half(x); THIS IS NOT SQL"];
        upgrade(&conn, "test", &broken).unwrap_err();
        assert_eq!(version(&conn).unwrap(), 1);
        let half = "SELECT count(*) FROM sqlite_schema WHERE name = 'half'";
        assert_eq!(conn.query_row(half, [], |row| row.get::<_, u32>(0)).unwrap(), 0);
    }

    #[test]
    fn newer_schema_and_foreign_file_are_refused() {
        let conn = Connection::open_in_memory().unwrap();
        upgrade(&conn, "test", NEXT).unwrap();
        assert!(open(&conn, "test").unwrap_err().to_string().contains("newer version"));

        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE mine(x)").unwrap();
        assert!(open(&conn, "test").unwrap_err().to_string().contains("another program"));
    }
}
