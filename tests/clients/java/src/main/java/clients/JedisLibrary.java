package clients;

import static clients.Sample.ADD;
import static clients.Sample.MIB;
import static clients.Sample.keyArray;
import static clients.Sample.keys;
import static clients.Sample.numbered;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Function;
import java.util.stream.IntStream;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.resps.Tuple;
import redis.clients.jedis.util.KeyValue;

/** Jedis: blocking calls over a pool of connections, pipelines, transactions, cursors, {@code RedisClusterClient}. */
final class JedisLibrary implements Library {
    /** Jedis waits 2 s for a reply by default; that a machine is busy is no fault. */
    private static final JedisClientConfig PATIENT =
            DefaultJedisClientConfig.builder().socketTimeoutMillis(20_000).build();

    private final int port;
    private RedisClient client;
    private RedisClient pooled;

    JedisLibrary(int port) {
        this.port = port;
    }

    @Override
    public void connect() {
        client = RedisClient.builder().hostAndPort("127.0.0.1", port).clientConfig(PATIENT).build();
        Expect.equal(client.ping(), "PONG");
        Expect.that(client("INFO").contains(" resp=3"), client("INFO"));
    }

    @Override
    public void strings() {
        Expect.equal(client.set("strings:a", "one"), "OK");
        Expect.equal(client.get("strings:a"), "one");
        Expect.equal(client.get("strings:none"), null);
        Expect.equal(client.set("strings:a", "two", SetParams.setParams().nx()), null);
        Expect.equal(client.append("strings:a", " é"), 6L);
        Expect.equal(client.getrange("strings:a", 0, 2), "one");
        Expect.equal(client.getDel("strings:a"), "one é");
        Expect.equal(client.exists("strings:a"), false);
        byte[] key = "strings:binary".getBytes(StandardCharsets.UTF_8);
        Expect.equal(client.set(key, Sample.everyByte()), "OK");
        Expect.sameBytes(client.get(key), Sample.everyByte());
    }

    @Override
    public void hashes() {
        Expect.equal(client.hset("hash", Map.of("name", "Ada", "born", "1815")), 2L);
        Expect.equal(client.hgetAll("hash"), Map.of("name", "Ada", "born", "1815"));
        Expect.equal(client.hmget("hash", "born", "none"), Arrays.asList("1815", null));
        Expect.equal(client.hincrBy("hash", "born", 2), 1817L);
        Expect.equal(client.hdel("hash", "name", "none"), 1L);
        Expect.equal(client.hkeys("hash"), Set.of("born"));
    }

    @Override
    public void listsSetsZsets() {
        Expect.equal(client.rpush("list", "a", "b", "c"), 3L);
        Expect.equal(client.lpop("list"), "a");
        Expect.equal(client.lrange("list", 0, -1), List.of("b", "c"));

        Expect.equal(client.sadd("set:1{tag}", "a", "b"), 2L);
        Expect.equal(client.sadd("set:2{tag}", "b", "c"), 2L);
        Expect.equal(client.sinter("set:1{tag}", "set:2{tag}"), Set.of("b"));
        Expect.equal(client.sismember("set:1{tag}", "c"), false);

        Expect.equal(client.zadd("zset", Map.of("a", 1.5, "b", 0.5, "c", 2.0)), 3L);
        Expect.equal(client.zrangeWithScores("zset", 0, 1), List.of(new Tuple("b", 0.5), new Tuple("a", 1.5)));
        Expect.equal(client.zscore("zset", "c"), 2.0);
        Expect.equal(client.zrank("zset", "none"), null);
    }

    @Override
    public void countersExpiry() throws Exception {
        Expect.equal(client.incr("counter"), 1L);
        Expect.equal(client.incrBy("counter", 41), 42L);
        Expect.equal(client.incrByFloat("counter", 0.5), 42.5);
        Expect.equal(client.ttl("counter"), -1L);
        Expect.equal(client.expire("counter", 100), 1L);
        long ttl = client.ttl("counter");
        Expect.that(ttl > 90 && ttl <= 100, "TTL is " + ttl);
        Expect.equal(client.persist("counter"), 1L);
        client.set("brief", "x", SetParams.setParams().px(50));
        Restart.eventually(() -> {
            Expect.equal(client.get("brief"), null);
            return null;
        });
    }

