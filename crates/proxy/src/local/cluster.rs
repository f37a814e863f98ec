//! CLUSTER: the proxy as a cluster of one node, which owns all slots, so that libraries for Redis Cluster work through
//! it. The node's address is the local address of the client's connection, at which the client can certainly reach it.

use crate::context::Context;
use crate::errors;
use crate::features::Session;
use command::ClusterQuestion;
use resp::{Request, encode};
use topology::{SLOTS, TagRule, slot_of};

/// The only possible state.
const STATE: &str = "cluster_state:ok\r\n\
    cluster_slots_assigned:16384\r\n\
    cluster_slots_ok:16384\r\n\
    cluster_slots_pfail:0\r\n\
    cluster_slots_fail:0\r\n\
    cluster_known_nodes:1\r\n\
    cluster_size:1\r\n\
    cluster_current_epoch:0\r\n\
    cluster_my_epoch:0\r\n\
    cluster_stats_messages_sent:0\r\n\
    cluster_stats_messages_received:0\r\n\
    total_cluster_links_buffer_limit_exceeded:0\r\n";

const LAST_SLOT: u16 = SLOTS - 1;

/// Answers `question`.
pub(crate) fn cluster(
    cx: &Context,
    session: &Session,
    question: ClusterQuestion,
    request: &Request<'_>,
    reply: &mut Vec<u8>,
) {
    match question {
        ClusterQuestion::State => encode::verbatim(reply, STATE.as_bytes(), session.resp3),
        ClusterQuestion::Slots => cluster_slots(cx, session, reply),
        ClusterQuestion::Shards => cluster_shards(cx, session, reply),
        ClusterQuestion::Nodes => {
            let (ip, port) = address_seen_by(cx, session);
            let id = &cx.run_id;
            // There is no cluster bus, so its port is 0.
            let line = format!("{id} {ip}:{port}@0 myself,master - 0 0 0 connected 0-{LAST_SLOT}\n");
            encode::verbatim(reply, line.as_bytes(), session.resp3);
        }
        ClusterQuestion::Links => encode::array_header(reply, 0),
        ClusterQuestion::KeySlot => {
            encode::integer(reply, i64::from(slot_of(TagRule::Redis.tag(request.arg(2)))));
        }
        ClusterQuestion::MyId | ClusterQuestion::MyShardId => encode::bulk(reply, cx.run_id.as_bytes()),
        ClusterQuestion::Replicas if request.arg(2) == cx.run_id.as_bytes() => {
            encode::array_header(reply, 0);
        }
        ClusterQuestion::Replicas => errors::write_unknown_node(reply, request.arg(2)),
    }
}

/// Address and port at which the client reached shardis. Without an address, clients keep the one that they know.
fn address_seen_by<'a>(cx: &Context, session: &'a Session) -> (&'a str, u16) {
    // A client of a unix socket cannot return to it by TCP.
    let local = session.origin.local.rsplit_once(':').filter(|_| !session.origin.local.starts_with('/'));
    let Some((ip, port)) = local else { return ("", cx.settings.port) };
    let ip = ip.trim_start_matches('[').trim_end_matches(']');
    (ip, port.parse().unwrap_or(cx.settings.port))
}

fn cluster_slots(cx: &Context, session: &Session, reply: &mut Vec<u8>) {
    let (ip, port) = address_seen_by(cx, session);
    encode::array_header(reply, 1);
    encode::array_header(reply, 3);
    encode::integer(reply, 0);
    encode::integer(reply, i64::from(LAST_SLOT));
    encode::array_header(reply, 4);
    encode::bulk(reply, ip.as_bytes());
    encode::integer(reply, i64::from(port));
    encode::bulk(reply, cx.run_id.as_bytes());
    encode::map_header(reply, 0, session.resp3);
}

fn cluster_shards(cx: &Context, session: &Session, reply: &mut Vec<u8>) {
    let (ip, port) = address_seen_by(cx, session);
    encode::array_header(reply, 1);
    encode::map_header(reply, 2, session.resp3);
    encode::bulk(reply, b"slots");
    encode::array_header(reply, 2);
    encode::integer(reply, 0);
    encode::integer(reply, i64::from(LAST_SLOT));
    encode::bulk(reply, b"nodes");
    encode::array_header(reply, 1);
    encode::map_header(reply, 7, session.resp3);
    let words = |reply: &mut Vec<u8>, words: &[&str]| {
        words.iter().for_each(|word| encode::bulk(reply, word.as_bytes()))
    };
    words(reply, &["id", &cx.run_id, "port"]);
    encode::integer(reply, i64::from(port));
    words(reply, &["ip", ip, "endpoint", ip, "role", "master", "replication-offset"]);
    encode::integer(reply, 0);
    words(reply, &["health", "online"]);
}
