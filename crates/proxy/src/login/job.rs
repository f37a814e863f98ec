//! Control jobs for the ACL file.

use stdx::Id;

/// A client's request to load or save the ACL file.
#[derive(Debug)]
pub struct ControlJob {
    pub(crate) inquiry: Id,
    /// The kind of job.
    pub task: Task,
}

/// The kind of a job for the ACL file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Load the file. The outcome goes to [`Proxy::handle_loaded`](crate::Proxy::handle_loaded).
    LoadUsers,
    /// Save the users of the registry. The outcome goes to [`Proxy::handle_saved`](crate::Proxy::handle_saved).
    SaveUsers,
}
