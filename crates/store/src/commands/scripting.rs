//! The border between the store and an interpreter of scripts. The store knows the traits here and no language.
//!
//! ```text
//! EVAL ─► scripts.rs          ─► Interpreter::run ─► the script
//!                                      ▲                 │ redis.call
//!                                      └── ScriptRun ◄───┘   the store, lent to the script
//! ```
//!
//! While a script runs, the store itself moves into a [`ScriptRun`], which the interpreter holds. So a script reaches the store
//! through no shared reference, and nothing else can.

use command::{Flags, Resolved};
use resp::{Request, Span, encode};

use crate::caller_id::CallerId;
use crate::error::Error;
use crate::replies::Reply;
use crate::store::{EVICTED_PER_REQUEST, Store, StoreSettings};

/// An interpreter of scripts, for one store.
pub trait Interpreter {
    /// Compiles a script and keeps it under `name`. The error is a text for people.
    fn compile(&mut self, name: &str, source: &[u8]) -> Result<(), Vec<u8>>;

    /// Drops a compiled script.
    fn forget(&mut self, name: &str);

    /// Runs the code of a library, which registers functions, and keeps them under `number`. The error is a text for people.
    fn load_library(&mut self, number: u64, source: &[u8]) -> Result<Vec<LibraryFunction>, Vec<u8>>;

    /// Drops a library.
    fn forget_library(&mut self, number: u64);

    /// Runs a script or function to its end and appends its reply. Returns `run`; `None` only if the interpreter lost it.
    fn run(
        &mut self,
        entry: Entry<'_>,
        keys: &[&[u8]],
        args: &[&[u8]],
        run: ScriptRun,
        out: &mut Vec<u8>,
    ) -> Option<ScriptRun>;

    /// Bytes that the interpreter uses.
    fn memory_used(&self) -> usize;
}

/// A script or function that [`Interpreter::run`] runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// The script that was compiled under this name.
    Script(&'a str),
    /// A function of a library.
    Function {
        /// The number of the library.
        library: u64,
        /// The name of the function.
        name: &'a [u8],
    },
}

impl Entry<'_> {
    /// The name in errors.
    pub fn name(&self) -> String {
        match self {
            Entry::Script(name) => (*name).to_owned(),
            Entry::Function { name, .. } => String::from_utf8_lossy(name).into_owned(),
        }
    }
}

/// A function that a library registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFunction {
    /// Its name.
    pub name: Vec<u8>,
    /// Its description, if it has one.
    pub description: Option<Vec<u8>>,
    /// Its flags.
    pub flags: ScriptFlags,
}

/// Flags of a script or function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags(u8);

/// Redis's names of the flags, in the order of FUNCTION LIST.
const FLAGS: [&str; 5] = ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

impl ScriptFlags {
    /// Adds the flag of this name; case is ignored. Returns false if there is none.
    pub fn add(&mut self, name: &[u8]) -> bool {
        let at = FLAGS.iter().position(|flag| flag.as_bytes().eq_ignore_ascii_case(name));
        self.0 |= at.map_or(0, |at| 1 << at);
        at.is_some()
    }

    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        FLAGS.iter().enumerate().filter(move |(at, _)| self.0 & (1 << at) != 0).map(|(_, name)| *name)
    }

    pub(crate) fn has(self, name: &str) -> bool {
        self.names().any(|flag| flag == name)
    }
}

/// Whether a library or a function can have this name.
pub fn is_function_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// The answer to `redis.acl_check_cmd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// The command may run: rights are the proxy's, which has checked the script.
    Yes,
    /// No such command.
    Unknown,
}

/// Rules of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    /// Commands that write are refused.
    pub(crate) is_read_only: bool,
    /// Commands that need memory run even if there is none.
    pub(crate) allows_oom: bool,
}

/// One run of a script, with the store.
pub struct ScriptRun {
    store: Box<Store>,
    caller: CallerId,
    rules: Rules,
    /// Memory was full when the script began.
    began_full: bool,
    has_written: bool,
    is_resp3: bool,
    client_is_resp3: bool,
}

impl ScriptRun {
    /// Runs a command of the script and returns its reply, or the reason why the command must not run.
    pub fn call(&mut self, words: &[Vec<u8>]) -> Result<Vec<u8>, String> {
        let (mut bytes, mut spans) = (Vec::new(), Vec::with_capacity(words.len()));
        for word in words {
            encode::bulk(&mut bytes, word);
            spans.push(Span { start: bytes.len() - 2 - word.len(), len: word.len() });
        }
        let request = Request::new(&bytes, &spans);
        self.check(&request)?;
        let store = &mut *self.store;
        let database = store.callers.running(self.caller).database;
        store.keyspace.select(database);
        let mut reply = Reply::new(Vec::new(), self.is_resp3).with(store.doubles);
        if let Err(error) = store.execute(self.caller, &request, &mut reply) {
            reply.truncate(0);
            reply.error(&error);
        }
        Ok(reply.into_bytes())
    }

