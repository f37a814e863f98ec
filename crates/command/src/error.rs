//! Errors for commands that are not carried. Where Redis has a wording, it is Redis's, byte for byte. Lengths are cut where
//! Redis cuts them, and text ends at a NUL byte, for Redis prints C strings here.

use resp::{Request, encode};

use crate::carry::Refusal;
use crate::command::Command;
use crate::lookup::Resolved;

/// Bytes that Redis shows of a name, and of all arguments together.
const SHOWN_BYTES_MAX: usize = 128;

impl Resolved<'_> {
    /// Writes the error for `request`, and nothing if it is a command with a fitting number of arguments.
    pub fn write_error(&self, out: &mut Vec<u8>, request: &Request<'_>) {
        match self {
            Resolved::Command(_) => {}
            Resolved::WrongArity(command) => wrong_arity(out, command),
            Resolved::UnknownSubcommand(container) => unknown_subcommand(out, container, request),
            Resolved::Unknown => unknown_command(out, request),
        }
    }
}

impl Refusal {
    /// Writes the error that `request`, which asks for `command`, gets.
    pub fn write_error(self, out: &mut Vec<u8>, command: &Command, request: &Request<'_>) {
        let name = &command.name;
        let text = match self {
            Refusal::Later(what) => format!("ERR command '{name}' is not supported by shardis yet ({what})"),
            Refusal::Never(why) => format!("ERR command '{name}' is not allowed through shardis: {why}"),
            Refusal::Admin(why) => {
                format!("ERR command '{name}' is not allowed through shardis without --allow-admin: {why}")
            }
            Refusal::Unknown(_) => return unknown_command(out, request),
        };
        encode::error(out, text.as_bytes());
    }
}

fn wrong_arity(out: &mut Vec<u8>, command: &Command) {
    // A transaction whose end cannot be parsed has ended.
    let begins = if command.name == "exec" { "EXECABORT Transaction discarded because of:" } else { "ERR" };
    let text = format!("{begins} wrong number of arguments for '{}' command", command.name);
    encode::error(out, text.as_bytes());
}

fn unknown_subcommand(out: &mut Vec<u8>, container: &Command, request: &Request<'_>) {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(shown(request.get(1).unwrap_or_default(), SHOWN_BYTES_MAX));
    text.extend_from_slice(b"'. Try ");
    text.extend_from_slice(container.name.to_ascii_uppercase().as_bytes());
    text.extend_from_slice(b" HELP.");
    encode::error(out, &text);
}

fn unknown_command(out: &mut Vec<u8>, request: &Request<'_>) {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(shown(request.arg(0), SHOWN_BYTES_MAX));
    text.extend_from_slice(b"', with args beginning with: ");
    let start = text.len();
    for arg in request.args().skip(1) {
        // The quotes and the blank count too, so the last argument shown can pass the bound by three bytes.
        let Some(room) = SHOWN_BYTES_MAX.checked_sub(text.len() - start).filter(|&room| room > 0) else {
            break;
        };
        text.push(b'\'');
        text.extend_from_slice(shown(arg, room));
        text.extend_from_slice(b"' ");
    }
    encode::error(out, &text);
}

/// The output of C's `%.*s`.
fn shown(text: &[u8], bytes_max: usize) -> &[u8] {
    let text = &text[..text.len().min(bytes_max)];
    &text[..text.iter().position(|&byte| byte == 0).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use crate::carry::Carry;
    use crate::testing::with_request;

    /// The refusal that the request of `line` gets.
    fn refusal_of(line: &str) -> String {
        with_request(line, |request| {
            let crate::Resolved::Command(command) = crate::resolve(request) else { panic!("a command") };
            let refusal = match command.carry {
                Carry::Refused(refusal) => refusal,
                Carry::Admin(why, _) => crate::Refusal::Admin(why),
                Carry::ShardIf(guard) => guard.check(request).expect_err("a guard that says no"),
                other => panic!("{line} is carried: {other:?}"),
            };
            let mut out = Vec::new();
            refusal.write_error(&mut out, command, request);
            String::from_utf8(out).expect("text")
        })
    }

    #[test]
    fn a_refusal_names_the_command_and_the_reason() {
        assert_eq!(
            refusal_of("CLUSTER addslots 1"),
            "-ERR command 'cluster|addslots' is not allowed through shardis: it is for the nodes of a cluster, and \
             clients see one node only: ask those themselves\r\n"
        );
        assert_eq!(
            refusal_of("Config SET a b"),
            "-ERR command 'config|set' is not allowed through shardis without --allow-admin: it would change a node \
             for all clients\r\n"
        );
        assert_eq!(
            refusal_of("SORT a BY w_*"),
            "-ERR command 'sort' is not allowed through shardis: the keys that its BY or GET pattern names may live \
             on other shards\r\n"
        );
    }

    #[test]
    fn commands_among_nodes_are_unknown_to_clients() {
        assert_eq!(
            refusal_of("REPLCONF ACK 0"),
            "-ERR unknown command 'REPLCONF', with args beginning with: 'ACK' '0' \r\n"
        );
        for name in ["sync", "psync", "replconf"] {
            assert!(crate::find(name.as_bytes()).is_some_and(|command| command.is_hidden()), "{name}");
        }
    }
}
