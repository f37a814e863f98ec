//! Checks of the rights of our user at the nodes.

use super::{Setup, about, answered};
use crate::facts::Facts;
use crate::finding::{Finding, Severity};
use topology::discovery::is_no_cluster;

pub(super) fn rights(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let finding = |node: &Facts| {
        let user = node.user.as_deref()?;
        if !node.tells_rights {
            let found = format!("it does not tell the rights of user {user}");
            let effect = "commands that this user may not run fail later (NOPERM)";
            let cure = "allow ACL DRYRUN (+acl|dryrun, from Redis 7.0 on), or check by hand with ACL GETUSER";
            return Some(about(node, Severity::Note, found, effect, cure));
        }
        if node.lacks.is_empty() {
            return None;
        }
        let found = format!("user {user} may not run {}", node.lacks.join(", "));
        let cure = format!("ACL SETUSER {user} {}", granted(&node.lacks));
        Some(about(
            node,
            Severity::Error,
            found,
            "clients get NOPERM, or shardis cannot watch the node",
            cure,
        ))
    };
    answered(facts).filter_map(finding).chain(answered(facts).filter_map(cluster_hidden)).collect()
}

/// A node that does not let us ask for the cluster.
fn cluster_hidden(node: &Facts) -> Option<Finding> {
    let reason = node.cluster.as_ref()?.as_ref().err().filter(|reason| !is_no_cluster(reason))?;
    let found = format!("it does not tell of the cluster: {reason}");
    let effect = "shardis does not learn slots from it";
    Some(about(
        node,
        Severity::Error,
        found,
        effect,
        "ACL SETUSER NAME +cluster|slots +cluster|shards +cluster|nodes +cluster|info",
    ))
}

/// The rules that allow `commands`.
fn granted(commands: &[String]) -> String {
    commands.iter().map(|command| format!("+{}", command.to_lowercase())).collect::<Vec<_>>().join(" ")
}

pub(super) fn config_hidden(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let hidden = answered(facts).filter(|node| node.config.is_empty());
    let finding = |node: &Facts| {
        let found = "CONFIG GET is not allowed there, as with most managed services".to_owned();
        let effect = "databases, idle-timeout, maxmemory and maxclients were not checked";
        about(node, Severity::Note, found, effect, "look them up where the service is managed")
    };
    hidden.map(finding).collect()
}
