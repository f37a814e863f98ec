//! The way of one request through the store.

use resp::Request;

use crate::caller_id::CallerId;
use crate::callers::Queued;
use crate::commands::{connection, transactions};
use crate::dispatch::ROWS;
use crate::error::Error;
use crate::replies::Reply;
use crate::rows::{Row, Run};
use crate::store::{EVICTED_PER_REQUEST, Ran, Store, StoreSettings};

impl Store {
    /// An empty store.
    pub fn new(settings: StoreSettings) -> Store {
        Store::with_rows(settings, ROWS)
    }

    /// Ends a connection and its subscriptions, watches and waits.
    pub fn dismiss(&mut self, caller: CallerId) {
        if self.callers.find(caller).is_some() {
            connection::leave(self, caller);
            self.callers.remove(caller);
        }
    }

    /// Runs one request of `caller` at unix time `now_ms`, in milliseconds. Its reply is appended in the protocol that the
    /// caller chose with HELLO, or comes later if the caller has to wait. Other connections may get replies and pushes as well:
    /// see [`Store::next_delivery`]. Nothing happens if the connection has ended or already waits.
    ///
    /// A request that fails changes nothing. The exception is PFADD on a corrupt value: as in Redis, elements that it added
    /// before the fault stay. If time runs backwards, keys live longer.
    pub fn run(&mut self, caller: CallerId, request: &Request<'_>, now_ms: u64, out: &mut Vec<u8>) -> Ran {
        let Some(state) = self.callers.find(caller) else { return Ran::Answered };
        let is_plain = state.extras.is_none();
        if !is_plain && state.wait().is_some() {
            return Ran::Waits;
        }
        self.keyspace.now_ms = now_ms;
        self.keyspace.select(state.database);
        let mut reply = Reply::new(std::mem::take(out), state.is_resp3).with(self.doubles);
        // Every request frees a little garbage, so that garbage cannot grow without end.
        self.keyspace.free_step();
        let start = reply.len();
        let done = if is_plain {
            self.dispatch(caller, request, &mut reply)
        } else {
            self.dispatch_with_extras(caller, request, &mut reply)
        };
        if let Err(error) = done {
            reply.truncate(start);
            reply.error(&error);
        }
        let ran =
            if self.keyspace.audience.is_there() { self.finish(caller, &mut reply) } else { Ran::Answered };
        *out = reply.into_bytes();
        ran
    }

    /// Ends a request that other connections may observe, or whose caller waits.
    #[cold]
    fn finish(&mut self, caller: CallerId, reply: &mut Reply) -> Ran {
        self.tell_audience(Some((caller, reply)));
        if self.callers.wait_for(caller).is_some() { Ran::Waits } else { Ran::Answered }
    }

