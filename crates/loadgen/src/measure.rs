//! The process that is measured, and its figures over one part of a run.

use crate::process::{Process, Times};
use crate::report::rounded;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use stdx::Instant;

/// Which process is measured.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MeasureOptions {
    /// Process id whose CPU time and memory are measured (Linux)
    #[arg(long, value_name = "PID")]
    pub measure_pid: Option<u32>,
    /// File with that process id, read once the target accepts
    #[arg(long, value_name = "FILE", conflicts_with = "measure_pid")]
    pub measure_pid_file: Option<PathBuf>,
}

impl MeasureOptions {
    /// The process, if one is to be measured.
    pub fn process(&self) -> Result<Option<Process>> {
        let pid = match (&self.measure_pid, &self.measure_pid_file) {
            (Some(pid), _) => *pid,
            (None, None) => return Ok(None),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                text.trim().parse().with_context(|| format!("{} holds no pid", path.display()))?
            }
        };
        Process::new(pid).map(Some)
    }
}

/// CPU time from [`Meter::begin`] to [`Meter::end`].
#[derive(Debug)]
pub struct Meter {
    process: Option<Process>,
    before: Times,
}

impl Meter {
    /// The measured part begins.
    pub fn begin(process: Option<Process>) -> Result<Meter> {
        let before = process.as_ref().map_or(Ok(Times::default()), Process::times)?;
        Ok(Meter { process, before })
    }

    /// Ends the measurement after `elapsed` and `requests` requests. Returns the fields for the report.
    pub fn end(self, elapsed: Duration, requests: u64) -> Result<Value> {
        let Some(process) = self.process else { return Ok(json!({})) };
        let after = process.times()?;
        let spent = (after.cpu_ns - self.before.cpu_ns) as f64;
        let waited = (after.waiting_ns - self.before.waiting_ns) as f64;
        Ok(json!({
            "cpu_us_per_request": rounded(spent / 1000.0 / requests.max(1) as f64, 4),
            "pid_busy": rounded(spent / elapsed.as_nanos() as f64, 3),
            "pid_waiting": rounded(waited / elapsed.as_nanos() as f64, 3),
            "rss_bytes": process.rss_bytes()?,
            "peak_rss_bytes": process.rss_peak_bytes()?,
        }))
    }
}

/// The memory of the measured process during one part of a run.
#[derive(Clone, Debug)]
pub struct Memory {
    process: Process,
    before: u64,
    /// The most that was seen.
    seen: u64,
    /// Whether the kernel's own peak began with us.
    peak_was_reset: bool,
    look_at: Instant,
}

/// Interval of the looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Memory {
    /// From now on.
    pub fn begin(process: Process) -> Result<Memory> {
        let before = process.rss_bytes()?;
        let peak_was_reset = process.reset_peak().is_ok();
        Ok(Memory { process, before, seen: before, peak_was_reset, look_at: Instant::ZERO })
    }

    /// Memory at the beginning.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// Present memory.
    pub fn rss_bytes(&self) -> Result<u64> {
        self.process.rss_bytes()
    }

    /// Looks how much it is, if it is time to.
    pub fn look(&mut self, now: Instant) -> Result<()> {
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            self.seen = self.seen.max(self.process.rss_bytes()?);
        }
        Ok(())
    }

    /// The peak: from the kernel where its counter could be reset, else the largest sample.
    pub fn peak(&self) -> Result<u64> {
        if self.peak_was_reset { self.process.rss_peak_bytes() } else { Ok(self.seen) }
    }
}
