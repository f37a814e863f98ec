package clients;

import static clients.Sample.ADD;
import static clients.Sample.MIB;
import static clients.Sample.keyArray;
import static clients.Sample.keys;
import static clients.Sample.numbered;

import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Lettuce: one connection for all, blocking or with futures; scan iterators and {@code RedisClusterClient}. */
final class LettuceLibrary implements Library {
    /** Less than Lettuce's default of 60 s, which would hide the cause of a check's wait. */
    private static final Duration TIMEOUT = Duration.ofSeconds(20);

    private final RedisURI uri;
    private RedisClient client;
    private StatefulRedisConnection<String, String> conn;
    private RedisCommands<String, String> redis;

    LettuceLibrary(int port) {
        this.uri = RedisURI.builder().withHost("127.0.0.1").withPort(port).withTimeout(TIMEOUT).build();
    }

    @Override
    public void connect() {
        client = RedisClient.create(uri);
        conn = client.connect();
        redis = conn.sync();
        Expect.equal(redis.ping(), "PONG");
        Expect.that(redis.clientInfo().contains(" resp=3"), redis.clientInfo());
    }

    @Override
    public void strings() {
        Expect.equal(redis.set("strings:a", "one"), "OK");
        Expect.equal(redis.get("strings:a"), "one");
        Expect.equal(redis.get("strings:none"), null);
        Expect.equal(redis.set("strings:a", "two", SetArgs.Builder.nx()), null);
        Expect.equal(redis.append("strings:a", " é"), 6L);
        Expect.equal(redis.getrange("strings:a", 0, 2), "one");
        Expect.equal(redis.getdel("strings:a"), "one é");
        Expect.equal(redis.exists("strings:a"), 0L);
        try (StatefulRedisConnection<byte[], byte[]> binary = client.connect(ByteArrayCodec.INSTANCE)) {
            byte[] key = "strings:binary".getBytes(StandardCharsets.UTF_8);
            Expect.equal(binary.sync().set(key, Sample.everyByte()), "OK");
            Expect.sameBytes(binary.sync().get(key), Sample.everyByte());
        }
    }

    @Override
    public void hashes() {
        Expect.equal(redis.hset("hash", Map.of("name", "Ada", "born", "1815")), 2L);
        Expect.equal(redis.hgetall("hash"), Map.of("name", "Ada", "born", "1815"));
        Expect.equal(valuesOf(redis.hmget("hash", "born", "none")), Arrays.asList("1815", null));
        Expect.equal(redis.hincrby("hash", "born", 2), 1817L);
        Expect.equal(redis.hdel("hash", "name", "none"), 1L);
        Expect.equal(redis.hkeys("hash"), List.of("born"));
    }

    @Override
    public void listsSetsZsets() {
        Expect.equal(redis.rpush("list", "a", "b", "c"), 3L);
        Expect.equal(redis.lpop("list"), "a");
        Expect.equal(redis.lrange("list", 0, -1), List.of("b", "c"));

        Expect.equal(redis.sadd("set:1{tag}", "a", "b"), 2L);
        Expect.equal(redis.sadd("set:2{tag}", "b", "c"), 2L);
        Expect.equal(redis.sinter("set:1{tag}", "set:2{tag}"), Set.of("b"));
        Expect.equal(redis.sismember("set:1{tag}", "c"), false);

        Expect.equal(redis.zadd("zset", 1.5, "a", 0.5, "b", 2.0, "c"), 3L);
        List<ScoredValue<String>> lowest = List.of(ScoredValue.just(0.5, "b"), ScoredValue.just(1.5, "a"));
        Expect.equal(redis.zrangeWithScores("zset", 0, 1), lowest);
        Expect.equal(redis.zscore("zset", "c"), 2.0);
        Expect.equal(redis.zrank("zset", "none"), null);
    }

