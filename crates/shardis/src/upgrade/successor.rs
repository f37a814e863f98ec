//! The new process, as the old one sees it.
//!
//! Two threads serve the channel, so that no worker ever waits for the other process: one reads, the other sends clients. A
//! client that was sent waits here for the answer. Its socket is closed when it was taken, and goes back to its worker if not.

use super::CLIENTS_UNDER_WAY_MAX;
use super::channel::Channel;
use super::message::{self, Begin, Go, Head, Inherited, Message};
use super::program::Program;
use driver::Stream;
use mio::Waker;
use proxy::ClientState;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Time in which a process ends that has closed the channel.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Interval of the looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The new process.
pub(crate) struct Successor {
    /// Its number.
    pub pid: u32,
    news: mpsc::Receiver<News>,
    channel: Arc<Channel>,
    courier: Courier,
}

/// News of the new process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The new process can serve.
    Ready,
    /// The new process cannot serve, for this reason, and has ended.
    Failed(String),
    /// The new process was ready and takes no more clients.
    Closed,
}

/// A client on its way.
pub(crate) struct Parcel {
    /// The number of its listener among those of the process.
    pub door: usize,
    /// The same among those of the service.
    pub listener: u16,
    /// Its socket.
    pub stream: Stream,
    /// Its state.
    pub state: ClientState,
    /// Its worker, which gets the outcome.
    pub sender: Sender,
}

/// The way of outcomes to one worker.
pub(crate) type Sender = Arc<dyn Fn(Outcome) + Send + Sync>;

/// The outcome for one client.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The new process has it.
    Taken,
    /// The new process has not taken it.
    Returned(Box<Returned>),
}

impl Parcel {
    /// Reports that the client was taken. The socket is closed here and stays open there.
    fn settle(self) {
        (self.sender)(Outcome::Taken);
    }

    /// Gives the client back to its worker.
    fn give_back(self, reason: &str) {
        let Parcel { stream, state, listener, sender, .. } = self;
        let returned = Returned { stream, state, listener, reason: reason.to_owned() };
        sender(Outcome::Returned(Box::new(returned)));
    }
}

/// A client that the new process has not taken.
#[derive(Debug)]
pub(crate) struct Returned {
    /// Its socket.
    pub stream: Stream,
    /// Its state.
    pub state: ClientState,
    /// The number of its listener among those of the service.
    pub listener: u16,
    /// Why it was not taken.
    pub reason: String,
}

/// The way of clients to the new process.
#[derive(Clone)]
pub(crate) struct Courier {
    parcels: mpsc::Sender<Parcel>,
    under_way: Arc<UnderWay>,
}

/// Clients that wait for an answer, and their places.
#[derive(Default)]
struct UnderWay {
    parcels: Mutex<HashMap<u64, Parcel>>,
    places_taken: AtomicUsize,
    is_closed: AtomicBool,
    moved: AtomicUsize,
}

impl Courier {
    /// Whether clients may leave.
    pub(crate) fn is_open(&self) -> bool {
        !self.under_way.is_closed.load(Ordering::Acquire)
    }

    /// The number of clients that were taken over.
    pub(crate) fn moved(&self) -> usize {
        self.under_way.moved.load(Ordering::Relaxed)
    }

    /// Takes a place for one client. [`Courier::send`] fills it, or [`Courier::free_place`] frees it.
    pub(crate) fn take_place(&self) -> bool {
        let more = |taken| (taken < CLIENTS_UNDER_WAY_MAX).then_some(taken + 1);
        self.under_way.places_taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok()
    }

    /// Frees a place that is not needed.
    pub(crate) fn free_place(&self) {
        self.under_way.free_place();
    }

    /// Sends a client. Its worker gets the outcome.
    pub(crate) fn send(&self, parcel: Parcel) {
        if let Err(mpsc::SendError(parcel)) = self.parcels.send(parcel) {
            self.free_place();
            parcel.give_back("the channel is closed");
        }
    }
}

