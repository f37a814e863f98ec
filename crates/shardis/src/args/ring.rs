//! Arguments of `shardis ring`: those of `shardis proxy`, and its own.

use super::ProxyArgs;
use crate::config;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of `shardis ring` that `shardis proxy` has not.
#[derive(Args, Clone, Debug)]
pub(crate) struct RingOptions {
    /// Keys, separated by commas
    #[arg(long, value_name = "KEY,KEY,…", value_delimiter = ',')]
    pub(crate) keys: Vec<String>,

    /// File with a key in each line; - for the standard input
    #[arg(long, value_name = "FILE", conflicts_with = "keys")]
    pub(crate) keys_file: Option<PathBuf>,

    /// Scan of the nodes' database 0 (SCAN, MEMORY USAGE)
    #[arg(long, conflicts_with_all = ["keys", "keys_file"])]
    pub(crate) scan: bool,

    /// Number of keys that a scan looks at on each node, for all of its keys; 0 means all
    #[arg(long, value_name = "KEYS", default_value_t = 10_000, requires = "scan")]
    pub(crate) sample: u64,

    /// Flags of the layout after a change, in one text; those that are left out stay as they are
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, conflicts_with = "to_config")]
    pub(crate) to: Option<String>,

    /// Configuration file of the layout after a change
    #[arg(long, value_name = "FILE")]
    pub(crate) to_config: Option<PathBuf>,

    /// Line for each key in place of the report: key, node, and node after the change, with tabs between them
    #[arg(long, conflicts_with_all = ["scan", "json"])]
    pub(crate) list: bool,

    /// Report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The same as a command line of its own.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct RingCli {
    #[command(flatten)]
    options: RingOptions,
}

/// The words of `shardis ring`, divided.
pub(super) struct Words {
    pub(super) own: Vec<OsString>,
    pub(super) of_proxy: Vec<OsString>,
}

impl Words {
    /// Divides `words`: the options of `shardis ring` with their values, and all others.
    pub(super) fn divide(words: &[OsString]) -> Words {
        let command = RingCli::command();
        let (mut own, mut of_proxy) = (Vec::new(), Vec::new());
        let mut words = words.iter().cloned();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy().into_owned();
            let (name, value) =
                text.split_once('=').map_or((text.as_str(), None), |(name, value)| (name, Some(value)));
            let flag = name.strip_prefix("--");
            let arg = flag.and_then(|flag| command.get_arguments().find(|arg| arg.get_long() == Some(flag)));
            let Some(arg) = arg else {
                of_proxy.push(word);
                continue;
            };
            own.push(word);
            if value.is_none() && matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
                own.extend(words.next());
            }
        }
        Words { own, of_proxy }
    }
}

impl RingOptions {
    /// Reads the options of `shardis ring` alone.
    pub(super) fn parse(words: &[OsString]) -> Result<RingOptions, clap::Error> {
        RingCli::try_parse_from(words).map(|cli| cli.options)
    }
}

/// `words` of `shardis proxy` with `flags` in place of those of the same name.
pub(super) fn changed(words: &[OsString], flags: &str) -> Result<Vec<OsString>, String> {
    let invalid = || "--to: a quote has no end".to_owned();
    let flags: Vec<OsString> = shlex::split(flags).ok_or_else(invalid)?.into_iter().map(Into::into).collect();
    let ids = config::said(&flags);
    let command = ProxyArgs::command().no_binary_name(true).ignore_errors(true);
    let matches =
        command.clone().try_get_matches_from(words).map_err(|error| super::plainly(&error.to_string()))?;
    let mut changed = Vec::new();
    for arg in command.get_arguments() {
        let (id, Some(name)) = (arg.get_id().as_str(), arg.get_long()) else { continue };
        let is_said = matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
        if !is_said || ids.iter().any(|other| other == id) {
            continue;
        }
        match arg.get_action() {
            ArgAction::SetTrue => changed.push(format!("--{name}").into()),
            _ => changed.extend(matches.get_raw(id).into_iter().flatten().map(|value| {
                let mut word = OsString::from(format!("--{name}="));
                word.push(value);
                word
            })),
        }
    }
    changed.extend(flags);
    Ok(changed)
}

/// The arguments of `shardis proxy` by `words` alone.
pub(super) fn proxy_args(words: &[OsString]) -> Result<Box<ProxyArgs>, String> {
    let matches = ProxyArgs::command().no_binary_name(true).try_get_matches_from(words);
    let args = matches.and_then(|matches| ProxyArgs::from_arg_matches(&matches));
    let args = args.map_err(|error| super::plainly(&error.to_string()))?;
    args.check()?;
    Ok(Box::new(args))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn own_options_are_taken_out_with_their_values() {
        let divided =
            Words::divide(&words("--nodes=a:1 --keys-file - --like twemproxy --to --port=1 --json --port 2"));
        assert_eq!(divided.own, words("--keys-file - --to --port=1 --json"));
        assert_eq!(divided.of_proxy, words("--nodes=a:1 --like twemproxy --port 2"));
        let options = RingOptions::parse(&divided.own).expect("valid");
        assert_eq!((options.to.as_deref(), options.json), (Some("--port=1"), true));
    }

    #[test]
    fn flags_of_a_change_replace_those_of_the_same_name() {
        let base =
            words("--nodes=a:1,b:1 --like twemproxy --allow-admin --tls-cert-file=x --tls-cert-file=y");
        let to = "--nodes='a:1 first,b:1 second' --hash md5";
        let mut changed = changed(&base, to).expect("valid");
        let given = changed.split_off(changed.len() - 3);
        assert_eq!(given, ["--nodes=a:1 first,b:1 second", "--hash", "md5"]);
        changed.sort();
        assert_eq!(changed, words("--allow-admin --like=twemproxy --tls-cert-file=x --tls-cert-file=y"));
        assert!(super::changed(&base, "--nodes='a").is_err());
    }
}
