//! `nginx.conf` of nginx 1.26: its block `stream`. An unknown directive is a fault, as there.

use crate::Files;
use crate::address::{Listen, node_of};
use crate::braces::{self, Directive};
use crate::draft::{Draft, Origin, Table};
use crate::fault::Word;
use crate::options::{Fate, Options, fate};
use crate::passing::{Common, Node, set_nodes};
use crate::units::{duration_ms, number, seconds};

const PROCESS: &str = "it concerns nginx's own process; shardis stays in the foreground, for systemd";
const LOG: &str = "the log of shardis goes to stderr; see log-level";
const HTTP: &str = "shardis speaks no HTTP";
const MAIL: &str = "shardis speaks no mail protocol";
const NO_TLS: &str = "shardis tcp passes TLS on unread, and ends or begins none";
const NO_UDP: &str = "shardis has no UDP";
const NO_VARIABLES: &str = "shardis tcp has no variables";
const NO_ACCESS: &str = "shardis tcp lets every address in; a firewall has to keep others out";
const NO_RATES: &str = "shardis tcp limits no rates";
const NO_LIMITS: &str = "shardis tcp limits all clients together (maxclients)";
const ONLY_HTTP_MAIN: &str = "it concerns nginx's workers";
const BUFFERS: &str = "shardis sizes its buffers itself";
const SCRIPTS: &str = "shardis runs no scripts";
const SOCKETS: &str = "shardis sets options of sockets itself";

/// Outside of all blocks.
pub(crate) const MAIN: Options = &[
    ("stream", Fate::As("a [[listener]] for each listen of each server")),
    ("include", Fate::As("the content of the files, as if it stood there")),
    ("worker_processes", Fate::As("workers: `auto` is 0")),
    ("http", Fate::Not(HTTP)),
    ("mail", Fate::Not(MAIL)),
    ("events", Fate::Not("shardis chooses its events itself; maxclients limits clients")),
    ("user", Fate::Not(PROCESS)),
    ("pid", Fate::Not(PROCESS)),
    ("daemon", Fate::Not(PROCESS)),
    ("master_process", Fate::Not(PROCESS)),
    ("lock_file", Fate::Not(PROCESS)),
    ("error_log", Fate::Not(LOG)),
    ("load_module", Fate::Not("shardis has no modules")),
    ("env", Fate::Not("shardis reads variables in its own file, as in ${NAME}")),
    ("worker_rlimit_nofile", Fate::Not("shardis raises the limit itself, as far as it may")),
    ("worker_rlimit_core", Fate::Not(PROCESS)),
    ("worker_cpu_affinity", Fate::Not(ONLY_HTTP_MAIN)),
    ("worker_priority", Fate::Not(ONLY_HTTP_MAIN)),
    ("worker_shutdown_timeout", Fate::As("drain-timeout")),
    ("working_directory", Fate::Not(PROCESS)),
    ("thread_pool", Fate::Not(ONLY_HTTP_MAIN)),
    ("pcre_jit", Fate::Not(ONLY_HTTP_MAIN)),
    ("timer_resolution", Fate::Not(ONLY_HTTP_MAIN)),
    ("ssl_engine", Fate::Not(ONLY_HTTP_MAIN)),
];

