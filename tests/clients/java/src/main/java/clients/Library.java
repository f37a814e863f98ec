package clients;

/** The methods of each library: one per {@link Check}. A method that throws has failed; the exception is the reason. */
interface Library extends AutoCloseable {
    /** Makes the client that the others use. */
    void connect() throws Exception;

    void strings() throws Exception;

    void hashes() throws Exception;

    void listsSetsZsets() throws Exception;

    void countersExpiry() throws Exception;

    /** Several hundred requests over many keys, sent at once; the replies come in order. */
    void pipeline() throws Exception;

    /** MSET, MGET, EXISTS and DEL of keys of all shards. */
    void multiKey() throws Exception;

    /** SCAN, HSCAN, SSCAN and ZSCAN find each of 1,000 exactly once. */
    void scan() throws Exception;

    /** Scripts run on the shard of their keys. */
    void scripts() throws Exception;

    /** 1 MiB and 20 MiB come back as they went. */
    void bigValues() throws Exception;

    /** WRONGTYPE is the library's error, and the connection is good for more. */
    void errors() throws Exception;

    /** 50 tasks at once, 100 requests each: all get their own answers. */
    void concurrent() throws Exception;

    /** The library's cluster client, which finds one shard that owns all slots. */
    void cluster() throws Exception;

    /** MULTI and EXEC of keys of one shard, with WATCH and without; keys of several are refused. */
    void transactions() throws Exception;

    /** BLPOP waits for an element that another connection pushes. */
    void blocking() throws Exception;

    /** Channels and patterns are heard from SUBSCRIBE to UNSUBSCRIBE. */
    void pubsub() throws Exception;

    /** Each database has keys of its own. */
    void databases() throws Exception;

    /** The clients of {@link #connect} and {@link #concurrent} work again after a restart of the proxy. */
    void reconnect() throws Exception;

    @Override
    void close();
}
