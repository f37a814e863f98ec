//! Users and their permissions: the access control lists (ACL) of Redis 7.0, without IO.
//!
//! ```text
//!   acl file, SETUSER ─► rules ─► User ─┬─► permission: may this request be carried out?
//!                          ▲            └─► describe: the rules again, as ACL LIST prints them ─┐
//!                          └────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Begin with [`Users`], which never change, the [`User`] in them, and [`Registry`]. A change makes new users. The registry
//! keeps the newest for all workers, with the log of denials.
//!
//! ```
//! use users::{Registry, Users};
//!
//! let registry = Registry::new(Users::default(), [0; 32], false);
//! let users = registry.set_user(b"ann", &[b"on", b">secret", b"~user:*", b"+get"], 1 << 20).expect("the rules are right");
//! assert!(users.authenticate(b"ann", b"secret").is_some());
//! assert!(users.authenticate(b"ann", b"guess").is_none());
//! ```
//!
//! Passwords are kept as SHA-256, and nothing here prints one.
//!
//! **Must not know** a session, a shard or a file system: files come as text. Of our crates it depends on `command`, `resp` and
//! `stdx`. The root's `clippy.toml` forbids clocks, threads and sockets.

mod bits;
mod commands;
mod denials;
mod describe;
mod file;
mod password;
mod permission;
mod registry;
mod rules;
mod user;

pub use commands::Commands;
pub use denials::{Context, Denial, Denials, Reason};
pub use describe::Description;
pub use file::FileError;
pub use permission::Denied;
pub use registry::Registry;
pub use rules::RuleError;
pub use user::{DEFAULT, User, Users};

#[cfg(test)]
mod testing;
