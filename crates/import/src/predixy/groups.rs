//! The server pools of predixy: nodes, groups of them, sentinels.

use super::reads::Reads;
use super::scopes::Line;
use super::{POOL, PoolKind, duration_ms, invalid};
use crate::address::{is_plain, node_of};
use crate::draft::{Draft, Origin, Table, Value};
use crate::fault::Word;
use crate::options::{Fate, fate_of_any_case};
use crate::units::number;

/// A pool while its lines are read.
struct Pool<'a> {
    kind: PoolKind,
    table: &'a mut Table,
    draft: &'a mut Draft,
    reads: Reads,
    /// `RefreshMethod`: whether sentinels name the nodes.
    refreshes: Option<bool>,
    groups: Vec<Group>,
    sentinels: Vec<Word>,
    /// `Servers` of a cluster, or `Sentinels`.
    list: Option<Word>,
    /// `RefreshInterval`.
    period: Option<(Word, u64)>,
    has_hash: bool,
    has_distribution: bool,
}

/// A group of nodes: the first is the primary.
struct Group {
    key: Word,
    name: String,
    nodes: Vec<Word>,
}

/// Reads the scope of a pool. The result says where reads go.
pub(super) fn read(kind: PoolKind, scope: &Line, table: &mut Table, draft: &mut Draft) -> Reads {
    let mut pool = Pool {
        kind,
        table,
        draft,
        reads: Reads::default(),
        refreshes: (kind == PoolKind::Sentinel).then_some(true),
        groups: Vec::new(),
        sentinels: Vec::new(),
        list: None,
        period: None,
        has_hash: false,
        has_distribution: false,
    };
    for line in scope.scope.iter().flatten() {
        pool.line(line);
    }
    match kind {
        PoolKind::Cluster => pool.finish_cluster(&scope.key),
        PoolKind::Sentinel | PoolKind::Standalone => pool.finish_groups(&scope.key),
    }
    pool.finish_databases();
    pool.reads
}

