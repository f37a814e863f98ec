//! The error texts for clients, in one place. Texts that need only the command table (unknown names, wrong numbers of
//! arguments, refusals) are in `command`'s error.rs.
//!
//! Where Redis has a text, it is Redis's. Otherwise the first word decides how client libraries react. Several of them
//! repeat a request after `TRYAGAIN`, so it is used only if not a byte of the request reached a node. None repeats a
//! request after a plain `ERR`, which is used wherever the command may have run.

pub(crate) use engine::lost::Lost;
use resp::{Request, encode};

/// The cause of an error that a client got, by the error contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Not a byte of the request reached a node.
    NotSent,
    /// The transaction was discarded before it could run.
    Discarded,
    /// The connection ended without a reply: the request may have run.
    ConnectionLost,
    /// No reply came in time: the request may have run.
    Timeout,
    /// The bytes that came were no reply: the request may have run.
    ProtocolError,
    /// shardis refused the request, for a reason that is the request's.
    Refused,
    /// The error is a node's own.
    Node,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Cause; 7] = [
        Cause::NotSent,
        Cause::Discarded,
        Cause::ConnectionLost,
        Cause::Timeout,
        Cause::ProtocolError,
        Cause::Refused,
        Cause::Node,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Cause::NotSent => "not_sent",
            Cause::Discarded => "discarded",
            Cause::ConnectionLost => "connection_lost",
            Cause::Timeout => "timeout",
            Cause::ProtocolError => "protocol_error",
            Cause::Refused => "refused",
            Cause::Node => "node",
        }
    }

    /// The cause of a lost request, by the beginning of the error's text. `None` for other errors.
    pub(crate) fn of(reply: &[u8]) -> Option<Cause> {
        const BEGINNINGS: [(&[u8], Cause); 8] = [
            (b"-TRYAGAIN shard ", Cause::NotSent),
            (b"-ERR shard ", Cause::NotSent),
            (b"-ERR not run ", Cause::NotSent),
            (b"-ERR outcome unknown ", Cause::ConnectionLost),
            (b"-EXECABORT Transaction discarded because of: ", Cause::Discarded),
            (b"-ERR node connection lost", Cause::ConnectionLost),
            (b"-ERR node timeout", Cause::Timeout),
            (b"-ERR node protocol error", Cause::ProtocolError),
        ];
        let found = BEGINNINGS.iter().find(|(beginning, _)| reply.starts_with(beginning));
        found.map(|(_, cause)| *cause)
    }
}

/// The same for a transaction. A node runs none of it before it has read the last byte of EXEC.
pub(crate) fn text_of_exec(lost: &Lost) -> String {
    match lost {
        Lost::NotSent { shard, reason } => {
            format!(
                "EXECABORT Transaction discarded because of: node connection lost (shard {shard}: {reason})"
            )
        }
        Lost::Denied { error, .. } => format!("EXECABORT Transaction discarded because of: {error}"),
        Lost::Broken { .. } | Lost::TimedOut { .. } | Lost::Garbled { .. } => lost.text(),
    }
}

/// The error for a request that was held back because a question about its command got no answer. The request was not
/// sent, whatever happened to the question.
pub(crate) fn of_question(lost: Lost) -> Lost {
    let shard = match lost {
        Lost::NotSent { .. } | Lost::Denied { .. } => return lost,
        Lost::Broken { shard } | Lost::TimedOut { shard, .. } | Lost::Garbled { shard } => shard,
    };
    Lost::NotSent { shard, reason: "it did not answer COMMAND INFO".to_owned() }
}

/// The text for one part of a split command that writes, if other parts may have run. To repeat it is then not safe, so
/// the text must not begin with `TRYAGAIN`.
pub(crate) fn text_of_part(lost: &Lost) -> String {
    written_in_part(&lost.text())
}

/// The text for a part that failed with `text`, if other parts may have been carried out.
pub(crate) fn written_in_part(text: &str) -> String {
    format!("{}; other parts of this command may have been applied", without_try_again(text))
}

/// The text for a transaction over several shards of which no command has run: `reason` is the error of `shard`.
pub(crate) fn discarded(shard: &str, reason: &[u8]) -> String {
    let reason = String::from_utf8_lossy(reason);
    match reason.starts_with("EXECABORT ") {
        true => reason.into_owned(),
        false => format!("EXECABORT Transaction discarded because of: {reason} (shard {shard})"),
    }
}

/// The text for a command of a transaction over several shards that has not run, although commands of other shards may
/// have. The transaction must not be repeated, so the text has no word after which libraries repeat.
pub(crate) fn not_run(shard: &str, reason: &str) -> String {
    format!(
        "ERR not run on shard {shard}: {reason}; commands of this transaction on other shards may have run"
    )
}

