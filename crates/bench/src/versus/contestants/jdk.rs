//! The JDK's executors, in a child process that does the same workloads: jdk/Versus.java.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use super::{Contestant, Home, Order};
use crate::workloads::{self, Body, Case, Failure, Outcome};

const SOURCE: &str = include_str!("../jdk/Versus.java");

/// How it is called in the table, how there, and whether it keeps the order.
const KINDS: [(&str, &str, Order); 6] = [
    ("JDK linked", "linked", Order::Fifo),
    ("JDK array", "array", Order::Fifo),
    ("JDK synchronous", "synchronous", Order::Fifo),
    ("JDK ForkJoin", "forkjoin", Order::Any),
    ("JDK", "queue", Order::Fifo),
    ("JDK scheduled", "scheduled", Order::Fifo),
];

/// The child. It ends when its input does.
struct Jvm {
    child: Child,
    /// None while it is being dropped.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    classes: PathBuf,
}

struct Jdk {
    name: &'static str,
    kind: &'static str,
    order: Order,
    jvm: Rc<RefCell<Jvm>>,
}

/// What the JDK offers, and which it is; or why there is none.
pub(crate) fn all(quick: bool) -> Result<(Vec<Box<dyn Contestant>>, String), String> {
    let version = version()?;
    let jvm = Rc::new(RefCell::new(Jvm::start(if quick { 300 } else { 1000 })?));
    let jdk = |(name, kind, order)| {
        Box::new(Jdk { name, kind, order, jvm: Rc::clone(&jvm) }) as Box<dyn Contestant>
    };
    Ok((KINDS.into_iter().map(jdk).collect(), version))
}

fn version() -> Result<String, String> {
    let output = Command::new("java").arg("-version").output();
    let output = output.map_err(|error| format!("no JDK is present (java: {error})"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    Ok(text.lines().nth(1).or(text.lines().next()).unwrap_or("unknown").trim().to_owned())
}

impl Jvm {
    /// Compiles the source and starts it; each case is to be warmed up for so many milliseconds.
    fn start(warm_up: u32) -> Result<Jvm, String> {
        let classes = std::env::temp_dir().join(format!("millpond-versus-{}", std::process::id()));
        let jvm = Jvm::start_in(&classes, warm_up);
        if jvm.is_err() {
            // What cannot be removed was perhaps never made.
            _ = fs::remove_dir_all(&classes);
        }
        jvm
    }

    fn start_in(classes: &PathBuf, warm_up: u32) -> Result<Jvm, String> {
        let problem = |what: &str, error: std::io::Error| format!("{what}: {error}");
        fs::create_dir_all(classes).map_err(|error| problem("no directory for the classes", error))?;
        let source = classes.join("Versus.java");
        fs::write(&source, SOURCE).map_err(|error| problem("the Java source", error))?;
        let compiled = Command::new("javac").arg("-d").arg(classes).arg(&source).output();
        let compiled = compiled.map_err(|error| problem("no JDK is present (javac)", error))?;
        if !compiled.status.success() {
            return Err(format!("javac failed: {}", String::from_utf8_lossy(&compiled.stderr)));
        }
        let mut child = Command::new("java")
            .args(["-Xms1g", "-Xmx2g", "-cp"])
            .arg(classes)
            .args(["Versus", &warm_up.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| problem("java", error))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Jvm { child, input, output, classes: classes.clone() })
    }

    fn ask(&mut self, line: &str) -> std::io::Result<String> {
        let input = self.input.as_mut().expect("it is not being dropped");
        writeln!(input, "{line}")?;
        input.flush()?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        drop(self.input.take());
        // Neither failure would change a result that has been told already.
        _ = self.child.wait();
        _ = fs::remove_dir_all(&self.classes);
    }
}

impl Contestant for Jdk {
    fn name(&self) -> &str {
        self.name
    }

    fn home(&self) -> Home {
        Home::Jdk
    }

    fn order(&self) -> Order {
        self.order
    }

    fn process(&self) -> Option<u32> {
        Some(self.jvm.borrow().child.id())
    }

    fn run(&self, case: &Case) -> Outcome {
        let Case { key, variant, workers, producers, body, size } = case;
        let micros = u32::from(*body == Body::Microsecond);
        let line = format!("{}\t{key}\t{variant}\t{workers}\t{producers}\t{micros}\t{size}", self.kind);
        let answer = self.jvm.borrow_mut().ask(&line);
        let answer = answer.map_err(|error| Failure::Wrong(format!("the JVM is gone: {error}")))?;
        workloads::answer(answer.trim())
    }
}
