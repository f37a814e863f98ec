//! The servers that have a command. Values only: shardis forwards a command even if its nodes may lack it, and they answer with
//! their own error.

use std::fmt;

/// A server and its version, as far as commands depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Redis, by the first two numbers of its version.
    Redis(u8, u8),
    /// Valkey, which is Redis 7.2 at its root.
    Valkey(u8, u8),
}

impl Server {
    /// Parses the program's output for `--version`, such as `Redis server v=7.0.15 sha=…`.
    pub fn of_version(line: &str) -> Option<Server> {
        let (name, rest) = line.split_once(" server v=")?;
        let mut numbers = rest.split(['.', ' ']).map(str::parse);
        let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        match name {
            "Redis" => Some(Server::Redis(major, minor)),
            "Valkey" => Some(Server::Valkey(major, minor)),
            _ => None,
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Redis(major, minor) => write!(out, "Redis {major}.{minor}"),
            Server::Valkey(major, minor) => write!(out, "Valkey {major}.{minor}"),
        }
    }
}

/// The first version with a command; a server without one never had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    redis: Option<(u8, u8)>,
    valkey: Option<(u8, u8)>,
}

impl Since {
    /// Redis 7.0, or before.
    pub const ALWAYS: Since = Since::both(0, 0);

    /// No server: only shardis has it.
    pub(crate) const NEVER: Since = Since { redis: None, valkey: None };

    /// Redis, and no Valkey.
    pub(crate) const fn redis(major: u8, minor: u8) -> Since {
        Since { redis: Some((major, minor)), valkey: None }
    }

    /// Valkey, and no Redis.
    pub(crate) const fn valkey(major: u8, minor: u8) -> Since {
        Since { redis: None, valkey: Some((major, minor)) }
    }

    /// Both, from before they parted.
    pub(crate) const fn both(major: u8, minor: u8) -> Since {
        Since { redis: Some((major, minor)), valkey: Some((major, minor)) }
    }

    /// And Valkey.
    pub(crate) const fn and_valkey(self, major: u8, minor: u8) -> Since {
        Since { valkey: Some((major, minor)), ..self }
    }

    /// Whether `server` has it. Commands of 7.0 or before are assumed to be in any version.
    pub fn is_in(self, server: Server) -> bool {
        let (since, version) = match server {
            Server::Redis(major, minor) => (self.redis, (major, minor)),
            Server::Valkey(major, minor) => (self.valkey, (major, minor)),
        };
        since.is_some_and(|since| since <= version)
    }
}

impl fmt::Display for Since {
    /// `Redis 7.4, Valkey 9.0`; nothing for older commands.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Since::ALWAYS {
            return Ok(());
        }
        let redis = self.redis.map(|(major, minor)| Server::Redis(major, minor).to_string());
        let valkey = self.valkey.map(|(major, minor)| Server::Valkey(major, minor).to_string());
        out.write_str(&redis.into_iter().chain(valkey).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_known_by_their_version_text() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1a2b\n";
        assert_eq!(Server::of_version(redis), Some(Server::Redis(7, 0)));
        assert_eq!(Server::of_version("Valkey server v=8.1.1 sha=00000000:0"), Some(Server::Valkey(8, 1)));
        for line in ["", "Redis server v=", "Redis server v=7", "Redis server v=7.x.1", "redis-cli 7.0.15"] {
            assert_eq!(Server::of_version(line), None, "{line}");
        }
    }

    #[test]
    fn a_command_is_in_the_versions_from_its_own_on() {
        let since = Since::redis(7, 4).and_valkey(9, 0);
        let servers = [
            Server::Redis(7, 2),
            Server::Redis(7, 4),
            Server::Redis(8, 0),
            Server::Valkey(8, 1),
            Server::Valkey(9, 0),
        ];
        assert_eq!(servers.map(|server| since.is_in(server)), [false, true, true, false, true]);
        assert!(Since::ALWAYS.is_in(Server::Redis(7, 0)));
        assert!(!Since::valkey(8, 1).is_in(Server::Redis(8, 0)));
        assert_eq!(
            [since, Since::both(7, 2), Since::ALWAYS].map(|since| since.to_string()),
            ["Redis 7.4, Valkey 9.0", "Redis 7.2, Valkey 7.2", ""]
        );
    }
}
