-- Schema 1. A later version adds a file and never changes this one: see tests/upgrade.rs.
-- state: 0 ready, 1 running, 2 delayed, 3 succeeded, 4 dead, 5 cancelled.  class: 0 high, 1 normal, 2 low.
-- Times are milliseconds since the Unix epoch. Options and history are JSON; NULL means defaults and none.
CREATE TABLE task(
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    queue TEXT NOT NULL,
    name TEXT NOT NULL,
    class INTEGER NOT NULL,
    state INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    cancel INTEGER NOT NULL DEFAULT 0,
    codec INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    submitter INTEGER NOT NULL,
    due INTEGER,
    deadline INTEGER,
    options TEXT,
    retry_of BLOB,
    args BLOB,
    owner TEXT,
    lease INTEGER,
    started INTEGER,
    finished INTEGER,
    expires INTEGER,
    unhandled INTEGER,
    reason INTEGER,
    result BLOB,
    error TEXT,
    progress BLOB,
    history TEXT
);
-- Partial indexes: each holds only the tasks of one state, so a deep queue does not slow its head.
CREATE INDEX task_ready ON task(queue, class) WHERE state = 0 AND crashes = 0;
CREATE INDEX task_suspect ON task(queue, class) WHERE state = 0 AND crashes > 0;
CREATE INDEX task_lease ON task(queue, lease) WHERE state = 1;
CREATE INDEX task_cancel ON task(owner) WHERE state = 1 AND cancel = 1;
CREATE INDEX task_due ON task(queue, due) WHERE state = 2;
CREATE INDEX task_deadline ON task(queue, deadline) WHERE deadline IS NOT NULL AND state IN (0, 2);
CREATE INDEX task_expires ON task(queue, expires) WHERE expires IS NOT NULL;

-- Tasks that ended, for submitters in other processes. Commit order is the order of seq.
CREATE TABLE notice(seq INTEGER PRIMARY KEY, id BLOB NOT NULL);

CREATE TABLE unique_key(
    queue TEXT NOT NULL, key TEXT NOT NULL, id BLOB NOT NULL, until INTEGER, PRIMARY KEY(queue, key)
) WITHOUT ROWID;
CREATE INDEX unique_until ON unique_key(queue, until) WHERE until IS NOT NULL;

CREATE TABLE periodic(
    queue TEXT NOT NULL, name TEXT NOT NULL, next INTEGER NOT NULL, last BLOB, spec TEXT NOT NULL,
    PRIMARY KEY(queue, name)
) WITHOUT ROWID;

-- mode: 0 open, 1 paused, 2 closed. The counts of states are kept by every transaction; `doctor` checks them.
CREATE TABLE queue(
    name TEXT PRIMARY KEY,
    mode INTEGER NOT NULL DEFAULT 0,
    capacity INTEGER,
    keep_records INTEGER NOT NULL DEFAULT 100000,
    keep_bytes INTEGER NOT NULL DEFAULT 268435456,
    ready INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    delayed INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    finished_bytes INTEGER NOT NULL DEFAULT 0,
    submitted INTEGER NOT NULL DEFAULT 0,
    started INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    crashed INTEGER NOT NULL DEFAULT 0,
    given_back INTEGER NOT NULL DEFAULT 0,
    fence_refused INTEGER NOT NULL DEFAULT 0,
    purged INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE worker(
    id TEXT PRIMARY KEY, queue TEXT NOT NULL, started INTEGER NOT NULL, seen INTEGER NOT NULL,
    threads INTEGER NOT NULL, held INTEGER NOT NULL, finished INTEGER NOT NULL, draining INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
