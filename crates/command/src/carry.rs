//! The way of a command to the nodes and back: the decision that the table makes for each command.
//!
//! Values only. The core knows their meaning on the wire; `error` has the texts of refusals.

/// The way of a command's requests to the nodes, and of its one reply to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carry {
    /// Byte for byte to the shard that owns the keys; refused with CROSSSLOT if they live on several shards. A request without
    /// keys (`EVAL … 0`) goes to a shard of the core's choice.
    Shard,
    /// As [`Carry::Shard`], unless the guard says no.
    ShardIf(Guard),
    /// As [`Carry::Shard`], once the shard's node has the script or function that the request names.
    Script(Script),
    /// The keys are divided among their shards, each part is a command of its own, the replies become one. Not atomic
    /// across shards.
    Split(Merge),
    /// To every shard as it stands; the replies become one. Not atomic across shards.
    AllShards(Merge),
    /// To the shard of the channel that is the first argument; the number of receivers is that of clients.
    Publish(Topic),
    /// SCAN: shard after shard, the shard's number in the cursor.
    Cursor,
    /// To one shard of the core's choice: no key is named and all nodes give the same answer.
    AnyShard,
    /// As [`Carry::Shard`], but a node may take long: a client that has to wait does so over a link of its own.
    Blocking(Wait),
    /// MULTI and its commands: queued by the proxy, and sent to one shard in one piece.
    Transaction(Transaction),
    /// To the only shard, if there is one shard; else refused for this reason. It names databases.
    OnlyShard(&'static str),
    /// Answered by the proxy itself.
    Here(Local),
    /// Changes nodes for all clients: refused for this reason, unless the operator permits administration.
    Admin(&'static str, Admin),
    /// Not carried.
    Refused(Refusal),
    /// No command by itself: the subcommands decide. [`resolve`](crate::resolve) never returns it.
    Container,
}

/// The emulation of a request whose keys live on several shards, if the operator enables it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Across {
    /// The request is refused in any case.
    #[default]
    Refused,
    /// The values of its keys are read, and the result is written to its shard.
    Gathered,
    /// Values go from one key to another, and the proxy does not read them.
    Carried,
    /// One element goes from one key to another.
    Moved,
    /// Elements are taken from the first of its keys that has any. A command that may block waits for one.
    Popped,
    /// Streams are read for a consumer of a group, each by itself. A command that may block waits for an entry.
    ReadByGroup,
}

/// Rule that makes one reply of those of several shards. The first error of any shard is the reply instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Integers, added up.
    Sum,
    /// `+OK` once all said so.
    AllOk,
    /// Array elements, put back into the order of the keys.
    Values,
    /// Arrays, one behind the other in the order of the shards.
    Concat,
    /// The reply of one shard picked at random among those that are not nil; nil if all are.
    RandomNonNil,
    /// All shards answer the same; the first answer counts.
    FirstReply,
    /// Arrays of 0 and 1 of one length, joined by a logical AND place by place.
    And,
    /// The reply of the first shard, even if others differ, if none failed.
    AnyReply,
    /// One shard's success is enough; else the first error.
    OneSucceeded,
    /// Integers, of which the least counts.
    Least,
    /// Reports of nodes about themselves.
    Report(Report),
}

impl Merge {
    /// Whether the reply may be of any length, however short the request is: such requests are carried out one by one.
    pub fn is_open_ended(self) -> bool {
        matches!(self, Merge::Concat | Merge::Report(_))
    }
}

/// Rule that makes one report of those of several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// SLOWLOG GET: entries of all shards, the newest first, as many as were asked for.
    SlowlogEntries,
    /// LATENCY HISTORY: pairs of time and milliseconds, the oldest first.
    LatencyHistory,
    /// LATENCY LATEST: the latest and the worst of each event.
    LatencyLatest,
    /// LATENCY HISTOGRAM: calls and their times, added up for each command.
    LatencyHistogram,
    /// MEMORY STATS: sums, and of each ratio the largest.
    MemoryStats,
    /// Texts for people: one, if all are equal, else one behind the other under the shards' names.
    Texts,
    /// CONFIG GET: each parameter's value; where shards differ, all values.
    Config,
    /// FUNCTION LIST: each library once.
    Libraries,
    /// FUNCTION STATS: of a shard that runs a script, if there is one.
    RunningScript,
    /// DEBUG DIGEST: the digest that one Redis with all keys would have.
    Digest,
}

/// A script or function that a request names and that its node may lack, while the proxy has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// EVAL: brings the script's body along.
    Body,
    /// EVALSHA: names a script.
    Sha,
    /// FCALL: names a function.
    Function,
}

