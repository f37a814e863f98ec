//! The source of expected replies: single servers, which get the same requests as shardis.

use super::server::{self, server};
use super::{Client, RedisServer};
use command::Server;

/// A Redis 7.0, whose words shardis uses for its own answers. Where nodes have another version, also a server of that version,
/// whose words are those of forwarded requests. Shardis must answer as one of them does.
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
    /// Sends `args` and returns each server's reply. The server with the nodes' version comes last.
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
