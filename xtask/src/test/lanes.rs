//! Lanes of steps that run side by side.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use programs::process::{command, target_dir};

use super::step::{Outcome, Step};
use crate::report::{Finished, Report};

/// Steps that follow each other.
pub(super) struct Lane {
    pub(super) steps: &'static [Step],
    pub(super) output: Output,
}

/// Where the output of a lane's steps goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// To the terminal, while it comes.
    Shown,
    /// To a file, and to the terminal when the step has ended.
    Kept,
}

/// Runs the lanes of each round side by side, the rounds after each other.
pub(super) fn run(rounds: &[&[Lane]]) -> Report {
    let progress = Progress::default();
    for lanes in rounds {
        run_side_by_side(lanes, &progress, Step::run_apart);
    }
    progress.state.into_inner().unwrap_or_else(PoisonError::into_inner).report
}

fn run_side_by_side(
    lanes: &[Lane],
    progress: &Progress,
    perform: impl Fn(Step, Output) -> (bool, Outcome) + Copy + Send,
) {
    std::thread::scope(|scope| {
        for lane in lanes {
            scope.spawn(move || lane.run(progress, perform));
        }
    });
}

/// State that the lanes share.
#[derive(Default)]
struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    report: Report,
    done: Vec<Step>,
    failed: bool,
}

impl Progress {
    /// Waits until `step` may begin. Returns false if another has failed.
    fn wait_for_turn(&self, step: Step) -> bool {
        let state = self.state.lock().expect("no lane panics while it holds this");
        let is_blocked = |state: &mut State| {
            !state.failed && step.needs().is_some_and(|needed| !state.done.contains(&needed))
        };
        !self.changed.wait_while(state, is_blocked).expect("no lane panics while it holds this").failed
    }

    fn note(&self, step: Step, finished: Finished, outcome: Outcome) {
        println!("{}", finished.line());
        let mut state = self.state.lock().expect("no lane panics while it holds this");
        if finished.passed {
            state.done.push(step);
        } else {
            state.failed = true;
        }
        state.report.add(finished);
        outcome.notes.into_iter().for_each(|line| state.report.note(line));
        if let Some(error) = outcome.error {
            state.report.error(&step.name(), &error);
        }
        self.changed.notify_all();
    }
}

impl Lane {
    /// Performs the steps, up to one that fails in any lane.
    fn run(&self, progress: &Progress, perform: impl Fn(Step, Output) -> (bool, Outcome)) {
        for &step in self.steps {
            if !progress.wait_for_turn(step) {
                return;
            }
            let start = Instant::now();
            let (passed, outcome) = perform(step, self.output);
            let cpu = outcome.cpu_seconds.map(Duration::from_secs_f64);
            let finished = Finished { name: step.name(), took: start.elapsed(), cpu, passed };
            progress.note(step, finished, outcome);
        }
    }
}

impl Step {
    /// Runs the step as a process. Returns whether it succeeded, and its outcome.
    fn run_apart(self, output: Output) -> (bool, Outcome) {
        let tried = self.try_run_apart(output);
        tried.unwrap_or_else(|error| {
            println!("error: {}: {error:#}", self.name());
            (false, Outcome::default())
        })
    }

    fn try_run_apart(self, output: Output) -> Result<(bool, Outcome)> {
        let folder = target_dir().join("steps");
        std::fs::create_dir_all(&folder)?;
        let name = self.name();
        let (result, log) = (folder.join(format!("{name}.json")), folder.join(format!("{name}.log")));
        // The result of an earlier run would be taken for this one's.
        let _ = std::fs::remove_file(&result);
        let mut command = command(xtask()?);
        command.arg("step").arg(&name).arg("--result").arg(&result).stdin(Stdio::null());
        let passed = match output {
            Output::Shown => {
                println!("\n==> {name}");
                command.status()
            }
            Output::Kept => into_file(&mut command, &log),
        }
        .with_context(|| format!("cannot run {command:?}"))?
        .success();
        if output == Output::Kept {
            println!("\n==> {name}, beside the other lane\n{}", std::fs::read_to_string(&log)?);
        }
        let text = std::fs::read_to_string(&result).unwrap_or_default();
        Ok((passed, serde_json::from_str(&text).unwrap_or_default()))
    }
}

/// Runs `command` with all its output in the file `log`.
fn into_file(command: &mut Command, log: &Path) -> std::io::Result<std::process::ExitStatus> {
    let file = File::create(log)?;
    command.stdout(file.try_clone()?).stderr(file).status()
}

/// This program.
fn xtask() -> Result<PathBuf> {
    std::env::current_exe().context("the system does not tell which program this is")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(report: &Report) -> Vec<String> {
        let lines = report.summary();
        let names = lines.lines().skip(2).take_while(|line| !line.is_empty());
        names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    }

    fn run_with(lanes: &[Lane], fails: Option<Step>) -> Vec<String> {
        let progress = Progress::default();
        run_side_by_side(lanes, &progress, |step, _| (Some(step) != fails, Outcome::default()));
        names(&progress.state.into_inner().expect("no lane panics").report)
    }

    const LANES: [Lane; 2] = [
        Lane { steps: &[Step::Tests], output: Output::Kept },
        Lane { steps: &[Step::Fmt, Step::Clients], output: Output::Kept },
    ];

    #[test]
    fn a_step_waits_for_a_step_of_another_lane() {
        assert_eq!(run_with(&LANES, None), ["fmt", "clients", "tests"]);
    }

    #[test]
    fn after_a_failure_no_lane_begins_another_step() {
        assert_eq!(run_with(&LANES, Some(Step::Fmt)), ["fmt"]);
        assert_eq!(run_with(&LANES, Some(Step::Clients)), ["fmt", "clients"]);
    }
}
