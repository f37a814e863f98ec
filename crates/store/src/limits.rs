//! The bounds of the store and the assumptions of its account of memory, for docs/store.md. They come from the constants that
//! the code uses, so the page cannot differ from them.

use crate::commands::{compiled, scan, sets};
use crate::values::{hash, list, set, text, value, zset};
use crate::{database, keyspace, store, table};

/// A line of the reference page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Subject of the bound or of the cost.
    pub what: &'static str,
    /// Size of the bound or of the cost, with its unit.
    pub much: String,
    /// Behaviour at the bound, or the reason.
    pub then: &'static str,
}

/// The bounds, and then the costs that the account of memory assumes.
pub fn limits() -> [Vec<Limit>; 2] {
    [bounds(), costs()]
}

fn limit(what: &'static str, much: String, then: &'static str) -> Limit {
    Limit { what, much, then }
}

fn bounds() -> Vec<Limit> {
    vec![
        limit(
            "a string, by APPEND, SETRANGE and SETBIT",
            format!("{} MB", text::TEXT_BYTES_MAX >> 20),
            "an error, as with Redis's `proto-max-bulk-len`; SETRANGE and SETBIT are also refused beyond the memory of the shard",
        ),
        limit(
            "members by SRANDMEMBER, HRANDFIELD and ZRANDMEMBER with a negative count",
            format!("{}", sets::REPEATS_MAX),
            "an error; Redis would fill its memory with the reply",
        ),
        limit(
            "a page of SCAN and its kin without COUNT",
            format!("about {} entries", scan::COUNT),
            "collections that are small by Redis's defaults come in one page",
        ),
        limit(
            "entries of a collection that is small",
            format!("{}", value::SMALL_ENTRIES_MAX),
            "of a sorted set; 512 of a hash or of a set of integers. They lie in the order of Redis's small collections",
        ),
        limit(
            "entries that are moved when a table grows",
            format!("{}", table::SEGMENT_ENTRIES_MAX),
            "tables grow segment by segment, so that no request pays for a million keys",
        ),
        limit(
            "elements of a value that are freed at once",
            format!("{}", keyspace::ELEMENTS_AT_ONCE_MAX),
            "larger values, and all keys after FLUSHALL, are freed in steps between requests; they count until then",
        ),
        limit(
            "expired keys that are removed at a time",
            format!("{}", store::EXPIRED_PER_WORK),
            "in the order of their expiry; a key is never seen after its millisecond, removed or not",
        ),
        limit(
            "keys that are evicted for one request",
            format!("{}", store::EVICTED_PER_REQUEST),
            "the request is refused with OOM if that was not enough; the next one finds more room",
        ),
        limit(
            "keys that LRU policies compare",
            format!("{}", database::LRU_SAMPLES),
            "the one goes that was not used for longest; `volatile-ttl` compares all",
        ),
        limit(
            "scripts that EVAL left compiled",
            format!("{}", compiled::EVALUATED_MAX),
            "the one goes that was not used for longest, as in Redis 7.4; EVALSHA is then answered with NOSCRIPT",
        ),
        limit(
            "all compiled scripts",
            format!("{}, of {} MB", compiled::CACHED_MAX, compiled::CACHED_BYTES_MAX >> 20),
            "the same, scripts of SCRIPT LOAD last",
        ),
        limit(
            "libraries of functions",
            format!("{}, of {} MB", compiled::LIBRARIES_MAX, compiled::LIBRARY_BYTES_MAX >> 20),
            "FUNCTION LOAD is refused",
        ),
    ]
}

fn costs() -> Vec<Limit> {
    vec![
        limit("a key", format!("{} bytes", database::ENTRY_BYTES + value::ALLOCATION_BYTES), "and its name"),
        limit("an expiry", format!("{} bytes", database::EXPIRY_BYTES), ""),
        limit(
            "a string",
            format!("{} bytes", value::ALLOCATION_BYTES),
            "and its bytes, with up to 1 MB of the room that it keeps to grow",
        ),
        limit("a collection", format!("{} bytes", value::COLLECTION_BYTES), "and its elements"),
        limit("an element of a list", format!("{} bytes", list::ELEMENT_BYTES), "and its bytes"),
        limit("a field of a hash", format!("{} bytes", hash::FIELD_BYTES), "and the bytes of both"),
        limit("a member of a set", format!("{} bytes", set::MEMBER_BYTES), "and its bytes"),
        limit("a member of a sorted set", format!("{} bytes", zset::SCORED_BYTES), "and its bytes"),
    ]
}
