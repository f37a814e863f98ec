//! Waiting connections and deliveries: service when a key is ready, timeouts, messages.
//!
//! ```text
//! a request ─► keys change ─► Audience: ready keys, events
//!                                │
//!         tell_audience ◄────────┘      each ready key: its queue from the front, while there is something
//!                │                      each event: the channels of keyspace notifications
//!                └─► Delivery to another connection ─► its owner
//! ```

use crate::caller_id::CallerId;
use crate::channels::{Kind, write_message};
use crate::commands::wanted::Wanted;
use crate::error::Error;
use crate::replies::Reply;
use crate::store::Store;
use crate::values::value::Value;

/// Bytes for a connection other than the one whose request runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Which connection.
    pub to: CallerId,
    /// Replies or pushes, whole ones.
    pub bytes: Vec<u8>,
    /// The bytes answer its wait: its next requests can run.
    pub ends_wait: bool,
}

/// Waiters that a ready key can serve.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    List,
    Zset,
    Stream,
    Other,
}

impl Type {
    fn of(value: Option<&Value>) -> Type {
        match value {
            Some(Value::List(_)) => Type::List,
            Some(Value::Zset(_)) => Type::Zset,
            Some(Value::Stream(_)) => Type::Stream,
            _ => Type::Other,
        }
    }

    fn is_of(self, wanted: &Wanted) -> bool {
        match wanted {
            Wanted::Element { .. } | Wanted::Shift { .. } => self == Type::List,
            Wanted::Member { .. } => self == Type::Zset,
            Wanted::Entries { .. } => self == Type::Stream,
            Wanted::Replicas => false,
        }
    }
}

impl Store {
    /// Serves the waiters of ready keys and reports events. `out` takes the bytes for `running`, whose request it was.
    #[cold]
    pub(crate) fn tell_audience(&mut self, mut running: Option<(CallerId, &mut Reply)>) {
        // To serve one waiter may make another key ready.
        while let Some((database, key)) = self.keyspace.audience.next_ready() {
            self.keyspace.select(database);
            self.keyspace.stats.count(false);
            self.serve(&key);
        }
        while let Some(event) = self.keyspace.audience.next_event() {
            let ((by_key, by_event), database, name) = (event.channels, event.database, event.name);
            if by_key {
                let channel = [format!("__keyspace@{database}__:").as_bytes(), &event.key].concat();
                let running = running.as_mut().map(|(caller, out)| (*caller, &mut **out));
                self.publish(running, Kind::Channel, &channel, name.as_bytes());
            }
            if by_event {
                let channel = format!("__keyevent@{database}__:{name}");
                let running = running.as_mut().map(|(caller, out)| (*caller, &mut **out));
                self.publish(running, Kind::Channel, channel.as_bytes(), &event.key);
            }
        }
    }

    /// Serves the waiters of `key` in the selected database, from the front of its queue.
    fn serve(&mut self, key: &[u8]) {
        match Type::of(self.keyspace.glance(key)) {
            Type::Stream => self.serve_readers(key),
            kind => {
                self.serve_in_turn(key, kind);
                self.turn_members_away(key);
            }
        }
    }

    /// Serves waiters one after the other: each takes elements that the next does not get.
    fn serve_in_turn(&mut self, key: &[u8], kind: Type) {
        let database = self.keyspace.selected();
        let len = self.keyspace.audience.queue(database, key).map_or(0, |queue| queue.len());
        for _ in 0..len {
            let Some(queue) = self.keyspace.audience.queue(database, key) else { return };
            let Some(&caller) = queue.front() else { return };
            let is_for_them = self.callers.wait_for(caller).is_some_and(|wait| kind.is_of(&wait.wanted));
            if !is_for_them {
                // As in Redis, a waiter that needs another type moves to the end of the queue.
                queue.rotate_left(1);
                continue;
            }
            self.serve_one(caller, key);
            if !self.keyspace.exists(key) {
                return;
            }
        }
    }

    /// All who read a stream may get its entries.
    fn serve_readers(&mut self, key: &[u8]) {
        let database = self.keyspace.selected();
        let queue = self.keyspace.audience.queue(database, key).map(|queue| queue.clone());
        for caller in queue.into_iter().flatten() {
            let wants_entries = |wanted: &Wanted| Type::Stream.is_of(wanted);
            if self.callers.wait_for(caller).is_some_and(|wait| wants_entries(&wait.wanted)) {
                self.serve_one(caller, key);
            }
        }
    }

    /// Sends an error to waiting members of the group: the stream no longer exists.
    fn turn_members_away(&mut self, key: &[u8]) {
        let database = self.keyspace.selected();
        let queue = self.keyspace.audience.queue(database, key).map(|queue| queue.clone());
        for caller in queue.into_iter().flatten() {
            if self.callers.wait_for(caller).is_some_and(|wait| wait.wanted.has_group()) {
                self.answer_wait(caller, |out| out.error(&Error::STREAM_GONE));
            }
        }
    }

