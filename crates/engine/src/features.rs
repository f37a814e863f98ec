//! The types that features add to the engine: their tasks, and the state that they keep with sessions and links.

use std::fmt::Debug;

/// The types of features.
pub trait Features: Copy + Debug + 'static {
    /// Names a task that makes one reply of the nodes' replies.
    type Task: Copy + Debug + PartialEq + Eq;
    /// State of features in a session.
    type Session: Debug + Default;
    /// Kinds of tasks that send requests of their own to nodes.
    type Kind: Copy + Debug + PartialEq + Eq;
    /// The kind of a request, for the statistics.
    type Command: Copy + Debug;
    /// The command of no request.
    const NO_COMMAND: Self::Command;
    /// State of features in a link.
    type Link: Debug + Default;

    /// The proof that a node must give before it gets requests.
    type Proof: Proof;

    /// Resets the state of a link whose connection is gone or was given up.
    fn end_link(features: &mut Self::Link);
}

/// The proof that a node must give on a new connection before it gets requests.
pub trait Proof: Debug + Default {
    /// The request that asks for the proof; empty if none is needed.
    fn request(&self) -> &'static [u8];

    /// Number of replies to that request.
    fn replies(&self) -> usize;

    /// Checks whether `reply` is the proof. The error says what is wrong, in words for clients and operators.
    fn check(&self, reply: &[u8]) -> Result<(), String>;
}

/// No proof is needed.
impl Proof for () {
    fn request(&self) -> &'static [u8] {
        b""
    }

    fn replies(&self) -> usize {
        0
    }

    fn check(&self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// No features.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub enum None {}

#[cfg(test)]
impl Features for None {
    type Task = ();
    type Session = ();
    type Kind = ();
    type Command = ();
    const NO_COMMAND: () = ();
    type Link = ();
    type Proof = ();

    fn end_link((): &mut ()) {}
}
