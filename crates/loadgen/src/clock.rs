//! The only clock of this crate.

use stdx::Instant;

/// Tells the time since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// A clock that shows zero now.
    pub fn start() -> Clock {
        Clock { origin: std::time::Instant::now() }
    }

    /// The time since then.
    pub fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }
}