    /// Serves one waiter. An error ends its wait too.
    fn serve_one(&mut self, caller: CallerId, key: &[u8]) {
        let Some(state) = self.callers.find(caller) else { return };
        let mut out = Reply::new(Vec::new(), state.is_resp3);
        let Some(wait) = state.wait() else { return };
        let at = wait.keys.iter().position(|other| **other == *key).unwrap_or_default();
        match wait.wanted.take(&mut self.keyspace, key, at, &mut out) {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => {
                out.truncate(0);
                out.error(&error);
            }
        }
        self.answer_wait(caller, |reply| reply.append(&out));
    }

    /// Ends a wait with an answer. Returns false if there was none.
    pub(crate) fn answer_wait(&mut self, caller: CallerId, write: impl FnOnce(&mut Reply)) -> bool {
        if !self.end_wait(caller) {
            return false;
        }
        let is_resp3 = self.callers.find(caller).is_some_and(|state| state.is_resp3);
        let mut out = Reply::new(Vec::new(), is_resp3);
        write(&mut out);
        self.deliveries.push_back(Delivery { to: caller, bytes: out.into_bytes(), ends_wait: true });
        true
    }

    /// Removes the caller from all queues. Returns false if it was in none.
    pub(crate) fn end_wait(&mut self, caller: CallerId) -> bool {
        let Some(wait) = self.callers.end_wait(caller) else { return false };
        self.keyspace.audience.dequeue(caller, wait.database, &wait.keys);
        true
    }

    /// Answers waiters whose deadline has passed.
    pub(crate) fn end_waits(&mut self, now_ms: u64) {
        while let Some(caller) = self.callers.due(now_ms) {
            self.time_out(caller);
        }
    }

    /// Ends a wait as if its deadline had passed. Returns false if there was none.
    pub(crate) fn time_out(&mut self, caller: CallerId) -> bool {
        let wait = self.callers.wait_for(caller);
        match wait.is_some_and(|wait| matches!(wait.wanted, Wanted::Replicas)) {
            true => self.answer_wait(caller, |out| out.integer(0)),
            false => self.answer_wait(caller, Reply::nil_array),
        }
    }

    /// Sends all changes since the last message to the trackers: as in Redis, not with every request.
    pub(crate) fn tell_trackers(&mut self) {
        let Some((changes, trackers)) = self.keyspace.audience.take_changes() else { return };
        let mut out = Reply::new(Vec::new(), true);
        let begin = |out: &mut Reply| {
            out.push(2);
            out.bulk(b"invalidate");
        };
        if changes.is_flush {
            begin(&mut out);
            out.nil();
        }
        if !changes.keys.is_empty() {
            begin(&mut out);
            out.array(changes.keys.len());
            changes.keys.iter().for_each(|key| out.bulk(key));
        }
        let bytes = out.into_bytes();
        for to in trackers {
            // RESP2 has no push for this.
            if self.callers.find(to).is_some_and(|state| state.is_resp3) {
                self.deliveries.push_back(Delivery { to, bytes: bytes.clone(), ends_wait: false });
            }
        }
    }

