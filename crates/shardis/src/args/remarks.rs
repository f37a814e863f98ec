//! Remarks about valid options that are probably mistakes: options without effect, defaults that cover only a part of
//! another program. They are printed at the start and by `shardis check`.

use super::ProxyArgs;
use super::proxy::STORE_POLICY_DEFAULT;
use crate::access::Secret;
use topology::Topology;

impl ProxyArgs {
    /// Remarks on probable mistakes of the operator. Each begins with its option.
    pub(crate) fn remarks(&self, topology: &Topology) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(remark) = self.like.and_then(|like| like.remark().map(|text| (like, text))) {
            remarks.push(format!("--like={}: {}", remark.0.name(), remark.1));
        }
        // Faults of files are reported elsewhere.
        let users = self.users().users().ok();
        if let Some(users) = users {
            remarks.extend(self.warning_of_openness(&users).map(str::to_owned));
            remarks.extend(self.missing_users(&users));
        }
        remarks.extend(self.readable_secrets());
        remarks.extend(self.without_effect());
        remarks.extend(self.reading.remarks(topology, &self.transport.listener));
        remarks.extend(self.transport.remarks());
        remarks
    }

    fn readable_secrets(&self) -> Vec<String> {
        let warnings = |name: &&'static str| {
            let name = *name;
            let secrets = self.secrets(name).into_iter().filter_map(Secret::warning);
            secrets.map(move |warning| format!("--{name}: {warning}")).collect::<Vec<_>>()
        };
        ProxyArgs::SECRETS.iter().flat_map(warnings).collect()
    }

    fn without_effect(&self) -> Vec<String> {
        let is_emulating = self.cross_shard() == ::proxy::CrossShard::Emulate;
        let cases = [
            (
                self.cross_shard_bytes_max != super::proxy::CROSS_SHARD_BYTES_MAX && !is_emulating,
                "--cross-shard-bytes-max",
                "--cross-shard=emulate",
            ),
            (
                self.store.store_policy != STORE_POLICY_DEFAULT
                    && self.store.store_memory.is_none()
                    && !self.has_nodes(),
                "--store-policy",
                "--store-memory",
            ),
            (
                self.discovery.has_own_period() && !self.discovery.is_given(),
                "--refresh-period-ms",
                "--cluster or --sentinel",
            ),
        ];
        cases.iter().filter(|(is_so, ..)| *is_so).map(|(_, flag, other)| no_effect(flag, other)).collect()
    }
}

/// The remark that `flag` has no effect, since `other` is not given.
pub(crate) fn no_effect(flag: &str, other: &str) -> String {
    format!("{flag} has no effect without {other}")
}
