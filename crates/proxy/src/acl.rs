//! ACL: the one user that there is, who may do everything.

use crate::errors;
use command::{Acl, AclQuestion, Command};
use resp::{Request, encode};

/// The user that every client is, as long as none are configured. It has no password and takes any.
pub(crate) const DEFAULT_USER: &[u8] = b"default";

/// Answers `question`.
pub(crate) fn write(question: AclQuestion, request: &Request<'_>, out: &mut Vec<u8>) {
    match question {
        AclQuestion::Categories => match (request.len(), request.get(2)) {
            (2, _) => write_words(out, Acl::WORDS),
            (3, Some(category)) => write_category(out, category),
            _ => errors::write_subcommand_syntax(out, request),
        },
        AclQuestion::GetUser if request.arg(2) == DEFAULT_USER => write_user(out),
        AclQuestion::GetUser => encode::nil(out),
        AclQuestion::List => write_words(out, &["user default on nopass ~* &* +@all"]),
        AclQuestion::Users => write_words(out, &["default"]),
        AclQuestion::WhoAmI => encode::bulk(out, DEFAULT_USER),
    }
}

fn write_words(out: &mut Vec<u8>, words: &[&str]) {
    encode::array_header(out, words.len());
    words.iter().for_each(|word| encode::bulk(out, word.as_bytes()));
}

/// The commands of a category that clients may use, subcommands included.
fn write_category(out: &mut Vec<u8>, word: &[u8]) {
    let Some(category) = Acl::from_word(&word.to_ascii_lowercase()) else {
        return encode::error(out, &[b"ERR Unknown category '", word, b"'"].concat());
    };
    let takes = |command: &&Command| !command.is_hidden() && command.acl.contains(category);
    let lines = command::all().flat_map(|command| std::iter::once(command).chain(command.subcommands.iter()));
    let names: Vec<&str> = lines.filter(takes).map(|command| &*command.name).collect();
    write_words(out, &names);
}

/// What Redis says of its default user.
fn write_user(out: &mut Vec<u8>) {
    encode::array_header(out, 12);
    encode::bulk(out, b"flags");
    write_words(out, &["on", "nopass"]);
    encode::bulk(out, b"passwords");
    write_words(out, &[]);
    for word in ["commands", "+@all", "keys", "~*", "channels", "&*", "selectors"] {
        encode::bulk(out, word.as_bytes());
    }
    write_words(out, &[]);
}
