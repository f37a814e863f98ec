//! `haproxy.cfg` of haproxy 2.8: its proxies of mode tcp. An unknown word is a fault in proxies, and is listed elsewhere.

pub(crate) mod options;
mod sections;
mod servers;

use crate::address::{Listen, node};
use crate::draft::{Draft, Origin, Table};
use crate::fault::Word;
use crate::options::{Fate, fate};
use crate::units::{duration_ms, number, seconds};
use options::{BIND, BIND_FLAGS, GLOBAL, GLOBAL_OTHERS, OTHER_MODES, OTHER_SECTIONS, PROXY};
use sections::{Line, Section};
use servers::Servers;
use std::collections::HashSet;

pub(crate) use sections::SECTIONS;

pub(crate) fn read(name: &str, text: &str, draft: &mut Draft) {
    let sections = sections::read(name, text, draft);
    for section in &sections {
        match section.head.key.text.as_str() {
            "global" => section.lines.iter().for_each(|line| read_global(line, draft)),
            "defaults" | "frontend" | "backend" | "listen" => {}
            _ => draft.leave_out(&section.head.key, OTHER_SECTIONS),
        }
    }
    let proxies = proxies(&sections);
    // Lines of defaults are looked at where a proxy of mode tcp has them.
    let mut seen: HashSet<*const Line> = HashSet::new();
    for proxy in &proxies {
        if proxy.mode() != "tcp" {
            draft.leave_out(&proxy.head.key.with(proxy.title()), OTHER_MODES);
            continue;
        }
        for line in &proxy.lines {
            if seen.insert(std::ptr::from_ref(*line)) {
                check(line, draft);
            }
        }
    }
    for proxy in proxies.iter().filter(|proxy| proxy.is_served()) {
        serve(proxy, &proxies, draft);
    }
    if draft.is_empty() && draft.is_sound() {
        draft.fault_of_all("the file has no proxy of mode tcp with bind and servers");
    }
}

/// A frontend, a backend, or both.
struct Proxy<'a> {
    head: &'a Line,
    /// The lines of its defaults, and its own.
    lines: Vec<&'a Line>,
}

/// The proxies with their defaults: the named ones, or else the last ones above.
fn proxies(sections: &[Section]) -> Vec<Proxy<'_>> {
    let mut defaults: Vec<&Section> = Vec::new();
    let mut proxies = Vec::new();
    for section in sections {
        match section.head.key.text.as_str() {
            "defaults" => defaults.push(section),
            "frontend" | "backend" | "listen" => {
                let from = section.head.words.iter().position(|word| word.text == "from");
                let above = match from.map(|at| section.head.word(at + 1)) {
                    Some(name) => defaults.iter().rev().find(|defaults| defaults.head.word(0) == name),
                    None => defaults.last(),
                };
                let above = above.into_iter().flat_map(|defaults| &defaults.lines);
                proxies.push(Proxy { head: &section.head, lines: above.chain(&section.lines).collect() });
            }
            _ => {}
        }
    }
    proxies
}

impl Proxy<'_> {
    fn name(&self) -> &str {
        self.head.word(0)
    }

    fn title(&self) -> String {
        format!("{} {}", self.head.key.text, self.name())
    }

    /// The last line that begins with `words`.
    fn last(&self, first: &str, second: &str) -> Option<&Line> {
        let is_it = |line: &&&Line| line.key.text == first && (second.is_empty() || line.word(0) == second);
        self.lines.iter().rev().find(is_it).copied()
    }

    fn mode(&self) -> &str {
        self.last("mode", "").map_or("tcp", |line| line.word(0))
    }

    /// Whether it listens for clients of mode tcp.
    fn is_served(&self) -> bool {
        let is_on = self.last("disabled", "").is_none();
        is_on && self.mode() == "tcp" && self.head.key.text != "backend"
    }
}

fn read_global(line: &Line, draft: &mut Draft) {
    let origin = Origin::of(&line.key, &line.shown());
    match (line.key.text.as_str(), line.word(0)) {
        ("nbthread", count) => match number(count, 1024) {
            Some(count @ 1..) => draft.process().set("workers", count, &origin),
            _ => draft.fault(&line.key.place, "nbthread: write a number from 1 to 1024"),
        },
        ("hard-stop-after", time) => match duration_ms(time, 1) {
            Some(ms) => draft.process().set("drain-timeout", seconds(ms), &origin),
            None => draft.fault(&line.key.place, format!("hard-stop-after {time}: write a time, as in 10s")),
        },
        (name, _) => {
            let reason = fate(GLOBAL, name).map_or(GLOBAL_OTHERS, Fate::reason);
            draft.leave_out(&line.key, reason);
        }
    }
}

