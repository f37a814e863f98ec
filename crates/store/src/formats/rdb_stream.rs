//! Streams in the format of RDB: their nodes unchanged, then counters, then the groups.

use crate::formats::rdb::{Reader, Writer, write_len, write_text};
use crate::values::group::{Group, Pending};
use crate::values::stream::{Id, Stream};

/// Redis's numbers of the forms: before 7.0, without some of the counters; since; since 7.2, with a second instant for each
/// consumer.
pub(crate) const STREAM_WITHOUT_COUNTERS: u8 = 15;
pub(crate) const STREAM: u8 = 19;
pub(crate) const STREAM_WITH_ACTIVITY: u8 = 21;

/// The mark of an unknown number.
const UNKNOWN: u64 = u64::MAX;

pub(crate) fn write(stream: &Stream, out: &mut Writer) {
    out.push(STREAM);
    let nodes = stream.listpacks();
    write_len(nodes.len() as u64, out);
    for (first_id, bytes) in nodes {
        write_text(&first_id.to_bytes(), out);
        write_text(&bytes, out);
    }
    write_len(stream.len() as u64, out);
    [stream.last_id, stream.first_id(), stream.max_deleted_id].iter().for_each(|&id| write_id(id, out));
    write_len(stream.added, out);
    write_len(stream.groups().len() as u64, out);
    stream.groups().for_each(|(name, group)| write_group(name, group, out));
}

fn write_id(id: Id, out: &mut Writer) {
    write_len(id.ms, out);
    write_len(id.seq, out);
}

fn write_group(name: &[u8], group: &Group, out: &mut Writer) {
    write_text(name, out);
    write_id(group.last_id, out);
    write_len(group.read.unwrap_or(UNKNOWN), out);
    write_len(group.pending().len() as u64, out);
    for (id, pending) in group.pending() {
        out.extend_from_slice(&id.to_bytes());
        out.extend_from_slice(&pending.delivered_ms.to_le_bytes());
        write_len(pending.deliveries, out);
    }
    write_len(group.consumers().len() as u64, out);
    for (name, consumer) in group.consumers() {
        write_text(name, out);
        out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
        write_len(consumer.pending().len() as u64, out);
        consumer.pending().iter().for_each(|id| out.extend_from_slice(&id.to_bytes()));
    }
}

/// Reads the stream after `form`, its type byte.
pub(crate) fn read(reader: &mut Reader<'_>, form: u8) -> Option<Stream> {
    let has_counters = form != STREAM_WITHOUT_COUNTERS;
    let mut stream = Stream::default();
    reader.each(|reader| {
        let first_id = Id::from_bytes(reader.text()?.try_into().ok()?);
        stream.push_listpack(first_id, &reader.text()?)
    })?;
    let len = reader.len()?;
    stream.last_id = read_id(reader)?;
    stream.added = len;
    if has_counters {
        read_id(reader)?;
        stream.max_deleted_id = read_id(reader)?;
        stream.added = reader.len()?;
    }
    if len != stream.len() as u64 || stream.last_live_id() > stream.last_id {
        return None;
    }
    reader.each(|reader| {
        let name = reader.text()?;
        let group = read_group(reader, &stream, form)?;
        stream.add_group(&name, group).then_some(())
    })?;
    Some(stream)
}

fn read_id(reader: &mut Reader<'_>) -> Option<Id> {
    Some(Id { ms: reader.len()?, seq: reader.len()? })
}

fn read_group(reader: &mut Reader<'_>, stream: &Stream, form: u8) -> Option<Group> {
    let last_id = read_id(reader)?;
    let read = if form != STREAM_WITHOUT_COUNTERS {
        Some(reader.len()?).filter(|&read| read != UNKNOWN)
    } else {
        crate::values::group::read_until(stream, last_id)
    };
    let mut group = Group::new(last_id, read);
    let mut unowned = std::collections::BTreeMap::new();
    reader.each(|reader| {
        let id = Id::from_bytes(reader.array()?);
        let (delivered_ms, deliveries) = (u64::from_le_bytes(reader.array()?), reader.len()?);
        unowned.insert(id, (delivered_ms, deliveries)).is_none().then_some(())
    })?;
    reader.each(|reader| {
        let name = reader.text()?;
        let seen_ms = u64::from_le_bytes(reader.array()?);
        if form == STREAM_WITH_ACTIVITY {
            // Time at which the consumer last got or claimed an entry. Redis 7.0 keeps only the time at which it was last seen.
            reader.array::<8>()?;
        }
        group.add_consumer(&name, seen_ms).then_some(())?;
        let consumer = group.see_consumer(&name, seen_ms);
        reader.each(|reader| {
            let id = Id::from_bytes(reader.array()?);
            let (delivered_ms, deliveries) = unowned.remove(&id)?;
            group.assign(id, Pending { consumer: consumer.clone(), delivered_ms, deliveries });
            Some(())
        })
    })?;
    unowned.is_empty().then_some(group)
}