    @Override
    public void countersExpiry() throws Exception {
        Expect.equal(redis.incr("counter"), 1L);
        Expect.equal(redis.incrby("counter", 41), 42L);
        Expect.equal(redis.incrbyfloat("counter", 0.5), 42.5);
        Expect.equal(redis.ttl("counter"), -1L);
        Expect.equal(redis.expire("counter", 100), true);
        long ttl = redis.ttl("counter");
        Expect.that(ttl > 90 && ttl <= 100, "TTL is " + ttl);
        Expect.equal(redis.persist("counter"), true);
        redis.set("brief", "x", SetArgs.Builder.px(50));
        Restart.eventually(() -> {
            Expect.equal(redis.get("brief"), null);
            return null;
        });
    }

    @Override
    public void pipeline() throws Exception {
        List<RedisFuture<String>> replies = new ArrayList<>();
        List<String> expected = new ArrayList<>();
        // A connection of its own: all users of a shared one would wait for unflushed requests.
        try (StatefulRedisConnection<String, String> batching = client.connect()) {
            batching.setAutoFlushCommands(false);
            RedisAsyncCommands<String, String> async = batching.async();
            numbered(keys("pipeline", 300), Integer::toString).forEach((key, value) -> {
                replies.add(async.set(key, value));
                replies.add(async.get(key));
                expected.addAll(List.of("OK", value));
            });
            batching.flushCommands();
            Expect.that(LettuceFutures.awaitAll(TIMEOUT, replies.toArray(RedisFuture[]::new)), "replies are missing");
        }
        for (int n = 0; n < expected.size(); n++) {
            Expect.equal(replies.get(n).get(), expected.get(n));
        }
    }

    @Override
    public void multiKey() {
        String[] names = keyArray("multi", 100);
        Map<String, String> values = numbered(List.of(names), Integer::toString);
        Expect.equal(redis.mset(values), "OK");
        Expect.equal(valuesOf(redis.mget(names)), List.copyOf(values.values()));
        Expect.equal(valuesOf(redis.mget("multi:none", "multi:7")), Arrays.asList(null, "7"));
        Expect.equal(redis.exists(names), 100L);
        Expect.equal(redis.del(Arrays.copyOfRange(names, 50, 100)), 50L);
        List<String> left = IntStream.range(0, 100).mapToObj(n -> n < 50 ? Integer.toString(n) : null).toList();
        Expect.equal(valuesOf(redis.mget(names)), left);
        Expect.equal(redis.unlink(names), 50L);
    }

    @Override
    public void scan() {
        List<String> names = keys("scan", 1000);
        redis.mset(numbered(names, Integer::toString));
        ScanArgs ours = ScanArgs.Builder.matches("scan:*").limit(50);
        Expect.eachOnce(ScanIterator.scan(redis, ours).stream().toList(), names);

        List<String> members = keys("member", 1000);
        redis.hset("scanned:hash", numbered(members, Integer::toString));
        redis.sadd("scanned:set", members.toArray(String[]::new));
        Object[] scored = IntStream.range(0, 1000).boxed().flatMap(n -> Stream.of(n * 1.0, members.get(n))).toArray();
        redis.zadd("scanned:zset", scored);
        ScanArgs some = ScanArgs.Builder.limit(50);
        List<String> numberedMembers = members.stream().map(member -> member + "=" + member.split(":")[1]).toList();
        Expect.eachOnce(
                ScanIterator.hscan(redis, "scanned:hash", some).stream()
                        .map(pair -> pair.getKey() + "=" + pair.getValue())
                        .toList(),
                numberedMembers);
        Expect.eachOnce(ScanIterator.sscan(redis, "scanned:set", some).stream().toList(), members);
        Expect.eachOnce(
                ScanIterator.zscan(redis, "scanned:zset", some).stream()
                        .map(pair -> pair.getValue() + "=" + (int) pair.getScore())
                        .toList(),
                numberedMembers);
    }

