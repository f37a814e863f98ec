//! Invariants of a worker between its turns: the memory accounts are right, and every client that waits has an event to
//! wait for. Tests and simulated worlds check them after each turn. The checks change nothing.

mod accounts;
mod progress;

use crate::proxy::Proxy;

impl Proxy {
    /// Checks all memory accounts and all waiting clients. To be called when a turn has no work left.
    ///
    /// # Errors
    /// Describes the first violation.
    pub fn audit(&self) -> Result<(), String> {
        accounts::check(self)?;
        progress::check(self)
    }
}