/// Place of a command's wait time. See [`Wait::patience`](crate::Wait::patience).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// In seconds, as the last argument.
    Last,
    /// In seconds, as the first argument.
    First,
    /// In milliseconds, behind the word BLOCK; without it, it does not wait.
    Block,
    /// As [`Wait::Block`], but it takes nothing from its keys. It can therefore wait for keys on several shards together.
    BlockAcross,
    /// In milliseconds, as the last argument. It waits until replicas have all writes of its client, on any shard: all shards
    /// are asked, and the lowest number counts.
    Replicas,
    /// Nobody knows: a command that was learnt.
    Untold,
}

/// Effect of a request on its client's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// MULTI: it begins.
    Begin,
    /// EXEC: it is carried out.
    Execute,
    /// DISCARD: it is forgotten.
    Discard,
    /// WATCH: it will not be carried out if these keys change before.
    Watch,
    /// UNWATCH: it will be carried out even after changes.
    Unwatch,
}

/// The way of an operator's requests to the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admin {
    /// To every shard, as [`Carry::AllShards`].
    AllShards(Merge),
    /// CONFIG SET: to every shard, but for parameters by which the proxy would lose its nodes.
    ConfigSet,
    /// DEBUG: by its subcommand, and never what ends a node.
    Debug,
}

/// Arguments that forbid to forward a command. See [`Guard::check`](crate::Guard::check).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// SORT and SORT_RO with a BY or GET pattern that names other keys: those may live on other shards.
    Patterns,
    /// Commands whose named databases must exist in the proxy: a node may have more.
    Database(Naming),
}

/// Where a command names a database. See [`Naming::databases`](crate::Naming::databases).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// MOVE: the last argument.
    Last,
    /// COPY: behind the word DB.
    Option,
    /// SWAPDB: both arguments.
    Both,
}

/// Commands that the proxy answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// `+PONG`, or the argument as a bulk.
    Ping,
    /// The argument as a bulk.
    Echo,
    /// `+OK`, then the connection ends.
    Quit,
    /// The session as new: `+RESET`.
    Reset,
    /// Database of the session.
    Select,
    /// The proxy's clock.
    Time,
    /// The proxy's own figures.
    Info,
    /// COMMAND and its subcommands, from the table: [`about::write`](crate::about::write).
    Command(About),
    /// Number of the session.
    ClientId,
    /// Name of the session.
    ClientSetname,
    /// Name of the session.
    ClientGetname,
    /// Name and version of the client's library; 7.2, accepted for new client libraries.
    ClientSetinfo,
    /// The few settings that client libraries ask for; where administration is permitted, those of the nodes.
    ConfigGet,
    /// A primary without replicas.
    Role,
    /// The version, as Redis 7.0 signs its picture; it has none of its own.
    Lolwut,
    /// Version of the protocol, authentication and name in one.
    Hello,
    /// Authentication with the proxy.
    Auth,
    /// CLIENT: questions about clients, and changes of them.
    Client(ClientTask),
    /// CLUSTER: the proxy as a cluster of one node.
    Cluster(ClusterQuestion),
    /// ACL: the users and their permissions.
    Acl(AclQuestion),
    /// SUBSCRIBE and its relatives.
    Subscribe(Topic),
    /// UNSUBSCRIBE and its relatives.
    Unsubscribe(Topic),
    /// MONITOR: requests of all clients are shown from now on.
    Monitor,
    /// PUBSUB: questions about subscriptions.
    PubSub(PubSubQuestion),
    /// HELP of a container.
    Help,
    /// Resets the statistics of INFO.
    ResetStatistics,
    /// PROXY: what an operator asks of the proxy itself.
    Proxy(ProxyQuestion),
    /// READONLY (true) and READWRITE: recorded for CLIENT LIST, without other effect.
    ReplicaReads(bool),
    /// `+OK`: it would change nothing here.
    Accepted,
}

/// Topics of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The channel of a name.
    Channel,
    /// All channels whose names match.
    Pattern,
    /// The channel of a name among those of Redis Cluster's shards.
    ShardChannel,
}

impl Topic {
    /// All kinds.
    pub const ALL: [Topic; 3] = [Topic::Channel, Topic::Pattern, Topic::ShardChannel];
    /// Number of topics: for tables by `kind as usize`.
    pub const COUNT: usize = Topic::ALL.len();

    /// Redis's command, which is also how its answer begins.
    pub fn subscribe(self) -> &'static str {
        match self {
            Topic::Channel => "subscribe",
            Topic::Pattern => "psubscribe",
            Topic::ShardChannel => "ssubscribe",
        }
    }

    /// The same for the end of a subscription.
    pub fn unsubscribe(self) -> &'static str {
        match self {
            Topic::Channel => "unsubscribe",
            Topic::Pattern => "punsubscribe",
            Topic::ShardChannel => "sunsubscribe",
        }
    }
}

