//! The loops against canned nodes of the same process, over real sockets, for some tens of milliseconds: the counts must add
//! up. Nothing here depends on speed.

#![expect(clippy::disallowed_methods, reason = "the nodes serve from a thread of their own")]

use clap::Parser;
use driver::Driver;
use loadgen::echo::Echo;
use loadgen::nodes::Nodes;
use loadgen::service::{Answer, Service};
use loadgen::{open, saturate};
use serde_json::Value;

#[derive(Parser)]
struct Saturate {
    #[command(flatten)]
    options: saturate::Options,
}

#[derive(Parser)]
struct Open {
    #[command(flatten)]
    options: open::Options,
}

/// Serves until the process ends. Returns the address.
fn serve<A: Answer + Send + 'static>(answer: A) -> String
where
    A::Conn: Send,
{
    let driver = Driver::new().expect("a poll");
    let service = Service::listen(&[0], answer, &driver, 0).expect("a free port");
    let target = format!("127.0.0.1:{}", service.ports()[0]);
    std::thread::spawn(move || service.serve(driver, false));
    target
}

fn saturate(target: &str, options: &str) -> anyhow::Result<Value> {
    let words = format!("saturate --target {target} --seconds 0.05 --warmup 0.01 {options}");
    saturate::run(&Saturate::parse_from(words.split_whitespace()).options)
}

fn open(target: &str, options: &str) -> anyhow::Result<Value> {
    let words = format!("open --target {target} --seconds 0.05 --warmup 0.01 {options}");
    open::run(&Open::parse_from(words.split_whitespace()).options)
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a count")
}

#[test]
fn a_closed_loop_counts_replies() {
    let target = serve(Nodes::new(3));
    for test in ["get", "set", "mget", "mset", "ping"] {
        let report = saturate(&target, &format!("--test {test} --clients 3 --pipeline 7")).expect("runs");
        let (requests, batches) = (number(&report["requests"]), number(&report["latency_us"]["count"]));
        assert!(requests > 0, "{report}");
        // At both ends of the measured part, each client may be within a batch.
        assert!((batches * 7).abs_diff(requests) <= 2 * 3 * 7, "{report}");
    }
}

#[test]
fn an_open_loop_records_every_request_that_it_sent() {
    let target = serve(Nodes::new(3));
    for options in
        ["--rate 20000 --pipeline 1", "--rate 20000 --pipeline 4", "--rate 20000 --noise-clients 2"]
    {
        let report = open(&target, &format!("{options} --clients 3")).expect("runs");
        let (requests, sent) = (number(&report["requests"]), number(&report["late_us"]["count"]));
        let pipeline = number(&report["pipeline"]);
        assert!(requests > 0, "{report}");
        assert_eq!(requests, sent * pipeline, "{report}");
        assert_eq!(requests, number(&report["latency_us"]["count"]), "{report}");
    }
}

#[test]
fn a_wrong_reply_ends_the_run() {
    let target = serve(Echo::new(b"-ERR no\r\n"));
    for error in [
        saturate(&target, "--test set").expect_err("wrong"),
        open(&target, "--test set --rate 1000").expect_err("wrong"),
    ] {
        assert_eq!(error.to_string(), r#"a wrong reply: expected "+OK\r\n+OK\r", got "-ERR no\r\n""#);
    }
}

#[test]
fn nodes_in_the_loop_listen_before_the_target_is_tried() {
    let target = serve(Nodes::new(3));
    let report = saturate(&target, "--nodes 2 --test get").expect("runs");
    assert!(number(&report["requests"]) > 0, "{report}");
}
