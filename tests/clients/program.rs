//! A program as a child process: its output line by line, the one question that it asks, and its end.

use crate::harness::{PATIENCE, poll_for};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The longest time of a program. They take one to ten seconds; the machine may be busy with others.
const TIME_MAX: Duration = Duration::from_secs(120);

/// A running program, which ends with the value.
pub(super) struct Program {
    child: Child,
    stdin: ChildStdin,
    stdout: Receiver<String>,
    /// Lines of `stdout` so far.
    lines: Vec<String>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl Program {
    /// Starts `command`; a thread reads each of the streams, so that it never blocks on a full pipe.
    pub(super) fn start(mut command: Command) -> Program {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdin = child.stdin.take().expect("stdin is a pipe");
        let stdout = lines_of(child.stdout.take().expect("stdout is a pipe"));
        let stderr = all_of(child.stderr.take().expect("stderr is a pipe"));
        Program { child, stdin, stdout, lines: Vec::new(), stderr }
    }

    /// Reads its output until it ends, calls `restart` when it asks for that, and returns its exit code. An error describes its
    /// behaviour if it does not end.
    pub(super) fn listen(&mut self, mut restart: impl FnMut()) -> Result<Option<i32>, String> {
        let deadline = Instant::now() + TIME_MAX;
        loop {
            match self.stdout.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let asks = line == "restart?";
                    self.lines.push(line);
                    if asks {
                        restart();
                        // If it is gone, its exit code says more.
                        let _ = self.stdin.write_all(b"restarted\n");
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err(format!("it did not end in {TIME_MAX:?}")),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let ended = poll_for(PATIENCE, || self.child.try_wait().expect("our child can be waited for"));
        let status = ended.ok_or_else(|| format!("it closed stdout and did not end in {PATIENCE:?}"))?;
        Ok(status.code())
    }

    /// The lines that it printed so far.
    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// All that it printed so far, for people.
    fn output(&self) -> String {
        let stderr = self.stderr.lock().expect("no reader panics");
        format!("{}\n---- and on stderr ----\n{}", self.lines.join("\n"), String::from_utf8_lossy(&stderr))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails only if it ended before, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("---- the program printed:\n{}\n----", self.output());
        }
    }
}

/// The lines of `stream` as they come, until it ends.
fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

/// Collects the bytes of `stream` in the background.
fn all_of(mut stream: impl Read + Send + 'static) -> Arc<Mutex<Vec<u8>>> {
    let all = Arc::new(Mutex::new(Vec::new()));
    let growing = Arc::clone(&all);
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(len @ 1..) = stream.read(&mut chunk) {
            growing.lock().expect("no reader panics").extend_from_slice(&chunk[..len]);
        }
    });
    all
}

/// The end of `script`, its output, and the number of restarts that it asked for.
#[cfg(test)]
fn listen_to(script: &str) -> (Result<Option<i32>, String>, String, usize) {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let mut program = Program::start(command);
    let mut restarts = 0;
    let ended = program.listen(|| restarts += 1);
    (ended, program.lines().join("|"), restarts)
}

#[test]
fn a_program_is_answered_when_it_asks_for_a_restart() {
    let script = "echo ok connect; echo restart?; read answer; echo $answer; echo done";
    assert_eq!(listen_to(script), (Ok(Some(0)), "ok connect|restart?|restarted|done".to_owned(), 1));
}

#[test]
fn a_program_that_fails_is_heard_to_its_end() {
    assert_eq!(listen_to("echo not ok connect: why; exit 3").0, Ok(Some(3)));
    assert_eq!(listen_to("kill -9 $$").0, Ok(None));
    // The program asks and does not wait for the answer.
    assert_eq!(listen_to("echo restart?; exit 1"), (Ok(Some(1)), "restart?".to_owned(), 1));
}
