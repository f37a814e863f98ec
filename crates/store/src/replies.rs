//! Pieces of replies that many commands have in common.

use resp::encode;

/// `item` as a bulk, or the nil that stands for none.
pub(crate) fn bulk_or_nil(out: &mut Vec<u8>, item: Option<&[u8]>) {
    match item {
        Some(item) => encode::bulk(out, item),
        None => encode::nil(out),
    }
}

/// The nil of replies that are arrays otherwise.
pub(crate) fn nil_array(out: &mut Vec<u8>) {
    out.extend_from_slice(b"*-1\r\n");
}
