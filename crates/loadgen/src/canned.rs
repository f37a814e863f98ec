//! The replies of a canned node: the same for the same command, without regard to earlier writes. Pure.

use crate::frame::{Head, name};
use resp::encode;

/// The replies of a node that stores nothing.
#[derive(Clone, Debug)]
pub struct Canned {
    bulk: Vec<u8>,
}

/// The byte of which all written and read values consist. A node that stores values therefore gives the same replies as a
/// canned one.
pub const FILL: u8 = b'x';

const GET: u64 = name(b"GET");
const SET: u64 = name(b"SET");
const MGET: u64 = name(b"MGET");
const MSET: u64 = name(b"MSET");
const DEL: u64 = name(b"DEL");
const EXISTS: u64 = name(b"EXISTS");
const UNLINK: u64 = name(b"UNLINK");
const TOUCH: u64 = name(b"TOUCH");
const INCR: u64 = name(b"INCR");
const PING: u64 = name(b"PING");
const COMMAND: u64 = name(b"COMMAND");
const CONFIG: u64 = name(b"CONFIG");

impl Canned {
    /// Every key has a value of `value_bytes` bytes.
    pub fn new(value_bytes: usize) -> Canned {
        let mut bulk = Vec::new();
        encode::bulk(&mut bulk, &vec![FILL; value_bytes]);
        Canned { bulk }
    }

    /// Appends the reply to the request that `head` is of.
    pub fn answer(&self, head: Head, out: &mut Vec<u8>) {
        match head.name {
            SET | MSET => out.extend_from_slice(b"+OK\r\n"),
            GET => out.extend_from_slice(&self.bulk),
            MGET => {
                encode::array_header(out, head.args - 1);
                for _ in 1..head.args {
                    out.extend_from_slice(&self.bulk);
                }
            }
            DEL | EXISTS | UNLINK | TOUCH => encode::integer(out, head.args as i64 - 1),
            INCR => encode::integer(out, 1),
            PING => out.extend_from_slice(b"+PONG\r\n"),
            // Nothing is known of any command, nothing is configured.
            COMMAND | CONFIG => encode::array_header(out, 0),
            _ => out.extend_from_slice(b"+OK\r\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(request: &[&str]) -> String {
        let mut out = Vec::new();
        Canned::new(3).answer(Head { name: name(request[0].as_bytes()), args: request.len() }, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn every_command_has_the_reply_that_its_clients_expect() {
        assert_eq!(answer(&["GET", "a"]), "$3\r\nxxx\r\n");
        assert_eq!(answer(&["MGET", "a", "b"]), "*2\r\n$3\r\nxxx\r\n$3\r\nxxx\r\n");
        assert_eq!(answer(&["SET", "a", "1"]), "+OK\r\n");
        assert_eq!(answer(&["MSET", "a", "1", "b", "2"]), "+OK\r\n");
        assert_eq!(answer(&["UNLINK", "a", "b", "c"]), ":3\r\n");
        assert_eq!(answer(&["INCR", "a"]), ":1\r\n");
        assert_eq!(answer(&["PING"]), "+PONG\r\n");
        assert_eq!(answer(&["COMMAND", "INFO", "x"]), "*0\r\n");
        assert_eq!(answer(&["BGREWRITEAOF"]), "+OK\r\n");
    }
}
