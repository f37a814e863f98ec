//! ACL: users, their permissions, and refused requests.

use crate::context::Context;
use crate::core::Core;
use crate::errors;
use crate::features::Session;
use crate::login;
use crate::login::job::Task;
use command::{Acl, AclQuestion, Command, Resolved};
use resp::integer::parse_i64;
use resp::{Request, Span, encode};
use users::{Denial, Denied, Description, User};

impl Core {
    /// Answers `question`. Leaves `reply` empty if the reply comes later.
    pub(crate) fn acl(
        &mut self,
        session: &mut Session,
        question: AclQuestion,
        request: &Request<'_>,
        reply: &mut Vec<u8>,
    ) {
        match question {
            AclQuestion::Categories => match (request.len(), request.get(2)) {
                (2, _) => write_words(reply, Acl::WORDS),
                (3, Some(category)) => write_category(reply, category),
                _ => errors::write_subcommand_syntax(reply, request),
            },
            AclQuestion::DelUser => self.delete_users(session, request, reply),
            AclQuestion::DryRun => dry_run(&self.cx, request, reply),
            AclQuestion::GenPass => generate_password(&self.cx, request, reply),
            AclQuestion::GetUser => match self.cx.logins.users.get(request.arg(2)) {
                Some(user) => write_user(reply, user, session.resp3),
                None => encode::null(reply, session.resp3),
            },
            AclQuestion::List => {
                encode::array_header(reply, self.cx.logins.users.iter().len());
                self.cx.logins.users.iter().for_each(|user| encode::bulk(reply, &user.describe()));
            }
            AclQuestion::Load | AclQuestion::Save if !self.cx.settings.registry.has_file() => {
                errors::write(reply, errors::NO_ACL_FILE);
            }
            AclQuestion::Load => login::send_job(&mut self.cx, session, Task::LoadUsers),
            AclQuestion::Save => login::send_job(&mut self.cx, session, Task::SaveUsers),
            AclQuestion::Log => acl_log(&self.cx, session.resp3, request, reply),
            AclQuestion::SetUser => self.set_user(session, request, reply),
            AclQuestion::Users => {
                encode::array_header(reply, self.cx.logins.users.iter().len());
                self.cx.logins.users.iter().for_each(|user| encode::bulk(reply, user.name()));
            }
            AclQuestion::WhoAmI => encode::bulk(reply, session.features.login.name()),
        }
    }

    /// `ACL SETUSER user [rule …]`
    fn set_user(&mut self, session: &mut Session, request: &Request<'_>, reply: &mut Vec<u8>) {
        let rules: Vec<&[u8]> = request.args().skip(3).collect();
        match self.cx.settings.registry.set_user(request.arg(2), &rules, self.cx.limits.user_bytes_max) {
            Ok(users) => self.spread_users(session, users, None),
            Err(text) => errors::write(reply, &text),
        }
    }

    /// `ACL DELUSER user …`
    fn delete_users(&mut self, session: &mut Session, request: &Request<'_>, reply: &mut Vec<u8>) {
        let names: Vec<&[u8]> = request.args().skip(2).collect();
        match self.cx.settings.registry.delete_users(names.into_iter()) {
            Some((users, deleted)) => self.spread_users(session, users, Some(deleted)),
            None => errors::write(reply, errors::DEFAULT_USER_STAYS),
        }
    }
}

/// `ACL DRYRUN user command [arg …]`
fn dry_run(cx: &Context, request: &Request<'_>, reply: &mut Vec<u8>) {
    let (name, asked) = (request.arg(2), request.arg(3));
    let Some(user) = cx.logins.users.get(name) else {
        return encode::error(reply, &[b"ERR User '", name, b"' not found"].concat());
    };
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    let request = behind(request, 3, &mut bytes, &mut spans);
    let (resolved, number) = command::resolve_numbered(&request);
    let command = match resolved {
        Resolved::Command(command) => command,
        Resolved::WrongArity(command) => {
            return errors::write(
                reply,
                &format!("ERR wrong number of arguments for '{}' command", command.name),
            );
        }
        Resolved::UnknownSubcommand(_) | Resolved::Unknown => {
            return encode::error(reply, &[b"ERR Command '", asked, b"' not found"].concat());
        }
    };
    let denied: &[&[u8]] = match user.permits(command, number, &request) {
        Ok(()) => return encode::simple(reply, b"OK"),
        Err(Denied::Command) => &[b"run the '", command.name.as_bytes(), b"' command"],
        Err(Denied::Key(at)) => &[b"access the '", request.arg(at), b"' key"],
        Err(Denied::Channel(at)) => &[b"access the '", request.arg(at), b"' channel"],
    };
    encode::bulk(reply, &[&b"This user has no permissions to "[..], &denied.concat()].concat());
}

