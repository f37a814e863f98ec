//! A connection's queue and its states.

use super::*;
use crate::features::None;
use crate::link::greeting::{End, PING, PONG};

const CONN: ConnId = ConnId { index: 1, generation: 0 };

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// A link to a node that was not connected to yet.
fn waiting() -> Link<None> {
    let greeting = Greeting::new(PING.to_vec().into(), 1, End::Ping);
    Link::new((ShardId(0), NodeId(0)), Use::Shared, ProfileId::FIRST, greeting)
}

/// A link that is ready since `at(0)`.
fn ready() -> Link<None> {
    let mut link = waiting();
    link.state = State::Ready { conn: CONN, since: at(0) };
    link
}

fn queue(link: &mut Link<None>, pool: &mut BufferPool, sent_at: Instant) {
    let start = link.append(PING, pool);
    let deadline = sent_at + Duration::from_secs(1);
    let (owner, command, kept) = (Owner::Client, (), Kept::READ);
    let ticket =
        Ticket { conn: CONN, place: 0, part: 0, owner, command, kept, queued_us: 0, start, deadline };
    link.push(ticket);
}

fn pool() -> BufferPool {
    BufferPool::new(4, 64 << 10)
}

#[test]
fn a_connection_is_used_only_after_a_pong() {
    let mut pool = pool();
    let mut link = waiting();
    assert_eq!(link.due(at(0), &Limits::default()), Due::Connect);
    link.state = State::Connecting { conn: CONN, deadline: at(1000) };
    queue(&mut link, &mut pool, at(0));
    assert_eq!(link.output(), b"");
    link.handle_connected(());
    assert_eq!(link.output(), PING);
    link.handle_sent(4, &mut pool);
    assert_eq!(link.output(), &PING[4..]);
    assert!(link.handle_probe_reply(PONG, at(1)).is_err(), "an answer before the question");
    link.handle_sent(PING.len() - 4, &mut pool);
    let refusal = link.handle_probe_reply(b"-LOADING Redis is loading\r\n", at(1));
    assert_eq!(refusal, Err("LOADING Redis is loading".to_owned()));
    assert_eq!(link.handle_probe_reply(PONG, at(1)), Ok(true));
    assert_eq!(link.output(), PING, "what waited is sent now");
}

#[test]
fn a_late_reply_meets_its_tombstone() {
    let (mut pool, limits) = (pool(), Limits::default());
    let mut link = ready();
    queue(&mut link, &mut pool, at(0));
    queue(&mut link, &mut pool, at(500));
    link.handle_sent(PING.len() * 2, &mut pool);
    assert_eq!(link.due(at(999), &limits), Due::Nothing);
    assert_eq!(link.due(at(1000), &limits), Due::Expire);
    assert_eq!(link.expire().map(|ticket| ticket.owner), Some(Owner::Client));
    assert_eq!(link.due(at(1000), &limits), Due::Nothing);
    assert_eq!(link.deadline(&limits), at(1500));
    assert_eq!(link.front().map(|ticket| ticket.owner), Some(Owner::Late));
    link.pop();
    assert_eq!(link.front().map(|ticket| ticket.owner), Some(Owner::Client));
    link.pop();
    assert!(link.front().is_none());
}

#[test]
fn a_kept_request_is_there_until_its_reply_is() {
    let mut pool = pool();
    let mut link = ready();
    queue(&mut link, &mut pool, at(0));
    queue(&mut link, &mut pool, at(0));
    let ping = Some(PING.to_vec());
    // Unsent, sent but for its end, sent alone, sent behind others.
    for count in [0, 20, 8, 0] {
        link.handle_sent(count, &mut pool);
        link.forget_answered(&mut pool);
        assert_eq!((link.kept_request(0), link.kept_request(1)), (ping.clone(), ping.clone()));
    }
    link.pop();
    link.forget_answered(&mut pool);
    assert_eq!((link.kept_request(0), link.kept_request(1)), (ping, None));
    link.pop();
    link.forget_answered(&mut pool);
    assert_eq!(link.outgoing.outbox.capacity(), 0);
}

