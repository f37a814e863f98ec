//! Objections to a request at once, by its command and arguments, the topology, and the number of databases.

use command::{Carry, Command, Guard, Naming, Refusal};
use resp::Request;
use topology::Topology;

/// The reason why a request is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objection {
    /// The command's line in the table.
    Refusal(Refusal),
    /// A database that clients may not choose. The node may have more databases.
    MissingDatabase,
}

impl Objection {
    /// The objection to `request`, if there is one. `databases` is the number of databases.
    #[cold]
    pub(crate) fn to(
        command: &Command,
        request: &Request<'_>,
        topology: &Topology,
        databases: u16,
    ) -> Option<Objection> {
        let is_missing = |naming| lacks_database(naming, request, databases);
        match command.carry {
            // With one shard, a pattern matches only keys on that shard.
            Carry::ShardIf(Guard::Patterns) if topology.is_undivided() => None,
            Carry::ShardIf(Guard::Database(naming)) if is_missing(naming) => Some(Objection::MissingDatabase),
            Carry::ShardIf(guard) => guard.check(request).err().map(Objection::Refusal),
            Carry::OnlyShard(why) if !topology.is_undivided() => {
                Some(Objection::Refusal(Refusal::Never(why)))
            }
            Carry::OnlyShard(_) if is_missing(Naming::Both) => Some(Objection::MissingDatabase),
            _ => None,
        }
    }
}

/// Whether `request` names a database beyond the last. The node itself refuses a name that is not a number.
fn lacks_database(naming: Naming, request: &Request<'_>, databases: u16) -> bool {
    let is_missing = |&database: &i64| database >= i64::from(databases) && i32::try_from(database).is_ok();
    naming.databases(request).iter().any(is_missing)
}
