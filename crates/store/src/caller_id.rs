//! The id of a connection to the store.

use stdx::Id;

/// Id of one connection to a [`crate::Store`], valid while the connection lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerId(pub(crate) Id);