impl UnderWay {
    fn free_place(&self) {
        self.places_taken.fetch_sub(1, Ordering::AcqRel);
    }

    fn begin(&self, ticket: u64, parcel: Parcel) {
        self.lock().insert(ticket, parcel);
    }

    /// The client of `ticket`, which is not under way any more.
    fn end(&self, ticket: u64) -> Option<Parcel> {
        let parcel = self.lock().remove(&ticket);
        if parcel.is_some() {
            self.free_place();
        }
        parcel
    }

    fn settle(&self, ticket: u64) {
        if let Some(parcel) = self.end(ticket) {
            self.moved.fetch_add(1, Ordering::Relaxed);
            parcel.settle();
        }
    }

    fn give_back(&self, ticket: u64, reason: &str) {
        if let Some(parcel) = self.end(ticket) {
            parcel.give_back(reason);
        }
    }

    /// Lets no more clients leave.
    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Gives all clients back.
    fn give_all_back(&self) {
        let tickets: Vec<u64> = self.lock().keys().copied().collect();
        tickets.into_iter().for_each(|ticket| self.give_back(ticket, "the new process has ended"));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Parcel>> {
        self.parcels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Successor {
    /// Starts `program` with the listening sockets. Its news wake `waker`.
    pub(crate) fn start(
        program: &Program,
        sockets: Vec<(Inherited, OwnedFd)>,
        begin: Begin,
        ready_within: Duration,
        waker: &Arc<Waker>,
    ) -> io::Result<Successor> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = program.start(theirs)?;
        let (pid, channel) = (child.id(), Arc::new(Channel::new(ours)));
        let (parcels, sent) = mpsc::channel();
        let (sender, news) = mpsc::channel();
        let under_way = Arc::new(UnderWay::default());
        let courier = Courier { parcels, under_way: Arc::clone(&under_way) };
        let waker = Arc::clone(waker);
        let tell = move |news| {
            // Without a control thread, the process is ending.
            let _ = sender.send(news);
            let _ = waker.wake();
        };
        let reader = Reader { child, channel: Arc::clone(&channel), under_way: Arc::clone(&under_way), tell };
        let thread = std::thread::Builder::new().name("upgrade".to_owned());
        thread.spawn(move || reader.run(sockets, &begin, ready_within))?;
        let writer = Arc::clone(&channel);
        let thread = std::thread::Builder::new().name("upgrade-clients".to_owned());
        thread.spawn(move || send_all(&writer, &under_way, &sent))?;
        Ok(Successor { pid, news, channel, courier })
    }

    /// The next news.
    pub(crate) fn poll(&self) -> Option<News> {
        self.news.try_recv().ok()
    }

    /// Lets the new process serve. An error if it has ended.
    pub(crate) fn go(&self, go: Go) -> io::Result<()> {
        self.channel.send(&message::encode(&Message::Go(go), b""), None)
    }

    /// The way of clients to it.
    pub(crate) fn courier(&self) -> Courier {
        self.courier.clone()
    }
}

/// Sends clients as they come.
fn send_all(channel: &Channel, under_way: &UnderWay, parcels: &mpsc::Receiver<Parcel>) {
    for (ticket, parcel) in (0..).zip(parcels) {
        let head = Message::Client(Head { ticket, door: parcel.door });
        let bytes = message::encode(&head, &parcel.state.encode());
        let socket = parcel.stream.as_fd().try_clone_to_owned();
        under_way.begin(ticket, parcel);
        let sent = socket.and_then(|socket| channel.send(&bytes, Some(socket.as_fd())));
        if let Err(error) = sent {
            under_way.give_back(ticket, &error.to_string());
        }
    }
}

/// The thread that reads from the new process.
struct Reader<T> {
    child: Child,
    channel: Arc<Channel>,
    under_way: Arc<UnderWay>,
    tell: T,
}

impl<T: Fn(News)> Reader<T> {
    fn run(mut self, sockets: Vec<(Inherited, OwnedFd)>, begin: &Begin, ready_within: Duration) {
        let ready = self.wait_until_ready(&sockets, begin, ready_within);
        // A listener that nobody has taken over must close.
        drop(sockets);
        match ready {
            Ok(()) => (self.tell)(News::Ready),
            Err(reason) => {
                let reason = self.end_child(reason, ready_within);
                return (self.tell)(News::Failed(reason));
            }
        }
        self.hear_answers();
        self.under_way.close();
        self.under_way.give_all_back();
        (self.tell)(News::Closed);
        // Usually this process ends first.
        let _ = self.child.wait();
    }

    fn wait_until_ready(
        &self,
        sockets: &[(Inherited, OwnedFd)],
        begin: &Begin,
        ready_within: Duration,
    ) -> io::Result<()> {
        self.channel.set_timeout(Some(ready_within.max(Duration::from_millis(1))))?;
        for (inherited, socket) in sockets {
            let listener = Message::Listener(inherited.clone());
            self.channel.send(&message::encode(&listener, b""), Some(socket.as_fd()))?;
        }
        self.channel.send(&message::encode(&Message::Begin(begin.clone()), b""), None)?;
        let frame = self.channel.receive()?.ok_or(ErrorKind::UnexpectedEof)?;
        match message::decode(&frame.bytes) {
            Ok((Message::Ready, _)) => self.channel.set_timeout(None),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Ends the new process, which is not ready because of `error`. Returns the reason for the log.
    fn end_child(&mut self, error: io::Error, ready_within: Duration) -> String {
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            return format!("the new process was not ready within {} s", ready_within.as_secs());
        }
        let status = self.wait_for_child();
        match status {
            Ok(status) => format!("the new process ended ({status}); its own messages say why"),
            Err(error) => error.to_string(),
        }
    }

    /// Waits for the end of the new process, which has closed the channel.
    fn wait_for_child(&mut self) -> io::Result<ExitStatus> {
        let deadline = Instant::now() + ENDS_WITHIN;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            // tidy: allow(sleep): the pause between two looks; the system reports the end of a child to all threads or none.
            std::thread::sleep(LOOK_EVERY);
        }
        self.child.kill()?;
        self.child.wait()
    }

    /// Settles clients, until the new process takes no more.
    fn hear_answers(&self) {
        while let Ok(Some(frame)) = self.channel.receive() {
            match message::decode(&frame.bytes) {
                Ok((Message::Taken(ticket), _)) => self.under_way.settle(ticket),
                Ok((Message::Declined(ticket, reason), _)) => self.under_way.give_back(ticket, &reason),
                Ok((Message::Farewell, _)) => self.under_way.close(),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// A courier, its clients, the end of the channel at the new process, and the outcomes.
    struct Rig {
        courier: Courier,
        sent: Option<mpsc::Receiver<Parcel>>,
        ours: Arc<Channel>,
        theirs: Option<Channel>,
        outcomes: mpsc::Receiver<Outcome>,
        sender: Sender,
    }

    impl Rig {
        fn new() -> Rig {
            let (ours, theirs) = UnixStream::pair().expect("two sockets");
            let ((parcels, sent), (tell, outcomes)) = (mpsc::channel(), mpsc::channel());
            let courier = Courier { parcels, under_way: Arc::default() };
            let sender: Sender = Arc::new(move |outcome| drop(tell.send(outcome)));
            let (ours, theirs) = (Arc::new(Channel::new(ours)), Some(Channel::new(theirs)));
            Rig { courier, sent: Some(sent), ours, theirs, outcomes, sender }
        }

        /// Sends a client by the courier. Returns its own end.
        fn send(&self, name: &str) -> UnixStream {
            let (client, stream) = UnixStream::pair().expect("two sockets");
            assert!(self.courier.take_place());
            let mut state = ClientState::default();
            name.clone_into(&mut state.peer);
            let (stream, sender) = (Stream::Unix(stream), Arc::clone(&self.sender));
            self.courier.send(Parcel { door: 0, listener: 3, stream, state, sender });
            client
        }

        /// Puts all clients on the channel; the worker sends no more.
        fn deliver(&mut self) {
            let under_way = Arc::clone(&self.courier.under_way);
            self.courier.parcels = mpsc::channel().0;
            send_all(&self.ours, &under_way, &self.sent.take().expect("once"));
        }

        /// Takes the answers of the new process until it closes the channel.
        fn hear(&mut self) {
            drop(self.theirs.take());
            let (channel, under_way) = (Arc::clone(&self.ours), Arc::clone(&self.courier.under_way));
            let child = std::process::Command::new("true").spawn().expect("there is one");
            let mut reader = Reader { child, channel, under_way, tell: |_| {} };
            reader.hear_answers();
            reader.under_way.close();
            reader.under_way.give_all_back();
            reader.child.wait().expect("it ends");
        }

        fn answer(&self, message: &Message) {
            let theirs = self.theirs.as_ref().expect("it is open");
            theirs.send(&message::encode(message, b""), None).expect("there is room");
        }

        /// The reasons of clients that came back, and the number of those that were taken.
        fn outcomes(&self) -> (Vec<String>, usize) {
            let (mut reasons, mut taken) = (Vec::new(), 0);
            for outcome in self.outcomes.try_iter() {
                match outcome {
                    Outcome::Taken => taken += 1,
                    Outcome::Returned(returned) => {
                        assert_eq!(returned.listener, 3);
                        reasons.push(format!("{}: {}", returned.state.peer, returned.reason));
                    }
                }
            }
            reasons.sort();
            (reasons, taken)
        }
    }

    #[test]
    fn each_client_is_taken_or_comes_back() {
        let mut rig = Rig::new();
        let mut clients = ["a", "b", "c"].map(|name| rig.send(name));
        rig.deliver();
        for ticket in 0..3 {
            let theirs = rig.theirs.as_ref().expect("it is open");
            let frame = theirs.receive().expect("it is there").expect("a frame");
            let (head, state) = message::decode(&frame.bytes).expect("valid");
            assert_eq!(head, Message::Client(Head { ticket, door: 0 }));
            assert!(frame.descriptor.is_some() && ClientState::decode(state).is_ok());
        }
        rig.answer(&Message::Taken(0));
        rig.answer(&Message::Declined(1, "no room".to_owned()));
        // An answer about nobody, as from a faulty process, changes nothing.
        rig.answer(&Message::Taken(99));
        rig.hear();
        let back = vec!["b: no room".to_owned(), "c: the new process has ended".to_owned()];
        assert_eq!((rig.outcomes(), rig.courier.moved(), rig.courier.is_open()), ((back, 1), 1, false));
        assert_eq!(rig.courier.under_way.places_taken.load(Ordering::Relaxed), 0);
        // Nobody else has the socket of the first: it was closed here.
        assert_eq!(clients[0].read(&mut [0]).expect("the end"), 0);
    }

    #[test]
    fn clients_come_back_from_a_process_that_has_ended() {
        let mut rig = Rig::new();
        let _clients = ["a", "b"].map(|name| rig.send(name));
        drop(rig.theirs.take());
        rig.deliver();
        let (back, taken) = rig.outcomes();
        assert!(back.len() == 2 && back[0].starts_with("a: ") && taken == 0, "{back:?}");
        let _client = rig.send("c");
        assert_eq!(rig.outcomes(), (vec!["c: the channel is closed".to_owned()], 0));
        assert_eq!(rig.courier.under_way.places_taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn few_clients_are_under_way_at_once() {
        let rig = Rig::new();
        assert!((0..CLIENTS_UNDER_WAY_MAX).all(|_| rig.courier.take_place()));
        assert!(!rig.courier.take_place());
        rig.courier.free_place();
        assert!(rig.courier.take_place());
    }
}
