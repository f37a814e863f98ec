//! The tables of haproxy's options. Two words stand for an option where the second one decides.

use crate::options::{Fate, Options};

const LOG: &str = "the log of shardis goes to stderr; see log-level";
const NO_TLS: &str = "shardis tcp passes TLS on unread, and ends or begins none";
const NO_RULES: &str = "shardis tcp has no rules: each client gets a node";
const NO_ACCESS: &str = "shardis tcp lets every address in; a firewall has to keep others out";
const NO_STICKINESS: &str = "shardis tcp has source-hash alone for clients that stay with a node";
const SOCKETS: &str = "shardis sets options of sockets itself";
const NO_QUEUE: &str = "clients of shardis tcp do not wait for nodes";
const TRIES: &str = "shardis tcp tries each node once";
const HTTP: &str = "it concerns HTTP";
const NAMES: &str = "shardis looks names up itself, every 5 s while clients come";
const PROBES: &str = "shardis takes a node out after 3 failed probes and back after 2";
const NO_ALARM: &str = "shardis logs it, and counts it in its metrics";

pub(crate) const GLOBAL: Options = &[
    ("nbthread", Fate::As("workers")),
    ("hard-stop-after", Fate::As("drain-timeout")),
    ("maxconn", Fate::Not("shardis limits clients of each listener (maxclients)")),
    ("log", Fate::Not(LOG)),
];

/// The reason for all that the table above does not name.
pub(crate) const GLOBAL_OTHERS: &str = "it concerns haproxy's own process";
/// The reason for sections that are no proxies.
pub(crate) const OTHER_SECTIONS: &str = "shardis tcp has nothing like this section";
/// The reason for proxies of another mode.
pub(crate) const OTHER_MODES: &str = "shardis tcp passes bytes: only mode tcp is carried";

