//! The programs that give the load: their arguments and their output. Also the keys that must exist before.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use programs::process;

use super::cells::{KEYS, Real, Test};
use super::machine::{self, Place};
use super::record::{Figures, Metric};

/// Keys that are written before the replies are read. Small values of both fit into the sockets' buffers. With large ones the
/// nodes answer during the writing.
const FILL_BATCH: u32 = 256;

/// The result of one run of `redis-benchmark`.
#[derive(Debug, PartialEq)]
pub(super) struct Closed {
    pub(super) requests_per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) max_us: f64,
}

impl Closed {
    pub(super) fn figures(&self) -> Figures {
        Figures::from([
            (Metric::RequestsPerSecond, self.requests_per_second),
            (Metric::P50Us, self.p50_us),
            (Metric::P99Us, self.p99_us),
            (Metric::MaxUs, self.max_us),
        ])
    }
}

/// The arguments of redis-benchmark for `requests` of `real`.
pub(super) fn benchmark_words(real: Real, port: u16, requests: u64) -> Vec<String> {
    let Real { test, depth, clients, value_bytes } = real;
    let keyspace = real.keyspace();
    let words = format!(
        "-h 127.0.0.1 -p {port} -c {clients} -P {depth} -d {value_bytes} -r {keyspace} -n {requests} --csv"
    );
    let mut words: Vec<String> = words.split(' ').map(String::from).collect();
    if test == Test::Mget {
        // redis-benchmark has no test of that name.
        words.push("mget".into());
        words.extend((0..KEYS).map(|_| "key:__rand_int__".into()));
    } else {
        words.extend(["-t".into(), test.name().into()]);
    }
    words
}

/// Runs redis-benchmark on the core of the load.
pub(super) fn benchmark(real: Real, port: u16, requests: u64) -> Result<Closed> {
    let mut command = machine::placed(Place::Load, Path::new("redis-benchmark"));
    parse_benchmark(&output(command.args(benchmark_words(real, port, requests)))?)
}