/// `ACL GENPASS [bits]`
fn generate_password(cx: &Context, request: &Request<'_>, reply: &mut Vec<u8>) {
    let bits = match (request.len(), request.get(2).map(parse_i64)) {
        (2, _) => 256,
        (3, Some(Some(bits))) => bits,
        (3, _) => return errors::write(reply, errors::NOT_AN_INTEGER),
        _ => return errors::write_subcommand_syntax(reply, request),
    };
    match cx.settings.registry.generate_password(bits) {
        Some(password) => encode::bulk(reply, password.as_bytes()),
        None => errors::write(reply, errors::GENERATED_BITS),
    }
}

/// `ACL LOG [count | RESET]`
fn acl_log(cx: &Context, resp3: bool, request: &Request<'_>, reply: &mut Vec<u8>) {
    const SHOWN_BY_DEFAULT: usize = 10;
    let count = match (request.len(), request.get(2)) {
        (2, _) => SHOWN_BY_DEFAULT,
        (3, Some(word)) if word.eq_ignore_ascii_case(b"reset") => {
            cx.settings.registry.denials().clear();
            return encode::simple(reply, b"OK");
        }
        (3, Some(count)) => match parse_i64(count) {
            Some(count) => usize::try_from(count).unwrap_or_default(),
            None => return errors::write(reply, errors::NOT_AN_INTEGER),
        },
        _ => return errors::write_subcommand_syntax(reply, request),
    };
    let denials = cx.settings.registry.denials();
    let entries = denials.newest(count);
    encode::array_header(reply, entries.len());
    for entry in entries {
        let age_ms = cx.engine.now.since(entry.at).as_millis() as f64;
        write_denial(reply, entry, age_ms / 1000.0, resp3);
    }
}

/// The request in the arguments of `request` from `skipped` on.
fn behind<'b>(
    request: &Request<'_>,
    skipped: usize,
    bytes: &'b mut Vec<u8>,
    spans: &'b mut Vec<Span>,
) -> Request<'b> {
    encode::array_header(bytes, request.len() - skipped);
    for arg in request.args().skip(skipped) {
        encode::bulk(bytes, arg);
        spans.push(Span { start: bytes.len() - 2 - arg.len(), len: arg.len() });
    }
    Request::new(bytes, spans)
}

fn write_words(out: &mut Vec<u8>, words: &[&str]) {
    encode::array_header(out, words.len());
    words.iter().for_each(|word| encode::bulk(out, word.as_bytes()));
}

/// Writes the commands of a category that clients may use, with subcommands.
fn write_category(out: &mut Vec<u8>, word: &[u8]) {
    let Some(category) = Acl::from_word(&word.to_ascii_lowercase()) else {
        return encode::error(out, &[b"ERR Unknown category '", word, b"'"].concat());
    };
    let takes = |command: &&Command| !command.is_hidden() && command.acl.contains(category);
    let lines = command::numbered().map(|(_, command)| command);
    let names: Vec<&str> = lines.filter(takes).map(|command| &*command.name).collect();
    write_words(out, &names);
}

/// ACL GETUSER.
fn write_user(out: &mut Vec<u8>, user: &User, resp3: bool) {
    encode::map_header(out, 6, resp3);
    encode::bulk(out, b"flags");
    let flags = user.flags();
    encode::set_header(out, flags.len(), resp3);
    flags.iter().for_each(|flag| encode::bulk(out, flag.as_bytes()));
    encode::bulk(out, b"passwords");
    encode::array_header(out, user.password_hashes().len());
    user.password_hashes().for_each(|hash| encode::bulk(out, hash.as_bytes()));
    write_description(out, &user.root());
    encode::bulk(out, b"selectors");
    encode::array_header(out, user.selectors().len());
    for selector in user.selectors() {
        encode::map_header(out, 3, resp3);
        write_description(out, &selector);
    }
}

fn write_description(out: &mut Vec<u8>, description: &Description) {
    let Description { commands, keys, channels } = description;
    for (name, text) in [("commands", commands), ("keys", keys), ("channels", channels)] {
        encode::bulk(out, name.as_bytes());
        encode::bulk(out, text);
    }
}

/// An entry of ACL LOG.
fn write_denial(out: &mut Vec<u8>, denial: &Denial, age_seconds: f64, resp3: bool) {
    encode::map_header(out, 7, resp3);
    encode::bulk(out, b"count");
    encode::integer(out, denial.count as i64);
    let fields: [(&str, &[u8]); 4] = [
        ("reason", denial.reason.word().as_bytes()),
        ("context", denial.context.word().as_bytes()),
        ("object", &denial.object),
        ("username", &denial.user),
    ];
    for (name, value) in fields {
        encode::bulk(out, name.as_bytes());
        encode::bulk(out, value);
    }
    encode::bulk(out, b"age-seconds");
    encode::double(out, age_seconds, resp3);
    encode::bulk(out, b"client-info");
    encode::bulk(out, denial.client.as_bytes());
}