/// Questions of PUBSUB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PubSubQuestion {
    /// `PUBSUB CHANNELS [pattern]`, `PUBSUB SHARDCHANNELS [pattern]`.
    Names(Topic),
    /// `PUBSUB NUMSUB channel …`, `PUBSUB SHARDNUMSUB channel …`.
    Subscribers(Topic),
    /// `PUBSUB NUMPAT`.
    Patterns,
}

/// Tasks of CLIENT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTask {
    /// The lines of all clients.
    List,
    /// The line of this one.
    Describe,
    /// Clients are closed.
    Kill,
    /// Replies on, off, or off once.
    Reply,
    /// NO-EVICT and NO-TOUCH: recorded for CLIENT LIST, without other effect.
    Switch,
    /// The target of redirected invalidations: always none.
    GetRedirect,
    /// A blocked client goes on.
    Unblock,
    /// No client's requests are carried out for a while.
    Pause,
    /// Requests are carried out again.
    Unpause,
    /// The client receives invalidations of keys from now on.
    Track,
    /// The options of its tracking.
    TrackingState,
    /// Whether the keys of the next request are tracked.
    Caching,
}

/// Questions of CLUSTER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterQuestion {
    /// `CLUSTER INFO`.
    State,
    /// `CLUSTER SLOTS`.
    Slots,
    /// `CLUSTER SHARDS`.
    Shards,
    /// `CLUSTER NODES`.
    Nodes,
    /// `CLUSTER LINKS`.
    Links,
    /// `CLUSTER KEYSLOT key`.
    KeySlot,
    /// `CLUSTER MYID`.
    MyId,
    /// `CLUSTER MYSHARDID`.
    MyShardId,
    /// `CLUSTER REPLICAS node`, and its older name.
    Replicas,
}

/// Questions of PROXY. No server has this command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyQuestion {
    /// `PROXY EXPLAIN command [arg …]`: the way of a request, which is not sent.
    Explain,
    /// `PROXY INFO`: the proxy's version, settings and counts.
    Info,
    /// `PROXY TOPOLOGY`: shards, their nodes and their share of the keys.
    Topology,
    /// `PROXY SLOWLOG GET [count]`, `PROXY SLOWLOG LEN`, `PROXY SLOWLOG RESET`.
    Slowlog,
    /// `PROXY HOTKEYS [count]`: the keys of most requests.
    HotKeys,
    /// `PROXY BIGKEYS [count]`: the keys of most bytes.
    BigKeys,
    /// `PROXY HOTSLOTS [count]`: the slots of most requests.
    HotSlots,
    /// `PROXY RELOAD`, `PROXY RELOAD PLAN`, `PROXY RELOAD FORCE`, `PROXY RELOAD BACK [number]`: the configuration of the process.
    Reload,
    /// `PROXY UPDATESLOTMAP`, as in corvus: the discovery looks for a newer topology.
    UpdateSlotMap,
}

/// Questions of ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclQuestion {
    /// `ACL CAT [category]`.
    Categories,
    /// `ACL DELUSER user …`.
    DelUser,
    /// `ACL DRYRUN user command …`.
    DryRun,
    /// `ACL GENPASS [bits]`.
    GenPass,
    /// `ACL GETUSER user`.
    GetUser,
    /// `ACL LIST`.
    List,
    /// `ACL LOAD`.
    Load,
    /// `ACL LOG [count | RESET]`.
    Log,
    /// `ACL SAVE`.
    Save,
    /// `ACL SETUSER user rule …`.
    SetUser,
    /// `ACL USERS`.
    Users,
    /// `ACL WHOAMI`.
    WhoAmI,
}

/// Which question about the table is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// `COMMAND`: all commands.
    All,
    /// `COMMAND COUNT`.
    Count,
    /// `COMMAND LIST [FILTERBY …]`.
    List,
    /// `COMMAND INFO [name …]`.
    Info,
    /// `COMMAND GETKEYS command [arg …]`.
    GetKeys,
    /// `COMMAND GETKEYSANDFLAGS command [arg …]`.
    GetKeysAndFlags,
}

/// Why a command is not carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not yet: it needs the named feature, such as `transactions`.
    Later(&'static str),
    /// Never, and why.
    Never(&'static str),
    /// Refused while the operator does not permit administration, for this reason.
    Admin(&'static str),
    /// Unknown to clients, and not learnt from a node either: the reply is that of an unknown command. The text has the reason,
    /// for the documentation.
    Unknown(&'static str),
}
