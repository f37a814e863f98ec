//! The kind of a file, by its content alone.

use crate::options::{Options, fate, fate_of_any_case};
use crate::{Kind, codis, corvus, haproxy, predixy};

/// Keys that a `dynomite.yml` has and a `nutcracker.yml` has not.
const OF_DYNOMITE: [&str; 8] = [
    "dyn_listen",
    "dyn_seeds",
    "dyn_seed_provider",
    "dyn_port",
    "data_store",
    "tokens",
    "datacenter",
    "rack",
];

/// The program whose file `text` is. `None` is a shardis.toml, or nothing that is known.
pub fn kind(text: &str) -> Option<Kind> {
    let text = text.trim_start_matches('\u{feff}');
    let lines = text.lines().map(str::trim_end).filter(|line| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with('#')
    });
    let lines: Vec<&str> = lines.collect();
    let first = lines.first()?.trim_start();
    if first.starts_with('[') || is_pair(first) {
        return is_codis(&lines).then_some(Kind::Codis);
    }
    if is_yaml(&lines) {
        let is_key = |line: &&str| {
            let key = line.trim_start().split(':').next().unwrap_or_default();
            OF_DYNOMITE.contains(&key.trim_end())
        };
        return Some(if lines.iter().any(is_key) { Kind::Dynomite } else { Kind::Twemproxy });
    }
    if haproxy::SECTIONS.contains(&word(first)) && !first.ends_with('{') && !first.ends_with(';') {
        return Some(Kind::Haproxy);
    }
    if is_nginx(text) {
        return Some(Kind::Nginx);
    }
    is_predixy(&lines).then_some(Kind::Predixy).or_else(|| is_corvus(&lines).then_some(Kind::Corvus))
}

/// The first word of a line.
fn word(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default()
}

/// Whether a line is `key = value`, as in TOML.
fn is_pair(line: &str) -> bool {
    let Some((key, _)) = line.split_once('=') else { return false };
    let key = key.trim().trim_matches(['"', '\'']);
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Whether keys of codis stand there and none of shardis, which have no underscores.
fn is_codis(lines: &[&str]) -> bool {
    let key = |line: &&str| line.split_once('=').map(|(key, _)| key.trim().to_owned());
    let keys: Vec<String> = lines.iter().filter_map(key).collect();
    let is_known = |key: &&String| key.contains('_') && fate(codis::OPTIONS, key).is_some();
    let known = keys.iter().filter(is_known).count();
    keys.iter().any(|key| ["product_name", "proxy_addr"].contains(&key.as_str()))
        && known > 1
        && known * 2 > keys.len()
}

/// Whether a name without indent ends in a colon, and an indented line follows, or all is within braces.
fn is_yaml(lines: &[&str]) -> bool {
    let mut lines = lines.iter().skip_while(|line| line.starts_with("---") || line.starts_with('%'));
    let Some(first) = lines.next() else { return false };
    if first.starts_with('{') {
        return first.contains(':') || lines.next().is_some_and(|line| line.contains(':'));
    }
    let name = first.split(" #").next().unwrap_or_default().trim_end();
    let is_name = name.strip_suffix(':').is_some_and(|name| !name.contains([' ', '{', '=', ';']));
    is_name && lines.next().is_none_or(|line| line.starts_with([' ', '\t']))
}

/// Whether a block of nginx's `stream` begins somewhere outside of quotes and comments.
fn is_nginx(text: &str) -> bool {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let text: Vec<&str> = lines.flat_map(|line| line.split_inclusive(['{', ';', '}'])).collect();
    let words: Vec<&str> = text.iter().flat_map(|part| part.split_whitespace()).collect();
    words.windows(2).any(|pair| matches!(pair, ["stream", "{"]) || matches!(pair, ["stream{", _]))
        || (words.windows(3).any(|three| matches!(three, ["upstream", _, "{"]))
            && words.windows(2).any(|pair| matches!(pair, ["listen", _])))
        || (words.windows(2).any(|pair| matches!(pair, ["server", "{"]))
            && words.windows(2).any(|pair| matches!(pair, ["proxy_pass", _])))
}

fn is_predixy(lines: &[&str]) -> bool {
    let is_known = |line: &&&str| fate_of_any_case(predixy::GENERAL, word(line)).is_some();
    let is_pool =
        |line: &&str| word(line).to_ascii_lowercase().ends_with("serverpool") && line.ends_with('{');
    let known = lines.iter().filter(is_known).count();
    lines.iter().any(is_pool)
        || (known > 1 && is_most(lines, predixy::GENERAL) && lines.iter().any(|line| word(line) == "Include"))
}

fn is_corvus(lines: &[&str]) -> bool {
    lines.iter().any(|line| word(line) == "node") && is_most(lines, corvus::OPTIONS)
}

/// Whether most lines begin with an option.
fn is_most(lines: &[&str], options: Options) -> bool {
    let known = lines.iter().filter(|line| fate_of_any_case(options, word(line)).is_some()).count();
    known * 2 > lines.len()
}
