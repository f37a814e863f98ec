//! What a request is refused with: all texts that a client can read, Redis's own except for one.

use resp::encode;

use crate::args::shown;

/// Why a request failed. Nothing was changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Error {
    /// Name of the command, `object|encoding` for a subcommand.
    Arity(String),
    /// Name of the command.
    NotHere(String),
    /// As the client wrote it, and name of the container.
    UnknownSubcommand(String, &'static str),
    OutOfMemory,
    WrongType,
    Syntax,
    NotInteger,
    NotFloat,
    HashNotInteger,
    HashNotFloat,
    Overflow,
    DecrementOverflow,
    NotANumber,
    IncrementInfinite,
    ScoreNotANumber,
    WeightNotFloat,
    OutOfRange,
    NotNegatable,
    NotPositive,
    IndexOutOfRange,
    OffsetOutOfRange,
    StringTooLong,
    BitOffset,
    NotABit,
    BitArgument,
    BitopNot,
    /// Name of the command.
    ExpireTime(&'static str),
    ExpireNxAndOthers,
    ExpireGtAndLt,
    UnsupportedOption(String),
    NoSuchKey,
    SameKey,
    DbIndex,
    InvalidCursor,
    PosRank,
    PosCount,
    PosMaxlen,
    Numkeys,
    NumkeysTooMany,
    Limit,
    NoInputKey(&'static str),
    ZaddNxAndXx,
    ZaddGtLtNx,
    ZaddIncrPairs,
    ScoreRange,
    LexRange,
    LimitWithoutBy,
    WithscoresBylex,
    /// Longitude and latitude.
    GeoPlace(f64, f64),
    /// What does not go together with WITHDIST and the like.
    GeoStoreWith(&'static str),
    /// What is missing, and name of the command as the client wrote it.
    GeoNeeds(&'static str, String),
    /// What only one command says.
    Fixed(&'static str),
}

impl Error {
    pub(crate) const COUNT_POSITIVE: Error = Error::Fixed("ERR count should be greater than 0");
    pub(crate) const LCS_NOT_STRINGS: Error =
        Error::Fixed("ERR The specified keys must contain string values");
    pub(crate) const LCS_LEN_AND_IDX: Error =
        Error::Fixed("ERR If you want both the length and indexes, please just use IDX.");
    pub(crate) const LCS_MEMORY: Error =
        Error::Fixed("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
    pub(crate) const BITFIELD_TYPE: Error = Error::Fixed(
        "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
    );
    pub(crate) const BITFIELD_OVERFLOW: Error = Error::Fixed("ERR Invalid OVERFLOW type specified");
    pub(crate) const BITFIELD_RO: Error = Error::Fixed("ERR BITFIELD_RO only supports the GET subcommand");
    pub(crate) const SORT_SCORES: Error =
        Error::Fixed("ERR One or more scores can't be converted into double");
    pub(crate) const NOT_HYPERLOGLOG: Error =
        Error::Fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");
    pub(crate) const CORRUPT_HYPERLOGLOG: Error = Error::Fixed("INVALIDOBJ Corrupted HLL object detected");
    pub(crate) const GEO_COUNT: Error = Error::Fixed("ERR COUNT must be > 0");
    pub(crate) const GEO_MEMBER: Error = Error::Fixed("ERR could not decode requested zset member");
    pub(crate) const GEO_RADIUS: Error = Error::Fixed("ERR need numeric radius");
    pub(crate) const GEO_RADIUS_NEGATIVE: Error = Error::Fixed("ERR radius cannot be negative");
    pub(crate) const GEO_WIDTH: Error = Error::Fixed("ERR need numeric width");
    pub(crate) const GEO_HEIGHT: Error = Error::Fixed("ERR need numeric height");
    pub(crate) const GEO_BOX_NEGATIVE: Error = Error::Fixed("ERR height or width cannot be negative");
    pub(crate) const GEO_UNIT: Error =
        Error::Fixed("ERR unsupported unit provided. please use M, KM, FT, MI");
    pub(crate) const GEO_ANY: Error = Error::Fixed("ERR the ANY argument requires COUNT argument");
    pub(crate) const BUSY_KEY: Error = Error::Fixed("BUSYKEY Target key name already exists.");
    pub(crate) const RESTORE_IDLE: Error = Error::Fixed("ERR Invalid IDLETIME value, must be >= 0");
    pub(crate) const RESTORE_FREQUENCY: Error =
        Error::Fixed("ERR Invalid FREQ value, must be >= 0 and <= 255");
    pub(crate) const RESTORE_TTL: Error = Error::Fixed("ERR Invalid TTL value, must be >= 0");
    pub(crate) const RESTORE_CHECKSUM: Error = Error::Fixed("ERR DUMP payload version or checksum are wrong");
    pub(crate) const RESTORE_FORMAT: Error = Error::Fixed("ERR Bad data format");
    pub(crate) const NO_FREQUENCY: Error = Error::Fixed(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
         switching between policies at runtime LRU and LFU data will take some time to adjust.",
    );

    /// For a command that the store does not have.
    #[cold]
    pub(crate) fn not_here(name: &[u8]) -> Error {
        Error::NotHere(shown(name).to_lowercase())
    }

    /// Appends the reply.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self.fixed_text() {
            Some(text) => encode::error(out, text.as_bytes()),
            None => encode::error(out, self.built_text().as_bytes()),
        }
    }

    fn built_text(&self) -> String {
        match self {
            Error::Arity(name) => format!("ERR wrong number of arguments for '{name}' command"),
            Error::NotHere(name) => format!(
                "ERR command '{name}' is not in the embedded store \
                 (start redis-servers and name them with --nodes)"
            ),
            Error::UnknownSubcommand(name, container) => {
                format!("ERR unknown subcommand '{name}'. Try {container} HELP.")
            }
            Error::ExpireTime(name) => format!("ERR invalid expire time in '{name}' command"),
            Error::UnsupportedOption(option) => format!("ERR Unsupported option {option}"),
            Error::GeoPlace(longitude, latitude) => {
                format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}")
            }
            Error::GeoStoreWith(what) => {
                format!("ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options")
            }
            Error::GeoNeeds(what, name) => format!("ERR exactly one of {what} can be specified for {name}"),
            Error::NoInputKey(name) => format!("ERR at least 1 input key is needed for '{name}' command"),
            _ => String::new(),
        }
    }

    fn fixed_text(&self) -> Option<&'static str> {
        Some(match self {
            Error::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            Error::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Error::Syntax => "ERR syntax error",
            Error::NotInteger => "ERR value is not an integer or out of range",
            Error::NotFloat => "ERR value is not a valid float",
            Error::HashNotInteger => "ERR hash value is not an integer",
            Error::HashNotFloat => "ERR hash value is not a float",
            Error::Overflow => "ERR increment or decrement would overflow",
            Error::DecrementOverflow => "ERR decrement would overflow",
            Error::NotANumber => "ERR increment would produce NaN or Infinity",
            Error::IncrementInfinite => "ERR value is NaN or Infinity",
            Error::ScoreNotANumber => "ERR resulting score is not a number (NaN)",
            Error::WeightNotFloat => "ERR weight value is not a float",
            Error::OutOfRange => "ERR value is out of range",
            Error::NotNegatable => {
                "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
            }
            Error::NotPositive => "ERR value is out of range, must be positive",
            Error::IndexOutOfRange => "ERR index out of range",
            Error::OffsetOutOfRange => "ERR offset is out of range",
            Error::StringTooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            Error::BitOffset => "ERR bit offset is not an integer or out of range",
            Error::NotABit => "ERR bit is not an integer or out of range",
            Error::BitArgument => "ERR The bit argument must be 1 or 0.",
            Error::BitopNot => "ERR BITOP NOT must be called with a single source key.",
            Error::ExpireNxAndOthers => "ERR NX and XX, GT or LT options at the same time are not compatible",
            Error::ExpireGtAndLt => "ERR GT and LT options at the same time are not compatible",
            Error::NoSuchKey => "ERR no such key",
            Error::SameKey => "ERR source and destination objects are the same",
            Error::DbIndex => "ERR DB index is out of range",
            Error::InvalidCursor => "ERR invalid cursor",
            Error::PosRank => {
                "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
                 negative to start from the end of the list"
            }
            Error::PosCount => "ERR COUNT can't be negative",
            Error::PosMaxlen => "ERR MAXLEN can't be negative",
            Error::Numkeys => "ERR numkeys should be greater than 0",
            Error::NumkeysTooMany => "ERR Number of keys can't be greater than number of args",
            Error::Limit => "ERR LIMIT can't be negative",
            Error::ZaddNxAndXx => "ERR XX and NX options at the same time are not compatible",
            Error::ZaddGtLtNx => "ERR GT, LT, and/or NX options at the same time are not compatible",
            Error::ZaddIncrPairs => "ERR INCR option supports a single increment-element pair",
            Error::ScoreRange => "ERR min or max is not a float",
            Error::LexRange => "ERR min or max not valid string range item",
            Error::LimitWithoutBy => {
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
            }
            Error::WithscoresBylex => "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            Error::Fixed(text) => text,
            Error::Arity(_)
            | Error::NotHere(_)
            | Error::UnknownSubcommand(..)
            | Error::ExpireTime(_)
            | Error::UnsupportedOption(_)
            | Error::GeoPlace(..)
            | Error::GeoStoreWith(_)
            | Error::GeoNeeds(..)
            | Error::NoInputKey(_) => return None,
        })
    }
}
