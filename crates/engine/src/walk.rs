//! Records the functions that a request passes. Tests compare them with the walks of ARCHITECTURE.md, so that the map
//! stays true. In builds without tests, recording does nothing.

/// The function `name` was entered.
#[cfg(not(all(feature = "walk", debug_assertions)))]
#[inline(always)]
pub fn enter(_name: &'static str) {}

#[cfg(all(feature = "walk", debug_assertions))]
pub use recorded::{enter, record};

#[cfg(all(feature = "walk", debug_assertions))]
mod recorded {
    use std::cell::RefCell;

    thread_local! {
        /// The functions that were entered; `None` while nothing is recorded.
        static ENTERED: RefCell<Option<Vec<&'static str>>> = const { RefCell::new(None) };
    }

    /// The function `name` was entered.
    pub fn enter(name: &'static str) {
        ENTERED.with_borrow_mut(|entered| entered.iter_mut().for_each(|entered| entered.push(name)));
    }

    /// The functions that were entered while `run` ran, each once, in the order of their first times.
    pub fn record(run: impl FnOnce()) -> Vec<&'static str> {
        ENTERED.set(Some(Vec::new()));
        run();
        let mut first = Vec::new();
        for name in ENTERED.take().unwrap_or_default() {
            if !first.contains(&name) {
                first.push(name);
            }
        }
        first
    }
}