#[test]
fn requests_beyond_the_kept_bytes_are_not_sent_again() {
    let mut pool = pool();
    let mut link = ready();
    queue(&mut link, &mut pool, at(0));
    link.handle_sent(PING.len(), &mut pool);
    queue(&mut link, &mut pool, at(0));
    link.append(&[b'x'; KEPT_BYTES_MAX], &mut pool);
    for len in [PING.len(), KEPT_BYTES_MAX] {
        assert_eq!(link.output().len(), len);
        link.handle_sent(len, &mut pool);
    }
    queue(&mut link, &mut pool, at(0));
    link.handle_sent(PING.len(), &mut pool);
    let kept = [0, 1, 2].map(|number| link.kept_request(number).is_some());
    assert_eq!(kept, [false, false, true]);
}

#[test]
fn a_large_reply_on_its_way_has_ten_timeouts_and_its_own_time() {
    let (mut pool, limits) = (pool(), Limits::default());
    let mut link = ready();
    // The first timeout ends at 1 s.
    queue(&mut link, &mut pool, at(0));
    link.handle_sent(PING.len(), &mut pool);
    link.keep_input(&vec![b'x'; 16 << 20], &mut pool);
    link.handle_progress(at(9900));
    assert_eq!(link.due(at(9999), &limits), Due::Nothing);
    link.handle_progress(at(10_999));
    assert_eq!(link.due(at(10_999), &limits), Due::Nothing);
    assert_eq!(link.due(at(11_000), &limits), Due::Expire);
}

#[test]
fn a_reply_on_its_way_is_late_once_its_node_is_silent() {
    let (mut pool, limits) = (pool(), Limits::default());
    let mut link = ready();
    queue(&mut link, &mut pool, at(0));
    link.handle_sent(PING.len(), &mut pool);
    link.keep_input(b"$", &mut pool);
    link.handle_progress(at(990));
    link.suspect(at(1500));
    assert_eq!(link.due(at(1989), &limits), Due::Nothing);
    assert_eq!(link.due(at(1990), &limits), Due::Expire);
}

#[test]
fn a_silent_connection_is_given_up_after_a_second_timeout() {
    let (mut pool, limits) = (pool(), Limits::default());
    let mut link = ready();
    queue(&mut link, &mut pool, at(0));
    link.handle_sent(PING.len(), &mut pool);
    link.expire();
    assert_eq!(link.due(at(1999), &limits), Due::Nothing);
    assert_eq!(link.due(at(2000), &limits), Due::Fail("no reply in time"));
    link.handle_progress(at(1900));
    assert_eq!(link.due(at(2000), &limits), Due::Nothing);
}

#[test]
fn a_silent_node_makes_no_client_wait_for_its_next_link() {
    let (mut pool, limits, mut prng) = (pool(), Limits::default(), Prng::new(7));
    let mut link = ready();
    queue(&mut link, &mut pool, at(2000));
    link.handle_sent(PING.len(), &mut pool);
    link.expire();
    link.fail("no reply in time".into(), at(4000), &limits, &mut prng, &mut pool);
    assert_eq!(link.admit(&limits), Err("no reply in time"));
    // Half open: its PING is sent once, and only the reply closes the breaker.
    link.state = State::Connecting { conn: CONN, deadline: at(5000) };
    link.handle_connected(());
    link.handle_sent(PING.len(), &mut pool);
    assert_eq!(link.admit(&limits), Err("no reply in time"));
    assert_eq!(link.handle_probe_reply(PONG, at(4500)), Ok(true));
    assert_eq!(link.admit(&limits), Ok(()));
}

#[test]
fn an_unwritten_request_does_not_become_a_tombstone() {
    let mut pool = pool();
    let mut link = ready();
    queue(&mut link, &mut pool, at(0));
    assert!(link.expire().is_none());
}

#[test]
fn failed_node_refuses_at_once_but_a_lost_healthy_one_not() {
    let (mut pool, limits, mut prng) = (pool(), Limits::default(), Prng::new(7));
    let mut link = ready();
    queue(&mut link, &mut pool, at(2000));
    link.handle_sent(3, &mut pool);
    let (tickets, written) = link.fail("reset".into(), at(5000), &limits, &mut prng, &mut pool);
    assert_eq!((tickets.len(), written), (1, 3));
    assert_eq!(link.state, State::Waiting { until: at(5000) });
    assert_eq!(link.admit(&limits), Ok(()));
    link.fail("connection refused".into(), at(5001), &limits, &mut prng, &mut pool);
    assert_eq!(link.admit(&limits), Err("connection refused"));
    for _ in 0..40 {
        link.fail("connection refused".into(), at(6000), &limits, &mut prng, &mut pool);
        let State::Waiting { until } = link.state else { panic!("a failed link waits") };
        assert!(until <= at(7000), "the pause is bounded");
    }
}
