//! Who says what is right: single servers, to which the same is said as to shardis.

use super::server::{self, server};
use super::{Client, RedisServer};
use command::Server;

/// A Redis 7.0, whose words shardis has where it answers itself; and where nodes are of another version, one of them too,
/// whose words are those of what is forwarded. Shardis must say what one of them says.
pub(crate) struct Oracle {
    servers: Vec<RedisServer>,
}

impl Oracle {
    pub(crate) fn start() -> Oracle {
        let mut servers = vec![RedisServer::reference()];
        if server() != Server::Redis(7, 0) || server::program() != server::REFERENCE {
            servers.push(RedisServer::start());
        }
        Oracle { servers }
    }

    /// A client of each.
    pub(crate) fn connect(&self) -> OracleClient {
        OracleClient { clients: self.servers.iter().map(RedisServer::connect).collect() }
    }
}

/// A client of each server of an oracle, which all send the same.
pub(crate) struct OracleClient {
    clients: Vec<Client>,
}

impl OracleClient {
    /// Sends `args` and gives what each server says: the one that is as the nodes are comes last.
    pub(crate) fn command(&mut self, args: &[&[u8]]) -> Vec<Vec<u8>> {
        self.clients.iter_mut().map(|client| client.command(args)).collect()
    }

    /// As [`Client::ask`] of each.
    pub(crate) fn ask(&mut self, words: &str) -> Vec<String> {
        self.clients.iter_mut().map(|client| client.ask(words)).collect()
    }
}

impl From<Client> for OracleClient {
    /// Of one server alone.
    fn from(client: Client) -> OracleClient {
        OracleClient { clients: vec![client] }
    }
}
