//! The corpus: inputs that parsers interpret differently, and the required result of each.

/// The required result of an input.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expect {
    /// The bytes that a real Redis answers, and the connection's end if Redis ends it.
    AsRedis,
    /// These bytes, then the connection's end. Redis accepts the input or waits without end; shardis must not.
    Refused(&'static [u8]),
    /// These bytes, and the connection goes on, where Redis does something else.
    Answered(&'static [u8]),
}
use Expect::{Answered, AsRedis, Refused};

/// One input.
pub(crate) struct Item {
    pub(crate) bytes: &'static [u8],
    pub(crate) expect: Expect,
}

const fn as_redis(bytes: &'static [u8]) -> Item {
    Item { bytes, expect: AsRedis }
}
/// Framing that Redis lets pass: CR with any byte behind it, a body that does not end in CR LF.
const fn no_crlf(bytes: &'static [u8]) -> Item {
    Item { bytes, expect: Refused(b"-ERR Protocol error: expected CRLF\r\n") }
}
const fn nul_in_line(bytes: &'static [u8]) -> Item {
    Item { bytes, expect: Refused(b"-ERR Protocol error: NUL byte in inline request\r\n") }
}

pub(crate) const ITEMS: &[Item] = &[
    // Array lengths that are none.
    as_redis(b"*+1\r\n"),
    as_redis(b"*01\r\n"),
    as_redis(b"* 1\r\n"),
    as_redis(b"*1 \r\n"),
    as_redis(b"*1x\r\n"),
    as_redis(b"*\r\n"),
    as_redis(b"*-0\r\n"),
    as_redis(b"*--1\r\n"),
    as_redis(b"*2147483648\r\n"),
    as_redis(b"*9223372036854775807\r\n"),
    as_redis(b"*9223372036854775808\r\n"),
    as_redis(b"*18446744073709551617\r\n"),
    as_redis(b"*1\n$4\nPING\n"),
    // Redis since 7.0 takes 2^31-1 arguments and would wait; the limit here is that of Redis 6.2.
    Item { bytes: b"*1048577\r\n", expect: Refused(b"-ERR Protocol error: invalid multibulk length\r\n") },
    Item { bytes: b"*2147483647\r\n", expect: Refused(b"-ERR Protocol error: invalid multibulk length\r\n") },
    // Bulk lengths that are none.
    as_redis(b"*1\r\n$-1\r\n"),
    as_redis(b"*2\r\n$4\r\nECHO\r\n$-1\r\n"),
    as_redis(b"*2\r\n$4\r\nECHO\r\n$04\r\nabcd\r\n"),
    as_redis(b"*2\r\n$4\r\nECHO\r\n$+4\r\nabcd\r\n"),
    as_redis(b"*2\r\n$4\r\nECHO\r\n$ 4\r\nabcd\r\n"),
    as_redis(b"*2\r\n$4\r\nECHO\r\n$4x\r\nabcd\r\n"),
    as_redis(b"*2\r\n$4\r\nECHO\r\n$\r\n"),
    as_redis(b"*2\r\n$4\r\nECHO\r\n$-0\r\n\r\n"),
    as_redis(b"*2\r\n$4\r\nECHO\r\n$536870913\r\n"),
    as_redis(b"*2\r\n$4\r\nECHO\r\n$4294967300\r\n"),
    as_redis(b"*2\r\n$4\r\nECHO\r\n$18446744073709551617\r\n"),
    // Something else where an argument must begin.
    as_redis(b"*1\r\n:4\r\n"),
    as_redis(b"*1\r\n+PING\r\n"),
    as_redis(b"*1\r\nPING\r\n"),
    as_redis(b"*1\r\n*1\r\n$4\r\nPING\r\n"),
    as_redis(b"*2\r\n$4\r\nECHO\r\n:4\r\n"),
    as_redis(b"*2\r\n$4\r\nECHO\r\n*1\r\n$1\r\na\r\n"),
    as_redis(b"*1\r\n\r\n"),
    as_redis(b"*1\r\n\n$4\r\nPING\r\n"),
    as_redis(b"*1\r\n\xff4\r\nPING\r\n"),
    Item {
        bytes: b"*1\r\n\0$4\r\nPING\r\n",
        expect: Refused(b"-ERR Protocol error: expected '$', got '\0'\r\n"),
    },
    // Invalid line ends. Redis takes any byte for the LF, and does not check the two behind a body.
    no_crlf(b"*1\rX$4\rYPING\r\n"),
    no_crlf(b"*1\r\n$4\rYPING\r\n"),
    no_crlf(b"*1\r\r$4\r\rPING\r\n"),
    no_crlf(b"*1\r\n$4\r\nPINGXX"),
    no_crlf(b"*1\r\n$4\r\nPING\n\r"),
    no_crlf(b"*1\r\n$4\r\nPING\rX"),
    no_crlf(b"*2\r\n$4\r\nECHO\r\n$3\r\nabcd\r\n"),
    no_crlf(b"*2\r\n$4\r\nECHO\r\n$1\r\nab*1\r\n$4\r\nPING\r\n"),
    no_crlf(b"*1\r\n$4\r\nPING\nXYZ"),
    no_crlf(b"*1\0\r\n$4\r\nPING\r\n"),
    // Lines instead of arrays.
    as_redis(b"\r\n"),
    as_redis(b"\n"),
    as_redis(b"  \r\n"),
    as_redis(b"\t\r\n\r\n"),
    as_redis(b"PING\n"),
    as_redis(b"PING\r\n"),
    as_redis(b"  PING  \r\n"),
    as_redis(b"ping\r\nPiNg\r\n"),
    as_redis(b"ECHO a\rb\r\n"),
    as_redis(b"ECHO \"a b\"\r\n"),
    as_redis(b"ECHO 'a \\' b'\r\n"),
    as_redis(b"ECHO \"\\x00\\xff\\n\\t\\\\\\\"\\q\"\r\n"),
    as_redis(b"ECHO \"\\xzz\"\r\n"),
    as_redis(b"ECHO ''\r\n"),
    as_redis(b"\"ECHO\" a\r\n"),
    as_redis(b"ECHO\ta\r\n"),
    as_redis(b"ECHO \xff\xfe\r\n"),
    as_redis(b"$4\r\nPING\r\n"),
    as_redis(b":4\r\n"),
    as_redis(b"ECHO \"abc\r\n"),
    as_redis(b"ECHO \"abc\"d\r\n"),
    as_redis(b"ECHO 'abc\r\n"),
    as_redis(b"ECHO 'abc'd\r\n"),
    as_redis(b"ECHO \"abc\\\r\n"),
    as_redis(b"ECHO ab\"c d\r\n"),
    as_redis(b"\"\r\n"),
    nul_in_line(b"\0\r\n"),
    nul_in_line(b"PI\0NG\r\n"),
    nul_in_line(b"PING\0\r\n"),
    nul_in_line(b"ECHO \"a\0\"\r\n"),
    // Inputs without a request.
    as_redis(b"*0\r\n"),
    as_redis(b"*-1\r\n"),
    as_redis(b"*-100\r\n"),
    as_redis(b"*-9223372036854775808\r\n"),
    as_redis(b"*0\r\n*0\r\n\r\n*-1\r\nPING\r\n"),
    // Invalid names: the reply must not break its line.
    as_redis(b"*1\r\n$0\r\n\r\n"),
    as_redis(b"*1\r\n$3\r\na\0b\r\n"),
    as_redis(b"*1\r\n$9\r\nx\r\n+OK\r\nz\r\n"),
    as_redis(b"*2\r\n$3\r\nfoo\r\n$9\r\nx\r\n+OK\r\nz\r\n"),
    as_redis(b"*3\r\n$3\r\nfoo\r\n$3\r\na\0b\r\n$0\r\n\r\n"),
    as_redis(b"*1\r\n$5\r\nPING \r\n"),
    as_redis(b"*1\r\n$5\r\n\xffPING\r\n"),
    as_redis(b"*2\r\n$4\r\necho\r\n$0\r\n\r\n"),
    as_redis(b"*3\r\n$4\r\nECHO\r\n$1\r\na\r\n$1\r\nb\r\n"),
    // HTTP: a browser that was talked into visiting us.
    as_redis(b"POST / HTTP/1.1\r\n"),
    as_redis(b"post / HTTP/1.1\r\n"),
    as_redis(b"Host: localhost\r\n"),
    as_redis(b"hOsT: localhost\r\n"),
    as_redis(b"*1\r\n$4\r\nPOST\r\n"),
    as_redis(b"*1\r\n$5\r\nHost:\r\n"),
    // Redis loses the answer to the first line if both lines arrive together.
    Item {
        bytes: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        expect: Refused(b"-ERR wrong number of arguments for 'get' command\r\n"),
    },
    as_redis(b"QUIT\r\n"),
    as_redis(b"*1\r\n$4\r\nquit\r\n"),
    as_redis(b"*2\r\n$4\r\nQUIT\r\n$1\r\nx\r\n"),
    // No or other answers in Redis; a node's replication is no client's business.
    Item {
        bytes: b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$1\r\n0\r\n",
        expect: Answered(b"-ERR unknown command 'REPLCONF', with args beginning with: 'ACK' '0' \r\n"),
    },
    Item {
        bytes: b"REPLCONF GETACK *\r\n",
        expect: Answered(b"-ERR unknown command 'REPLCONF', with args beginning with: 'GETACK' '*' \r\n"),
    },
    Item {
        bytes: b"SYNC\r\n",
        expect: Answered(b"-ERR unknown command 'SYNC', with args beginning with: \r\n"),
    },
    Item {
        bytes: b"PSYNC ? -1\r\n",
        expect: Answered(b"-ERR unknown command 'PSYNC', with args beginning with: '?' '-1' \r\n"),
    },
];
