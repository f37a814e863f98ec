//! The treatment of each command: answered here, read from some copies, sent to all copies, or carried out by one and copied.

use command::{
    Acl, Carry, ClientTask, Command, Compare, Flags, KeyFlags, Local, Resolved, Tips, Transaction,
};
use resp::Request;
use std::sync::Arc;

/// A key.
pub(crate) type Key = Arc<[u8]>;

/// The treatment of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// About the connection: answered here.
    Here(Here),
    /// A read of keys, by the level of reads.
    Read,
    /// A question without keys, for one copy.
    Ask,
    /// SCAN, whose cursor belongs to one copy.
    Scan,
    /// A write whose effect its arguments determine: to all copies.
    Write,
    /// A write whose effect they do not determine: by one copy, whose keys are copied to the others.
    Effect,
    /// A write of all keys: to all copies.
    Flush,
    /// A message: to all copies that are up.
    Tell,
    /// A change of scripts or functions, which are not copied later: all copies have to be up.
    Load,
    /// Refused, for this reason.
    Refused(&'static str),
}

/// Requests that are answered without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Here {
    /// `+OK`: it would change nothing.
    Accept,
    Ping,
    Hello,
    Select,
    Multi,
    Exec,
    Discard,
}

const WAITS: &str =
    "commands that wait are not carried out over racks: no copy would know the wait of another";
const WATCHES: &str = "WATCH is not carried out over racks: its connection would be one of one copy alone";
const LISTENS: &str = "subscriptions are not possible over racks";
const ADMINISTERS: &str = "administration is for each node: connect to it";
const CHANGES_DATABASES: &str = "racks have database 0 alone";
const UNKNOWN: &str = "commands of modules are not carried out over racks: their effect is unknown";
const NO_KEYS: &str = "a script or function that may write has to name its keys over racks: those are copied";

/// The treatment of `request`, and its command.
pub(crate) fn classify(request: &Request<'_>) -> (Class, Option<&'static Command>) {
    match command::resolve(request) {
        Resolved::Command(command) => (of_command(command, request), Some(command)),
        // A node tells what is wrong.
        Resolved::WrongArity(_) | Resolved::UnknownSubcommand(_) => (Class::Ask, None),
        Resolved::Unknown => (Class::Refused(UNKNOWN), None),
    }
}

fn of_command(command: &'static Command, request: &Request<'_>) -> Class {
    match command.carry {
        Carry::Here(local) => of_local(local, command, request),
        Carry::Transaction(step) => match step {
            Transaction::Begin => Class::Here(Here::Multi),
            Transaction::Execute => Class::Here(Here::Exec),
            Transaction::Discard => Class::Here(Here::Discard),
            Transaction::Unwatch => Class::Here(Here::Accept),
            Transaction::Watch => Class::Refused(WATCHES),
        },
        Carry::Publish(_) => Class::Tell,
        Carry::Cursor => Class::Scan,
        Carry::AnyShard => Class::Ask,
        Carry::AllShards(_) => of_all_shards(command),
        Carry::OnlyShard(_) => Class::Refused(CHANGES_DATABASES),
        Carry::Blocking(wait) if wait.patience(request).is_some() => Class::Refused(WAITS),
        Carry::Admin(..) | Carry::Refused(_) | Carry::Container => Class::Refused(ADMINISTERS),
        Carry::ShardIf(command::Guard::Database(naming)) if !naming.databases(request).is_empty() => {
            Class::Refused(CHANGES_DATABASES)
        }
        Carry::Script(_) => of_script(command, request),
        Carry::Shard | Carry::ShardIf(_) | Carry::Split(_) | Carry::Blocking(_) => of_keys(command, request),
    }
}