/// Within `stream` and `server`.
pub(crate) const STREAM: Options = &[
    ("upstream", Fate::As("nodes and balance of the listeners that pass to it")),
    ("server", Fate::As("[[listener]] with mode = \"tcp\"")),
    (
        "listen",
        Fate::Partly(
            "address; `reuseport` is reuse-port, `proxy_protocol` is proxy-protocol",
            "`ssl`, `udp` and unix sockets are refused; `backlog`, `so_keepalive`, `bind`, `ipv6only`, `rcvbuf`, `sndbuf`, `fastopen` are not carried",
        ),
    ),
    ("proxy_pass", Fate::Partly("nodes", "variables are refused")),
    ("proxy_timeout", Fate::As("timeout, in whole seconds")),
    ("proxy_connect_timeout", Fate::As("connect-timeout-ms")),
    ("proxy_protocol", Fate::As("send-proxy = \"v1\"")),
    ("proxy_ssl", Fate::Refused(NO_TLS)),
    ("ssl_certificate", Fate::Not(NO_TLS)),
    ("ssl_certificate_key", Fate::Not(NO_TLS)),
    ("ssl_protocols", Fate::Not(NO_TLS)),
    ("ssl_ciphers", Fate::Not(NO_TLS)),
    ("ssl_session_cache", Fate::Not(NO_TLS)),
    ("ssl_session_timeout", Fate::Not(NO_TLS)),
    ("ssl_prefer_server_ciphers", Fate::Not(NO_TLS)),
    ("ssl_preread", Fate::Refused(NO_VARIABLES)),
    ("allow", Fate::Refused(NO_ACCESS)),
    ("deny", Fate::Refused(NO_ACCESS)),
    ("return", Fate::Refused("shardis tcp sends nothing of its own")),
    ("set", Fate::Refused(NO_VARIABLES)),
    ("map", Fate::Refused(NO_VARIABLES)),
    ("geo", Fate::Refused(NO_VARIABLES)),
    ("split_clients", Fate::Refused(NO_VARIABLES)),
    ("js_import", Fate::Refused(SCRIPTS)),
    ("js_access", Fate::Refused(SCRIPTS)),
    ("js_filter", Fate::Refused(SCRIPTS)),
    ("js_preread", Fate::Refused(SCRIPTS)),
    (
        "set_real_ip_from",
        Fate::Not("a PROXY header is trusted from every address; only the balancer may reach the listener"),
    ),
    ("access_log", Fate::Not(LOG)),
    ("error_log", Fate::Not(LOG)),
    ("log_format", Fate::Not(LOG)),
    ("open_log_file_cache", Fate::Not(LOG)),
    ("limit_conn", Fate::Not(NO_LIMITS)),
    ("limit_conn_zone", Fate::Not(NO_LIMITS)),
    ("limit_conn_log_level", Fate::Not(NO_LIMITS)),
    ("limit_conn_dry_run", Fate::Not(NO_LIMITS)),
    ("proxy_download_rate", Fate::Not(NO_RATES)),
    ("proxy_upload_rate", Fate::Not(NO_RATES)),
    ("proxy_buffer_size", Fate::Not(BUFFERS)),
    ("preread_buffer_size", Fate::Not(BUFFERS)),
    ("preread_timeout", Fate::Not(BUFFERS)),
    ("proxy_protocol_timeout", Fate::Not("shardis closes clients without a PROXY header itself")),
    ("proxy_bind", Fate::Not("the kernel chooses the address of connections to nodes")),
    ("proxy_next_upstream", Fate::Not("shardis tcp always tries the next node, each once")),
    ("proxy_next_upstream_timeout", Fate::Not("shardis tcp tries each node once")),
    ("proxy_next_upstream_tries", Fate::Not("shardis tcp tries each node once")),
    ("proxy_half_close", Fate::Not("shardis tcp always passes the end of one direction on")),
    ("proxy_socket_keepalive", Fate::Not("shardis always probes idle connections")),
    ("proxy_requests", Fate::Not(NO_UDP)),
    ("proxy_responses", Fate::Not(NO_UDP)),
    ("tcp_nodelay", Fate::Not("shardis always sends at once")),
    ("resolver", Fate::Not("shardis asks the system's resolver")),
    ("resolver_timeout", Fate::Not("shardis asks the system's resolver")),
    ("server_name", Fate::Refused(NO_TLS)),
    ("variables_hash_max_size", Fate::Not(NO_VARIABLES)),
    ("variables_hash_bucket_size", Fate::Not(NO_VARIABLES)),
    ("health_check", Fate::Partly("check = \"tcp\"", "its parameters are not carried")),
    ("status_zone", Fate::Not("see admin for metrics")),
];

