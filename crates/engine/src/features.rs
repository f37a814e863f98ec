//! What is left open here, and filled in by who adds features: the types that these keep with a session, and their tasks.

use std::fmt::Debug;

/// The types of features.
pub trait Features: Copy + Debug + 'static {
    /// Names a task that makes a reply of what nodes answer.
    type Task: Copy + Debug + PartialEq + Eq;
    /// What features keep of a session.
    type Session: Debug + Default;
    /// The kinds of tasks that ask nodes something by themselves.
    type Kind: Copy + Debug + PartialEq + Eq;
    /// What is known of what a request asks for, for the statistics.
    type Command: Copy + Debug;
    /// Nothing is asked for.
    const NO_COMMAND: Self::Command;
    /// What features keep of a link.
    type Link: Debug + Default;

    /// What nodes must show before they get requests.
    type Proof: Proof;

    /// The link's connection is gone, or was given up: what was known of it holds no more.
    fn end_link(features: &mut Self::Link);
}

/// What a node must show on a new connection before it gets requests.
pub trait Proof: Debug + Default {
    /// The request that asks for it; none if there is nothing to show.
    fn request(&self) -> &'static [u8];

    /// How many replies there are to it.
    fn replies(&self) -> usize;

    /// Whether `reply` shows it; else what is wrong, in words for clients and operators.
    fn check(&self, reply: &[u8]) -> Result<(), String>;
}

/// Nothing is to be shown.
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

/// Nothing is added here.
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