/// The same for the commands behind it.
pub(crate) fn not_run_either(shard: &str) -> String {
    format!("ERR not run (shard {shard})")
}

/// The same for commands that may have run.
pub(crate) fn outcome_unknown(shard: &str) -> String {
    format!("ERR outcome unknown (shard {shard})")
}

/// The text for a rename that has written the new key and failed with `text` to remove the old one.
pub(crate) fn not_removed(text: &str) -> String {
    format!("{}; the new key is written, and the old one may still be there", without_try_again(text))
}

/// The text for a command that moves an element and failed with `text` after the element was taken from its source.
pub(crate) fn kept_in_journal(text: &str, journal: &[u8], shard: &str) -> String {
    let (text, journal) = (without_try_again(text), String::from_utf8_lossy(journal));
    format!("{text}; the element taken from the source may be in key {journal} of shard {shard}")
}

/// The text for a WAIT before which a node answered `text` to the write that marks its offset.
pub(crate) fn not_marked(text: &str) -> String {
    format!(
        "ERR WAIT cannot read the replication offset of a node, since FUNCTION RESTORE failed there: {text}"
    )
}

/// The text for a command that would have to gather more than `bytes_max`.
pub(crate) fn gathers_too_much(bytes_max: usize) -> String {
    format!(
        "ERR the values of this command exceed the {bytes_max} bytes of --cross-shard-bytes-max. Nothing was changed. \
         Raise the limit, or give the keys one hash tag"
    )
}

/// `text` without the word after which libraries repeat a request.
fn without_try_again(text: &str) -> String {
    text.strip_prefix("TRYAGAIN ").map_or(text.to_owned(), |rest| format!("ERR {rest}"))
}

/// The text for a CONFIG SET of a name of corvus.
pub(crate) fn set_by_file(name: &str) -> String {
    format!(
        "ERR {name} is a key of the configuration file; write it there, then ask for PROXY RELOAD (docs/migration.md)"
    )
}

/// The text for a CONFIG SET of `parameter` that would cut off a node.
pub(crate) fn cuts_off(parameter: &[u8]) -> String {
    let parameter = String::from_utf8_lossy(parameter);
    format!("ERR CONFIG SET {parameter} is not allowed through shardis: it would cut the nodes off from it")
}

/// The text for a command that a subscribed client may not send.
pub(crate) fn only_while_subscribed(command: &str) -> String {
    format!(
        "ERR Can't execute '{command}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
         this context"
    )
}

/// The text for a user that may not use the command with this full name.
pub(crate) fn no_permission(name: &str) -> String {
    format!("NOPERM this user has no permissions to run the '{name}' command")
}

/// The text for a user that may not read all keys, which this option of SORT requires.
pub(crate) fn sort_denied(option: &str) -> String {
    format!("ERR {option} option of SORT denied due to insufficient ACL permissions.")
}

/// `text` as an error reply.
pub(crate) fn reply(text: &str) -> Vec<u8> {
    let mut reply = Vec::new();
    write(&mut reply, text);
    reply
}

/// `-text\r\n`
pub(crate) fn write(out: &mut Vec<u8>, text: &str) {
    encode::error(out, text.as_bytes());
}

/// Writes the error for a subcommand that exists but does not take these arguments.
pub(crate) fn write_subcommand_syntax(out: &mut Vec<u8>, request: &Request<'_>) {
    let (container, own) = (request.arg(0).to_ascii_uppercase(), request.arg(1));
    let text = [
        &b"ERR unknown subcommand or wrong number of arguments for '"[..],
        &own[..own.len().min(128)],
        b"'. Try ",
        &container,
        b" HELP.",
    ];
    encode::error(out, &text.concat());
}

/// Writes the error for a question of CLUSTER about another node.
pub(crate) fn write_unknown_node(out: &mut Vec<u8>, id: &[u8]) {
    encode::error(out, &[b"ERR Unknown node ", id].concat());
}

/// Reasons within a text.
pub(crate) const NO_PRIMARY: &str = "it has no primary at the moment";
pub(crate) const REDIRECTED: &str =
    "its slot is migrating, and the request was still redirected at its timeout";
pub(crate) const OVERTAKEN: &str = "it was declined, and a later request of this client has run";
pub(crate) const PROFILE_NODES_MAX: &str = "too many databases are in use at once";
pub(crate) const USER_NODES_MAX: &str = "too many users are logged in at once";
pub(crate) const NO_PROFILE: &str = "too many users and databases are in use at once";
pub(crate) const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";
pub(crate) const EXEC_ABORT: &str = "EXECABORT Transaction discarded because of previous errors.";
pub(crate) const EXEC_WITHOUT_MULTI: &str = "ERR EXEC without MULTI";
pub(crate) const DISCARD_WITHOUT_MULTI: &str = "ERR DISCARD without MULTI";
pub(crate) const NESTED_MULTI: &str = "ERR MULTI calls can not be nested";
pub(crate) const WATCH_IN_MULTI: &str = "ERR WATCH inside MULTI is not allowed";
pub(crate) const NOT_IN_MULTI: &str = "ERR Command not allowed inside a transaction";
pub(crate) const TRANSACTION_TOO_LARGE: &str =
    "ERR the transaction has more bytes than the limit of the proxy. EXEC will discard it";
