//! The state of replicas for an operator: the lines of INFO (which are read from, and the reasons against others), and the
//! figures of metrics.

use super::slow_start::WHOLE;
use super::{Reader, Zone};
use crate::context::Context;
use crate::link::ProfileId;
use crate::reading::Readers;
use std::fmt::{Result, Write};
use std::time::Duration;
use stdx::Instant;
use topology::{NodeId, ShardId};

/// A replica in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Bytes of the replication stream that it lacks; `None` if unknown.
    pub lag_bytes: Option<u64>,
    /// Whether it gets only a part of its reads as yet.
    pub starts_slowly: bool,
}

impl Readers {
    /// All watched replicas at `now`. A slow start takes `slow_start`.
    pub(crate) fn seen(&self, slow_start: Duration, now: Instant) -> impl Iterator<Item = (NodeId, Seen)> {
        let replicas = self
            .shards
            .iter()
            .flat_map(|watched| watched.members.iter().skip(1).map(move |member| (watched, member)));
        replicas.filter_map(move |(watched, member)| {
            let lag_bytes = member.report.and_then(|report| watched.lag_bytes(report));
            let starts_slowly = member.comeback.share(slow_start, now) < WHOLE;
            Some((member.node?, Seen { lag_bytes, starts_slowly }))
        })
    }

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
