//! The views: one table each.

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Nodes,
    Commands,
    HotKeys,
    BigKeys,
    Slots,
    Slow,
    Clients,
    Events,
    Errors,
}

/// The number of views.
pub(crate) const VIEWS: usize = View::ALL.len();

impl View {
    pub(crate) const ALL: [View; 9] = [
        View::Nodes,
        View::Commands,
        View::HotKeys,
        View::BigKeys,
        View::Slots,
        View::Slow,
        View::Clients,
        View::Events,
        View::Errors,
    ];

    /// Short, so that all titles fit into one line.
    pub(crate) fn title(self) -> &'static str {
        match self {
            View::Nodes => "nodes",
            View::Commands => "commands",
            View::HotKeys => "hot",
            View::BigKeys => "big",
            View::Slots => "slots",
            View::Slow => "slow",
            View::Clients => "clients",
            View::Events => "events",
            View::Errors => "errors",
        }
    }

    /// Its place in [`View::ALL`].
    pub(crate) fn at(self) -> usize {
        self as usize
    }

    /// The view `steps` further on.
    pub(crate) fn next(self, steps: usize) -> View {
        View::ALL[(self.at() + steps) % VIEWS]
    }

    /// The view of a digit key: 1 is the first.
    pub(crate) fn of_digit(digit: char) -> Option<View> {
        let at = digit.to_digit(10)?.checked_sub(1)?;
        View::ALL.get(at as usize).copied()
    }
}
