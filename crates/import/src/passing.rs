//! Listeners that pass bytes, as nginx and haproxy have them: their nodes, and the keys that they share.

use crate::draft::{Draft, Origin, Table, Value};
use crate::fault::{Place, Word};

/// A node that gets clients.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// As a list of nodes has it.
    pub(crate) address: String,
    pub(crate) weight: u64,
    pub(crate) place: Place,
}

impl Node {
    fn written(&self) -> String {
        match self.weight {
            // The path of a socket may have a colon.
            1 if !self.address.starts_with("unix:") => self.address.clone(),
            weight => format!("{}:{weight}", self.address),
        }
    }
}

/// Sets the nodes of a listener.
pub(crate) fn set_nodes(table: &mut Table, nodes: &[Node], origin: &Origin) {
    let nodes = nodes.iter().map(|node| (node.written(), Some(node.place.clone()))).collect();
    table.set("nodes", Value::List(nodes), origin);
}

/// A setting of all nodes of a listener, of which each node may have its own elsewhere.
#[derive(Debug)]
pub(crate) struct Common {
    /// The option there.
    pub(crate) option: &'static str,
    /// The key here.
    pub(crate) key: &'static str,
    /// The values of the nodes, and where they are.
    pub(crate) values: Vec<(u64, Word)>,
}

impl Common {
    pub(crate) fn new(option: &'static str, key: &'static str) -> Common {
        Common { option, key, values: Vec::new() }
    }

    /// Sets the key to the first value. Others are lost.
    pub(crate) fn set(&self, table: &mut Table, draft: &mut Draft) {
        let Some((first, at)) = self.values.first() else { return };
        table.set(self.key, *first, &Origin::of(at, ""));
        for (_, other) in self.values.iter().filter(|(value, _)| value != first) {
            let text = format!(
                "all nodes of a listener have the same {}; that of line {} is taken",
                self.key, at.place.line
            );
            draft.leave_out(&other.with(self.option), text);
        }
    }
}