    /// Delivers a message to all its subscribers and returns their number. Bytes for `running`, whose request it was, go to its
    /// reply.
    pub(crate) fn publish(
        &mut self,
        mut running: Option<(CallerId, &mut Reply)>,
        kind: Kind,
        channel: &[u8],
        message: &[u8],
    ) -> usize {
        let receivers = self.channels.receivers(kind, channel);
        for (caller, pattern) in &receivers {
            let pattern = pattern.as_deref();
            if let Some((_, out)) = running.as_mut().filter(|(running, _)| running == caller) {
                write_message(kind, pattern, channel, message, out);
                continue;
            }
            let is_resp3 = self.callers.find(*caller).is_some_and(|state| state.is_resp3);
            let mut out = Reply::new(Vec::new(), is_resp3);
            write_message(kind, pattern, channel, message, &mut out);
            self.deliveries.push_back(Delivery { to: *caller, bytes: out.into_bytes(), ends_wait: false });
        }
        receivers.len()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::World;
    use crate::{CallerId, StoreSettings};

    fn world() -> (World, [CallerId; 3]) {
        let mut world = World::new(StoreSettings::default());
        let callers = [(); 3].map(|()| world.store.admit());
        (world, callers)
    }

    fn got(caller: CallerId, reply: &str) -> Vec<(CallerId, String)> {
        vec![(caller, reply.to_owned())]
    }

    #[test]
    fn a_wait_is_over_when_its_time_is_and_not_before() {
        let (mut world, [one, other, third]) = world();
        let start = world.now_ms;
        for (caller, line) in [
            (one, "BLPOP l 0.0101"),
            (other, "XREAD BLOCK 20 STREAMS x $"),
            (third, "BLMOVE l m LEFT RIGHT 0"),
        ] {
            assert_eq!(world.ask_as(caller, line), "", "{line}");
        }
        assert_eq!(world.store.next_deadline(), Some(start + 12), "eleven whole milliseconds");
        world.now_ms = start + 11;
        world.store.work(world.now_ms);
        assert_eq!(world.delivered(), []);
        world.now_ms = start + 12;
        world.store.work(world.now_ms);
        assert_eq!(world.delivered(), got(one, "*-1"));
        assert_eq!(world.store.next_deadline(), Some(start + 21));
        world.now_ms = start + 1_000;
        world.store.work(world.now_ms);
        assert_eq!(world.delivered(), got(other, "*-1"));
        assert_eq!(world.store.next_deadline(), None, "one waits for ever");
        assert_eq!(world.ask("RPUSH l a"), ":1");
        assert_eq!(world.delivered(), got(third, "$1 a"));
    }

    #[test]
    fn a_clock_that_is_set_ends_no_wait_sooner_or_later() {
        for step_ms in [100_000, -100_000] {
            let (mut world, [one, other, third]) = world();
            world.ask_as(one, "BLPOP l 1");
            world.ask_as(other, "BLPOP l 2");
            world.ask_as(third, "BLPOP l 0");
            world.now_ms = world.now_ms.saturating_add_signed(step_ms);
            world.store.shift_waits(step_ms);
            world.now_ms += 999;
            world.store.work(world.now_ms);
            assert_eq!(world.delivered(), []);
            world.now_ms += 2;
            world.store.work(world.now_ms);
            assert_eq!(world.delivered(), got(one, "*-1"));
            world.store.dismiss(other);
            assert_eq!(world.store.next_deadline(), None, "what was shifted is let go as ever");
        }
    }

    #[test]
    fn wait_for_missing_replicas_lasts_its_timeout() {
        let (mut world, [one, other, ..]) = world();
        for (line, reply) in [
            ("WAIT 0 0", ":0"),
            ("WAIT -1 5", ":0"),
            ("WAIT x 0", "-ERR value is not an integer or out of range"),
            ("WAIT 0 x", "-ERR timeout is not an integer or out of range"),
            ("WAIT 0 -1", "-ERR timeout is negative"),
            ("WAIT 0 9223372036854775807", "-ERR timeout is out of range"),
            ("WAIT 1", "-ERR wrong number of arguments for 'wait' command"),
        ] {
            assert_eq!(world.ask(line), reply, "{line}");
        }
        let start = world.now_ms;
        assert_eq!((world.ask_as(one, "WAIT 1 100"), world.ask_as(other, "WAIT 2 0")), Default::default());
        assert_eq!(world.store.next_deadline(), Some(start + 101));
        world.now_ms = start + 101;
        world.store.work(world.now_ms);
        assert_eq!(world.delivered(), got(one, ":0"));
        assert_eq!((world.ask("CLIENT UNBLOCK 3").as_str(), world.delivered()), (":1", got(other, ":0")));
        for line in ["MULTI", "WAIT 1 0"] {
            world.ask_as(one, line);
        }
        assert_eq!(world.ask_as(one, "EXEC"), "*1 :0");
    }

    #[test]
    fn an_element_is_not_lost_to_a_connection_that_has_gone() {
        let (mut world, [gone, stays, _]) = world();
        world.ask_as(gone, "BLPOP l 1");
        world.ask_as(stays, "BRPOP l 0");
        world.store.dismiss(gone);
        assert_eq!(world.store.next_deadline(), None);
        assert_eq!(world.ask("RPUSH l a b"), ":2");
        assert_eq!(world.delivered(), got(stays, "*2 $1 l $1 b"));
        assert_eq!(world.ask("LRANGE l 0 -1"), "*1 $1 a");
    }

    #[test]
    fn a_waiting_connection_runs_nothing_before_its_reply() {
        let (mut world, [one, ..]) = world();
        world.ask_as(one, "BLPOP l 0");
        assert_eq!(world.ask_as(one, "SET k v"), "");
        assert!(world.ask("INFO clients").ends_with("connected_clients:4 blocked_clients:1"));
        assert_eq!(world.ask("EXISTS k"), ":0");
        let answer = world.ask("CLIENT UNBLOCK 2");
        assert_eq!((answer.as_str(), world.delivered()), (":1", got(one, "*-1")));
        assert_eq!(world.ask_as(one, "SET k v"), "+OK");
        world.ask_as(one, "BLPOP l 0");
        assert_eq!(world.ask("CLIENT UNBLOCK 2 ERROR"), ":1");
        let error = "-UNBLOCKED client unblocked via CLIENT UNBLOCK";
        assert_eq!(world.delivered(), got(one, error));
        assert_eq!(world.ask("CLIENT UNBLOCK 2"), ":0");
    }

    #[test]
    fn a_stream_whose_time_is_over_turns_members_away() {
        let (mut world, [one, ..]) = world();
        world.ask("XGROUP CREATE x g $ MKSTREAM");
        world.ask("PEXPIRE x 100");
        world.ask_as(one, "XREADGROUP GROUP g c BLOCK 0 STREAMS x >");
        world.now_ms += 101;
        world.store.work(world.now_ms);
        assert_eq!(world.delivered(), got(one, "-UNBLOCKED the stream key no longer exists"));
    }

    #[test]
    fn a_finished_wait_leaves_no_state() {
        let (mut world, [one, other, third]) = world();
        world.ask_as(one, "BLPOP a b c 0");
        world.ask_as(other, "WATCH a b");
        world.ask_as(third, "SUBSCRIBE news");
        [one, other, third].into_iter().for_each(|caller| world.store.dismiss(caller));
        assert!(!world.store.keyspace.audience.is_there());
        assert_eq!(world.ask("PUBLISH news x"), ":0");
    }

    #[test]
    fn messages_come_in_the_protocol_of_their_receiver() {
        let (mut world, [one, other, third]) = world();
        world.ask_as(other, "HELLO 3");
        assert_eq!(world.ask_as(one, "SUBSCRIBE news"), "*3 $9 subscribe $4 news :1");
        assert_eq!(world.ask_as(other, "PSUBSCRIBE n*"), ">3 $10 psubscribe $2 n* :1");
        assert_eq!(world.ask_as(third, "SSUBSCRIBE news"), "*3 $10 ssubscribe $4 news :1");
        assert_eq!(world.ask("PUBLISH news hello"), ":2");
        let counts = "pubsub_channels:1 pubsub_patterns:1 pubsubshard_channels:1";
        assert!(world.ask("INFO stats").ends_with(counts));
        let expected = [
            (one, "*3 $7 message $4 news $5 hello".to_owned()),
            (other, ">4 $8 pmessage $2 n* $4 news $5 hello".to_owned()),
        ];
        assert_eq!(world.delivered(), expected);
        assert_eq!(world.ask("SPUBLISH news shard"), ":1");
        assert_eq!(world.delivered(), got(third, "*3 $8 smessage $4 news $5 shard"));
        let refusal = world.ask_as(one, "GET k");
        assert!(refusal.starts_with("-ERR Can't execute 'get': only (P|S)SUBSCRIBE"), "{refusal}");
        assert_eq!(world.ask_as(other, "GET k"), "_");
        assert_eq!(world.ask_as(other, "PUBLISH news me"), ">4 $8 pmessage $2 n* $4 news $2 me :2");
    }

    #[test]
    fn tracking_client_hears_of_each_change_once() {
        let (mut world, [one, other, deaf]) = world();
        world.ask_as(one, "HELLO 3");
        for caller in [one, other, deaf] {
            assert_eq!(world.ask_as(caller, "CLIENT TRACKING ON BCAST"), "+OK");
        }
        world.ask_as(other, "CLIENT TRACKING OFF");
        for line in ["SET a 1", "SADD s x", "SADD s x", "SET a 2", "GET b", "DEL b", "EXPIRE a 1"] {
            world.ask(line);
        }
        assert_eq!(world.delivered(), got(one, ">2 $10 invalidate *2 $1 a $1 s"));
        world.ask("SADD s x");
        assert_eq!(world.delivered(), []);
        world.now_ms += 1_001;
        world.ask("GET a");
        assert_eq!(world.delivered(), got(one, ">2 $10 invalidate *1 $1 a"));
        world.ask("FLUSHALL");
        assert_eq!(world.delivered(), got(one, ">2 $10 invalidate _"));
        [one, deaf].into_iter().for_each(|caller| world.store.dismiss(caller));
        assert!(!world.store.keyspace.audience.is_there());
        assert_eq!(world.ask("CLIENT TRACKING ON"), "-ERR syntax error");
    }

    #[test]
    fn keyspace_notifications_tell_of_expiry_and_eviction() {
        let (mut world, [one, ..]) = world();
        world.ask_as(one, "SUBSCRIBE __keyevent@0__:expired");
        assert_eq!(world.ask("CONFIG SET notify-keyspace-events Ex"), "+OK");
        world.ask("SET k v PX 10");
        world.now_ms += 11;
        assert_eq!(world.ask("GET k"), "$-1");
        assert_eq!(world.delivered(), got(one, "*3 $7 message $22 __keyevent@0__:expired $1 k"));
        let refusal = world.ask("CONFIG SET notify-keyspace-events Em");
        assert!(refusal.starts_with("-ERR CONFIG SET failed"), "{refusal}");
    }
}
