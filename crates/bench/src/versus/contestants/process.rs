//! A process that runs cases: it reads a case per line, and answers each with a line.
//!
//! Every contestant has its own process, so that none inherits the memory or the threads of
//! another, and one that hangs can be killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// A case takes a few seconds at most, including the warm-up. Lost tasks are noticed after 20 s.
const LIMIT: Duration = Duration::from_secs(40);

pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    /// Ends with the output of the child.
    answers: Receiver<String>,
}

impl Process {
    pub(super) fn start(command: &mut Command) -> Result<Process, String> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("its process did not start: {error}"))?;
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, answers) = mpsc::channel();
        // A thread, because reading has no timeout. It ends with the output.
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Ok(Process { child, input, answers })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// After an error the process is unusable.
    pub(super) fn ask(&mut self, line: &str) -> Result<String, String> {
        writeln!(self.input, "{line}").map_err(|_| self.end())?;
        self.answers.recv_timeout(LIMIT).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("hung: no answer for {} s", LIMIT.as_secs()),
            RecvTimeoutError::Disconnected => self.end(),
        })
    }

    fn end(&mut self) -> String {
        self.child.wait().map_or("its process ended".into(), |status| format!("its process ended: {status}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A failure here would not change a result that was already reported.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
