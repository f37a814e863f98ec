//! The lines of INFO about replicas: which are read from, and the reasons against others.

use super::slow_start::WHOLE;
use super::{Reader, Zone};
use crate::context::Context;
use crate::link::ProfileId;
use crate::reading::Readers;
use std::fmt::{Result, Write};
use topology::{NodeId, ShardId};

impl Readers {
    /// Appends a line for each watched replica of `shard`, as this worker sees it.
    pub(crate) fn write_replicas(&self, cx: &Context, shard: ShardId, text: &mut String) -> Result {
        let Some(watched) = self.shards.get(shard.0 as usize) else { return Ok(()) };
        for (reader, member) in (1..).zip(watched.members.iter().skip(1)) {
            let Some(node) = member.node else { continue };
            let address = &cx.engine.topology.node(node).address;
            let is_up = is_reader_up(cx, node);
            let state = if is_up { "up" } else { "down" };
            write!(text, "node{}_replica{reader}:address={address},state={state}", shard.0)?;
            if let Some(lag) = member.report.and_then(|report| watched.lag_bytes(report)) {
                write!(text, ",lag={lag}")?;
            }
            if member.rtt_us_x8 > 0 {
                write!(text, ",rtt_us={}", member.rtt_us_x8 / 8)?;
            }
            if member.zone != Zone::Unknown {
                write!(text, ",in_our_zone={}", if member.zone.is_ours() { "yes" } else { "no" })?;
            }
            let percent = member.comeback.share(cx.limits.slow_start, cx.engine.now) * 100 / WHOLE;
            match watched.fitness(Reader(reader), &self.reading, &cx.limits, cx.engine.now) {
                Ok(()) if is_up => write!(text, ",share={percent}%\r\n")?,
                Ok(()) => write!(text, ",share=0%,reason=it is not connected\r\n")?,
                Err(reason) => write!(text, ",share=0%,reason={reason}\r\n")?,
            }
        }
        Ok(())
    }
}

fn is_reader_up(cx: &Context, id: NodeId) -> bool {
    let ix = cx.profiles.link(ProfileId::FIRST, id);
    ix.is_some_and(|ix| cx.engine.links[ix].is_ready())
}
