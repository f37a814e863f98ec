//! Who clients are and what they may do: the access control lists (ACL) of Redis 7.0, without IO.
//!
//! ```text
//!   acl file, SETUSER ─► rules ─► User ─┬─► permission: may this request be carried out?
//!                          ▲            └─► describe: the rules again, as ACL LIST prints them ─┐
//!                          └────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! [`Users`] never change: whoever changes them makes new ones, and [`Registry`] keeps the newest for all workers, with the
//! log of what was denied. Passwords are kept as SHA-256, and nothing here prints one.

mod bits;
mod denials;
mod describe;
mod file;
mod password;
mod permission;
mod registry;
mod rules;
mod user;

pub use denials::{Context, Denial, Denials, Reason};
pub use describe::Description;
pub use file::FileError;
pub use permission::Denied;
pub use registry::Registry;
pub use rules::RuleError;
pub use user::{DEFAULT, User, Users};

#[cfg(test)]
mod testing;