    /// Redis's checks, in its order.
    fn check(&mut self, request: &Request<'_>) -> Result<(), String> {
        let command = match command::resolve(request) {
            Resolved::Command(command) => command,
            Resolved::WrongArity(_) => {
                return Err("Wrong number of args calling Redis command from script".to_owned());
            }
            Resolved::Unknown | Resolved::UnknownSubcommand(_) => return Err(UNKNOWN.to_owned()),
        };
        if command.flags.contains(Flags::NOSCRIPT) {
            return Err("This Redis command is not allowed from script".to_owned());
        }
        if self.store.index.find(request.arg(0)).is_none() {
            return Err(UNKNOWN.to_owned());
        }
        let writes = command.flags.contains(Flags::WRITE);
        if self.rules.is_read_only && (writes || MAY_REPLICATE.contains(&&*command.name)) {
            return Err("Write commands are not allowed from read-only scripts.".to_owned());
        }
        let needs_room = command.flags.contains(Flags::DENYOOM);
        if self.began_full && !self.has_written && !self.rules.allows_oom && needs_room {
            return Err("-OOM command not allowed when used memory > 'maxmemory'.".to_owned());
        }
        self.has_written |= writes;
        Ok(())
    }

    /// Whether the command of `words` may run.
    pub fn allowed(&self, words: &[Vec<u8>]) -> Allowed {
        let name = words.first().map(Vec::as_slice).unwrap_or_default();
        if command::find(name).is_some() { Allowed::Yes } else { Allowed::Unknown }
    }

    /// Chooses the protocol of replies to the script.
    pub fn set_resp3(&mut self, is_resp3: bool) {
        self.is_resp3 = is_resp3;
    }

    /// Whether the script has chosen RESP3.
    pub fn is_resp3(&self) -> bool {
        self.is_resp3
    }

    /// Whether the client of the script has chosen RESP3.
    pub fn client_is_resp3(&self) -> bool {
        self.client_is_resp3
    }
}

/// Commands that Redis counts as writes in scripts that only read.
const MAY_REPLICATE: [&str; 3] = ["publish", "spublish", "pfcount"];

const UNKNOWN: &str = "Unknown Redis command called from script";

impl Store {
    /// Gives the store an interpreter. Without one, it refuses scripts.
    pub fn set_interpreter(&mut self, interpreter: Box<dyn Interpreter>) {
        self.scripts.interpreter = Some(interpreter);
    }

    /// Runs a script or function of `caller` with the store lent to it.
    pub(crate) fn run_script(
        &mut self,
        caller: CallerId,
        entry: Entry<'_>,
        keys: &[&[u8]],
        args: &[&[u8]],
        rules: Rules,
        out: &mut Reply,
    ) -> Result<(), Error> {
        let mut interpreter = self.scripts.interpreter.take().ok_or_else(|| Error::not_here(b"eval"))?;
        let began_full = !self.make_room(EVICTED_PER_REQUEST);
        let was_in_transaction = std::mem::replace(&mut self.is_in_transaction, true);
        let database = self.callers.running(caller).database;
        let mut lent =
            self.scripts.spare.take().unwrap_or_else(|| Box::new(Store::new(StoreSettings::default())));
        std::mem::swap(self, &mut lent);
        lent.is_in_script = true;
        let run = ScriptRun {
            store: lent,
            caller,
            rules,
            began_full,
            has_written: false,
            is_resp3: false,
            client_is_resp3: out.is_resp3,
        };
        let mut bytes = std::mem::take(out).into_bytes();
        let run = interpreter.run(entry, keys, args, run, &mut bytes);
        let run = run.ok_or(Error::Fixed("ERR the interpreter lost the store"));
        let mut lent = run?.store;
        std::mem::swap(self, &mut lent);
        self.scripts.spare = Some(lent);
        self.scripts.interpreter = Some(interpreter);
        self.is_in_script = false;
        self.is_in_transaction = was_in_transaction;
        self.callers.running(caller).database = database;
        self.keyspace.select(database);
        let state = self.callers.running(caller);
        *out = Reply::new(bytes, state.is_resp3).with(self.doubles);
        Ok(())
    }
}
