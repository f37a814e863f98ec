//! Reloads of the control thread: on a signal, or on orders of an operator.

use super::{Control, KEPT};
use crate::args::Serving;
use crate::config::Faults;
use crate::log_sink;
use crate::logging;
use crate::reload::Changes;
use crate::wall_clock;
use proxy::{ReloadOrder, ReloadOutcome};
use tracing::{error, info};

/// Where a configuration comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    File,
    /// The kept one of this number.
    Kept(u64),
}

const NO_FILE: &str = "there is no configuration file";

impl Control {
    /// Carries out the orders of other threads, each with an answer.
    pub(super) fn carry_out_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            let outcome = self.carry_out(order.order);
            (order.answer)(outcome);
        }
    }

    /// Carries out an order about the configuration.
    pub(super) fn carry_out(&mut self, order: ReloadOrder) -> ReloadOutcome {
        match order {
            ReloadOrder::Plan => self.plan(),
            ReloadOrder::Follow => self.reload(),
            ReloadOrder::Force => self.force(),
            ReloadOrder::Back(wanted) => self.go_back(wanted),
        }
    }

    /// The changes of the file, none of which takes effect.
    fn plan(&self) -> ReloadOutcome {
        match self.serving.read_again() {
            None => ReloadOutcome::Done(vec![NO_FILE.to_owned()]),
            Some(Ok(serving)) => ReloadOutcome::Done(Changes::between(&self.serving, &serving).lines()),
            Some(Err(faults)) => ReloadOutcome::Faulty(lines_of(&faults)),
        }
    }

    /// Reads the configuration again, and the files that it names. Either all of it takes effect, or nothing.
    fn reload(&mut self) -> ReloadOutcome {
        self.systemd.show_reloading();
        log_sink::reopen();
        let outcome = match self.serving.read_again() {
            None => {
                if !self.reload_files() {
                    info!(reason = "no files to reload", hint = "SIGTERM ends shardis", "reload skipped");
                }
                ReloadOutcome::Done(vec![NO_FILE.to_owned()])
            }
            Some(Ok(serving)) => self.follow(serving, Source::File),
            Some(Err(faults)) => {
                let reasons = lines_of(&faults);
                tell_refused(&reasons);
                ReloadOutcome::Faulty(reasons)
            }
        };
        self.systemd.show_ready();
        outcome
    }

    /// Follows the file, by an upgrade if a change needs a restart: the next process reads the file when it starts.
    fn force(&mut self) -> ReloadOutcome {
        let mut lines = match self.serving.read_again() {
            Some(Ok(serving)) => {
                let changes = Changes::between(&self.serving, &serving);
                if changes.obstacles().is_empty() {
                    return self.reload();
                }
                changes.lines()
            }
            // A file with faults, or none.
            _ => return self.reload(),
        };
        match self.begin_upgrade() {
            Ok(pid) => {
                lines.push(format!("upgrade started: the process {pid} takes over with this configuration, or the log says why not"));
                ReloadOutcome::Begun(lines)
            }
            Err(reason) => ReloadOutcome::Refused(vec![format!("the upgrade that this needs: {reason}")]),
        }
    }

    /// Follows a configuration that is kept, although the file may say otherwise.
    fn go_back(&mut self, wanted: Option<u64>) -> ReloadOutcome {
        match self.kept.find(wanted) {
            Ok((number, serving)) => self.follow(serving, Source::Kept(number)),
            Err(reason) => {
                let reasons = vec![reason];
                tell_refused(&reasons);
                ReloadOutcome::Refused(reasons)
            }
        }
    }

    /// Follows the configuration `serving`, if no change needs a restart.
    fn follow(&mut self, serving: Serving, source: Source) -> ReloadOutcome {
        let changes = Changes::between(&self.serving, &serving);
        let obstacles = changes.obstacles();
        if !obstacles.is_empty() {
            tell_refused(&obstacles);
            return ReloadOutcome::Refused(obstacles);
        }
        if serving.log.0 != self.serving.log.0 {
            logging::set_level(serving.log.0.as_str());
        }
        match source {
            Source::File => {
                self.kept.follow_file(&serving, &changes, wall_clock::unix_us() as f64 / 1e6);
            }
            Source::Kept(number) => self.kept.go_to(number),
        }
        self.desk.show(self.kept.shown());
        self.serving = serving;
        if !changes.is_empty() {
            let (changes, number) = (changes.keys(), self.kept.present());
            let source = if source == Source::File { "file" } else { "kept" };
            info!(changes, number, source, "configuration reloaded");
        }
        if !self.reload_files() && changes.is_empty() {
            info!(reason = "nothing changes", hint = "SIGTERM ends shardis", "reload skipped");
        }
        ReloadOutcome::Done(changes.lines())
    }

    /// Has each service follow its pool and read its files. Returns whether there are files.
    fn reload_files(&mut self) -> bool {
        let pools = self.serving.pools.iter().map(Some).chain(std::iter::repeat(None));
        let services = self.services.iter_mut().zip(pools);
        let has_files: Vec<bool> = services.map(|(service, pool)| service.reload(pool)).collect();
        let has_admin_files = self.admin.reload();
        has_files.contains(&true) || has_admin_files
    }
}

fn lines_of(faults: &Faults) -> Vec<String> {
    faults.lines().to_vec()
}

/// Writes the reasons for which nothing changes to the log.
fn tell_refused(reasons: &[String]) {
    for reason in reasons {
        error!(reason, hint = KEPT, "reload refused");
    }
}