pub(crate) const TRANSACTION_PARTS: &str =
    "ERR the transaction uses more shards or slots than the limit of the proxy. EXEC will discard it";
pub(crate) const WATCHED_PARTS: &str =
    "ERR the watched keys use more shards or slots than the limit of the proxy. Watch fewer keys";
pub(crate) const SELECT_IN_PARTS: &str = "ERR SELECT is not supported in a transaction over several shards; send it before MULTI, or give the keys one hash tag";
pub(crate) const EXEC_SELECTS: &str = "EXECABORT Transaction discarded because of: SELECT is not supported in a transaction over \
     several shards; send it before MULTI, or give the keys one hash tag";
pub(crate) const WATCH_ELSEWHERE: &str =
    "ERR other keys are watched in another database or by another protocol. Send UNWATCH first";
pub(crate) const EXEC_ELSEWHERE: &str = "EXECABORT Transaction discarded because of: the watched keys are in another database or by another protocol";
pub(crate) const CLIENTS_MAX: &str = "ERR max number of clients reached";
/// Redis's text with our remedies.
pub(crate) const PROTECTED: &str = "DENIED Redis is running in protected mode because protected mode is enabled and no \
     password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want \
     to connect from external computers to Redis you may adopt one of the following solutions: 1) Set up an authentication \
     password for the default user, with --requirepass-file or --acl-file of shardis. 2) Disable the protected mode by \
     restarting shardis with --protected-mode=no, however MAKE SURE it is not publicly accessible from internet if you do so. \
     NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.";
pub(crate) const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(crate) const GATHERED_MEMORY: &str =
    "TRYAGAIN memory is short (--memory-max): the command over several shards was not run";
pub(crate) const UNREADABLE_VALUE: &str =
    "ERR a value has a type that commands over several shards cannot read";
pub(crate) const ELEMENT_TOO_LARGE: &str =
    "ERR the element exceeds --cross-shard-bytes-max, or the part that is left of it";
pub(crate) const ELEMENT_NOT_RETURNED: &str = "ERR the element was not put back";
/// Redis's text for a client that another client unblocks.
pub(crate) const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
pub(crate) const PROXY_SLOWLOG: &str = "ERR write PROXY SLOWLOG GET [count], LEN or RESET";
pub(crate) const PROXY_RELOAD: &str =
    "ERR write PROXY RELOAD, PROXY RELOAD PLAN, PROXY RELOAD FORCE or PROXY RELOAD BACK [number]";
pub(crate) const NOT_DISCOVERED: &str = "ERR the nodes are those of the configuration: shardis looks for a topology with --cluster or --sentinel alone";
pub(crate) const PROXY_COUNT: &str = "ERR write at most one number: that of the entries";
pub(crate) const SYNTAX: &str = "ERR syntax error";
pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
/// Redis's text for a value that does not fit into 32 bits.
pub(crate) const NOT_AN_INT: &str =
    "ERR value is out of range, value must between -2147483648 and 2147483647";
pub(crate) const DB_OUT_OF_RANGE: &str = "ERR DB index is out of range";
pub(crate) const INVALID_CURSOR: &str = "ERR invalid cursor";
pub(crate) const PROTO_NOT_AN_INTEGER: &str = "ERR Protocol version is not an integer or out of range";
pub(crate) const NO_PROTO: &str = "NOPROTO unsupported protocol version";
pub(crate) const CLIENT_NAME: &str =
    "ERR Client names cannot contain spaces, newlines or special characters.";
pub(crate) const CLIENT_NAME_TOO_LONG: &str = "ERR Client names cannot be longer than 1024 bytes";
pub(crate) const PREFIXES_TOO_LONG: &str = "ERR the prefixes of this client exceed the limit of the proxy";
pub(crate) const INQUIRIES_MAX: &str =
    "TRYAGAIN too many requests to the other workers are pending: this one was not run";
pub(crate) const CROSS_SHARD_KEYS_MAX: &str = "ERR the command names more keys of several shards than the limit of the proxy. Nothing was changed. Name fewer keys, or \
     give them one hash tag";
pub(crate) const NAMES_MAX: &str =
    "ERR the request names more commands or clients than the limit of the proxy. Ask for fewer at once";
