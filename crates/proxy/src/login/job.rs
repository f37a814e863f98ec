//! What is to be done with the ACL file.

use stdx::Id;

/// The wish of a client that something be done with the ACL file.
#[derive(Debug)]
pub struct ControlJob {
    pub(crate) inquiry: Id,
    /// What is to be done.
    pub task: Task,
}

/// What a client wants to be done with the ACL file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// It is read again: the outcome goes to [`Proxy::handle_loaded`](crate::Proxy::handle_loaded).
    LoadUsers,
    /// The users, as they are in the registry, are written to it: the outcome goes to [`Proxy::handle_saved`](crate::Proxy::handle_saved).
    SaveUsers,
}