impl Pool<'_> {
    fn line(&mut self, line: &Line) {
        let known = fate_of_any_case(POOL, &line.key.text).filter(|(name, _)| self.has(name));
        match known {
            Some((name, fate)) => self.option(name, fate, line),
            None => {
                let text = format!("{}: there is no such key in this pool", line.key.text);
                self.draft.fault(&line.key.place, text);
            }
        }
    }

    /// Whether a pool of this kind has the key `name`.
    fn has(&self, name: &str) -> bool {
        match name {
            "Servers" => self.kind == PoolKind::Cluster,
            "RefreshMethod" => self.kind == PoolKind::Standalone,
            "Sentinels" | "Group" | "Hash" | "HashTag" | "Distribution" => self.kind != PoolKind::Cluster,
            _ => true,
        }
    }

    fn option(&mut self, name: &'static str, fate: Fate, line: &Line) {
        let Line { key, value, .. } = line;
        let origin = Origin::of(key, value);
        match name {
            "Password" if !value.is_empty() => {
                self.table.set("node-auth", value.as_str(), &Origin::secret(key))
            }
            "Password" => self.draft.meet(key, "there is no password"),
            "Databases" => match number(value, 128) {
                Some(count) if count > 0 && (self.kind != PoolKind::Cluster || count == 1) => {
                    self.table.set("databases", count, &origin);
                }
                _ => invalid(self.draft, key, value, "a number from 1 to 128; 1 for a cluster"),
            },
            "Servers" | "Sentinels" => self.list(name, line),
            "Group" => {
                let nodes = self.addresses(line);
                self.groups.push(Group { key: key.clone(), name: value.clone(), nodes });
            }
            "RefreshMethod" => match value.to_ascii_lowercase().as_str() {
                "fixed" => self.refreshes = Some(false),
                "sentinel" => self.refreshes = Some(true),
                _ => invalid(self.draft, key, value, "fixed or sentinel"),
            },
            "Hash" | "HashTag" | "Distribution" => self.rule(name, line, &origin),
            "MasterReadPriority" | "StaticSlaveReadPriority" | "DynamicSlaveReadPriority" => {
                match number(value, 100) {
                    Some(priority) => self.reads.priority(name, key, priority),
                    None => invalid(self.draft, key, value, "a number from 0 to 100"),
                }
            }
            "RefreshInterval" => match duration_ms(value) {
                Some(ms) => self.period = Some((key.with(format!("{} {value}", key.text)), ms)),
                None => invalid(self.draft, key, value, "a time, as in 1, 500ms or 1s"),
            },
            "ServerTimeout" => match duration_ms(value) {
                Some(0) => self.draft.lose(key, POOL, name),
                Some(ms) => self.table.set("request-timeout-ms", ms, &origin),
                None => invalid(self.draft, key, value, "a time, as in 1, 500ms or 1s"),
            },
            _ => {
                self.draft.settle(key, fate);
            }
        }
    }

    fn list(&mut self, name: &str, line: &Line) {
        let nodes = self.addresses(line);
        if name == "Sentinels" && !line.value.is_empty() {
            self.table.set("sentinel-auth", line.value.as_str(), &Origin::secret(&line.key));
        }
        self.sentinels.extend(nodes);
        self.list = Some(line.key.clone());
    }

    /// Hash, HashTag or Distribution.
    fn rule(&mut self, name: &str, line: &Line, origin: &Origin) {
        let Line { key, value, .. } = line;
        match (name, value.to_ascii_lowercase().as_str()) {
            ("Hash", "crc16") => {
                self.has_hash = true;
                self.table.set("hash", "crc16-redis", origin);
            }
            ("Hash", "atol") => {
                self.has_hash = true;
                self.table.set("hash", "atol", origin);
            }
            ("Hash", _) => invalid(self.draft, key, value, "atol or crc16"),
            ("HashTag", "") => self.draft.meet(key, "whole keys are hashed"),
            ("HashTag", _) if value.len() == 2 && value.is_ascii() => {
                self.table.set("tag-rule", value.as_str(), origin);
            }
            ("HashTag", _) => invalid(self.draft, key, value, "two characters, as in \"{}\""),
            (_, "modula") => {
                self.has_distribution = true;
                self.table.set("distribution", "modulo", origin);
            }
            (_, "random") => {
                self.has_distribution = true;
                self.draft.refuse(key, "random: a key would live anywhere; write modula");
            }
            _ => invalid(self.draft, key, value, "modula"),
        }
    }

    /// The addresses of a scope, each behind a `+`.
    fn addresses(&mut self, line: &Line) -> Vec<Word> {
        let Some(lines) = &line.scope else {
            self.draft.fault(
                &line.key.place,
                format!("{}: write {{ and }} with + and addresses between them", line.key.text),
            );
            return Vec::new();
        };
        lines.iter().filter_map(|line| self.address(line)).collect()
    }

    fn address(&mut self, line: &Line) -> Option<Word> {
        let Line { key, value, .. } = line;
        let text = value.split_whitespace().next().unwrap_or_default();
        if let Some((_, address)) = text.rsplit_once('@') {
            self.draft.refuse(&key.with(address), "shardis has one password for all nodes, in node-auth");
            return None;
        }
        let node = node_of(text).filter(|_| key.text == "+");
        if node.is_none() {
            invalid(self.draft, key, value, "+ and an address, as in + 10.0.0.1:6379");
        }
        node.map(|node| key.with(node))
    }

    fn finish_cluster(&mut self, scope: &Word) {
        match self.list.take() {
            Some(list) if !self.sentinels.is_empty() => {
                self.table.set("cluster", std::mem::take(&mut self.sentinels), &Origin::of(&list, ""));
            }
            _ => self.draft.fault(&scope.place, "ClusterServerPool has no server"),
        }
        self.set_period();
        self.reads.is_known = true;
    }

    /// The period of discovery, where there is one.
    fn set_period(&mut self) {
        const PERIOD_MS_MIN: u64 = 100;
        if let Some((key, ms)) = self.period.take() {
            self.table.set("refresh-period-ms", ms.max(PERIOD_MS_MIN), &Origin::of(&key, ""));
        }
    }

    fn finish_groups(&mut self, scope: &Word) {
        if self.groups.is_empty() {
            return self.draft.fault(&scope.place, format!("{} has no server group", scope.text));
        }
        if self.groups.len() > 1 && !(self.has_hash && self.has_distribution) {
            self.draft
                .fault(&scope.place, format!("{}: several groups need Hash and Distribution", scope.text));
        }
        match self.refreshes {
            None => self.draft.fault(&scope.place, format!("{} must define RefreshMethod", scope.text)),
            Some(true) => self.finish_sentinels(scope),
            Some(false) => self.finish_nodes(scope),
        }
        let implied = Origin::implied("default of predixy");
        for (key, value) in [("hash", "crc16-redis"), ("distribution", "modulo"), ("tag-rule", "none")] {
            if !self.table.has(key) {
                self.table.set(key, value, &implied);
            }
        }
    }

    fn finish_sentinels(&mut self, scope: &Word) {
        let Some(list) = self.list.take().filter(|_| !self.sentinels.is_empty()) else {
            return self.draft.fault(&scope.place, format!("{} has no sentinel", scope.text));
        };
        self.table.set("sentinel", std::mem::take(&mut self.sentinels), &Origin::of(&list, ""));
        let names = self.groups.iter().map(|group| (group.name.clone(), Some(group.key.place.clone())));
        let origin = Origin::implied("the groups, in their order");
        self.table.set("master", Value::List(names.collect()), &origin);
        self.set_period();
        self.reads.is_known = true;
    }

    fn finish_nodes(&mut self, scope: &Word) {
        if !self.sentinels.is_empty() {
            self.draft.fault(&scope.place, format!("{}: Sentinels need RefreshMethod sentinel", scope.text));
        }
        if let Some((key, _)) = self.period.take() {
            self.draft.lose(&key.with("RefreshInterval"), POOL, "RefreshInterval");
        }
        let mut nodes = Vec::new();
        for group in &self.groups {
            let Some((primary, replicas)) = group.nodes.split_first() else {
                self.draft.fault(&group.key.place, format!("Group {}: there is no server", group.name));
                continue;
            };
            let name = Some(&group.name).filter(|name| is_plain(name) && !name.is_empty());
            let mut text = primary.text.clone();
            if let Some(name) = name {
                text.push(' ');
                text.push_str(name);
            }
            for replica in replicas {
                text.push('|');
                text.push_str(&replica.text);
            }
            self.reads.is_known |= !replicas.is_empty();
            nodes.push(primary.with(text));
        }
        self.table.set(
            "nodes",
            nodes,
            &Origin::implied("the groups, in their order: a primary and its replicas"),
        );
    }

    fn finish_databases(&mut self) {
        if !self.table.has("databases") && self.kind != PoolKind::Cluster {
            self.table.set("databases", 1, &Origin::implied("default of predixy"));
        }
    }
}