    /// Runs a request of a connection that has no extras. Nearly all requests take this path, so it has a single caller.
    #[inline(always)]
    fn dispatch(&mut self, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Result<(), Error> {
        let row: &Row = self.index.find(request.arg(0)).ok_or_else(|| Error::not_here(request.arg(0)))?;
        if !row.arity_fits(request.len()) {
            let error = Error::Arity(row.name.to_owned());
            return Err(if row.is_exec() { Error::exec_aborted_by(&error) } else { error });
        }
        self.keyspace.stats.begin(row.reads);
        if row.grows && !self.make_room(EVICTED_PER_REQUEST) {
            return Err(Error::OutOfMemory);
        }
        self.run_row(row, caller, request, out)
    }

    /// Runs a request whose name and arity were checked.
    pub(crate) fn execute(
        &mut self,
        caller: CallerId,
        request: &Request<'_>,
        out: &mut Reply,
    ) -> Result<(), Error> {
        let row: &Row = self.index.find(request.arg(0)).ok_or_else(|| Error::not_here(request.arg(0)))?;
        self.keyspace.stats.begin(row.reads);
        self.run_row(row, caller, request, out)
    }

    /// Runs a request after all checks that are common to all commands.
    #[inline(always)]
    pub(crate) fn run_row(
        &mut self,
        row: &Row,
        caller: CallerId,
        request: &Request<'_>,
        out: &mut Reply,
    ) -> Result<(), Error> {
        let done = match row.run {
            Run::OnKeys(run) => run(&mut self.keyspace, request, out),
            Run::OnStore(run) => run(self, caller, request, out),
        };
        self.keyspace.expire_overdue();
        done
    }

    /// As [`Store::dispatch`], for a connection that may be in a transaction or subscribed.
    #[cold]
    #[inline(never)]
    fn dispatch_with_extras(
        &mut self,
        caller: CallerId,
        request: &Request<'_>,
        out: &mut Reply,
    ) -> Result<(), Error> {
        match self.admit_request(caller, request) {
            Ok(true) => self.execute(caller, request, out),
            Ok(false) => {
                let transaction = self.callers.running(caller).transaction();
                transaction.into_iter().for_each(|it| it.requests.push(Queued::new(request)));
                out.simple(b"QUEUED");
                Ok(())
            }
            // An EXEC that cannot begin ends the transaction; any other invalid request breaks it.
            Err(error) if request.arg(0).eq_ignore_ascii_case(b"exec") => {
                transactions::abandon(self, caller);
                Err(Error::exec_aborted_by(&error))
            }
            Err(error) => {
                let transaction = self.callers.running(caller).transaction();
                transaction.into_iter().for_each(|it| it.is_broken = true);
                Err(error)
            }
        }
    }

    /// Whether a request may run now. False if it is queued.
    fn admit_request(&mut self, caller: CallerId, request: &Request<'_>) -> Result<bool, Error> {
        let row: &Row = self.index.find(request.arg(0)).ok_or_else(|| Error::not_here(request.arg(0)))?;
        if !row.arity_fits(request.len()) {
            return Err(Error::Arity(row.name.to_owned()));
        }
        let name = row.full_name(request)?;
        let state = self.callers.running(caller);
        let is_subscribed = state.is_subscribed() && !state.is_resp3;
        let queued = state.transaction();
        let is_queued = queued.is_some() && !row.is_never_queued();
        let (index, is_exec) = (&self.index, row.is_exec());
        let grows = |queued: &Queued| index.find(queued.request().arg(0)).is_some_and(|row| row.grows);
        // To queue a request needs room. EXEC needs room if a queued request does.
        let needs_room = row.grows
            || is_queued
            || (is_exec && queued.is_some_and(|transaction| transaction.requests.iter().any(grows)));
        if needs_room && !self.make_room(EVICTED_PER_REQUEST) {
            return Err(Error::OutOfMemory);
        }
        if is_subscribed && !row.is_for_subscribers() {
            return Err(Error::only_subscribers(&name));
        }
        Ok(!is_queued)
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::EvictionPolicy;
    use crate::testing::World;

    #[test]
    fn an_unsupported_command_names_the_remedy() {
        let mut world = World::unlimited();
        let expected = "-ERR command 'eval' is not in the embedded store \
                        (start redis-servers and name them with --nodes)";
        assert_eq!(world.ask("EVAL x 0"), expected);
        assert_eq!(world.ask("GET"), "-ERR wrong number of arguments for 'get' command");
        assert_eq!(world.ask("get missing"), "$-1");
    }

    #[test]
    fn info_counts_keys_and_requests() {
        let mut world = World::with(Some(100_000), EvictionPolicy::AllKeysLru);
        for line in ["SET k v", "SET short v PX 100", "GET k", "GET missing", "INCR n"] {
            world.ask(line);
        }
        let used = world.store.memory_used();
        let memory = format!("# Memory used_memory:{used} maxmemory:100000 maxmemory_policy:allkeys-lru");
        assert!(world.ask("INFO memory").contains(&memory));
        let scripts =
            "used_memory_lua:0 number_of_cached_scripts:0 number_of_functions:0 number_of_libraries:0";
        assert!(world.ask("INFO memory").ends_with(scripts));
        assert!(world.ask("INFO keyspace").ends_with("db0:keys=3,expires=1,avg_ttl=100"));
        world.now_ms += 101;
        world.work_off();
        let stats = world.ask("INFO STATS");
        assert!(
            stats.contains(
                "expired_keys:1 evicted_keys:0 keyspace_hits:1 keyspace_misses:1 pubsub_channels:0 "
            ),
            "{stats}"
        );
        assert!(world.ask("INFO").contains("redis_version:7.0.15"));
        assert_eq!(world.ask("OBJECT REFCOUNT n"), ":1", "small integers are not shared where ages count");
        assert_eq!(world.ask("INFO nosuch"), "$0");
    }

    #[test]
    fn keys_live_until_their_time_and_not_longer() {
        let mut world = World::unlimited();
        assert_eq!(world.ask("SET k v PX 1500"), "+OK");
        assert_eq!((world.ask("PTTL k"), world.ask("TTL k")), (":1500".to_owned(), ":2".to_owned()));
        assert_eq!(world.ask("PEXPIRETIME k"), ":1001500");
        world.now_ms += 1_500;
        assert_eq!((world.ask("GET k"), world.ask("PTTL k")), ("$1 v".to_owned(), ":0".to_owned()));
        world.now_ms += 1;
        assert_eq!((world.ask("GET k"), world.ask("TTL k")), ("$-1".to_owned(), ":-2".to_owned()));
    }

    #[test]
    fn options_of_set_that_exclude_each_other_are_refused() {
        let mut world = World::unlimited();
        for line in
            ["NX XX", "XX NX", "KEEPTTL EX 9", "EX 9 KEEPTTL", "EX 9 PX 9", "PERSIST", "EX", "EX 9 PXAT 9"]
        {
            assert_eq!(world.ask(&format!("SET k v {line}")), "-ERR syntax error", "{line}");
        }
        for line in ["EX 9 PERSIST", "PERSIST EX 9", "NX", "KEEPTTL", "EX 9 EXAT 9"] {
            assert_eq!(world.ask(&format!("GETEX k {line}")), "-ERR syntax error", "{line}");
        }
        for (line, reply) in [
            ("SET k v NX NX", "+OK"),
            ("SET k v NX", "$-1"),
            ("SET k v XX EX 5 EX 9", "+OK"),
            ("GETEX k EX 5 EX 8", "$1 v"),
            ("TTL k", ":8"),
            ("SET k w KEEPTTL KEEPTTL GET", "$1 v"),
            ("TTL k", ":8"),
            ("GETEX k PERSIST PERSIST", "$1 w"),
            ("TTL k", ":-1"),
        ] {
            assert_eq!(world.ask(line), reply, "{line}");
        }
    }

    #[test]
    fn expiries_are_kept_and_dropped_as_redis_does_it() {
        let mut world = World::unlimited();
        for (line, reply) in [
            ("SET k 1 EX 10", "+OK"),
            ("INCR k", ":2"),
            ("APPEND k 3", ":2"),
            ("SETRANGE k 0 4", ":2"),
            ("TTL k", ":10"),
            ("INCRBYFLOAT k 0.5", "$4 43.5"),
            ("TTL k", ":10"),
            ("SET k 5 KEEPTTL", "+OK"),
            ("TTL k", ":10"),
            ("EXPIRE k 20 LT", ":0"),
            ("EXPIRE k 20 GT", ":1"),
            ("EXPIRE k 30 NX", ":0"),
            ("RENAME k other", "+OK"),
            ("TTL other", ":20"),
            ("COPY other copy", ":1"),
            ("TTL copy", ":20"),
            ("GETSET other 7", "$1 5"),
            ("TTL other", ":-1"),
            ("EXPIRE other 5 GT", ":0"),
            ("EXPIRE other 5 LT", ":1"),
            ("GETEX other PERSIST", "$1 7"),
            ("TTL other", ":-1"),
            ("EXPIRE other -1", ":1"),
            ("EXISTS other", ":0"),
            ("SINTERSTORE copy missing", ":0"),
            ("DBSIZE", ":0"),
        ] {
            assert_eq!(world.ask(line), reply, "{line}");
        }
    }

    #[test]
    fn entries_get_the_time_as_their_id() {
        let mut world = World::unlimited();
        assert_eq!(world.ask("XADD s * a 1"), "$9 1000000-0");
        assert_eq!(world.ask("XADD s * a 2"), "$9 1000000-1");
        world.now_ms -= 1;
        assert_eq!(world.ask("XADD s * a 3"), "$9 1000000-2");
        world.now_ms += 2;
        assert_eq!(world.ask("XADD s * a 4"), "$9 1000001-0");
        assert_eq!(
            world.ask("XREAD BLOCK 0 STREAMS s 1000000-2"),
            "*1 *2 $1 s *1 *2 $9 1000001-0 *2 $1 a $1 4"
        );
        world.ask("XGROUP CREATE s g 0");
        world.ask("XREADGROUP GROUP g c COUNT 1 STREAMS s >");
        world.now_ms += 70;
        assert_eq!(world.ask("XPENDING s g - + 5"), "*1 *4 $9 1000000-0 $1 c :70 :1");
        assert_eq!(world.ask("XAUTOCLAIM s g d 71 0 JUSTID"), "*3 $3 0-0 *0 *0");
        assert_eq!(world.ask("XAUTOCLAIM s g d 70 0 JUSTID"), "*3 $3 0-0 *1 $9 1000000-0 *0");
        assert_eq!(
            world.ask("XINFO CONSUMERS s g"),
            "*2 *6 $4 name $1 c $7 pending :0 $4 idle :70 *6 $4 name $1 d $7 pending :1 $4 idle :0"
        );
    }

    #[test]
    fn full_memory_refuses_only_commands_that_grow() {
        let mut world = World::with(Some(10_000), EvictionPolicy::NoEviction);
        let refusal = "-OOM command not allowed when used memory > 'maxmemory'.";
        let written =
            (0..1_000).take_while(|number| world.ask(&format!("SET k{number} value")) == "+OK").count();
        assert!((40..90).contains(&written), "{written}");
        assert_eq!(world.ask("LPUSH list a"), refusal);
        assert_eq!(world.ask("GET k0"), "$5 value");
        assert_eq!(world.ask("DEL k0 k1"), ":2");
        assert_eq!(world.ask("LPUSH list a"), ":1");
    }

    #[test]
    fn a_short_request_cannot_take_more_than_all_memory() {
        let mut world = World::with(Some(10_000), EvictionPolicy::NoEviction);
        let refusal = "-OOM command not allowed when used memory > 'maxmemory'.";
        assert_eq!(world.ask("SETBIT k 4294967295 1"), refusal);
        assert_eq!(world.ask("SETRANGE k 20000 x"), refusal);
        assert_eq!(world.ask("SETBIT k 100 1"), ":0");
        assert_eq!(world.ask("STRLEN k"), ":13");
    }

    #[test]
    fn a_request_that_fails_leaves_no_empty_key() {
        let mut world = World::unlimited();
        assert_eq!(world.ask("HINCRBYFLOAT h f x"), "-ERR value is not a valid float");
        assert_eq!(world.ask("ZADD z XX 1 a"), ":0");
        assert_eq!(world.ask("ZADD z INCR inf a"), "$3 inf");
        assert_eq!(world.ask("ZADD z INCR -inf a"), "-ERR resulting score is not a number (NaN)");
        assert_eq!(world.ask("SETRANGE s 3 "), ":0");
        assert_eq!(
            world.ask("SETRANGE s 600000000 x"),
            "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"
        );
        assert_eq!(world.ask("KEYS *"), "*1 $1 z");
    }

    #[test]
    fn random_members_are_bounded_by_the_set_or_a_limit() {
        let mut world = World::unlimited();
        world.ask("SADD s a");
        assert_eq!(world.ask("SRANDMEMBER s -3"), "*3 $1 a $1 a $1 a");
        assert_eq!(world.ask("SRANDMEMBER s 3"), "*1 $1 a");
        assert_eq!(world.ask("SRANDMEMBER s -1000001"), "-ERR value is out of range");
        assert_eq!(world.ask("SPOP s"), "$1 a");
        assert_eq!(world.ask("RANDOMKEY"), "$-1");
    }
}
