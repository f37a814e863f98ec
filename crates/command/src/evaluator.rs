//! The border between the proxy, which gathers values of several nodes, and a keyspace that runs commands over them. The
//! proxy knows this trait and no store.

use resp::Request;

/// An empty keyspace for one command. Values are copied into it, the command runs, and its results are taken out again. Nothing
/// in it outlives the command.
pub trait Evaluator {
    /// Stores the value of the DUMP `payload` under `key`, until `expires_at_ms` if it expires. A value that expired before now
    /// is left out. Returns false if the payload has an unknown form or version.
    fn load(&mut self, key: &[u8], payload: &[u8], expires_at_ms: Option<u64>) -> bool;

    /// Stores a text under `key`, until `expires_at_ms` if it expires.
    fn put_text(&mut self, key: &[u8], text: &[u8], expires_at_ms: Option<u64>);

    /// Runs `request` and appends its reply, in RESP3 or RESP2.
    fn run(&mut self, request: &Request<'_>, resp3: bool, out: &mut Vec<u8>);

    /// Whether `key` exists.
    fn has(&self, key: &[u8]) -> bool;

    /// The text that `key` has.
    fn text(&self, key: &[u8]) -> Option<&[u8]>;

    /// The value of `key` as DUMP writes it in Redis 7.0.
    fn dump(&self, key: &[u8]) -> Option<Vec<u8>>;

    /// When `key` expires, if it does.
    fn expires_at_ms(&self, key: &[u8]) -> Option<u64>;
}

/// Makes an evaluator from a seed, for all that is random, and the unix time in milliseconds at which the command runs.
pub type NewEvaluator = fn(seed: u64, now_ms: u64) -> Box<dyn Evaluator>;