    @Override
    public void pipeline() {
        List<Response<?>> replies = new ArrayList<>();
        List<Object> expected = new ArrayList<>();
        try (AbstractPipeline pipeline = client.pipelined()) {
            numbered(keys("pipeline", 300), Integer::toString).forEach((key, value) -> {
                replies.add(pipeline.set(key, value));
                replies.add(pipeline.get(key));
                expected.addAll(List.of("OK", value));
            });
            pipeline.sync();
        }
        Expect.equal(replies.stream().map(reply -> (Object) reply.get()).toList(), expected);
    }

    @Override
    public void multiKey() {
        String[] names = keyArray("multi", 100);
        List<String> values = IntStream.range(0, 100).mapToObj(Integer::toString).toList();
        Expect.equal(client.mset(alternating(names, values)), "OK");
        Expect.equal(client.mget(names), values);
        Expect.equal(client.mget("multi:none", "multi:7"), Arrays.asList(null, "7"));
        Expect.equal(client.exists(names), 100L);
        Expect.equal(client.del(Arrays.copyOfRange(names, 50, 100)), 50L);
        List<String> left = IntStream.range(0, 100).mapToObj(n -> n < 50 ? values.get(n) : null).toList();
        Expect.equal(client.mget(names), left);
        Expect.equal(client.unlink(names), 50L);
    }

    @Override
    public void scan() {
        List<String> names = keys("scan", 1000);
        client.mset(alternating(names.toArray(String[]::new), names));
        Expect.eachOnce(client.scanIteration(50, "scan:*").collect(new ArrayList<>()), names);

        List<String> members = keys("member", 1000);
        client.hset("scanned:hash", numbered(members, Integer::toString));
        client.sadd("scanned:set", members.toArray(String[]::new));
        client.zadd("scanned:zset", numbered(members, n -> (double) n));
        // Jedis iterates over SCAN only; for the others a program passes the cursor on by itself.
        ScanParams some = new ScanParams().count(50);
        List<String> numberedMembers = members.stream().map(member -> member + "=" + member.split(":")[1]).toList();
        Expect.eachOnce(
                collect(cursor -> client.hscan("scanned:hash", cursor, some)).stream()
                        .map(pair -> pair.getKey() + "=" + pair.getValue())
                        .toList(),
                numberedMembers);
        Expect.eachOnce(collect(cursor -> client.sscan("scanned:set", cursor, some)), members);
        Expect.eachOnce(
                collect(cursor -> client.zscan("scanned:zset", cursor, some)).stream()
                        .map(pair -> pair.getElement() + "=" + (int) pair.getScore())
                        .toList(),
                numberedMembers);
    }

    @Override
    public void scripts() throws Exception {
        Expect.equal(client.eval(ADD, List.of("script:a"), List.of("5")), 5L);
        String sha = client.scriptLoad(ADD);
        // Keys of several shards: each must have got the script.
        for (String name : keys("script:sha", 20)) {
            Expect.equal(client.evalsha(sha, List.of(name), List.of("3")), 3L);
        }
        Expect.error(JedisDataException.class, "NOSCRIPT",
                () -> client.evalsha("0".repeat(40), List.of("script:a"), List.of("5")));
    }

    @Override
    public void bigValues() {
        byte[] key = "big".getBytes(StandardCharsets.UTF_8);
        for (int length : new int[] {MIB, 20 * MIB}) {
            byte[] value = Sample.bytes(length);
            Expect.equal(client.set(key, value), "OK");
            Expect.sameBytes(client.get(key), value);
        }
        Expect.equal(client.del(key), 1L);
    }

    @Override
    public void errors() throws Exception {
        client.set("errors", "text");
        Expect.error(JedisDataException.class, "WRONGTYPE ", () -> client.lpush("errors", "x"));
        Expect.equal(client.get("errors"), "text");
        try (AbstractPipeline pipeline = client.pipelined()) {
            Response<String> before = pipeline.get("errors");
            Response<Long> failure = pipeline.incr("errors");
            Response<String> after = pipeline.get("errors");
            pipeline.sync();
            Expect.equal(List.of(before.get(), after.get()), List.of("text", "text"));
            Expect.error(JedisDataException.class, "ERR value is not an integer", failure::get);
        }
    }

