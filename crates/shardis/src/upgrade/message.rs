//! Messages between the two processes of an upgrade: a line of JSON, and behind the one about a client its state.
//!
//! Fields that a process does not know are ignored, so that messages may grow. A process that does not know a message, or the
//! [`VERSION`] of the other, ends the upgrade before anything has happened.

use serde::{Deserialize, Serialize};

/// The version of these messages, which changes when an older process could not go on.
pub(crate) const VERSION: u32 = 1;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// To the new process: the listening socket that comes with it.
    Listener(Inherited),
    /// To the new process: all listening sockets were sent.
    Begin(Begin),
    /// To the old process: clients can be served.
    Ready,
    /// To the new process: it serves from now on.
    Go(Go),
    /// To the new process: the client whose socket comes with it.
    Client(Head),
    /// To the old process: this client was taken over.
    Taken(u64),
    /// To the old process: this client stays there, for a reason.
    Declined(u64, String),
    /// To the old process: no more clients are taken.
    Farewell,
}

/// A listening socket, by the option that asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inherited {
    /// The number by which clients refer to it; `None` for one of operators.
    pub door: Option<usize>,
    /// The service; see [`crate::args::Serving::service_names`].
    pub service: String,
    /// The option.
    pub option: String,
    /// The place, as it was configured: with port 0, another than the socket's.
    pub place: String,
    /// Whether the process removes the file of the unix socket in the end.
    pub has_file: bool,
}

/// The state of the old process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begin {
    /// See [`VERSION`].
    pub version: u32,
    /// By service, the nodes that it reaches.
    pub nodes_up: Vec<(String, usize)>,
}

/// The state of the old process when it stops accepting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Go {
    /// By service, the number of clients that each worker may have numbered.
    pub clients_before: Vec<(String, u64)>,
}

/// A client on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The number for the answer.
    pub ticket: u64,
    /// The listener by which it came.
    pub door: usize,
}

/// The bytes of `message`, followed by the state of a client, if it is about one.
pub(crate) fn encode(message: &Message, state: &[u8]) -> Vec<u8> {
    // Texts and numbers are always JSON.
    let mut bytes = serde_json::to_vec(message).unwrap_or_default();
    if let Message::Client(_) = message {
        bytes.push(b'\n');
        bytes.extend_from_slice(state);
    }
    bytes
}

/// The message in `bytes`, and the state behind it.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Message, &[u8]), String> {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let message = serde_json::from_slice(&bytes[..end]);
    let message = message.map_err(|error| format!("the other process sent an unknown message: {error}"))?;
    Ok((message, bytes.get(end + 1..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let inherited = Inherited {
            door: Some(3),
            service: "cache\n".to_owned(),
            option: "--port".to_owned(),
            place: "127.0.0.1:0".to_owned(),
            has_file: false,
        };
        let begin = Begin { version: 1, nodes_up: vec![("cache".to_owned(), 2)] };
        let go = Go { clients_before: vec![(String::new(), 70_000)] };
        let plain = [
            Message::Listener(inherited),
            Message::Begin(begin),
            Message::Ready,
            Message::Go(go),
            Message::Taken(7),
            Message::Declined(8, "its user does not exist".to_owned()),
            Message::Farewell,
        ];
        for message in plain {
            assert_eq!(decode(&encode(&message, b"")), Ok((message, &b""[..])));
        }
        let client = Message::Client(Head { ticket: 9, door: 0 });
        assert_eq!(decode(&encode(&client, b"*1\r\n\n")), Ok((client, &b"*1\r\n\n"[..])));
    }

    #[test]
    fn later_fields_are_ignored_and_later_messages_are_not() {
        let later = br#"{"begin":{"version":1,"nodes_up":[],"colour":"red"}}"#;
        let begin = Message::Begin(Begin { version: 1, nodes_up: Vec::new() });
        assert_eq!(decode(later), Ok((begin, &b""[..])));
        for unknown in [&b"{\"paint\":{}}"[..], b"", b"\xff"] {
            assert!(decode(unknown).is_err_and(|error| error.contains("unknown message")));
        }
    }
}
