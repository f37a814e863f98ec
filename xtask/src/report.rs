//! Steps one after the other, each announced and timed, with a table at the end.

use std::time::{Duration, Instant};

use anyhow::Result;

/// What became of the steps so far.
#[derive(Default)]
pub(crate) struct Report {
    steps: Vec<Step>,
    notes: Vec<String>,
}

struct Step {
    name: &'static str,
    took: Duration,
    passed: bool,
}

impl Report {
    /// Runs `work` as the step `name`. `None` if it failed; the reason was printed.
    pub(crate) fn step<T>(&mut self, name: &'static str, work: impl FnOnce() -> Result<T>) -> Option<T> {
        println!("\n==> {name}");
        let start = Instant::now();
        let outcome = work();
        let took = start.elapsed();
        self.steps.push(Step { name, took, passed: outcome.is_ok() });
        match outcome {
            Ok(value) => {
                println!("<== {name}: {:.1} s", took.as_secs_f64());
                Some(value)
            }
            Err(error) => {
                println!("<== {name} FAILED after {:.1} s: {error:#}", took.as_secs_f64());
                None
            }
        }
    }

    /// Has `line` printed below the table: what passed, and not as a whole.
    pub(crate) fn note(&mut self, line: String) {
        self.notes.push(line);
    }

    /// Whether no step failed.
    pub(crate) fn passed(&self) -> bool {
        self.steps.iter().all(|step| step.passed)
    }

    /// A line per step, the notes, and a last line that programs read: `N passed, N failed`.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::from("\nstep       seconds\n");
        for step in &self.steps {
            let mark = if step.passed { "" } else { "  FAILED" };
            text += &format!("{:<10} {:>7.1}{mark}\n", step.name, step.took.as_secs_f64());
        }
        if !self.notes.is_empty() {
            text += &format!("\n{}\n", self.notes.join("\n"));
        }
        let failed = self.steps.iter().filter(|step| !step.passed).count();
        text + &format!("\n{} passed, {failed} failed", self.steps.len() - failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_in_the_table_and_in_the_count() {
        let report = Report {
            steps: vec![
                Step { name: "fmt", took: Duration::from_millis(1250), passed: true },
                Step { name: "tests", took: Duration::from_secs(100), passed: false },
            ],
            notes: Vec::new(),
        };
        let expected =
            "\nstep       seconds\nfmt            1.2\ntests        100.0  FAILED\n\n1 passed, 1 failed";
        assert_eq!(report.summary(), expected);
        assert!(!report.passed());
    }

    #[test]
    fn a_note_is_below_the_table_and_does_not_count() {
        let mut report = Report::default();
        report.note("clients: java skipped: no mvn in PATH".into());
        let expected = "\nstep       seconds\n\nclients: java skipped: no mvn in PATH\n\n0 passed, 0 failed";
        assert_eq!(report.summary(), expected);
    }

    #[test]
    fn a_step_gives_its_value_or_is_marked_as_failed() {
        let mut report = Report::default();
        assert_eq!(report.step("good", || Ok(7)), Some(7));
        assert!(report.passed());
        assert_eq!(report.step("bad", || -> Result<()> { anyhow::bail!("as expected") }), None);
        assert!(!report.passed());
    }
}
