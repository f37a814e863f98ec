//! The effective settings as text, with their sources, for an operator.

use super::ProxyArgs;
use crate::access::Secret;
use ::admin::Setting;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory};
use std::any::TypeId;
use std::ffi::OsString;

/// The text in place of a secret.
const MASK: &str = "(secret)";

/// The settings of `shardis proxy` by `words` of a command line, which are valid. `in_file` are the ids of those that
/// stand in its configuration file.
pub(crate) fn settings(words: &[OsString], in_file: &[String]) -> Vec<Setting> {
    let command = ProxyArgs::command().no_binary_name(true);
    let Ok(matches) = command.clone().try_get_matches_from(words) else { return Vec::new() };
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| setting(arg, &matches, in_file)).collect()
}

fn setting(arg: &Arg, matches: &ArgMatches, in_file: &[String]) -> Option<Setting> {
    let (name, id) = (arg.get_long()?.to_owned(), arg.get_id().as_str());
    let values = matches.get_raw(id).into_iter().flatten();
    let values: Vec<_> = values.map(|value| value.to_string_lossy().into_owned()).collect();
    let is_secret = arg.get_value_parser().type_id() == TypeId::of::<Secret>();
    let value = match values.first() {
        Some(value) if is_secret => masked(value),
        _ => values.join(","),
    };
    let source = match matches.value_source(id) {
        Some(ValueSource::CommandLine) if in_file.iter().any(|known| known == id) => "file",
        Some(ValueSource::CommandLine) => "command line",
        _ => "default",
    };
    Some(Setting { name, value, source })
}

/// The text in place of the secret `value`, with the file that has it.
fn masked(value: &str) -> String {
    Secret::file_in(value).map_or_else(|| MASK.to_owned(), |path| format!("{MASK} of the file {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_sources_and_no_secrets() {
        let words: Vec<OsString> =
            ["--port=1", "--requirepass=hush", "--workers=3"].iter().map(Into::into).collect();
        let settings = settings(&words, &["workers".to_owned()]);
        let found = |name: &str| {
            let setting = settings.iter().find(|setting| setting.name == name).expect("all are shown");
            format!("{} {}", setting.value, setting.source)
        };
        assert_eq!(found("port"), "1 command line");
        assert_eq!(found("workers"), "3 file");
        assert_eq!(found("maxclients"), "10000 default");
        assert_eq!(found("requirepass"), "(secret) command line");
        assert!(!settings.iter().any(|setting| setting.value.contains("hush")));
        assert_eq!(masked("file:/run/secrets/a"), "(secret) of the file /run/secrets/a");
    }
}