fn of_local(local: Local, command: &Command, request: &Request<'_>) -> Class {
    match local {
        Local::Ping if request.len() == 1 => Class::Here(Here::Ping),
        Local::Hello => Class::Here(Here::Hello),
        Local::Select => Class::Here(Here::Select),
        Local::Auth
        | Local::ClientSetname
        | Local::ClientSetinfo
        | Local::ReplicaReads(_)
        | Local::Accepted => Class::Here(Here::Accept),
        Local::Client(ClientTask::Switch) => Class::Here(Here::Accept),
        Local::Subscribe(_) | Local::Unsubscribe(_) | Local::Monitor => Class::Refused(LISTENS),
        Local::Client(_) | Local::Reset | Local::Quit => Class::Refused(LISTENS),
        Local::ResetStatistics | Local::Acl(_) => Class::Refused(ADMINISTERS),
        _ if command.flags.contains(Flags::WRITE) => Class::Refused(ADMINISTERS),
        _ => Class::Ask,
    }
}

fn of_all_shards(command: &Command) -> Class {
    match &*command.name {
        "flushall" | "flushdb" => Class::Flush,
        "script|load" | "script|flush" => Class::Load,
        _ if command.flags.contains(Flags::WRITE) => Class::Load,
        _ => Class::Ask,
    }
}

fn of_script(command: &Command, request: &Request<'_>) -> Class {
    if command.flags.contains(Flags::READONLY) {
        return Class::Read;
    }
    let mut has_key = false;
    // A request whose keys cannot be found is refused by the node.
    let _ = command.each_key(request, &mut |_, _| has_key = true);
    if has_key { Class::Effect } else { Class::Refused(NO_KEYS) }
}

/// Commands over streams take the time from the node, or trim as its memory lies. PFCOUNT is a read for Redis, and keeps its
/// result in the value: all copies have to keep it.
fn of_keys(command: &Command, request: &Request<'_>) -> Class {
    let mut changes = command.flags.contains(Flags::WRITE);
    // A request whose keys cannot be found is refused by the node.
    let _ = command.each_key(request, &mut |_, flags| changes |= flags.contains(KeyFlags::RW));
    let is_open = command.tips.contains(Tips::NONDETERMINISTIC_OUTPUT)
        || command.tips.contains(Tips::NONDETERMINISTIC_OUTPUT_ORDER)
        || command.acl.intersects(Acl::STREAM)
        || command.name == "sort";
    match changes {
        false => Class::Read,
        true if is_open || command.flags.contains(Flags::MODULE) => Class::Effect,
        true => Class::Write,
    }
}

/// Appends the keys of `request`.
pub(crate) fn keys(command: &Command, request: &Request<'_>, keys: &mut Vec<Key>) {
    // A request whose keys cannot be found is refused by each node, and has none.
    let _ = command.each_key(request, &mut |at, _| {
        let key = request.arg(at);
        if !keys.iter().any(|known| **known == *key) {
            keys.push(Key::from(key));
        }
    });
}

/// A request, or several from MULTI to EXEC, ready for copies.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub class: Class,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The number of its replies.
    pub replies: u32,
    /// Its keys, each once.
    pub keys: Vec<Key>,
    /// The rule for its replies.
    pub compare: Compare,
    /// Whether an error of it may come behind an effect.
    pub runs_code: bool,
}

impl Work {
    pub(crate) fn of(class: Class, command: Option<&Command>, request: &Request<'_>) -> Work {
        let mut work = Work {
            class,
            bytes: request.bytes.to_vec(),
            replies: 1,
            keys: Vec::new(),
            compare: command.map_or(Compare::Kind, Command::comparison),
            runs_code: command.is_some_and(|command| matches!(command.carry, Carry::Script(_))),
        };
        if let Some(command) = command {
            keys(command, request, &mut work.keys);
        }
        work
    }

    /// MULTI, behind which others come.
    pub(crate) fn multi() -> Work {
        let mut bytes = Vec::new();
        resp::encode::request(&mut bytes, &[b"MULTI"]);
        let (keys, compare) = (Vec::new(), Compare::Exact);
        Work { class: Class::Ask, bytes, replies: 1, keys, compare, runs_code: false }
    }