/// Notes the loss of a line of a proxy, if shardis has nothing for it.
fn check(line: &Line, draft: &mut Draft) {
    let key = &line.key;
    if ["no", "default"].contains(&key.text.as_str()) {
        return draft.leave_out(
            &key.with(format!("{} {}", key.text, line.shown())),
            "shardis tcp has no such switch",
        );
    }
    let two = key.with(format!("{} {}", key.text, line.word(0)));
    let (name, fate) = match (fate(PROXY, &two.text), fate(PROXY, &key.text)) {
        (Some(fate), _) => (&two, fate),
        (None, Some(fate)) => (key, fate),
        (None, None) if key.text.starts_with("http") || key.text.starts_with("redirect") => {
            return draft.leave_out(key, "it concerns HTTP");
        }
        (None, None) => {
            let name = if ["option", "timeout"].contains(&key.text.as_str()) { &two } else { key };
            return draft.fault(&key.place, format!("{}: the keyword is unknown", name.text));
        }
    };
    if !(key.text == "tcp-request" && is_harmless(line)) {
        draft.settle(name, fate);
    }
}

/// Whether a rule of `tcp-request` lets all clients in.
fn is_harmless(line: &Line) -> bool {
    line.word(0) == "inspect-delay" || (line.word(1) == "accept" && line.words.len() == 2)
}

/// The listeners of a proxy.
fn serve(proxy: &Proxy<'_>, proxies: &[Proxy<'_>], draft: &mut Draft) {
    let named = proxy.last("default_backend", "");
    let target = match named {
        Some(line) => {
            let is_it =
                |other: &&Proxy<'_>| other.name() == line.word(0) && other.head.key.text != "frontend";
            let Some(target) = proxies.iter().find(is_it) else {
                return draft
                    .fault(&line.key.place, format!("default_backend {}: there is none", line.word(0)));
            };
            target
        }
        None => proxy,
    };
    let servers = Servers::read(&target.lines, draft);
    let binds: Vec<&Line> = proxy.lines.iter().copied().filter(|line| line.key.text == "bind").collect();
    let inline = proxy.head.words.get(1).filter(|word| word.text != "from");
    if servers.is_empty() || (binds.is_empty() && inline.is_none()) {
        let lack = if servers.is_empty() { "no server gets clients" } else { "bind is missing" };
        return draft.fault(&proxy.head.key.place, format!("{}: {lack}", proxy.title()));
    }
    let inline =
        inline.map(|word| Line { key: proxy.head.key.with(proxy.title()), words: vec![word.clone()] });
    for bind in binds.into_iter().chain(&inline) {
        for text in bind.word(0).split(',') {
            let mut table = Table::named(proxy.head.key.with(proxy.title()));
            if read_bind(bind, text, &mut table, draft) {
                let origin = Origin::of(named.map_or(&target.head.key, |line| &line.key), target.name());
                servers.set(&mut table, &origin, draft);
                read_settings(proxy, target, &mut table, draft);
                draft.passing(table);
            }
        }
    }
}

