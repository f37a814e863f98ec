//! Secrets that a service shows to nodes and sentinels, and the token of its admin listener. Their files are read at
//! the start and again on SIGHUP. A connection that is open keeps the secret with which it began.

use crate::args::ProxyArgs;
use admin::Guard;
use proxy::Credentials;
use topology::discovery::Greetings;

/// The secrets of one service.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secrets {
    /// For nodes.
    pub node: Credentials,
    /// For sentinels.
    pub sentinel: Credentials,
    /// The condition of requests at the admin listener.
    pub guard: Guard,
}

impl Secrets {
    /// The present secrets of `args`. The error names the option and the file.
    pub(crate) fn read(args: &ProxyArgs) -> Result<Secrets, String> {
        Ok(Secrets {
            node: args.credentials()?,
            sentinel: args.discovery.sentinel_credentials()?,
            guard: args.admin.guard()?,
        })
    }

    /// The first bytes of the connections of the discovery.
    pub(crate) fn greetings(&self) -> Greetings {
        let bytes = |credentials: &Credentials| credentials.request().map(<[u8]>::to_vec);
        Greetings { node: bytes(&self.node), sentinel: bytes(&self.sentinel) }
    }
}
