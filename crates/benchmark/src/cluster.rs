//! Hash tags that lead to a slot of a Redis Cluster. Pure.

use crc::{CRC_16_XMODEM, Crc};

/// Bytes of a tag.
pub(crate) const TAG_BYTES: usize = 3;
/// Slots of a cluster.
const SLOTS: usize = 16_384;
/// Letters of tags. Four bits more than needed, so that every slot has a tag of three letters.
const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The slot of a tag.
fn slot(tag: &[u8]) -> usize {
    usize::from(CRC16.checksum(tag)) % SLOTS
}

/// A tag for each slot.
pub(crate) fn tags() -> Vec<[u8; TAG_BYTES]> {
    let mut tags = vec![[0; TAG_BYTES]; SLOTS];
    for &first in LETTERS {
        for &second in LETTERS {
            for &third in LETTERS {
                let tag = [first, second, third];
                tags[slot(&tag)] = tag;
            }
        }
    }
    tags
}

/// A primary and its slots, as CLUSTER SLOTS or NODES tells them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Primary {
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) slots: Vec<usize>,
}

/// The primaries with slots in a reply to CLUSTER NODES.
pub(crate) fn primaries(nodes: &str) -> Vec<Primary> {
    nodes.lines().filter_map(primary).filter(|primary| !primary.slots.is_empty()).collect()
}

/// `id host:port@bus,name flags master sent received epoch state slots…`
fn primary(line: &str) -> Option<Primary> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (id, addr, flags) = (fields.first()?, fields.get(1)?, fields.get(2)?);
    if !flags.split(',').any(|flag| flag == "master") {
        return None;
    }
    let (host, port) = addr.split(['@', ',']).next()?.rsplit_once(':')?;
    let slots =
        fields.iter().skip(8).filter(|field| !field.starts_with('[')).filter_map(|field| range(field));
    let slots = slots.flatten().collect();
    Some(Primary { id: (*id).to_owned(), host: host.to_owned(), port: port.parse().ok()?, slots })
}

fn range(text: &str) -> Option<std::ops::RangeInclusive<usize>> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (from <= to && to < SLOTS).then_some(from..=to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_a_tag() {
        let tags = tags();
        assert!(tags.iter().enumerate().all(|(number, tag)| slot(tag) == number));
        // Redis's own example.
        assert_eq!(slot(b"123456789"), 0x31c3);
    }

    #[test]
    fn primaries_are_read_with_their_slots() {
        let text = "\
            a1 10.0.0.1:7000@17000,name myself,master - 0 0 1 connected 0-2 5 [7->-b]\n\
            b2 10.0.0.2:7001@17001 slave a1 0 0 1 connected\n\
            c3 :0@0 master,noaddr - 0 0 1 disconnected\n";
        let expected =
            Primary { id: "a1".into(), host: "10.0.0.1".into(), port: 7000, slots: vec![0, 1, 2, 5] };
        assert_eq!(primaries(text), [expected]);
    }
}
