//! Credentials of shardis for nodes.

use crate::access::Secret;
use clap::Args;
use proxy::Credentials;
use std::path::PathBuf;

/// The password for nodes, and the user.
#[derive(Args, Clone, Debug)]
pub(crate) struct NodeAuthArgs {
    /// Password for nodes (AUTH). The list of processes shows it; use --node-auth-file to hide it
    #[arg(long, value_name = "PASSWORD", value_parser = Secret::parse, requires = "far", group = "node_password")]
    node_auth: Option<Secret>,

    /// File with the password for nodes (AUTH) in its first line; with --auth=nodes, for connections of shardis itself
    #[arg(long, value_name = "PATH", requires = "far", group = "node_password")]
    node_auth_file: Option<PathBuf>,

    /// User name for --node-auth-file; without it, the default user
    #[arg(long, value_name = "NAME", requires = "node_password")]
    node_user: Option<String>,
}

impl NodeAuthArgs {
    /// The value of `--node-auth`.
    pub(super) fn secret(&self) -> Option<&Secret> {
        self.node_auth.as_ref()
    }

    /// Whether a file has the password.
    pub(super) fn has_file(&self) -> bool {
        self.node_auth_file.is_some() || self.node_auth.as_ref().is_some_and(Secret::is_file)
    }

    /// Credentials for nodes, by the present text of the file. The error names the option and the file.
    pub(crate) fn credentials(&self) -> Result<Credentials, String> {
        let user = self.node_user.as_deref();
        match (&self.node_auth, &self.node_auth_file) {
            (Some(password), _) => Ok(password.again("--node-auth")?.credentials(user)),
            (None, Some(path)) => Ok(Secret::read("--node-auth-file", path)?.credentials(user)),
            (None, None) => Ok(Credentials::default()),
        }
    }
}
