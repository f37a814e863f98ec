//! Users and their passwords: flags, or the files that have them.

use crate::access::{Secret, Source};
use clap::Args;
use std::path::PathBuf;

/// The sources of users, of which one is given at most.
#[derive(Args, Clone, Debug)]
pub(crate) struct UserArgs {
    /// Password of the default user, which may do everything; clients send it with AUTH. The list of processes shows
    /// it; use --requirepass-file to hide it
    #[arg(long, value_name = "PASSWORD", value_parser = Secret::parse, conflicts_with_all = ["requirepass_file", "acl_file"])]
    pub(super) requirepass: Option<Secret>,

    /// File with the default user's password in its first line; SIGHUP reads it again
    #[arg(long, value_name = "PATH", conflicts_with = "acl_file")]
    pub(super) requirepass_file: Option<PathBuf>,

    /// File of users and permissions, as Redis's aclfile: a line "user NAME on >PASSWORD ~KEYS +COMMAND …" for each
    /// user. SIGHUP and ACL LOAD read it again (docs/users.md)
    #[arg(long, value_name = "PATH")]
    pub(super) acl_file: Option<PathBuf>,

    /// User and its permissions, as a line of --acl-file without its first word: "NAME on >PASSWORD ~KEYS +COMMAND …". May
    /// be given for several users
    #[arg(long, value_name = "NAME RULE…", value_parser = Secret::parse,
        conflicts_with_all = ["requirepass", "requirepass_file", "acl_file"])]
    pub(super) user: Vec<Secret>,
}

impl UserArgs {
    /// The one that is given.
    pub(super) fn source(&self) -> Source {
        match (&self.requirepass, &self.requirepass_file, &self.acl_file) {
            (Some(password), ..) => Source::Password(password.clone()),
            (_, Some(path), _) => Source::PasswordFile(path.clone()),
            (.., Some(path)) => Source::AclFile(path.clone()),
            (None, None, None) if !self.user.is_empty() => Source::Lines(self.user.clone()),
            (None, None, None) => Source::Nothing,
        }
    }
}