/// Reads one address of a line `bind`. `false` if shardis has no listener there.
fn read_bind(bind: &Line, text: &str, table: &mut Table, draft: &mut Draft) -> bool {
    let key = bind.key.with(format!("bind {text}"));
    if text.starts_with('/')
        || ["unix@", "abns@", "fd@", "sockpair@"].iter().any(|kind| text.starts_with(kind))
    {
        draft.refuse(&key, "a listener of mode tcp has a port here");
        return false;
    }
    let plain = text.strip_prefix("ipv4@").or_else(|| text.strip_prefix("ipv6@")).unwrap_or(text);
    let Some(Listen::Tcp(host, port)) = Listen::tcp(plain) else {
        draft.fault(
            &bind.key.place,
            format!("bind {text}: write an address with one port, as in 127.0.0.1:6379"),
        );
        return false;
    };
    let origin = Origin::of(&bind.key, &bind.shown());
    table.set("address", node(&host, &port.to_string()), &origin);
    table.set("mode", "tcp", &origin);
    let mut words = bind.words.iter().skip(1);
    while let Some(word) = words.next() {
        let name = word.text.as_str();
        let Some(fate) = fate(BIND, name) else {
            draft.fault(&word.place, format!("{name}: the parameter of bind is unknown"));
            continue;
        };
        let value = if BIND_FLAGS.contains(&name) { "" } else { words.next().map_or("", |word| &word.text) };
        match name {
            "accept-proxy" => table.set("proxy-protocol", true, &origin),
            "maxconn" => match number(value, i32::MAX as u64) {
                Some(clients @ 1..) => table.set("maxclients", clients, &origin),
                _ => draft.fault(&word.place, format!("maxconn {value}: write a number")),
            },
            _ => {
                draft.settle(&word.with(format!("bind {name}")), fate);
            }
        }
    }
    true
}

fn read_settings(proxy: &Proxy<'_>, target: &Proxy<'_>, table: &mut Table, draft: &mut Draft) {
    read_balance(target, table, draft);
    read_idle(proxy, target, table, draft);
    if let Some((ms, origin)) = time(target, "connect", draft).or_else(|| time(proxy, "connect", draft)) {
        table.set("connect-timeout-ms", ms.max(1), &origin);
    }
    let Some(line) = proxy.last("maxconn", "").filter(|_| !table.has("maxclients")) else { return };
    match number(line.word(0), i32::MAX as u64) {
        Some(clients @ 1..) => {
            table.set("maxclients", clients, &Origin::of(&line.key, line.word(0)));
            draft.lose(&line.key, PROXY, "maxconn");
        }
        _ => draft.leave_out(&line.key, "shardis needs a limit; it has 10000"),
    }
}

fn read_balance(target: &Proxy<'_>, table: &mut Table, draft: &mut Draft) {
    let Some(line) = target.last("balance", "") else {
        return table.set("balance", "round-robin", &Origin::implied("default of haproxy"));
    };
    let policy = line.word(0).split('(').next().unwrap_or_default();
    let balance = match policy {
        "leastconn" | "random" => "least-conn",
        "source" => "source-hash",
        "roundrobin" | "static-rr" => "round-robin",
        "first" | "hash" | "rdp-cookie" | "uri" | "url_param" | "hdr" | "sticky" => {
            draft.lose(&line.key, PROXY, "balance");
            "round-robin"
        }
        _ => {
            return draft
                .fault(&line.key.place, format!("balance {}: there is no such policy", line.shown()));
        }
    };
    table.set("balance", balance, &Origin::of(&line.key, &line.shown()));
}

/// The idle timeout: the longest one, and none if one side has none.
fn read_idle(proxy: &Proxy<'_>, target: &Proxy<'_>, table: &mut Table, draft: &mut Draft) {
    let tunnel = time(target, "tunnel", draft);
    let sides = [time(proxy, "client", draft), time(target, "server", draft)];
    if let Some((ms, origin)) = tunnel {
        return table.set("timeout", seconds(ms), &origin);
    }
    let [Some(client), Some(server)] = sides else {
        return table.set(
            "timeout",
            0,
            &Origin::implied("timeout client and timeout server are not both set"),
        );
    };
    let (longer, shorter) = if server.0 > client.0 { (&server, "client") } else { (&client, "server") };
    table.set("timeout", seconds(longer.0), &longer.1);
    if let Some(line) = [proxy, target].iter().find_map(|proxy| proxy.last("timeout", shorter))
        && client.0 != server.0
    {
        draft.lose(&line.key.with(format!("timeout {shorter}")), PROXY, &format!("timeout {shorter}"));
    }
}

/// The milliseconds of `timeout NAME`.
fn time(proxy: &Proxy<'_>, name: &str, draft: &mut Draft) -> Option<(u64, Origin)> {
    let line = proxy.last("timeout", name)?;
    let ms = duration_ms(line.word(1), 1);
    if ms.is_none() {
        let text = format!("timeout {name} {}: write a time, as in 30s", line.word(1));
        draft.fault(&line.key.place, text);
    }
    let key: Word = line.key.with(format!("timeout {name}"));
    Some((ms?, Origin::of(&key, line.word(1))))
}
