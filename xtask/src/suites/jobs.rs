//! Parts of suites that wait for a thread. Two parts that use the same fixed port do not run at the same time. Until the first
//! is done, a thread takes another job instead of waiting.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Jobs in the order of their arrival. `J` is the work of a thread.
pub(super) struct Jobs<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
}

struct State<J> {
    waiting: VecDeque<Job<J>>,
    /// Number of sources that may still add jobs.
    sources: usize,
    /// The ports of the jobs that run.
    ports: Vec<u16>,
}

/// A job, with the port that it needs alone.
pub(super) struct Job<J> {
    pub(super) port: Option<u16>,
    pub(super) what: J,
}

impl<J> Jobs<J> {
    /// No jobs yet. Each of `sources` adds some, and calls [`Jobs::close`] when it adds no more.
    pub(super) fn of(sources: usize) -> Jobs<J> {
        let state = State { waiting: VecDeque::new(), sources, ports: Vec::new() };
        Jobs { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn add(&self, job: Job<J>) {
        self.state().waiting.push_back(job);
        self.changed.notify_all();
    }

    /// One source adds no more.
    pub(super) fn close(&self) {
        self.state().sources -= 1;
        self.changed.notify_all();
    }

    /// Waits for the next job whose port is free; `None` once there are no more. [`Jobs::finish`] ends the job.
    pub(super) fn next(&self) -> Option<Job<J>> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.take() {
                return Some(job);
            }
            if state.sources == 0 && state.waiting.is_empty() {
                return None;
            }
            state = self.changed.wait(state).expect("nothing panics while it holds this");
        }
    }

    /// The job that had `port` is done.
    pub(super) fn finish(&self, port: Option<u16>) {
        self.state().ports.retain(|&taken| Some(taken) != port);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().expect("nothing panics while it holds this")
    }
}

impl<J> State<J> {
    fn take(&mut self) -> Option<Job<J>> {
        let is_free = |job: &Job<J>| job.port.is_none_or(|port| !self.ports.contains(&port));
        let job = self.waiting.remove(self.waiting.iter().position(is_free)?)?;
        self.ports.extend(job.port);
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_whose_port_is_taken_lets_others_pass() {
        let jobs = Jobs::of(1);
        for (port, what) in [(Some(1), "a"), (Some(1), "b"), (None, "c"), (Some(2), "d")] {
            jobs.add(Job { port, what });
        }
        jobs.close();
        let next = || jobs.next().map(|job| job.what);
        assert_eq!([next(), next(), next()], [Some("a"), Some("c"), Some("d")]);
        jobs.finish(Some(1));
        assert_eq!([next(), next()], [Some("b"), None]);
    }
}