/// Within `upstream`.
pub(crate) const GROUP: Options = &[
    (
        "server",
        Fate::Partly(
            "nodes; `weight`; `max_fails` is node-failure-limit, `fail_timeout` is node-retry-timeout-ms",
            "nodes that are `down` or `backup` get no clients; `max_conns`, `slow_start`, `resolve` and `service` are not carried; one max_fails and one fail_timeout hold for all nodes",
        ),
    ),
    ("least_conn", Fate::As("balance = \"least-conn\"")),
    (
        "hash",
        Fate::Partly(
            "balance = \"source-hash\", for $remote_addr",
            "other keys are not carried: nodes take turns",
        ),
    ),
    (
        "random",
        Fate::Partly(
            "balance = \"least-conn\", for `random two`",
            "`random` alone is not carried: nodes take turns",
        ),
    ),
    ("least_time", Fate::Not("shardis tcp has least-conn, round-robin and source-hash; nodes take turns")),
    ("zone", Fate::Not("workers of shardis always share what they know of nodes")),
    ("resolver", Fate::Not("shardis asks the system's resolver")),
    ("resolver_timeout", Fate::Not("shardis asks the system's resolver")),
    ("state", Fate::Refused("the nodes stand in another file, which nginx alone writes")),
];

pub(crate) fn read(name: &str, text: &str, files: &mut dyn Files, draft: &mut Draft) {
    let directives = braces::read(name, text, files, draft);
    for directive in &directives {
        read_main(directive, draft);
    }
    let of_stream = directives.iter().filter(|directive| directive.name.text == "stream");
    let inner: Vec<&Directive> = of_stream.flat_map(|stream| stream.block.iter().flatten()).collect();
    // A file that another one includes within its stream.
    let is_part = |directive: &&Directive| ["upstream", "server"].contains(&directive.name.text.as_str());
    let stream: Vec<&Directive> = directives.iter().filter(is_part).chain(inner).collect();
    let groups = read_groups(&stream, draft);
    let common: Vec<&Directive> = stream.iter().copied().filter(|directive| !is_part(directive)).collect();
    common.iter().for_each(|directive| check(directive, draft));
    for server in stream.iter().filter(|directive| directive.name.text == "server") {
        read_server(server, &common, &groups, draft);
    }
    if draft.is_empty() && draft.is_sound() {
        draft.fault_of_all("the file has no server that listens within stream { }");
    }
}

fn read_main(directive: &Directive, draft: &mut Draft) {
    let name = &directive.name;
    let origin = Origin::of(name, &directive.shown());
    match (name.text.as_str(), directive.argument(0)) {
        ("stream" | "upstream" | "server", _) => {}
        ("worker_processes", "auto") => draft.process().set("workers", 0, &origin),
        ("worker_processes", count) => match number(count, 1024) {
            Some(count @ 1..) => draft.process().set("workers", count, &origin),
            _ => draft.fault(&name.place, "worker_processes: write a number from 1 to 1024, or auto"),
        },
        ("worker_shutdown_timeout", time) => match duration_ms(time, 1000) {
            Some(ms) => draft.process().set("drain-timeout", seconds(ms), &origin),
            None => draft
                .fault(&name.place, format!("worker_shutdown_timeout: {time:?}: write a time, as in 10s")),
        },
        _ => match fate(MAIN, &name.text) {
            Some(fate) => {
                draft.settle(name, fate);
            }
            None => unknown(name, draft),
        },
    }
}

fn unknown(name: &Word, draft: &mut Draft) {
    draft.fault(&name.place, format!("{}: there is no such directive here", name.text));
}

/// Notes the loss of a directive of `stream` or `server`, if shardis has nothing for it.
fn check(directive: &Directive, draft: &mut Draft) {
    let name = &directive.name;
    match fate(STREAM, &name.text) {
        Some(Fate::Partly(..) | Fate::As(_)) => {}
        Some(_)
            if ["proxy_ssl", "ssl_preread"].contains(&name.text.as_str())
                && directive.argument(0) == "off" => {}
        // A listener with ssl is refused by itself.
        Some(fate) => {
            draft.settle(name, fate);
        }
        None => unknown(name, draft),
    }
}