    @Override
    public void scripts() throws Exception {
        String[] key = {"script:a"};
        String unknown = "0".repeat(40);
        Expect.equal(redis.eval(ADD, ScriptOutputType.INTEGER, key, "5"), 5L);
        String sha = redis.scriptLoad(ADD);
        Expect.equal(sha, redis.digest(ADD));
        // Keys of several shards: each must have got the script.
        for (String name : keys("script:sha", 20)) {
            Expect.equal(redis.evalsha(sha, ScriptOutputType.INTEGER, new String[] {name}, "3"), 3L);
        }
        Expect.error(RedisCommandExecutionException.class, "NOSCRIPT",
                () -> redis.evalsha(unknown, ScriptOutputType.INTEGER, key, "5"));
    }

    @Override
    public void bigValues() {
        byte[] key = "big".getBytes(StandardCharsets.UTF_8);
        try (StatefulRedisConnection<byte[], byte[]> binary = client.connect(ByteArrayCodec.INSTANCE)) {
            for (int length : new int[] {MIB, 20 * MIB}) {
                byte[] value = Sample.bytes(length);
                Expect.equal(binary.sync().set(key, value), "OK");
                Expect.sameBytes(binary.sync().get(key), value);
            }
            Expect.equal(binary.sync().del(key), 1L);
        }
    }

    @Override
    public void errors() throws Exception {
        redis.set("errors", "text");
        Expect.error(RedisCommandExecutionException.class, "WRONGTYPE ", () -> redis.lpush("errors", "x"));
        Expect.equal(redis.get("errors"), "text");
        Expect.error(RedisCommandExecutionException.class, "ERR value is not an integer", () -> redis.incr("errors"));
        Expect.equal(redis.get("errors"), "text");
    }