pub(crate) const NO_KEYSPACE: &str = "ERR Replica can't interact with the keyspace";
pub(crate) const SUBSCRIPTIONS_MAX: &str = "ERR max number of subscriptions reached";
pub(crate) const PATTERN_TOO_LONG: &str =
    "ERR the pattern is longer than the limit of the proxy. Use a shorter one";
pub(crate) const NO_SUCH_CLIENT: &str = "ERR No such client";
pub(crate) const INVALID_CLIENT_ID: &str = "ERR Invalid client ID";
pub(crate) const CLIENT_ID_RANGE: &str = "ERR client-id should be greater than 0";
pub(crate) const PAUSE_MODE: &str = "ERR CLIENT PAUSE mode must be WRITE or ALL";
pub(crate) const UNBLOCK_REASON: &str = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
pub(crate) const NOT_TRACKING: &str = "ERR CLIENT CACHING can be called only when the client is in tracking mode with \
     OPTIN or OPTOUT mode enabled";
pub(crate) const TIMEOUT_NOT_AN_INTEGER: &str = "ERR timeout is not an integer or out of range";
pub(crate) const TIMEOUT_NEGATIVE: &str = "ERR timeout is negative";
pub(crate) const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. \
     Are you sure your configuration is correct?";
pub(crate) const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
pub(crate) const USERS_MAX: &str = "ERR too many users are logged in at once";
pub(crate) const CREDENTIALS_TOO_LONG: &str = "ERR the user's name or the password is too long";
pub(crate) const NO_AUTH: &str = "NOAUTH Authentication required.";
pub(crate) const NO_AUTH_HELLO: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
     HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the \
     same time";
pub(crate) const NO_PERMISSION_KEYS: &str =
    "NOPERM this user has no permissions to access one of the keys used as arguments";
pub(crate) const NO_PERMISSION_CHANNELS: &str =
    "NOPERM this user has no permissions to access one of the channels used as arguments";
pub(crate) const DEFAULT_USER_STAYS: &str = "ERR The 'default' user cannot be removed";
pub(crate) const GENERATED_BITS: &str = "ERR ACL GENPASS argument must be the number of bits for the output password, a \
     positive number up to 4096";
pub(crate) const NO_ACL_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to \
     specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration \
     file set) in order to store users in the Redis configuration.";
pub(crate) const USERS_LATE_LOADED: &str = "ERR the ACL file was not read in time, outcome unknown";
pub(crate) const USERS_LATE_SAVED: &str = "ERR the ACL file was not written in time, outcome unknown";
pub(crate) const RELOAD_LATE: &str = "ERR no answer about the configuration in time, outcome unknown";
pub(crate) const USERS_NOT_SAVED: &str = "ERR There was an error trying to save the ACLs. Please check the server logs for \
     more information";
pub(crate) const PRIMARY_LOST: &str = "ERR a primary, or the connection to it, was lost since this client's last WAIT: \
     whether replicas have its earlier writes is unknown";
pub(crate) const REQUEST_TOO_BIG: &str = "ERR Protocol error: request exceeds the limit of the proxy";
pub(crate) const CURSOR_TOO_LARGE: &str = "ERR the node's cursor is too large to carry the shard's number";
pub(crate) const MERGE_FAILED: &str = "ERR nodes return different results";

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn causes_are_numbered_in_their_order() {
        let numbers = Cause::ALL.map(|cause| cause as usize);
        assert_eq!(numbers, std::array::from_fn(|number| number));
    }

    #[test]
    fn libraries_may_repeat_only_unsent_requests() {
        let not_sent = Lost::NotSent { shard: "a".into(), reason: "connection refused".into() };
        assert_eq!(not_sent.text(), "TRYAGAIN shard a unavailable: connection refused");
        assert_eq!(Cause::of(&reply(&not_sent.text())), Some(Cause::NotSent));
        assert_eq!(Cause::of(&reply(&text_of_exec(&not_sent))), Some(Cause::Discarded));
        for text in [text_of_part(&not_sent), not_run("a", "it is down"), not_run_either("a")] {
            assert_eq!(Cause::of(&reply(&text)), Some(Cause::NotSent), "{text}");
        }
        assert_eq!(Cause::of(&reply(&outcome_unknown("a"))), Some(Cause::ConnectionLost));
        assert_eq!(
            text_of_part(&not_sent),
            "ERR shard a unavailable: connection refused; other parts of this command may have been applied"
        );
        for lost in [
            Lost::Broken { shard: "a".into() },
            Lost::TimedOut { shard: "a".into(), after: Duration::from_secs(1) },
            Lost::Garbled { shard: "a".into() },
        ] {
            assert!(lost.text().starts_with("ERR node "), "{}", lost.text());
            assert!(Cause::of(&reply(&lost.text())).is_some(), "{}", lost.text());
            assert!(lost.text().ends_with("outcome unknown (shard a)"), "{}", lost.text());
        }
    }
}