/// A named group of nodes.
struct Group {
    name: String,
    nodes: Vec<Node>,
    balance: (&'static str, Origin),
    fails: Common,
    retry: Common,
}

impl Group {
    fn new(name: &str) -> Group {
        Group {
            name: name.to_owned(),
            nodes: Vec::new(),
            balance: ("round-robin", Origin::implied("default of nginx")),
            fails: Common::new("max_fails", "node-failure-limit"),
            retry: Common::new("fail_timeout", "node-retry-timeout-ms"),
        }
    }
}

fn read_groups(stream: &[&Directive], draft: &mut Draft) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for directive in stream.iter().filter(|directive| directive.name.text == "upstream") {
        let mut group = Group::new(directive.argument(0));
        if groups.iter().any(|other| other.name == group.name) {
            draft.fault(&directive.name.place, format!("upstream {}: the name is given twice", group.name));
        }
        for line in directive.block.iter().flatten() {
            read_group_line(line, &mut group, draft);
        }
        if group.nodes.is_empty() {
            draft.fault(&directive.name.place, format!("upstream {}: no server gets clients", group.name));
        }
        groups.push(group);
    }
    groups
}

fn read_group_line(line: &Directive, group: &mut Group, draft: &mut Draft) {
    let name = &line.name;
    let Some(fate) = fate(GROUP, &name.text) else { return unknown(name, draft) };
    let origin = Origin::of(name, &line.shown());
    match name.text.as_str() {
        "server" => read_node(line, group, draft),
        "least_conn" => group.balance = ("least-conn", origin),
        "hash" if ["$remote_addr", "$binary_remote_addr"].contains(&line.argument(0)) => {
            group.balance = ("source-hash", origin);
        }
        "random" if line.argument(0) == "two" => group.balance = ("least-conn", origin),
        "hash" | "random" => draft.lose(name, GROUP, &name.text),
        _ => {
            draft.settle(name, fate);
        }
    }
}