/// The output of `command`; its stderr is part of the error, and not shown otherwise.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let program = shown(command);
    let output = command.output().with_context(|| format!("cannot run `{program}`"))?;
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    match complaints.lines().last() {
        _ if output.status.success() => {}
        // The text begins with the program's name, and says more than its arguments would.
        Some(last) => bail!("{last}"),
        None => bail!("`{program}` ended with {}", output.status),
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{program}` printed what is not UTF-8"))
}

/// `command` as one would type it, without the folders of this machine: it may end up in the docs.
fn shown(command: &Command) -> String {
    let line = process::line(command);
    let name = |word: &str| {
        word.rsplit_once('/')
            .filter(|_| word.starts_with('/'))
            .map_or(word.to_string(), |(_, name)| name.into())
    };
    line.split(' ').map(name).collect::<Vec<_>>().join(" ")
}

/// The last line of `--csv`: the name, which may hold commas, then rps, avg, min, p50, p95, p99, max in milliseconds.
fn parse_benchmark(text: &str) -> Result<Closed> {
    let parsed = text.lines().rev().find_map(|line| {
        let mut fields = line.rsplit(',').map(|field| field.trim_matches('"').parse::<f64>());
        let (max, p99, _p95, p50) =
            (fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?);
        let (_min, _avg, requests_per_second) =
            (fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?);
        Some(Closed { requests_per_second, p50_us: p50 * 1e3, p99_us: p99 * 1e3, max_us: max * 1e3 })
    });
    parsed.with_context(|| format!("redis-benchmark said: {text}"))
}

/// Stores every key that `real` can request, through `port`.
pub(super) fn fill(real: Real, port: u16) -> Result<()> {
    let mut conn = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let mut replies = BufReader::new(conn.try_clone()?);
    let value = "x".repeat(real.value_bytes as usize);
    let keyspace = real.keyspace();
    for first in (0..keyspace).step_by(FILL_BATCH as usize) {
        let keys = first..keyspace.min(first + FILL_BATCH);
        let requests: String = keys.clone().map(|key| set_request(key, &value)).collect();
        conn.write_all(requests.as_bytes())?;
        let mut reply = [0; 5];
        for key in keys {
            replies.read_exact(&mut reply)?;
            ensure!(&reply == b"+OK\r\n", "SET of key {key}: {}", String::from_utf8_lossy(&reply));
        }
    }
    Ok(())
}

/// With a key as redis-benchmark names it.
fn set_request(key: u32, value: &str) -> String {
    format!("*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n${}\r\n{value}\r\n", value.len())
}

/// Empties the node at `port`.
pub(super) fn flush(port: u16) -> Result<()> {
    let mut conn = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    conn.write_all(b"FLUSHALL\r\n")?;
    let mut reply = [0; 5];
    conn.read_exact(&mut reply)?;
    ensure!(&reply == b"+OK\r\n", "FLUSHALL: {}", String::from_utf8_lossy(&reply));
    Ok(())
}

/// Number of commands that the node at `port` has carried out since it began.
pub(super) fn commands_processed(port: u16) -> Result<u64> {
    let mut conn = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    conn.write_all(b"INFO stats\r\n")?;
    for line in BufReader::new(conn).lines() {
        if let Some(count) = line?.strip_prefix("total_commands_processed:") {
            return Ok(count.parse()?);
        }
    }
    bail!("the node at port {port} does not say how many commands it has carried out")
}

/// Checks that nodes with this number of commands meanwhile can have carried out all of `requests`. redis-benchmark counts
/// errors as replies, and a contestant that answers with errors is quick.
pub(super) fn check_carried_out(requests: u64, commands: u64) -> Result<()> {
    ensure!(
        commands >= requests - requests / 100,
        "{commands} of {requests} requests came to a node, the others were answered with errors"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL: Real = Real { test: Test::Set, depth: 10, clients: 50, value_bytes: 3 };

    #[test]
    fn the_last_line_of_redis_benchmark_is_read_from_its_end() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                    \"mget a,b\",\"50000.00\",\"0.5\",\"0.1\",\"0.439\",\"0.6\",\"0.9\",\"1.5\"\n";
        let closed = parse_benchmark(text).expect("it is as redis-benchmark writes it");
        let expected =
            Closed { requests_per_second: 50_000.0, p50_us: 439.0, p99_us: 900.0, max_us: 1_500.0 };
        assert_eq!(closed, expected);
        assert!(parse_benchmark("Could not connect\n").is_err());
    }

    #[test]
    fn a_failure_names_programs_and_not_where_they_are() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exit 3"]);
        let error = output(&mut command).expect_err("it exits with 3").to_string();
        assert_eq!(error, "`sh -c exit 3` ended with exit status: 3");
    }

    #[test]
    fn mget_is_a_command_of_ten_keys() {
        let words = |test| benchmark_words(Real { test, ..REAL }, 7001, 1000).join(" ");
        let usual = "-h 127.0.0.1 -p 7001 -c 50 -P 10 -d 3 -r 100000 -n 1000 --csv";
        assert_eq!(words(Test::Mset), format!("{usual} -t mset"));
        assert_eq!(words(Test::Mget), format!("{usual} mget{}", " key:__rand_int__".repeat(10)));
    }

    #[test]
    fn requests_that_reached_no_node_are_reported() {
        assert!(check_carried_out(1000, 4000).is_ok(), "parts are commands of their own");
        assert!(check_carried_out(1000, 990).is_ok(), "what is in flight at the end may be missing");
        let error = check_carried_out(1000, 989).expect_err("more than a hundredth").to_string();
        assert_eq!(error, "989 of 1000 requests came to a node, the others were answered with errors");
    }

    #[test]
    fn keys_are_named_as_redis_benchmark_names_them() {
        assert_eq!(set_request(42, "xxx"), "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000042\r\n$3\r\nxxx\r\n");
    }
}
