//! Results of the steps of `cargo xtask test`: a table, notes, and a last line that programs read.

use std::time::Duration;

/// Results of the steps so far.
#[derive(Default)]
pub(crate) struct Report {
    steps: Vec<Finished>,
    notes: Vec<String>,
    errors: Vec<String>,
}

/// A step that has ended.
pub(crate) struct Finished {
    /// Its name.
    pub(crate) name: String,
    /// From its start to its end.
    pub(crate) took: Duration,
    /// Processor time of the step and its children, where the system tells it.
    pub(crate) cpu: Option<Duration>,
    /// Whether it succeeded.
    pub(crate) passed: bool,
}

impl Finished {
    /// The step's last line.
    pub(crate) fn line(&self) -> String {
        let end = if self.passed { ":" } else { " FAILED after" };
        format!("<== {}{end} {:.1} s", self.name, self.took.as_secs_f64())
    }
}

impl Report {
    /// Adds a line to the table.
    pub(crate) fn add(&mut self, step: Finished) {
        self.steps.push(step);
    }

    /// Adds `line` below the table: a step passed without a part of its work.
    pub(crate) fn note(&mut self, line: String) {
        self.notes.push(line);
    }

    /// Adds the error of a failed step below the notes, so that the end of a long log has it.
    pub(crate) fn error(&mut self, step: &str, error: &str) {
        self.errors.push(format!("{step}: {error}"));
    }

    /// Whether no step failed.
    pub(crate) fn passed(&self) -> bool {
        self.steps.iter().all(|step| step.passed)
    }

    /// A line per step, the notes, the errors, and the last line: `N passed, N failed`.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::from("\nstep       seconds  cpu seconds\n");
        for step in &self.steps {
            let mark = if step.passed { "" } else { "  FAILED" };
            let cpu = step.cpu.map_or("-".into(), |cpu| format!("{:.1}", cpu.as_secs_f64()));
            text += &format!("{:<10} {:>7.1} {cpu:>12}{mark}\n", step.name, step.took.as_secs_f64());
        }
        for lines in [&self.notes, &self.errors] {
            if !lines.is_empty() {
                text += &format!("\n{}\n", lines.join("\n"));
            }
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
        let mut report = Report::default();
        let cpu = Some(Duration::from_millis(1500));
        report.add(Finished { name: "fmt".into(), took: Duration::from_millis(1250), cpu, passed: true });
        assert!(report.passed());
        let failed =
            Finished { name: "tests".into(), took: Duration::from_secs(100), cpu: None, passed: false };
        assert_eq!(failed.line(), "<== tests FAILED after 100.0 s");
        report.add(failed);
        report.error("tests", "1 of 7 failed");
        let expected = "\nstep       seconds  cpu seconds\nfmt            1.2          1.5\n\
                        tests        100.0            -  FAILED\n\ntests: 1 of 7 failed\n\n1 passed, 1 failed";
        assert_eq!(report.summary(), expected);
        assert!(!report.passed());
    }

    #[test]
    fn a_note_is_below_the_table_and_does_not_count() {
        let mut report = Report::default();
        report.note("clients: java skipped: no mvn in PATH".into());
        let expected = "\nstep       seconds  cpu seconds\n\nclients: java skipped: no mvn in PATH\n\n\
                        0 passed, 0 failed";
        assert_eq!(report.summary(), expected);
    }
}