pub(crate) const PROXY: Options = &[
    ("mode", Fate::Partly("mode = \"tcp\"", "proxies of other modes are left out as a whole")),
    ("bind", Fate::Partly("address", "as below")),
    ("server", Fate::Partly("nodes", "as below")),
    ("default-server", Fate::Partly("the same for all servers behind it", "as below")),
    ("default_backend", Fate::As("the nodes of that backend")),
    ("use_backend", Fate::Refused(NO_RULES)),
    ("use-server", Fate::Refused(NO_RULES)),
    (
        "server-template",
        Fate::Refused(
            "its servers are learned from a name; write it as one node: shardis tries all its addresses",
        ),
    ),
    (
        "balance",
        Fate::Partly(
            "balance: `leastconn` and `random` are least-conn, `roundrobin` and `static-rr` are round-robin, `source` is source-hash",
            "others are not carried: nodes take turns",
        ),
    ),
    (
        "timeout client",
        Fate::Partly("timeout, in whole seconds", "the longer one of client, server and tunnel is taken"),
    ),
    (
        "timeout server",
        Fate::Partly("timeout, in whole seconds", "the longer one of client, server and tunnel is taken"),
    ),
    (
        "timeout tunnel",
        Fate::Partly("timeout, in whole seconds", "the longer one of client, server and tunnel is taken"),
    ),
    ("timeout connect", Fate::As("connect-timeout-ms")),
    ("timeout check", Fate::Not("a probe of shardis ends with the next one")),
    ("timeout queue", Fate::Not(NO_QUEUE)),
    ("timeout client-fin", Fate::Not("timeout covers it")),
    ("timeout server-fin", Fate::Not("timeout covers it")),
    ("timeout http-request", Fate::Not(HTTP)),
    ("timeout http-keep-alive", Fate::Not(HTTP)),
    ("timeout tarpit", Fate::Not(HTTP)),
    ("maxconn", Fate::Partly("maxclients", "clients above it are closed; in haproxy they wait")),
    ("option redis-check", Fate::As("check = \"ping\"")),
    ("option tcp-check", Fate::As("check = \"tcp\", or \"ping\" with `tcp-check send PING`")),
    (
        "tcp-check",
        Fate::Partly(
            "check = \"ping\" for `send PING`",
            "a check of the role of a node is refused: it finds the primary; use shardis proxy with sentinel. Other questions are not carried",
        ),
    ),
    ("option tcplog", Fate::Not(LOG)),
    ("option tcpka", Fate::Not("shardis always probes idle connections")),
    ("option clitcpka", Fate::Not("shardis always probes idle connections")),
    ("option srvtcpka", Fate::Not("shardis always probes idle connections")),
    ("option redispatch", Fate::Not("shardis tcp always tries the next node, each once")),
    ("option dontlognull", Fate::Not(LOG)),
    ("option dontlog-normal", Fate::Not(LOG)),
    ("option logasap", Fate::Not(LOG)),
    ("option log-health-checks", Fate::Not(LOG)),
    ("option log-separate-errors", Fate::Not(LOG)),
    ("option httplog", Fate::Not(HTTP)),
    (
        "option httpchk",
        Fate::Refused("shardis probes with a connection or PING; write option tcp-check or redis-check"),
    ),
    ("option http-server-close", Fate::Not(HTTP)),
    ("option http-keep-alive", Fate::Not(HTTP)),
    ("option httpclose", Fate::Not(HTTP)),
    ("option forwardfor", Fate::Not(HTTP)),
    ("option splice-auto", Fate::Not(SOCKETS)),
    ("option splice-request", Fate::Not(SOCKETS)),
    ("option splice-response", Fate::Not(SOCKETS)),
    ("option tcp-smart-accept", Fate::Not(SOCKETS)),
    ("option tcp-smart-connect", Fate::Not(SOCKETS)),
    ("option nolinger", Fate::Not(SOCKETS)),
    ("option abortonclose", Fate::Not(NO_QUEUE)),
    ("option allbackups", Fate::Not("shardis tcp has no nodes in reserve")),
    (
        "option external-check",
        Fate::Refused("shardis probes with a connection or PING; write option tcp-check or redis-check"),
    ),
    (
        "option mysql-check",
        Fate::Refused("shardis probes with a connection or PING; write option tcp-check or redis-check"),
    ),
    (
        "option pgsql-check",
        Fate::Refused("shardis probes with a connection or PING; write option tcp-check or redis-check"),
    ),
    (
        "option smtpchk",
        Fate::Refused("shardis probes with a connection or PING; write option tcp-check or redis-check"),
    ),
    (
        "option ldap-check",
        Fate::Refused("shardis probes with a connection or PING; write option tcp-check or redis-check"),
    ),
    (
        "option ssl-hello-chk",
        Fate::Refused("shardis probes with a connection or PING; write option tcp-check or redis-check"),
    ),
    ("option transparent", Fate::Refused("shardis tcp does not take the address that a client meant")),
    ("acl", Fate::Refused(NO_RULES)),
    ("tcp-request", Fate::Refused(NO_ACCESS)),
    ("tcp-response", Fate::Refused(NO_RULES)),
    ("block", Fate::Refused(NO_ACCESS)),
    ("monitor", Fate::Not("see admin for health")),
    ("monitor-uri", Fate::Not("see admin for health")),
    ("log", Fate::Not(LOG)),
    ("log-format", Fate::Not(LOG)),
    ("log-tag", Fate::Not(LOG)),
    ("stats", Fate::Not("see admin for metrics")),
    ("retries", Fate::Not(TRIES)),
    ("fullconn", Fate::Not(NO_QUEUE)),
    ("backlog", Fate::Not("shardis sets it itself, to 4096")),
    ("hash-type", Fate::Not("source-hash of shardis is consistent: only clients of a lost node move")),
    ("stick", Fate::Not(NO_STICKINESS)),
    ("stick-table", Fate::Not(NO_STICKINESS)),
    ("cookie", Fate::Not(HTTP)),
    ("errorfile", Fate::Not(HTTP)),
    ("description", Fate::Not("shardis has no such text")),
    ("id", Fate::Not("listeners of shardis have no numbers")),
    ("guid", Fate::Not("listeners of shardis have no numbers")),
    ("rate-limit", Fate::Not("shardis tcp limits no rates")),
    ("grace", Fate::Not("see drain-timeout")),
    ("source", Fate::Not("the kernel chooses the address of connections to nodes")),
    ("load-server-state-from-file", Fate::Not("shardis learns of the state of nodes from probes")),
    ("email-alert", Fate::Not(NO_ALARM)),
    ("disabled", Fate::As("nothing: the proxy is left out")),
    ("enabled", Fate::Not("a listener of shardis is always enabled")),
    ("bind-process", Fate::Not("shardis has one process")),
];

pub(crate) const BIND: Options = &[
    ("accept-proxy", Fate::As("proxy-protocol")),
    ("ssl", Fate::Refused(NO_TLS)),
    ("transparent", Fate::Refused("shardis tcp does not take the address that a client meant")),
    ("maxconn", Fate::As("maxclients")),
    ("name", Fate::Not("listeners of shardis have no names")),
    ("id", Fate::Not("listeners of shardis have no numbers")),
    ("interface", Fate::Refused("shardis tcp listens at addresses; write that of the interface")),
    ("crt", Fate::Not(NO_TLS)),
    ("ca-file", Fate::Not(NO_TLS)),
    ("verify", Fate::Not(NO_TLS)),
    ("ciphers", Fate::Not(NO_TLS)),
    ("alpn", Fate::Not(NO_TLS)),
    ("ssl-min-ver", Fate::Not(NO_TLS)),
    ("process", Fate::Not("all workers take clients")),
    ("thread", Fate::Not("all workers take clients")),
    ("shards", Fate::Not("all workers take clients")),
    ("nice", Fate::Not("all clients have the same priority")),
    ("backlog", Fate::Not("shardis sets it itself, to 4096")),
    ("mss", Fate::Not(SOCKETS)),
    ("tfo", Fate::Not(SOCKETS)),
    ("tcp-ut", Fate::Not(SOCKETS)),
    ("v4v6", Fate::Not(SOCKETS)),
    ("v6only", Fate::Not(SOCKETS)),
    ("defer-accept", Fate::Not(SOCKETS)),
];

