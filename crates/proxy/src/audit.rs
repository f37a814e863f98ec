//! What must be true of a worker between its turns: what is counted as held is what is held, and everybody who waits waits for
//! something that will come. Tests and simulated worlds ask for it after each turn. Nothing here changes anything.

mod accounts;
mod progress;

use crate::proxy::Proxy;

impl Proxy {
    /// Looks at all that is held and at all who wait. To be asked when nothing is left to be done in a turn.
    ///
    /// # Errors
    /// Says what does not fit.
    pub fn audit(&self) -> Result<(), String> {
        accounts::check(self)?;
        progress::check(self)
    }
}