    @Override
    public void concurrent() throws Exception {
        ConnectionPoolConfig ofTen = new ConnectionPoolConfig();
        ofTen.setMaxTotal(10);
        ofTen.setMaxWait(Duration.ofSeconds(10));
        pooled = RedisClient.builder()
                .hostAndPort("127.0.0.1", port)
                .clientConfig(PATIENT)
                .poolConfig(ofTen)
                .build();
        ExecutorService threads = Executors.newFixedThreadPool(50);
        try {
            List<Callable<Void>> tasks = IntStream.range(0, 50).<Callable<Void>>mapToObj(n -> () -> {
                for (String name : keys("concurrent:" + n, 50)) {
                    Expect.equal(pooled.set(name, "of " + name), "OK");
                    Expect.equal(pooled.get(name), "of " + name);
                }
                return null;
            }).toList();
            for (Future<Void> task : threads.invokeAll(tasks)) {
                task.get();
            }
        } finally {
            threads.shutdownNow();
        }
    }

    @Override
    public void cluster() {
        Set<HostAndPort> nodes = Set.of(new HostAndPort("127.0.0.1", port));
        try (RedisClusterClient cluster = RedisClusterClient.builder().nodes(nodes).clientConfig(PATIENT).build()) {
            Map<String, String> values = numbered(keys("cluster", 100), Integer::toString);
            values.forEach((name, value) -> Expect.equal(cluster.set(name, value), "OK"));
            values.forEach((name, value) -> Expect.equal(cluster.get(name), value));
            String[] tagged = keys("cluster", 10).stream().map(name -> name + ":{tag}").toArray(String[]::new);
            List<String> numbers = List.copyOf(values.values()).subList(0, 10);
            Expect.equal(cluster.mset(alternating(tagged, numbers)), "OK");
            Expect.equal(cluster.mget(tagged), numbers);
            try (AbstractPipeline pipeline = cluster.pipelined()) {
                List<Response<Long>> replies = Arrays.stream(tagged).map(pipeline::incr).toList();
                pipeline.sync();
                List<Long> expected = IntStream.rangeClosed(1, 10).mapToObj(n -> (long) n).toList();
                Expect.equal(replies.stream().map(Response::get).toList(), expected);
            }
            Expect.equal(cluster.getClusterNodes().keySet(), Set.of("127.0.0.1:" + port));
        }
    }

    @Override
    public void transactions() throws Exception {
        try (AbstractTransaction transaction = client.multi()) {
            transaction.set("tx:a{t}", "1");
            Response<Long> incremented = transaction.incr("tx:a{t}");
            transaction.rpush("tx:b{t}", "x", "y");
            transaction.lrange("tx:b{t}", 0, -1);
            Expect.equal(transaction.exec(), List.of("OK", 2L, 2L, List.of("x", "y")));
            Expect.equal(incremented.get(), 2L);
        }
        for (String written : List.of("tx:a{t}", "tx:b{t}")) {
            try (AbstractTransaction transaction = client.transaction(false)) {
                transaction.watch("tx:a{t}");
                client.set(written, "10");
                transaction.multi();
                transaction.incr("tx:a{t}");
                Expect.equal(transaction.exec(), written.equals("tx:a{t}") ? null : List.of(11L));
            }
        }
        // Keys of several shards make no transaction, and none of its commands runs.
        try (AbstractTransaction transaction = client.multi()) {
            keys("tx:apart", 20).forEach(name -> transaction.set(name, "x"));
            Expect.error(JedisDataException.class, "EXECABORT ", transaction::exec);
        }
        Expect.equal(client.exists(keyArray("tx:apart", 20)), 0L);
    }

    @Override
    public void blocking() throws Exception {
        CompletableFuture<KeyValue<String, String>> popped =
                CompletableFuture.supplyAsync(() -> client.blpop(20.0, "blocking:a{t}", "blocking:b{t}"));
        Restart.eventually(() -> {
            Expect.that(client("LIST").contains(" flags=b "), "nobody waits");
            return null;
        });
        Expect.equal(client.rpush("blocking:b{t}", "x", "y"), 2L);
        Expect.equal(popped.get(), new KeyValue<>("blocking:b{t}", "x"));
        Expect.equal(client.brpop(0.01, "blocking:none"), null);
    }

