//! Errors of requests: all texts that a client can read. All but one are Redis's own.

use resp::encode;

use crate::args::shown;

/// Reason why a request failed. The request changed nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Error {
    /// Name of the command, `object|encoding` for a subcommand.
    Arity(String),
    /// Name of the command.
    NotHere(String),
    /// The subcommand as the client wrote it, and the name of the container.
    UnknownSubcommand(String, &'static str),
    /// LATENCY GRAPH of an event without samples.
    NoSamples(String),
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
    /// An integer that C's `int` does not hold.
    NotInt,
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
    /// The options that WITHDIST and its relatives exclude.
    GeoStoreWith(&'static str),
    /// The missing option, and the name of the command as the client wrote it.
    GeoNeeds(&'static str, String),
    /// The subcommand as the client wrote it, and the name of the container.
    SubcommandSyntax(String, &'static str),
    /// Contains names that clients gave.
    Named(Vec<u8>),
    /// Errors of single commands.
    Fixed(&'static str),
}

impl Error {
    pub(crate) const MULTI_NESTED: Error = Error::Fixed("ERR MULTI calls can not be nested");
    pub(crate) const EXEC_WITHOUT_MULTI: Error = Error::Fixed("ERR EXEC without MULTI");
    pub(crate) const DISCARD_WITHOUT_MULTI: Error = Error::Fixed("ERR DISCARD without MULTI");
    pub(crate) const WATCH_IN_MULTI: Error = Error::Fixed("ERR WATCH inside MULTI is not allowed");
    pub(crate) const EXEC_ABORTED: Error =
        Error::Fixed("EXECABORT Transaction discarded because of previous errors.");
    pub(crate) const SSUBSCRIBE_IN_EXEC: Error =
        Error::Fixed("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");
    pub(crate) const WAIT_NOT_FLOAT: Error = Error::Fixed("ERR timeout is not a float or out of range");
    pub(crate) const WAIT_TOO_LONG: Error = Error::Fixed("ERR timeout is out of range");
    pub(crate) const GROUP_GONE: Error =
        Error::Fixed("NOGROUP the consumer group this client was blocked on no longer exists");
    pub(crate) const STREAM_GONE: Error = Error::Fixed("UNBLOCKED the stream key no longer exists");
    pub(crate) const UNBLOCKED: Error = Error::Fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK");
    pub(crate) const UNBLOCK_REASON: Error =
        Error::Fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    pub(crate) const EVENT_CLASSES: Error = Error::Fixed(
        "ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - Invalid event class \
         character. The embedded store knows Ag$lshzxetdnKE.",
    );

    /// For an EXEC that could not begin.
    pub(crate) fn exec_aborted_by(error: &Error) -> Error {
        let mut text = Vec::new();
        error.write(&mut text);
        let text = text.strip_prefix(b"-ERR ").or(text.strip_prefix(b"-")).unwrap_or(&text).trim_ascii_end();
        Error::named(&[b"EXECABORT Transaction discarded because of: ", text])
    }

    /// For a connection that is subscribed in RESP2.
    pub(crate) fn only_subscribers(name: &str) -> Error {
        let allowed =
            "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
        Error::named(&[format!("ERR Can't execute '{name}': {allowed}").as_bytes()])
    }

    /// For a parameter of CONFIG SET that the store does not have.
    pub(crate) fn unknown_parameter(name: &[u8]) -> Error {
        Error::named(&[b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"])
    }

    pub(crate) const SWAPDB_FIRST: Error = Error::Fixed("ERR invalid first DB index");
    pub(crate) const SWAPDB_SECOND: Error = Error::Fixed("ERR invalid second DB index");
    pub(crate) const PROTOCOL_NUMBER: Error =
        Error::Fixed("ERR Protocol version is not an integer or out of range");
    pub(crate) const PROTOCOL: Error = Error::Fixed("NOPROTO unsupported protocol version");
    pub(crate) const CLIENT_NAME: Error =
        Error::Fixed("ERR Client names cannot contain spaces, newlines or special characters.");
    pub(crate) const WRONG_PASSWORD: Error =
        Error::Fixed("WRONGPASS invalid username-password pair or user is disabled.");
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
    pub(crate) const STREAM_ID: Error =
        Error::Fixed("ERR Invalid stream ID specified as stream command argument");
    pub(crate) const STREAM_ID_ZERO: Error =
        Error::Fixed("ERR The ID specified in XADD must be greater than 0-0");
    pub(crate) const STREAM_ID_TOO_SMALL: Error =
        Error::Fixed("ERR The ID specified in XADD is equal or smaller than the target stream top item");
    pub(crate) const STREAM_FULL: Error =
        Error::Fixed("ERR The stream has exhausted the last possible ID, unable to add more items");
    pub(crate) const STREAM_ENTRY_TOO_LARGE: Error = Error::Fixed("ERR Elements are too large to be stored");
    pub(crate) const STREAM_RANGE_START: Error = Error::Fixed("ERR invalid start ID for the interval");
    pub(crate) const STREAM_RANGE_END: Error = Error::Fixed("ERR invalid end ID for the interval");
    pub(crate) const STREAM_TRIM_TWICE: Error =
        Error::Fixed("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
    pub(crate) const STREAM_TRIM_HOW: Error =
        Error::Fixed("ERR syntax error, XTRIM must be called with a trimming strategy");
    pub(crate) const STREAM_MAXLEN: Error = Error::Fixed("ERR The MAXLEN argument must be >= 0.");
    pub(crate) const STREAM_LIMIT: Error = Error::Fixed("ERR The LIMIT argument must be >= 0.");
    pub(crate) const STREAM_LIMIT_ALONE: Error =
        Error::Fixed("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
    pub(crate) const STREAM_LIMIT_EXACT: Error =
        Error::Fixed("ERR syntax error, LIMIT cannot be used without the special ~ option");
    pub(crate) const STREAM_ADDED_NEGATIVE: Error = Error::Fixed("ERR entries_added must be positive");
    pub(crate) const STREAM_ADDED_BELOW_LEN: Error =
        Error::Fixed("ERR The entries_added specified in XSETID is smaller than the target stream length");
    pub(crate) const STREAM_ID_BELOW_GIVEN: Error =
        Error::Fixed("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id");
    pub(crate) const STREAM_ID_BELOW_LAST: Error =
        Error::Fixed("ERR The ID specified in XSETID is smaller than the target stream top item");
    pub(crate) const TIMEOUT: Error = Error::Fixed("ERR timeout is not an integer or out of range");
    pub(crate) const TIMEOUT_NEGATIVE: Error = Error::Fixed("ERR timeout is negative");
    pub(crate) const XREAD_GROUP: Error =
        Error::Fixed("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
    pub(crate) const XREAD_NOACK: Error =
        Error::Fixed("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");
    pub(crate) const XREAD_NEWER: Error = Error::Fixed(
        "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
         <consumer> option.",
    );
    /// Redis says the same of XREADGROUP.
    pub(crate) const XREAD_UNBALANCED: Error = Error::Fixed(
        "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be \
         specified.",
    );
    pub(crate) const XREADGROUP_NEEDS_GROUP: Error = Error::Fixed("ERR Missing GROUP option for XREADGROUP");
    pub(crate) const XREADGROUP_LAST: Error = Error::Fixed(
        "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history \
         of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ \
         ID would just return an empty result set.",
    );
    pub(crate) const GROUP_READ: Error = Error::Fixed("ERR value for ENTRIESREAD must be positive or -1");
    pub(crate) const GROUP_EXISTS: Error = Error::Fixed("BUSYGROUP Consumer Group name already exists");
    pub(crate) const GROUP_NEEDS_KEY: Error = Error::Fixed(
        "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want \
         to use the MKSTREAM option to create an empty stream automatically.",
    );
    pub(crate) const CLAIM_MIN_IDLE: Error = Error::Fixed("ERR Invalid min-idle-time argument for XCLAIM");
    pub(crate) const CLAIM_IDLE: Error = Error::Fixed("ERR Invalid IDLE option argument for XCLAIM");
    pub(crate) const CLAIM_TIME: Error = Error::Fixed("ERR Invalid TIME option argument for XCLAIM");
    pub(crate) const CLAIM_RETRYCOUNT: Error =
        Error::Fixed("ERR Invalid RETRYCOUNT option argument for XCLAIM");
    pub(crate) const AUTOCLAIM_MIN_IDLE: Error =
        Error::Fixed("ERR Invalid min-idle-time argument for XAUTOCLAIM");
    pub(crate) const AUTOCLAIM_COUNT: Error = Error::Fixed("ERR COUNT must be > 0");
    pub(crate) const NO_FREQUENCY: Error = Error::Fixed(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
         switching between policies at runtime LRU and LFU data will take some time to adjust.",
    );

    /// For a group that is looked up by its name.
    pub(crate) fn no_group_of(group: &[u8], key: &[u8]) -> Error {
        Error::named(&[b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"])
    }

    /// For a key or a group.
    pub(crate) fn no_group(key: &[u8], group: &[u8]) -> Error {
        Error::named(&[b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'"])
    }

    /// The same for XREADGROUP.
    pub(crate) fn no_group_to_read(key: &[u8], group: &[u8]) -> Error {
        let end = b"' in XREADGROUP with GROUP option";
        Error::named(&[b"NOGROUP No such key '", key, b"' or consumer group '", group, end])
    }

    pub(crate) fn unknown_claim_option(word: &[u8]) -> Error {
        Error::named(&[b"ERR Unrecognized XCLAIM option '", word, b"'"])
    }

    /// Names end at their first NUL, as in C.
    pub(crate) fn named(parts: &[&[u8]]) -> Error {
        let until_nul = |part: &&[u8]| part.split(|&byte| byte == 0).next().unwrap_or_default().to_vec();
        Error::Named(parts.iter().flat_map(until_nul).collect())
    }

    /// For HELLO, with the option as the client wrote it.
    pub(crate) fn hello_option(option: &[u8]) -> Error {
        Error::named(&[b"ERR Syntax error in HELLO option '", option, b"'"])
    }

    /// For a command that the store does not have.
    #[cold]
    pub(crate) fn not_here(name: &[u8]) -> Error {
        Error::NotHere(shown(name).to_lowercase())
    }

    /// Appends the reply.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match (self.fixed_text(), self) {
            (Some(text), _) => encode::error(out, text.as_bytes()),
            (None, Error::Named(text)) => encode::error(out, text),
            (None, _) => encode::error(out, self.built_text().as_bytes()),
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
            Error::NoSamples(event) => format!("ERR No samples available for event '{event}'"),
            Error::ExpireTime(name) => format!("ERR invalid expire time in '{name}' command"),
            Error::UnsupportedOption(option) => format!("ERR Unsupported option {option}"),
            Error::SubcommandSyntax(name, container) => format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try {container} HELP."
            ),
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
            Error::NotInt => "ERR value is out of range, value must between -2147483648 and 2147483647",
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
            | Error::NoSamples(_)
            | Error::ExpireTime(_)
            | Error::UnsupportedOption(_)
            | Error::SubcommandSyntax(..)
            | Error::Named(_)
            | Error::GeoPlace(..)
            | Error::GeoStoreWith(_)
            | Error::GeoNeeds(..)
            | Error::NoInputKey(_) => return None,
        })
    }
}
