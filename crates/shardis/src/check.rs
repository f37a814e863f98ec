//! `shardis check`: the faults of a configuration file, or the services that it describes, and the changes against the file in use.

use crate::args::Serving;
use crate::config::{self, Depth, Faults};
use crate::reload::Changes;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Exit code if a change needs a restart.
const NEEDS_RESTART: u8 = 3;

/// Reports on the file at `path`, and on the changes from the file `against`.
pub(crate) fn run(path: &Path, against: Option<&Path>) -> ExitCode {
    let (serving, before) = match read(path, against) {
        Ok(files) => files,
        Err(faults) => {
            // A closed stderr is no reason to complain.
            let _ = writeln!(std::io::stderr(), "{faults}");
            return ExitCode::FAILURE;
        }
    };
    let mut text = format!("{}: the configuration is valid\n{}\n", path.display(), config::summary(&serving));
    let changes = before.map(|before| Changes::between(&before, &serving));
    if let (Some(changes), Some(against)) = (&changes, against) {
        text.push_str(&format!("against {}:\n{}\n", against.display(), changes.lines().join("\n")));
    }
    // A closed stdout is no reason to fail.
    let _ = write!(std::io::stdout(), "{text}");
    match changes {
        Some(changes) if !changes.obstacles().is_empty() => ExitCode::from(NEEDS_RESTART),
        _ => ExitCode::SUCCESS,
    }
}

fn read(path: &Path, against: Option<&Path>) -> Result<(Serving, Option<Serving>), Faults> {
    let load = |path| config::load(path, &[], Depth::Check);
    Ok((load(path)?, against.map(load).transpose()?))
}