    /** Lettuce is made for one shared connection, so 50 chains of futures share one. */
    @Override
    public void concurrent() throws Exception {
        RedisAsyncCommands<String, String> async = conn.async();
        CompletableFuture<?>[] tasks = IntStream.range(0, 50).mapToObj(n -> {
            CompletionStage<Void> task = CompletableFuture.completedFuture(null);
            for (String name : keys("concurrent:" + n, 50)) {
                task = task.thenCompose(before -> async.set(name, "of " + name))
                        .thenCompose(ok -> async.get(name))
                        .thenAccept(value -> Expect.equal(value, "of " + name));
            }
            return task.toCompletableFuture();
        }).toArray(CompletableFuture[]::new);
        CompletableFuture.allOf(tasks).get(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
    }

    @Override
    public void cluster() {
        try (RedisClusterClient clusterClient = RedisClusterClient.create(uri);
                StatefulRedisClusterConnection<String, String> clusterConn = clusterClient.connect()) {
            RedisAdvancedClusterCommands<String, String> cluster = clusterConn.sync();
            Map<String, String> values = numbered(keys("cluster", 100), Integer::toString);
            values.forEach((name, value) -> Expect.equal(cluster.set(name, value), "OK"));
            values.forEach((name, value) -> Expect.equal(cluster.get(name), value));
            // Lettuce itself splits these by their slots.
            Expect.equal(cluster.mset(values), "OK");
            Expect.equal(valuesOf(cluster.mget(values.keySet().toArray(String[]::new))), List.copyOf(values.values()));
            List<RedisFuture<Long>> replies = keys("cluster", 10).stream().map(clusterConn.async()::incr).toList();
            Expect.that(LettuceFutures.awaitAll(TIMEOUT, replies.toArray(RedisFuture[]::new)), "replies are missing");
            Expect.equal(
                    replies.stream().map(reply -> reply.toCompletableFuture().join()).toList(),
                    Stream.iterate(1L, n -> n + 1).limit(10).toList());
            Expect.equal(clusterClient.getPartitions().size(), 1);
        }
    }

    /** A transaction takes a connection of its own, as requests of others would become a part of it. */
    @Override
    public void transactions() throws Exception {
        try (StatefulRedisConnection<String, String> own = client.connect()) {
            RedisCommands<String, String> transaction = own.sync();
            transaction.multi();
            transaction.set("tx:a{t}", "1");
            transaction.incr("tx:a{t}");
            transaction.rpush("tx:b{t}", "x", "y");
            transaction.lrange("tx:b{t}", 0, -1);
            Expect.equal(transaction.exec().stream().toList(), List.of("OK", 2L, 2L, List.of("x", "y")));
            for (String written : List.of("tx:a{t}", "tx:b{t}")) {
                transaction.watch("tx:a{t}");
                redis.set(written, "10");
                transaction.multi();
                transaction.incr("tx:a{t}");
                TransactionResult result = transaction.exec();
                Expect.equal(result.wasDiscarded(), written.equals("tx:a{t}"));
                Expect.equal(result.stream().toList(), result.wasDiscarded() ? List.of() : List.of(11L));
            }
            // Keys of several shards make no transaction, and none of its commands runs.
            transaction.multi();
            keys("tx:apart", 20).forEach(name -> transaction.set(name, "x"));
            Expect.error(RedisCommandExecutionException.class, "EXECABORT ", transaction::exec);
            Expect.equal(transaction.exists(keyArray("tx:apart", 20)), 0L);
        }
    }

    @Override
    public void blocking() throws Exception {
        try (StatefulRedisConnection<String, String> waiting = client.connect()) {
            RedisFuture<KeyValue<String, String>> popped = waiting.async().blpop(20.0, "blocking:a{t}", "blocking:b{t}");
            Restart.eventually(() -> {
                Expect.that(redis.clientList().contains(" flags=b "), "nobody waits");
                return null;
            });
            Expect.equal(redis.rpush("blocking:b{t}", "x", "y"), 2L);
            Expect.equal(popped.get(), KeyValue.just("blocking:b{t}", "x"));
            Expect.equal(waiting.sync().brpop(0.01, "blocking:none"), null);
        }
    }

    @Override
    public void pubsub() throws Exception {
        LinkedBlockingQueue<String> heard = new LinkedBlockingQueue<>();
        try (StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub()) {
            subscriber.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String message) {
                    heard.add(channel + " " + message);
                }

                @Override
                public void message(String pattern, String channel, String message) {
                    heard.add(pattern + " " + channel + " " + message);
                }
            });
            subscriber.sync().subscribe("news:a", "news:b");
            subscriber.sync().psubscribe("news:*");
            // Both are confirmed when this is, which comes behind them.
            Expect.equal(subscriber.sync().ping(), "PONG");
            Expect.equal(redis.publish("news:a", "x"), 2L);
            Expect.eachOnce(Sample.take(heard, 2), List.of("news:a x", "news:* news:a x"));
            subscriber.sync().punsubscribe("news:*");
            Expect.equal(subscriber.sync().ping(), "PONG");
            List<String> told = keys("told", 100);
            told.forEach(message -> Expect.equal(redis.publish("news:b", message), 1L));
            Expect.equal(Sample.take(heard, 100), told.stream().map(message -> "news:b " + message).toList());
            subscriber.sync().unsubscribe("news:a", "news:b");
            Expect.equal(subscriber.sync().ping(), "PONG");
            Expect.equal(redis.publish("news:a", "y"), 0L);
        }
    }

    @Override
    public void databases() throws Exception {
        Expect.equal(redis.set("database", "zero"), "OK");
        RedisURI second = RedisURI.builder(uri).withDatabase(1).build();
        try (StatefulRedisConnection<String, String> own = client.connect(StringCodec.UTF8, second)) {
            RedisCommands<String, String> other = own.sync();
            Expect.equal(other.get("database"), null);
            Expect.equal(other.set("database", "one"), "OK");
            Expect.equal(other.select(0), "OK");
            Expect.equal(other.get("database"), "zero");
            Expect.error(
                    RedisCommandExecutionException.class, "ERR DB index is out of range", () -> other.select(99));
        }
    }

    @Override
    public void reconnect() throws Exception {
        Restart.await();
        Restart.eventually(() -> {
            Expect.equal(redis.set("reconnect", "again"), "OK");
            Expect.equal(redis.get("reconnect"), "again");
            return null;
        });
    }

    @Override
    public void close() {
        if (client != null) {
            client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        }
    }

    private static List<String> valuesOf(List<KeyValue<String, String>> pairs) {
        return pairs.stream().map(pair -> pair.getValueOrElse(null)).toList();
    }
}
