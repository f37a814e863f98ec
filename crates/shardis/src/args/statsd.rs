//! Options of reports to statsd.

use ::admin::{PREFIX_BYTES_MAX, Statsd, name_part};
use clap::Args;
use std::time::Duration;

/// Where reports go.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatsdArgs {
    /// statsd server that gets counts and levels over UDP, with corvus's names (docs/metrics.md) [default: none]
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_target)]
    statsd: Option<String>,

    /// Seconds from one report to statsd to the next
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    metric_interval: u64,

    /// Beginning of the names at statsd; the machine's name and the port follow. corvus.NAME gives those of corvus
    #[arg(long, value_name = "PREFIX", default_value = "shardis.default", value_parser = parse_prefix)]
    statsd_prefix: String,
}

impl StatsdArgs {
    /// The reports of a process on the machine `host` whose first listener is at `place`, a port or a path.
    pub(crate) fn statsd(&self, host: &str, place: &str) -> Option<Statsd> {
        let target = self.statsd.clone()?;
        let prefix = format!("{}.{}-{}", self.statsd_prefix, name_part(host), name_part(place));
        Some(Statsd { target, prefix, every: Duration::from_secs(self.metric_interval) })
    }
}

fn parse_target(text: &str) -> Result<String, String> {
    let port =
        text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(1..)) => Ok(text.to_owned()),
        _ => Err("write HOST:PORT".to_owned()),
    }
}

fn parse_prefix(text: &str) -> Result<String, String> {
    let is_plain = |part: &str| !part.is_empty() && name_part(part) == part;
    match text.len() <= PREFIX_BYTES_MAX && text.split('.').all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "write words of letters, digits, - and _ with dots between, at most {PREFIX_BYTES_MAX} bytes"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_targets_are_checked() {
        for valid in ["shardis.default", "corvus.cache-1", "a"] {
            assert_eq!(parse_prefix(valid).as_deref(), Ok(valid));
        }
        for wrong in ["", "a..b", "a.", "a:b", "a b", "a|c", &"a".repeat(256)] {
            assert!(parse_prefix(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_target("stats.example:8125").as_deref(), Ok("stats.example:8125"));
        assert_eq!(parse_target("[::1]:8125").as_deref(), Ok("[::1]:8125"));
        for wrong in ["", "8125", ":8125", "host", "host:0", "host:x", "host:70000"] {
            assert!(parse_target(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_begin_with_the_machine_and_the_port() {
        let args = StatsdArgs {
            statsd: Some("a:1".to_owned()),
            metric_interval: 10,
            statsd_prefix: "corvus.cache".to_owned(),
        };
        let statsd = args.statsd("web.example", "6380").expect("it is wanted");
        assert_eq!(statsd.prefix, "corvus.cache.web-example-6380");
        assert!(StatsdArgs { statsd: None, ..args }.statsd("a", "1").is_none());
    }
}
