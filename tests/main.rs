//! Whole processes: the real `shardis` binary in front of real Redis nodes on this machine, looked at from outside.
//!
//! One module per question; `README.md` beside this file describes them. Nothing here reaches into the proxy: a test reads
//! sockets, lines on stderr, exit codes and `/proc`.

// These tests are the outside world: real sockets, real time, real threads. Every wait is a poll with a deadline
// (`harness::poll_until`) and nothing else sleeps.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "whole processes live in real time")]
// The harness helpers are no `#[test]` functions themselves, so `allow-unwrap-in-tests` does not see them.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod admin;
mod administration;
mod bench;
mod clients;
mod cluster;
mod configuration;
mod corpus;
mod differential;
mod distribution;
mod doctor;
mod embedded;
mod every_command;
mod faults;
mod harness;
mod http;
mod imported;
mod inspection;
mod large;
mod learned;
mod left_behind;
mod local;
mod mirror;
mod namespaces;
mod nutcracker;
mod operator;
mod packaging;
mod page;
mod passing;
mod per_shard;
mod policy;
mod pops;
mod process;
mod pubsub;
mod racks;
mod redirects;
mod reload;
mod replicas;
mod ring;
mod routes;
mod scan;
mod scripts;
mod sentinel;
mod sessions;
mod soak;
mod statsd;
mod streams;
mod systemd;
mod tcp;
mod tls;
mod tools;
mod top;
mod transactions;
mod transport;
mod upgrade;
mod users;
mod versions;