    /// Adds `other`, which stands within the transaction. Returns why it cannot.
    pub(crate) fn add(&mut self, other: Work) -> Result<(), &'static str> {
        let weight = |class: Class| match class {
            Class::Here(_) | Class::Ask => Ok(0),
            Class::Read => Ok(1),
            Class::Write => Ok(2),
            Class::Effect => Ok(3),
            Class::Refused(why) => Err(why),
            Class::Scan | Class::Flush | Class::Tell | Class::Load => Err(
                "commands of all keys, messages and scripts to load are not possible in a transaction over racks",
            ),
        };
        if weight(other.class)? > weight(self.class)? {
            self.class = other.class;
        }
        self.bytes.extend_from_slice(&other.bytes);
        self.replies += other.replies;
        self.runs_code |= other.runs_code;
        for key in other.keys {
            if !self.keys.contains(&key) {
                self.keys.push(key);
            }
        }
        // The replies stand within that of EXEC, which has an order.
        self.compare = if other.compare == Compare::Exact { self.compare } else { Compare::Kind };
        Ok(())
    }

    pub(crate) fn writes(&self) -> bool {
        matches!(self.class, Class::Write | Class::Effect | Class::Flush)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use resp::request::{RequestLimits, Scanner};

    /// The bytes of a request in words.
    pub(crate) fn bytes(line: &str) -> Vec<u8> {
        let (mut bytes, words): (_, Vec<&[u8]>) = (Vec::new(), line.split(' ').map(str::as_bytes).collect());
        resp::encode::request(&mut bytes, &words);
        bytes
    }

    fn work(line: &str) -> Work {
        let (bytes, mut args, mut inline) = (bytes(line), Vec::new(), Vec::new());
        Scanner::default().scan(&bytes, &RequestLimits::default(), &mut args, &mut inline).expect("valid");
        let request = Request::new(&bytes, &args);
        let (class, command) = classify(&request);
        Work::of(class, command, &request)
    }

    #[test]
    fn effects_that_arguments_do_not_determine_are_copied() {
        for line in
            ["SPOP s", "XADD s * a b", "XTRIM s MAXLEN ~ 5", "EVAL x 1 k", "FCALL f 1 k", "SORT l STORE m"]
        {
            assert_eq!(work(line).class, Class::Effect, "{line}");
        }
        for line in
            ["SET k v EX 5", "INCR k", "EXPIRE k 5", "RENAME a b", "ZPOPMIN z", "LMPOP 1 l LEFT", "PFCOUNT h"]
        {
            assert_eq!(work(line).class, Class::Write, "{line}");
        }
        for line in ["GET k", "EVAL_RO x 1 k", "SRANDMEMBER s", "MGET a b", "XRANGE s - +"] {
            assert_eq!(work(line).class, Class::Read, "{line}");
        }
    }

    #[test]
    fn commands_that_racks_cannot_keep_equal_are_refused() {
        let lines = [
            "BLPOP l 0",
            "XREAD BLOCK 0 STREAMS s $",
            "WATCH k",
            "SUBSCRIBE c",
            "EVAL x 0",
            "MOVE k 1",
            "COPY a b DB 1",
            "CONFIG SET a b",
            "FOO.BAR k",
            "CLIENT TRACKING ON",
        ];
        for line in lines {
            assert!(matches!(work(line).class, Class::Refused(_)), "{line}: {:?}", work(line).class);
        }
        assert_eq!(work("XREAD STREAMS s 0").class, Class::Read);
        assert_eq!(work("FLUSHALL").class, Class::Flush);
        assert_eq!((work("DBSIZE").class, work("SCAN 0").class), (Class::Ask, Class::Scan));
        assert_eq!((work("PUBLISH c m").class, work("SCRIPT LOAD x").class), (Class::Tell, Class::Load));
    }

    #[test]
    fn a_transaction_is_as_its_strongest_command() {
        let mut all = Work::multi();
        for line in ["GET a", "INCR b", "GET b", "EXEC"] {
            all.add(work(line)).expect("possible");
        }
        assert_eq!((all.class, all.replies, all.keys.len()), (Class::Write, 5, 2));
        all.add(work("SPOP s")).expect("possible");
        assert_eq!((all.class, all.compare), (Class::Effect, Compare::Exact));
        assert!(all.add(work("BLPOP l 0")).is_err() && all.add(work("FLUSHALL")).is_err());
    }
}