    @Override
    public void pubsub() throws Exception {
        LinkedBlockingQueue<String> heard = new LinkedBlockingQueue<>();
        JedisPubSub subscriber = new JedisPubSub() {
            @Override
            public void onSubscribe(String channel, int count) {
                heard.add("subscribed to " + channel);
            }

            @Override
            public void onPSubscribe(String pattern, int count) {
                heard.add("subscribed to " + pattern);
            }

            @Override
            public void onPUnsubscribe(String pattern, int count) {
                heard.add("unsubscribed from " + pattern);
            }

            @Override
            public void onMessage(String channel, String message) {
                heard.add(channel + " " + message);
            }

            @Override
            public void onPMessage(String pattern, String channel, String message) {
                heard.add(pattern + " " + channel + " " + message);
            }
        };
        // It returns when nothing is subscribed any more.
        CompletableFuture<Void> ended = CompletableFuture.runAsync(() -> client.subscribe(subscriber, "news:a", "news:b"));
        Expect.equal(Sample.take(heard, 2), List.of("subscribed to news:a", "subscribed to news:b"));
        subscriber.psubscribe("news:*");
        Expect.equal(Sample.take(heard, 1), List.of("subscribed to news:*"));
        Expect.equal(client.publish("news:a", "x"), 2L);
        Expect.eachOnce(Sample.take(heard, 2), List.of("news:a x", "news:* news:a x"));
        subscriber.punsubscribe("news:*");
        Expect.equal(Sample.take(heard, 1), List.of("unsubscribed from news:*"));
        List<String> told = keys("told", 100);
        told.forEach(message -> client.publish("news:b", message));
        Expect.equal(Sample.take(heard, 100), told.stream().map(message -> "news:b " + message).toList());
        subscriber.unsubscribe();
        ended.get();
        Expect.equal(client.publish("news:a", "z"), 0L);
    }

    @Override
    public void databases() throws Exception {
        Expect.equal(client.set("database", "zero"), "OK");
        JedisClientConfig second =
                DefaultJedisClientConfig.builder().socketTimeoutMillis(20_000).database(1).build();
        try (RedisClient other = RedisClient.builder().hostAndPort("127.0.0.1", port).clientConfig(second).build()) {
            Expect.equal(other.get("database"), null);
            Expect.equal(other.set("database", "one"), "OK");
        }
        Expect.equal(client.get("database"), "zero");
        // The class of one connection alone has no RESP3.
        JedisClientConfig old =
                DefaultJedisClientConfig.builder().socketTimeoutMillis(20_000).serverDefaultProtocol().build();
        try (Jedis alone = new Jedis(new HostAndPort("127.0.0.1", port), old)) {
            Expect.equal(alone.select(1), "OK");
            Expect.equal(alone.get("database"), "one");
            Expect.error(JedisDataException.class, "ERR DB index is out of range", () -> alone.select(99));
        }
    }

    @Override
    public void reconnect() throws Exception {
        Restart.await();
        for (RedisClient lost : List.of(client, pooled)) {
            // Each failure removes one broken connection from the pool.
            Restart.eventually(() -> {
                Expect.equal(lost.set("reconnect", "again"), "OK");
                Expect.equal(lost.get("reconnect"), "again");
                return null;
            });
        }
    }

    @Override
    public void close() {
        for (RedisClient open : Arrays.asList(client, pooled)) {
            if (open != null) {
                open.close();
            }
        }
    }

    /** The reply of CLIENT, for which a pool has no method. */
    private String client(String subcommand) {
        CommandArguments arguments = new CommandArguments(Protocol.Command.CLIENT).add(subcommand);
        return new String((byte[]) client.executeCommand(arguments), StandardCharsets.UTF_8);
    }

    /** {@code key value key value …}, as MSET wants it. */
    private static String[] alternating(String[] keys, List<String> values) {
        return IntStream.range(0, 2 * keys.length)
                .mapToObj(n -> n % 2 == 0 ? keys[n / 2] : values.get(n / 2))
                .toArray(String[]::new);
    }

    /** All items that the cursor leads to. */
    private static <T> List<T> collect(Function<String, ScanResult<T>> scan) {
        List<T> items = new ArrayList<>();
        ScanResult<T> batch = scan.apply(ScanParams.SCAN_POINTER_START);
        items.addAll(batch.getResult());
        while (!batch.isCompleteIteration()) {
            batch = scan.apply(batch.getCursor());
            items.addAll(batch.getResult());
        }
        return items;
    }
}