/// Parameters of `bind` without a value.
pub(crate) const BIND_FLAGS: [&str; 7] =
    ["accept-proxy", "ssl", "transparent", "tfo", "v4v6", "v6only", "defer-accept"];

pub(crate) const SERVER: Options = &[
    ("weight", Fate::Partly("the weight of a node", "a node of weight 0 gets no clients")),
    ("check", Fate::Partly("check", "one setting holds for all nodes of a listener")),
    ("no-check", Fate::As("check = \"off\", if no node of the listener has check")),
    ("inter", Fate::Partly("check-interval-ms", "one setting holds for all nodes of a listener")),
    ("send-proxy", Fate::Partly("send-proxy = \"v1\"", "one setting holds for all nodes of a listener")),
    ("send-proxy-v2", Fate::Partly("send-proxy = \"v2\"", "one setting holds for all nodes of a listener")),
    ("backup", Fate::Not("shardis tcp has no nodes in reserve: this one gets no clients")),
    ("disabled", Fate::As("nothing: the node gets no clients")),
    ("enabled", Fate::As("nothing: the node gets clients")),
    ("ssl", Fate::Refused(NO_TLS)),
    ("check-ssl", Fate::Refused(NO_TLS)),
    ("verify", Fate::Not(NO_TLS)),
    ("ca-file", Fate::Not(NO_TLS)),
    ("crt", Fate::Not(NO_TLS)),
    ("sni", Fate::Not(NO_TLS)),
    ("check-sni", Fate::Not(NO_TLS)),
    ("alpn", Fate::Not(NO_TLS)),
    ("port", Fate::Not("shardis probes the port that clients use")),
    ("addr", Fate::Not("shardis probes the address that clients use")),
    ("check-send-proxy", Fate::Not("probes of shardis send the header that clients' connections have")),
    ("fall", Fate::Not(PROBES)),
    ("rise", Fate::Not(PROBES)),
    ("fastinter", Fate::Not("probes of shardis come at one interval")),
    ("downinter", Fate::Not("probes of shardis come at one interval")),
    ("maxconn", Fate::Not(NO_QUEUE)),
    ("minconn", Fate::Not(NO_QUEUE)),
    ("maxqueue", Fate::Not(NO_QUEUE)),
    ("slowstart", Fate::Not("a node of shardis tcp gets its share at once")),
    ("observe", Fate::Not("shardis tcp always counts refused connections; see node-failure-limit")),
    ("error-limit", Fate::Not("see node-failure-limit")),
    ("on-error", Fate::Not("see node-failure-limit")),
    (
        "on-marked-down",
        Fate::Not("clients stay with a node that is taken out, until it ends their connections"),
    ),
    ("on-marked-up", Fate::Not("clients stay with their node")),
    ("track", Fate::Not("each node is probed for itself")),
    ("resolvers", Fate::Not(NAMES)),
    ("resolve-prefer", Fate::Not(NAMES)),
    ("resolve-opts", Fate::Not(NAMES)),
    ("resolve-net", Fate::Not(NAMES)),
    ("init-addr", Fate::Not(NAMES)),
    ("cookie", Fate::Not(HTTP)),
    ("id", Fate::Not("nodes of shardis have no numbers")),
    ("non-stick", Fate::Not(NO_STICKINESS)),
    ("tfo", Fate::Not(SOCKETS)),
    ("tcp-ut", Fate::Not(SOCKETS)),
    ("source", Fate::Not("the kernel chooses the address of connections to nodes")),
    ("agent-check", Fate::Not("shardis asks no agents")),
    ("agent-port", Fate::Not("shardis asks no agents")),
    ("agent-inter", Fate::Not("shardis asks no agents")),
    ("agent-addr", Fate::Not("shardis asks no agents")),
];

/// Parameters of `server` without a value.
pub(crate) const SERVER_FLAGS: [&str; 13] = [
    "check",
    "no-check",
    "send-proxy",
    "send-proxy-v2",
    "backup",
    "disabled",
    "enabled",
    "ssl",
    "check-ssl",
    "check-send-proxy",
    "non-stick",
    "tfo",
    "agent-check",
];
