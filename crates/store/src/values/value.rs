//! The value of a key: its type, its cost, and its freeing in steps.

use crate::values::hash::Hash;
use crate::values::list::List;
use crate::values::set::Set;
use crate::values::stream::Stream;
use crate::values::text;
use crate::values::zset::Zset;

/// The value of a key.
pub(crate) enum Value {
    Text(Vec<u8>),
    List(Box<List>),
    Hash(Box<Hash>),
    Set(Box<Set>),
    Zset(Box<Zset>),
    Stream(Box<Stream>),
}

/// The Rust type behind one of Redis's types.
pub(crate) trait Kind: Sized {
    fn empty(seed: u64) -> Self;
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    fn into_value(self) -> Value;
}

/// Writes [`Kind`] for a variant; `$open` takes the type out of the variant.
macro_rules! kind {
    ($kind:ty, $variant:ident, $empty:expr, $wrap:expr) => {
        impl Kind for $kind {
            fn empty(seed: u64) -> Self {
                $empty(seed)
            }
            fn of(value: &Value) -> Option<&Self> {
                if let Value::$variant(inner) = value { Some(inner) } else { None }
            }
            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                if let Value::$variant(inner) = value { Some(inner) } else { None }
            }
            fn into_value(self) -> Value {
                Value::$variant($wrap(self))
            }
        }
    };
}

kind!(Vec<u8>, Text, |_| Vec::new(), std::convert::identity);
kind!(List, List, |_| List::default(), Box::new);
kind!(Hash, Hash, Hash::new, Box::new);
kind!(Set, Set, Set::new, Box::new);
kind!(Zset, Zset, Zset::new, Box::new);
kind!(Stream, Stream, |_| Stream::default(), Box::new);

impl Value {
    /// Redis's name of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Text(_) => "string",
            Value::List(_) => "list",
            Value::Hash(_) => "hash",
            Value::Set(_) => "set",
            Value::Zset(_) => "zset",
            Value::Stream(_) => "stream",
        }
    }

    /// An approximation of Redis's reply to OBJECT ENCODING, for clients that read it. Each type has one form here.
    pub(crate) fn encoding(&self) -> &'static str {
        match self {
            Value::Text(text) if text.len() <= 20 && resp::integer::parse_i64(text).is_some() => "int",
            Value::Text(text) if text.len() <= EMBEDDED_BYTES_MAX => "embstr",
            Value::Text(_) => "raw",
            Value::List(list) => list.encoding(),
            Value::Hash(hash) => hash.encoding(),
            Value::Set(set) => set.encoding(),
            Value::Zset(zset) => zset.encoding(),
            Value::Stream(_) => "stream",
        }
    }

    /// Bytes by our own accounting.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Value::Text(text) => text::memory(text) + ALLOCATION_BYTES,
            Value::List(list) => list.memory(),
            Value::Hash(hash) => hash.memory(),
            Value::Set(set) => set.memory(),
            Value::Zset(zset) => zset.memory(),
            Value::Stream(stream) => stream.memory(),
        }
    }

    /// Approximate number of its allocations.
    pub(crate) fn elements(&self) -> usize {
        match self {
            Value::Text(_) => 1,
            Value::List(list) => list.len(),
            Value::Hash(hash) => hash.len(),
            Value::Set(set) => set.len(),
            Value::Zset(zset) => zset.len(),
            Value::Stream(stream) => stream.elements(),
        }
    }

    /// Whether the key must be removed: Redis has no empty collections. An empty string is a value, and so is an empty stream.
    pub(crate) fn is_gone(&self) -> bool {
        !matches!(self, Value::Text(_) | Value::Stream(_)) && self.elements() == 0
    }

    /// Frees about a hundred elements of an unreachable value. Returns false when nothing is left.
    pub(crate) fn dismantle(&mut self) -> bool {
        match self {
            Value::Text(_) => false,
            Value::List(list) => list.dismantle(),
            Value::Hash(hash) => hash.dismantle(),
            Value::Set(set) => set.dismantle(),
            Value::Zset(zset) => zset.dismantle(),
            Value::Stream(stream) => stream.dismantle(),
        }
    }

    /// A copy for COPY.
    pub(crate) fn copied(&self, seed: u64) -> Value {
        match self {
            Value::Text(text) => Value::Text(text.clone()),
            Value::List(list) => list.copied().into_value(),
            Value::Hash(hash) => hash.copied(seed).into_value(),
            Value::Set(set) => set.copied(seed).into_value(),
            Value::Zset(zset) => zset.copied(seed).into_value(),
            Value::Stream(stream) => Value::Stream(stream.clone()),
        }
    }
}

/// Average bytes that the allocator adds to each block for its header and by rounding up.
pub(crate) const ALLOCATION_BYTES: usize = 16;

/// Bytes of an empty collection.
pub(crate) const COLLECTION_BYTES: usize = 160;

/// Redis's `OBJ_ENCODING_EMBSTR_SIZE_LIMIT`.
const EMBEDDED_BYTES_MAX: usize = 44;

/// Redis's `zset-max-listpack-entries` and `*-max-listpack-value`: a collection with more is not small.
pub(crate) const SMALL_ENTRIES_MAX: usize = 128;
pub(crate) const SMALL_BYTES_MAX: usize = 64;
