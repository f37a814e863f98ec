//! Many clients come back at once, and so do the nodes. The time until all are served is printed, never judged; the number of
//! links at the nodes is judged.

use crate::harness::processes::Proxy;
use crate::harness::{Client, RedisServer, number_from_env, poll_until, show};
use std::time::Instant;

const PROXIES: usize = 3;
const WORKERS: usize = 2;
const NODES: usize = 2;

/// Some clients of one proxy: all of them send, then all get replies.
pub(crate) struct Crowd {
    port: u16,
    clients: Vec<Client>,
    keys: Vec<String>,
}

impl Crowd {
    pub(crate) fn new(port: u16, size: usize, name: &str) -> Crowd {
        let keys = (0..size).map(|number| format!("{name}:{number}")).collect();
        let mut crowd = Crowd { port, clients: Vec::new(), keys };
        crowd.connect();
        crowd
    }

    fn connect(&mut self) {
        self.clients = self.keys.iter().map(|_| Client::connect(self.port)).collect();
    }

    /// All leave without a word, and come again.
    pub(crate) fn storm(&mut self) {
        self.clients.drain(..).for_each(Client::reset);
        self.connect();
    }

    /// Each client asks once. Returns the number of served clients; the others must get a true error.
    pub(crate) fn ask(&mut self) -> usize {
        for (client, key) in self.clients.iter_mut().zip(&self.keys) {
            client.send(format!("INCR {key}\r\n").as_bytes());
        }
        let replies = self.clients.iter_mut().map(Client::read_reply);
        let is_served = |reply: Vec<u8>| {
            let text = show(&reply);
            assert!(
                text.starts_with(':') || text.starts_with("-TRYAGAIN ") || text.contains("outcome unknown"),
                "{text}"
            );
            text.starts_with(':')
        };
        replies.map(is_served).filter(|&served| served).count()
    }
}

/// The count in a node's `INFO stats`.
fn connections_received(node: &RedisServer) -> usize {
    let stats = node.connect().ask("INFO stats");
    let rest = stats.split("total_connections_received:").nth(1).expect("it is told");
    rest.split('\\').next().and_then(|count| count.parse().ok()).expect("a number")
}

#[test]
fn when_all_come_back_at_once_nodes_see_workers_and_not_clients() {
    // A descriptor here and one in a proxy for each.
    let clients = number_from_env("SHARDIS_STORM_CLIENTS", 1200) as usize;
    let mut nodes: Vec<RedisServer> = (0..NODES).map(|_| RedisServer::start()).collect();
    let workers = format!("--workers={WORKERS}");
    let proxies: Vec<Proxy> = (0..PROXIES).map(|_| Proxy::over(&nodes, &[&workers])).collect();
    let mut crowds: Vec<Crowd> = proxies
        .iter()
        .enumerate()
        .map(|(number, proxy)| Crowd::new(proxy.port, clients / PROXIES, &format!("storm{number}")))
        .collect();
    let ask_all = |crowds: &mut [Crowd]| -> usize {
        std::thread::scope(|scope| {
            let asking: Vec<_> = crowds.iter_mut().map(|crowd| scope.spawn(move || crowd.ask())).collect();
            asking.into_iter().map(|asked| asked.join().expect("no client panics")).sum()
        })
    };
    let all = crowds.iter().map(|crowd| crowd.keys.len()).sum::<usize>();
    poll_until("all to be served", || (ask_all(&mut crowds) == all).then_some(()));
    let quiet = {
        let begun = Instant::now();
        ask_all(&mut crowds);
        begun.elapsed()
    };
    for round in 0..2 {
        let ports: Vec<u16> = nodes.iter().map(|node| node.port).collect();
        nodes.iter_mut().for_each(RedisServer::kill);
        // All clients notice it, leave, and connect again; some of them ask while no node is up.
        assert_eq!(ask_all(&mut crowds), 0);
        crowds.iter_mut().for_each(Crowd::storm);
        assert_eq!(ask_all(&mut crowds), 0);
        nodes = ports.into_iter().map(RedisServer::start_on).collect();
        let begun = Instant::now();
        let mut first = None;
        poll_until("all to be served", || {
            let served = ask_all(&mut crowds);
            if served > 0 {
                first.get_or_insert(begun.elapsed());
            }
            (served == all).then_some(())
        });
        eprintln!(
            "round {round}: {all} clients, the first served {:?} after the nodes were back, all after {:?} (once around takes {quiet:?})",
            first.expect("some were"),
            begun.elapsed()
        );
        for node in &nodes {
            let received = connections_received(node);
            eprintln!("node {} has seen {received} connections", node.port);
            // One link of each worker, one more for large values, and the test's own two connections.
            assert!(received <= PROXIES * WORKERS * 2 + 10, "{received} connections for {PROXIES} proxies");
        }
    }
    for (crowd, proxy) in crowds.iter().zip(&proxies) {
        let mut witness = Client::connect(proxy.port);
        let expected = format!("connected_clients:{}\\", crowd.clients.len() + 1);
        poll_until(&expected, || witness.ask("INFO clients").contains(&expected).then_some(()));
    }
}

/// A client that waits for an element has a link of its own, as with Redis itself. When all connect again at once, clients that
/// only read and write do not wait for these.
#[test]
fn a_storm_of_waiting_clients_stops_no_other() {
    let mut node = RedisServer::start();
    // One worker: when it serves one client again it serves all.
    let proxy = Proxy::over(std::slice::from_ref(&node), &["--workers=1"]);
    let mut client = Client::connect(proxy.port);
    let mut waiting: Vec<Client> = (0..200).map(|_| Client::connect(proxy.port)).collect();
    for round in 0..2 {
        for client in &mut waiting {
            client.send(b"BLPOP queue 0\r\n");
        }
        let mut direct = node.connect();
        poll_until("all to wait", || {
            direct.ask("INFO clients").contains("blocked_clients:200").then_some(())
        });
        let begun = Instant::now();
        for number in 0..200 {
            assert_eq!(client.ask(&format!("SET other {number}")), "+OK\\r\\n");
        }
        eprintln!("round {round}: 200 writes beside 200 who wait took {:?}", begun.elapsed());
        let port = node.port;
        node.kill();
        for client in &mut waiting {
            let reply = show(&client.read_reply());
            assert!(reply.contains("outcome unknown"), "{reply}");
        }
        node = RedisServer::start_on(port);
        poll_until("the node", || (client.ask("SET other x") == "+OK\\r\\n").then_some(()));
    }
}
