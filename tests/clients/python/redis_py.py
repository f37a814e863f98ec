"""redis-py with threads: `Redis`, pipelines, `scan_iter`, `register_script`, pools, `RedisCluster`, `Lock`, `PubSub`."""

from concurrent.futures import ThreadPoolExecutor

import redis

from checks import (
    EVERY_BYTE,
    MIB,
    eventually,
    expect,
    expect_each_once,
    keys,
    patterned_bytes,
    restart,
    somebody_waits,
)

ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])"


class RedisPy:
    def __init__(self, port):
        # It waits 5 s for a reply by default; that a machine is busy is no fault.
        self.options = {"host": "127.0.0.1", "port": port, "socket_timeout": 20}
        # Made by `connect` and `concurrent`; `reconnect` goes on with both.
        self.client = None
        self.pooled = None

    def connect(self):
        self.client = redis.Redis(**self.options)
        expect(self.client.ping(), True)
        # From 8 on it asks for RESP3 by itself.
        greeting = self.client.execute_command("HELLO")
        if redis.__version__.startswith("5."):
            greeting = dict(zip(greeting[::2], greeting[1::2]))
        expect(greeting[b"proto"], 2 if redis.__version__.startswith("5.") else 3)

    def strings(self):
        r = self.client
        expect(r.set("strings:a", "one"), True)
        expect(r.get("strings:a"), b"one")
        expect(r.get("strings:none"), None)
        expect(r.set("strings:a", "two", nx=True), None)
        expect(r.append("strings:a", " é"), 6)
        expect(r.getrange("strings:a", 0, 2), b"one")
        with redis.Redis(**self.options, decode_responses=True) as text:
            expect(text.getdel("strings:a"), "one é")
        expect(r.exists("strings:a"), 0)
        expect(r.set("strings:binary", EVERY_BYTE), True)
        expect(r.get("strings:binary"), EVERY_BYTE)

    def hashes(self):
        r = self.client
        expect(r.hset("hash", mapping={"name": "Ada", "born": 1815}), 2)
        expect(r.hgetall("hash"), {b"name": b"Ada", b"born": b"1815"})
        expect(r.hmget("hash", ["born", "none"]), [b"1815", None])
        expect(r.hincrby("hash", "born", 2), 1817)
        expect(r.hdel("hash", "name", "none"), 1)
        expect(r.hkeys("hash"), [b"born"])

    def lists_sets_zsets(self):
        r = self.client
        expect(r.rpush("list", "a", "b", "c"), 3)
        expect(r.lpop("list"), b"a")
        expect(r.lrange("list", 0, -1), [b"b", b"c"])

        expect(r.sadd("set:1{tag}", "a", "b"), 2)
        expect(r.sadd("set:2{tag}", "b", "c"), 2)
        expect(r.sinter("set:1{tag}", "set:2{tag}"), {b"b"})
        expect(r.sismember("set:1{tag}", "c"), 0)

        expect(r.zadd("zset", {"a": 1.5, "b": 0.5, "c": 2}), 3)
        expect(r.zrange("zset", 0, 1, withscores=True), [(b"b", 0.5), (b"a", 1.5)])
        expect(r.zscore("zset", "c"), 2.0)
        expect(r.zrank("zset", "none"), None)

    def counters_expiry(self):
        r = self.client
        expect(r.incr("counter"), 1)
        expect(r.incrby("counter", 41), 42)
        expect(r.incrbyfloat("counter", 0.5), 42.5)
        expect(r.ttl("counter"), -1)
        expect(r.expire("counter", 100), True)
        expect(90 < r.ttl("counter") <= 100, True)
        expect(r.persist("counter"), True)
        r.set("brief", "x", px=50)
        eventually(lambda: expect(r.get("brief"), None))

    def pipeline(self):
        names = keys("pipeline", 300)
        # With transaction=True, the default, it would send MULTI and EXEC around them: keys of one shard, then.
        pipe = self.client.pipeline(transaction=False)
        for n, name in enumerate(names):
            pipe.set(name, n).get(name)
        expect(pipe.execute(), [reply for n in range(300) for reply in (True, b"%d" % n)])

    def multi_key(self):
        r = self.client
        values = {name: b"%d" % n for n, name in enumerate(keys("multi", 100))}
        names = list(values)
        expect(r.mset(values), True)
        expect(r.mget(names + ["multi:none"]), list(values.values()) + [None])
        expect(r.exists(*names, "multi:none"), 100)
        expect(r.delete(*names[50:]), 50)
        expect(r.mget(names), list(values.values())[:50] + [None] * 50)
        expect(r.unlink(*names), 50)

    def scan(self):
        r = self.client
        names = keys("scan", 1000)
        r.mset(dict.fromkeys(names, "x"))
        expect_each_once(r.scan_iter("scan:*", count=50), [name.encode() for name in names])

        members = [member.encode() for member in keys("member", 1000)]
        scores = {member: float(n) for n, member in enumerate(members)}
        r.hset("scanned:hash", mapping=dict.fromkeys(members, "x"))
        r.sadd("scanned:set", *members)
        r.zadd("scanned:zset", scores)
        expect_each_once(r.hscan_iter("scanned:hash", count=50), [(member, b"x") for member in members])
        expect_each_once(r.sscan_iter("scanned:set", count=50), members)
        expect_each_once(r.zscan_iter("scanned:zset", count=50), scores.items())

    def scripts(self):
        r = self.client
        add = r.register_script(ADD)
        expect(r.eval(ADD, 1, "script:a", 5), 5)
        sha = r.script_load(ADD)
        # Keys of several shards: each must have got the script.
        expect([r.evalsha(sha, 1, name, 3) for name in keys("script:sha", 20)], [3] * 20)
        expect(add(keys=["script:object"], args=[3]), 3)
        pipe = r.pipeline(transaction=False)
        for name in keys("script:piped", 20):
            add(keys=[name], args=[4], client=pipe)
        expect(pipe.execute(), [4] * 20)

    def big_values(self):
        r = self.client
        for length in (MIB, 20 * MIB):
            value = patterned_bytes(length)
            expect(r.set("big", value), True)
            expect(r.get("big") == value, True)
        expect(r.delete("big"), 1)

    def errors(self):
        r = self.client
        r.set("errors", "text")
        expect(str(raised(redis.ResponseError, lambda: r.lpush("errors", "x"))).split()[0], "WRONGTYPE")
        expect(r.get("errors"), b"text")
        pipe = r.pipeline(transaction=False)
        before, failure, after = pipe.get("errors").incr("errors").get("errors").execute(raise_on_error=False)
        expect((before, after), (b"text", b"text"))
        expect(isinstance(failure, redis.ResponseError), True)

    def concurrent(self):
        pool = redis.BlockingConnectionPool(**self.options, max_connections=10, timeout=10)
        self.pooled = redis.Redis.from_pool(pool)

        def task(n):
            for name in keys(f"concurrent:{n}", 50):
                expect(self.pooled.set(name, f"of {name}"), True)
                expect(self.pooled.get(name), f"of {name}".encode())

        with ThreadPoolExecutor(50) as executor:
            # A list, so that a task's exception is raised here.
            list(executor.map(task, range(50)))

    def cluster(self):
        with redis.RedisCluster(**self.options) as cluster:
            values = {name: b"%d" % n for n, name in enumerate(keys("cluster", 100))}
            for name, value in values.items():
                expect(cluster.set(name, value), True)
            expect([cluster.get(name) for name in values], list(values.values()))
            expect(cluster.mget_nonatomic(list(values)), list(values.values()))
            tagged = {f"{name}:{{tag}}": n for n, name in enumerate(keys("cluster", 10))}
            expect(cluster.mset(tagged), True)
            expect(cluster.mget(list(tagged)), [b"%d" % n for n in range(10)])
            pipe = cluster.pipeline()
            for name in tagged:
                pipe.incr(name)
            expect(pipe.execute(), [n + 1 for n in range(10)])
            expect(len(cluster.get_primaries()), 1)

    def transactions(self):
        r = self.client
        with r.pipeline(transaction=True) as pipe:
            pipe.set("tx:a{t}", 1).incr("tx:a{t}").rpush("tx:b{t}", "x", "y").lrange("tx:b{t}", 0, -1)
            expect(pipe.execute(), [True, 2, 2, [b"x", b"y"]])
            # An error at run time is the reply of one command; the others run.
            pipe.incr("tx:a{t}").incr("tx:b{t}").get("tx:a{t}")
            first, failure, last = pipe.execute(raise_on_error=False)
            expect((first, isinstance(failure, redis.ResponseError), last), (3, True, b"3"))

        def double(pipe):
            value = int(pipe.get("tx:a{t}"))
            pipe.multi()
            pipe.set("tx:a{t}", value * 2)

        expect(r.transaction(double, "tx:a{t}"), [True])
        expect(r.get("tx:a{t}"), b"6")

        def watched(meanwhile):
            with r.pipeline() as pipe:
                pipe.watch("tx:a{t}")
                meanwhile(pipe)
                pipe.multi()
                pipe.incr("tx:a{t}")
                return pipe.execute()

        # Another connection writes: with the pipeline's own it would be a part of the transaction.
        raised(redis.WatchError, lambda: watched(lambda pipe: r.set("tx:a{t}", 10)))
        expect(watched(lambda pipe: r.set("tx:b{t}", 10)), [11])
        expect(watched(lambda pipe: (pipe.unwatch(), r.set("tx:a{t}", 20))), [21])

        # Keys of several shards make no transaction, and none of its commands runs.
        pipe = r.pipeline(transaction=True)
        for name in keys("tx:apart", 20):
            pipe.set(name, "x")
        expect("same slot" in str(raised(redis.RedisError, pipe.execute)), True)
        expect(r.exists(*keys("tx:apart", 20)), 0)

    def locks(self):
        r = self.client
        with r.lock("lock", timeout=30) as lock:
            expect((lock.owned(), lock.locked()), (True, True))
            expect(r.lock("lock", blocking=False).acquire(), False)
            expect(lock.extend(30), True)
            expect(lock.reacquire(), True)
        expect(r.exists("lock"), 0)
        counted = []

        def count(n):
            with r.lock("lock:counter", timeout=30, blocking_timeout=20, sleep=0.005):
                # Without the lock some would be lost.
                counted.append(int(r.get("lock:counted") or 0))
                r.set("lock:counted", counted[-1] + 1)

        with ThreadPoolExecutor(5) as executor:
            list(executor.map(count, range(20)))
        expect(counted, list(range(20)))
        # The former holder of an expired lock must not release another holder's lock.
        mine = r.lock("lock:lost", timeout=30)
        mine.acquire()
        r.set("lock:lost", "of another")
        raised(redis.exceptions.LockNotOwnedError, mine.release)

    def blocking(self):
        r = self.client
        with ThreadPoolExecutor(1) as executor:
            popped = executor.submit(lambda: r.blpop(["blocking:a{t}", "blocking:b{t}"], timeout=20))
            eventually(lambda: expect(somebody_waits(r.client_list()), True))
            expect(r.rpush("blocking:b{t}", "x", "y"), 2)
            expect(list(popped.result()), [b"blocking:b{t}", b"x"])
            moved = executor.submit(lambda: r.blmove("blocking:a{t}", "blocking:b{t}", 20, "LEFT", "RIGHT"))
            eventually(lambda: expect(somebody_waits(r.client_list()), True))
            expect(r.rpush("blocking:a{t}", "z"), 1)
            expect(moved.result(), b"z")
        expect(r.lrange("blocking:b{t}", 0, -1), [b"y", b"z"])
        expect(r.brpop("blocking:none", timeout=0.01), None)
        entry = r.xadd("blocking:stream", {"field": "value"})
        expect(r.xread({"blocking:stream": entry}, block=10) or None, None)

    def pubsub(self):
        r = self.client
        pubsub = r.pubsub()
        pubsub.subscribe("news:a", "news:b")
        pubsub.psubscribe("news:*")
        confirmed = sorted((message["type"], message["channel"]) for message in received(pubsub, 3))
        expect(confirmed, [("psubscribe", b"news:*"), ("subscribe", b"news:a"), ("subscribe", b"news:b")])
        expect(r.pubsub_numsub("news:a", "news:none"), [(b"news:a", 1), (b"news:none", 0)])
        # One to the channel and one to the pattern.
        expect(r.publish("news:a", EVERY_BYTE), 2)
        expect(r.publish("news:other", "y"), 1)
        told = [(message["type"], message["channel"], message["data"]) for message in received(pubsub, 3)]
        expected = [
            ("message", b"news:a", EVERY_BYTE),
            ("pmessage", b"news:a", EVERY_BYTE),
            ("pmessage", b"news:other", b"y"),
        ]
        # Between channels there is no order: each has its shard.
        expect(sorted(told), expected)
        for n in range(100):
            r.publish("news:b", n)
        told = [message["data"] for message in received(pubsub, 200) if message["type"] == "message"]
        expect(told, [b"%d" % n for n in range(100)])
        pubsub.unsubscribe("news:a", "news:b")
        pubsub.punsubscribe("news:*")
        confirmed = sorted(message["type"] for message in received(pubsub, 3))
        expect(confirmed, ["punsubscribe", "unsubscribe", "unsubscribe"])
        expect(r.publish("news:a", "z"), 0)
        pubsub.close()

    def databases(self):
        r = self.client
        expect(r.set("database", "zero"), True)
        with redis.Redis(**self.options, db=1) as other:
            expect(other.get("database"), None)
            expect(other.set("database", "one"), True)
            expect(other.select(2), True)
            expect(other.get("database"), None)
            expect(other.dbsize(), 0)
            expect(str(raised(redis.ResponseError, lambda: other.select(99))), "DB index is out of range")
        expect(r.get("database"), b"zero")
        expect(r.move("database", 2), True)
        with redis.Redis(**self.options, db=2) as other:
            expect(other.get("database"), b"zero")

    def reconnect(self):
        restart()
        for client in (self.client, self.pooled):

            def works_again():
                expect(client.set("reconnect", "again"), True)
                expect(client.get("reconnect"), b"again")

            eventually(works_again)

    def close(self):
        for client in (self.client, self.pooled):
            if client:
                client.close()


def raised(kind, work):
    """The exception of this kind that `work` raises."""
    try:
        result = work()
    except kind as error:
        return error
    raise AssertionError(f"{result!r} instead of a {kind.__name__}")


def received(pubsub, count):
    """The next messages of all kinds, so many."""
    messages = []
    while len(messages) < count:
        message = pubsub.get_message(timeout=20)
        if message is None:
            raise AssertionError(f"{len(messages)} messages instead of {count}: {messages!r}")
        messages.append(message)
    return messages