fn read_node(line: &Directive, group: &mut Group, draft: &mut Draft) {
    let (name, text) = (&line.name, line.argument(0));
    let Some(address) = node_of(text) else {
        return draft.fault(&name.place, format!("server {text}: write an address with its port"));
    };
    let mut node = Node { address, weight: 1, place: name.place.clone() };
    let mut is_spare = None;
    for word in line.arguments.iter().skip(1) {
        let (parameter, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let at = word.with(format!("server {text} {}", word.text));
        let valid = match parameter {
            "weight" => {
                number(value, 1_000_000).filter(|weight| *weight > 0).map(|weight| node.weight = weight)
            }
            "max_fails" => {
                number(value, u64::from(u32::MAX)).map(|fails| group.fails.values.push((fails, at.clone())))
            }
            "fail_timeout" => duration_ms(value, 1000).map(|ms| group.retry.values.push((ms, at.clone()))),
            "down" | "backup" => {
                is_spare = Some(at.clone());
                Some(())
            }
            "max_conns" | "slow_start" | "resolve" | "service" | "route" => {
                draft.leave_out(&at, "shardis tcp has no such parameter");
                Some(())
            }
            _ => None,
        };
        if valid.is_none() {
            draft.fault(&at.place, format!("{}: the parameter is unknown or has no such value", word.text));
        }
    }
    match is_spare {
        Some(at) => draft.leave_out(&at, "shardis tcp has no nodes in reserve: this one gets no clients"),
        None => group.nodes.push(node),
    }
}

fn read_server(server: &Directive, common: &[&Directive], groups: &[Group], draft: &mut Draft) {
    let own: Vec<&Directive> = server.block.iter().flatten().collect();
    own.iter().for_each(|directive| check(directive, draft));
    let find = |name: &str| {
        let is_it = |directive: &&&Directive| directive.name.text == name;
        own.iter().rev().find(is_it).or_else(|| common.iter().rev().find(is_it)).copied()
    };
    let listens: Vec<&Directive> =
        own.iter().copied().filter(|directive| directive.name.text == "listen").collect();
    if listens.is_empty() {
        draft.fault(&server.name.place, "server: listen is missing");
    }
    let Some(pass) = find("proxy_pass") else {
        if !own.iter().any(|directive| directive.name.text == "return") {
            draft.fault(&server.name.place, "server: proxy_pass is missing");
        }
        return;
    };
    for listen in listens {
        let mut table = Table::named(server.name.with(""));
        if read_listen(listen, &mut table, draft) {
            read_pass(pass, groups, &mut table, draft);
            read_settings(&find, &mut table, draft);
            draft.passing(table);
        }
    }
}

/// Reads a listener. `false` if shardis has none such.
fn read_listen(listen: &Directive, table: &mut Table, draft: &mut Draft) -> bool {
    let (name, text) = (&listen.name, listen.argument(0));
    if text.starts_with("unix:") {
        draft.refuse(name, "a listener of mode tcp has no unix socket here");
        return false;
    }
    let address = if text.contains(':') { Listen::tcp(text) } else { Listen::tcp(&format!(":{text}")) };
    let Some(Listen::Tcp(host, port)) = address else {
        draft.fault(&name.place, format!("listen {text}: write an address with a port, or a port"));
        return false;
    };
    let origin = Origin::of(name, &listen.shown());
    table.set("address", crate::address::node(&host, &port.to_string()), &origin);
    table.set("mode", "tcp", &origin);
    for word in listen.arguments.iter().skip(1) {
        match word.text.split('=').next().unwrap_or_default() {
            "reuseport" => table.set("reuse-port", true, &origin),
            "proxy_protocol" => table.set("proxy-protocol", true, &origin),
            "ssl" => draft.refuse(&word.with("listen ssl"), NO_TLS),
            "udp" => draft.refuse(&word.with("listen udp"), NO_UDP),
            "backlog" | "so_keepalive" | "bind" | "ipv6only" | "rcvbuf" | "sndbuf" | "fastopen"
            | "default_server" | "deferred" | "setfib" | "multipath" => {
                draft.leave_out(&word.with(format!("listen {}", word.text)), SOCKETS)
            }
            _ => draft.fault(&word.place, format!("listen: {}: the parameter is unknown", word.text)),
        }
    }
    true
}

fn read_pass(pass: &Directive, groups: &[Group], table: &mut Table, draft: &mut Draft) {
    let (name, text) = (&pass.name, pass.argument(0));
    let origin = Origin::of(name, text);
    if text.contains('$') {
        return draft.refuse(name, NO_VARIABLES);
    }
    if let Some(group) = groups.iter().find(|group| group.name == text) {
        set_nodes(table, &group.nodes, &origin);
        table.set("balance", group.balance.0, &group.balance.1);
        group.fails.set(table, draft);
        group.retry.set(table, draft);
        return;
    }
    match node_of(text) {
        Some(address) => set_nodes(table, &[Node { address, weight: 1, place: name.place.clone() }], &origin),
        None => draft.fault(
            &name.place,
            format!("proxy_pass {text}: there is no such upstream, and it is no address"),
        ),
    }
}

fn read_settings<'a>(find: &dyn Fn(&str) -> Option<&'a Directive>, table: &mut Table, draft: &mut Draft) {
    let mut time = |name: &str| {
        let directive = find(name)?;
        let (ms, shown) = (duration_ms(directive.argument(0), 1000), directive.shown());
        if ms.is_none() {
            draft.fault(&directive.name.place, format!("{name} {shown}: write a time, as in 10s"));
        }
        Some((ms?, Origin::of(&directive.name, &shown)))
    };
    let (timeout, connect) = (time("proxy_timeout"), time("proxy_connect_timeout"));
    if let Some((ms, origin)) = timeout {
        table.set("timeout", seconds(ms), &origin);
    }
    if let Some((ms, origin)) = connect {
        table.set("connect-timeout-ms", ms.max(1), &origin);
    }
    if let Some(directive) = find("proxy_protocol").filter(|directive| directive.argument(0) == "on") {
        table.set("send-proxy", "v1", &Origin::of(&directive.name, "on"));
    }
    match find("health_check") {
        Some(directive) => {
            table.set("check", "tcp", &Origin::of(&directive.name, &directive.shown()));
            if !directive.arguments.is_empty() {
                draft.lose(&directive.name, STREAM, "health_check");
            }
        }
        None => table.set("check", "off", &Origin::implied("nginx does not probe nodes")),
    }
}
