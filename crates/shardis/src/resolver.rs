//! Names of nodes into addresses, on a thread of its own: a slow resolver must not stop a worker.

use crate::dial::in_turn;
use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A question of a worker, or of the discovery.
pub(crate) struct Question {
    /// The name.
    pub host: String,
    /// Passed through into the address.
    pub port: u16,
    /// Callback for the addresses in the order in which to try them, one at least, or for the reason why there are none.
    pub answer: Box<dyn FnOnce(Result<Vec<SocketAddr>, String>) + Send>,
    /// Time of the question.
    pub asked_at: Instant,
}

/// Age at which a question has no waiting asker: the core has given the connection up and asks again.
const STALE_AFTER: Duration = Duration::from_secs(5);

/// Starts the resolver. It ends when all senders are gone.
pub(crate) fn start() -> std::io::Result<mpsc::Sender<Question>> {
    let (questions, inbox) = mpsc::channel::<Question>();
    std::thread::Builder::new().name("resolver".to_owned()).spawn(move || {
        let mut last_good: HashMap<String, Vec<SocketAddr>> = HashMap::new();
        for question in inbox {
            if question.asked_at.elapsed() < STALE_AFTER {
                let addrs = resolve(&question, &mut last_good);
                (question.answer)(addrs);
            }
        }
    })?;
    Ok(questions)
}

/// Resolves anew each time, since names move; falls back to the last valid answer.
fn resolve(
    question: &Question,
    last_good: &mut HashMap<String, Vec<SocketAddr>>,
) -> Result<Vec<SocketAddr>, String> {
    let error = match look_up(&question.host, question.port) {
        Ok(addrs) => {
            last_good.insert(question.host.clone(), addrs.clone());
            return Ok(addrs);
        }
        Err(error) => error,
    };
    let known = last_good.get(&question.host).ok_or(error)?;
    Ok(known.iter().map(|addr| SocketAddr::new(addr.ip(), question.port)).collect())
}

/// All addresses of `host`, in the order in which to try them: one at least.
pub(crate) fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let addrs = (host, port).to_socket_addrs().map_err(|error| format!("name not resolved: {error}"))?;
    let addrs = in_turn(addrs);
    if addrs.is_empty() { Err("the name has no address".to_owned()) } else { Ok(addrs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(host: &str) -> Question {
        Question { host: host.to_owned(), port: 6379, answer: Box::new(|_| ()), asked_at: Instant::now() }
    }

    #[test]
    fn a_name_that_does_not_resolve_any_more_keeps_its_last_address() {
        // No server is asked for names like this.
        let name = "no such host";
        let mut last_good = HashMap::new();
        let error = resolve(&question(name), &mut last_good).expect_err("it never was one");
        assert!(error.starts_with("name not resolved: "), "{error}");
        last_good.insert(name.to_owned(), vec![SocketAddr::from(([10, 0, 0, 7], 1))]);
        let addr = resolve(&question(name), &mut last_good);
        assert_eq!(addr, Ok(vec![SocketAddr::from(([10, 0, 0, 7], 6379))]), "at the port that is wanted now");
        let addr = resolve(&question("127.0.0.1"), &mut last_good);
        assert_eq!(addr, Ok(vec![SocketAddr::from(([127, 0, 0, 1], 6379))]));
        assert!(last_good.contains_key("127.0.0.1"));
    }
}
