//! An explanation as a reply of RESP, and as text.

use crate::local::operator::explain::{Explanation, Target};
use resp::encode;
use std::fmt;

impl Explanation {
    /// Appends the explanation as a map.
    pub(crate) fn write(&self, resp3: bool, out: &mut Vec<u8>) {
        let texts = self.texts();
        encode::map_header(out, texts.len() + 2, resp3);
        encode::texts(out, &texts);
        encode::integers(out, &[("requests", self.targets.len() as i64)]);
        encode::bulk(out, b"nodes");
        encode::array_header(out, self.targets.len());
        self.targets.iter().for_each(|target| target.write(resp3, out));
    }

    /// All that are not empty.
    fn texts(&self) -> Vec<(&'static str, &str)> {
        let read = if self.is_read { "yes, by the policy for reads" } else { "no" };
        let texts = [
            ("command", &*self.command),
            ("carried", self.carried),
            ("route", self.route),
            ("refused", &self.refused),
            ("merged", self.merged),
            ("sent-again", self.sent_again),
            ("from-replicas", read),
        ];
        texts.into_iter().filter(|(_, text)| !text.is_empty()).collect()
    }
}

impl Target {
    fn write(&self, resp3: bool, out: &mut Vec<u8>) {
        encode::map_header(out, if self.slots.is_empty() { 4 } else { 5 }, resp3);
        encode::texts(out, &[("shard", &self.shard), ("node", &self.node)]);
        encode::integers(out, &[("key-count", self.key_count as i64)]);
        encode::bulk(out, b"keys");
        encode::array_header(out, self.keys.len());
        self.keys.iter().for_each(|key| encode::bulk(out, key));
        if !self.slots.is_empty() {
            encode::bulk(out, b"slots");
            encode::array_header(out, self.slots.len());
            self.slots.iter().for_each(|&slot| encode::integer(out, slot.into()));
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, text) in self.texts() {
            writeln!(out, "{name:<14}{text}")?;
        }
        writeln!(out, "{:<14}{}", "requests", self.targets.len())?;
        for target in &self.targets {
            write!(out, "  {}  {}", target.shard, target.node)?;
            for (at, key) in target.keys.iter().enumerate() {
                write!(out, "  {}", key.escape_ascii())?;
                if let Some(slot) = target.slots.get(at) {
                    write!(out, " (slot {slot})")?;
                }
            }
            if target.key_count > target.keys.len() {
                write!(out, "  … {} keys in all", target.key_count)?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}
