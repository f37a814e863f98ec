//! Control jobs for the ACL file and for the configuration.

use stdx::Id;

/// A client's request that the control thread carries out.
#[derive(Debug)]
pub struct ControlJob {
    pub(crate) inquiry: Id,
    /// The kind of job.
    pub task: Task,
}

/// The kind of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Load the ACL file. The outcome goes to [`Proxy::handle_loaded`](crate::Proxy::handle_loaded).
    LoadUsers,
    /// Save the users of the registry. The outcome goes to [`Proxy::handle_saved`](crate::Proxy::handle_saved).
    SaveUsers,
    /// Carry out an order about the configuration. The outcome goes to [`end_reload`](crate::end_reload).
    Reload(ReloadOrder),
}

/// An order about the configuration of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadOrder {
    /// Tell what the file would change.
    Plan,
    /// Follow the file.
    Follow,
    /// Follow the file. If a change needs a restart, have the next process follow it, which takes over by an upgrade.
    Force,
    /// Follow the kept configuration of this number; without one, that before the present one.
    Back(Option<u64>),
}

/// The outcome of an order about the configuration. Nothing changes but by [`Done`](ReloadOutcome::Done).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// Carried out: a line for each change.
    Done(Vec<String>),
    /// The next process begins, which makes these changes.
    Begun(Vec<String>),
    /// Refused for these reasons.
    Refused(Vec<String>),
    /// The file has these faults.
    Faulty(Vec<String>),
    /// The control thread has other work: nothing is known.
    Late,
}
