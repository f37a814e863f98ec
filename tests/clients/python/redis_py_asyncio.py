"""redis-py with coroutines: what redis_py.py does, by `redis.asyncio`. Tasks share the pool of one client."""

import asyncio

import redis.asyncio as redis
from redis.exceptions import LockNotOwnedError

from checks import (
    EVERY_BYTE,
    MIB,
    eventually_async,
    expect,
    expect_each_once,
    keys,
    patterned_bytes,
    restart,
    somebody_waits,
)

ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])"


class RedisPyAsyncio:
    def __init__(self, port):
        # It waits 5 s for a reply by default; that a machine is busy is no fault.
        self.options = {"host": "127.0.0.1", "port": port, "socket_timeout": 20}
        # Made by `connect`; `concurrent` gives it many connections, which `reconnect` loses.
        self.client = None

    async def connect(self):
        self.client = redis.Redis(**self.options)
        expect(await self.client.ping(), True)

    async def strings(self):
        r = self.client
        expect(await r.set("strings:a", "one"), True)
        expect(await r.get("strings:a"), b"one")
        expect(await r.get("strings:none"), None)
        expect(await r.set("strings:a", "two", nx=True), None)
        expect(await r.append("strings:a", " é"), 6)
        expect(await r.getrange("strings:a", 0, 2), b"one")
        async with redis.Redis(**self.options, decode_responses=True) as text:
            expect(await text.getdel("strings:a"), "one é")
        expect(await r.exists("strings:a"), 0)
        expect(await r.set("strings:binary", EVERY_BYTE), True)
        expect(await r.get("strings:binary"), EVERY_BYTE)

    async def hashes(self):
        r = self.client
        expect(await r.hset("hash", mapping={"name": "Ada", "born": 1815}), 2)
        expect(await r.hgetall("hash"), {b"name": b"Ada", b"born": b"1815"})
        expect(await r.hmget("hash", ["born", "none"]), [b"1815", None])
        expect(await r.hincrby("hash", "born", 2), 1817)
        expect(await r.hdel("hash", "name", "none"), 1)
        expect(await r.hkeys("hash"), [b"born"])

    async def lists_sets_zsets(self):
        r = self.client
        expect(await r.rpush("list", "a", "b", "c"), 3)
        expect(await r.lpop("list"), b"a")
        expect(await r.lrange("list", 0, -1), [b"b", b"c"])

        expect(await r.sadd("set:1{tag}", "a", "b"), 2)
        expect(await r.sadd("set:2{tag}", "b", "c"), 2)
        expect(await r.sinter("set:1{tag}", "set:2{tag}"), {b"b"})
        expect(await r.sismember("set:1{tag}", "c"), 0)

        expect(await r.zadd("zset", {"a": 1.5, "b": 0.5, "c": 2}), 3)
        expect(await r.zrange("zset", 0, 1, withscores=True), [(b"b", 0.5), (b"a", 1.5)])
        expect(await r.zscore("zset", "c"), 2.0)
        expect(await r.zrank("zset", "none"), None)

    async def counters_expiry(self):
        r = self.client
        expect(await r.incr("counter"), 1)
        expect(await r.incrby("counter", 41), 42)
        expect(await r.incrbyfloat("counter", 0.5), 42.5)
        expect(await r.ttl("counter"), -1)
        expect(await r.expire("counter", 100), True)
        expect(90 < await r.ttl("counter") <= 100, True)
        expect(await r.persist("counter"), True)
        await r.set("brief", "x", px=50)

        async def is_gone():
            expect(await r.get("brief"), None)

        await eventually_async(is_gone)

    async def pipeline(self):
        names = keys("pipeline", 300)
        # With transaction=True, the default, it would send MULTI and EXEC around them: keys of one shard, then.
        pipe = self.client.pipeline(transaction=False)
        for n, name in enumerate(names):
            pipe.set(name, n).get(name)
        expect(await pipe.execute(), [reply for n in range(300) for reply in (True, b"%d" % n)])

    async def multi_key(self):
        r = self.client
        values = {name: b"%d" % n for n, name in enumerate(keys("multi", 100))}
        names = list(values)
        expect(await r.mset(values), True)
        expect(await r.mget(names + ["multi:none"]), list(values.values()) + [None])
        expect(await r.exists(*names, "multi:none"), 100)
        expect(await r.delete(*names[50:]), 50)
        expect(await r.mget(names), list(values.values())[:50] + [None] * 50)
        expect(await r.unlink(*names), 50)

    async def scan(self):
        r = self.client
        names = keys("scan", 1000)
        await r.mset(dict.fromkeys(names, "x"))
        expect_each_once([key async for key in r.scan_iter("scan:*", count=50)], [name.encode() for name in names])

        members = [member.encode() for member in keys("member", 1000)]
        scores = {member: float(n) for n, member in enumerate(members)}
        await r.hset("scanned:hash", mapping=dict.fromkeys(members, "x"))
        await r.sadd("scanned:set", *members)
        await r.zadd("scanned:zset", scores)
        pairs = [pair async for pair in r.hscan_iter("scanned:hash", count=50)]
        expect_each_once(pairs, [(member, b"x") for member in members])
        expect_each_once([member async for member in r.sscan_iter("scanned:set", count=50)], members)
        expect_each_once([pair async for pair in r.zscan_iter("scanned:zset", count=50)], scores.items())

    async def scripts(self):
        r = self.client
        add = r.register_script(ADD)
        expect(await r.eval(ADD, 1, "script:a", 5), 5)
        sha = await r.script_load(ADD)
        # Keys of several shards: each must have got the script.
        expect([await r.evalsha(sha, 1, name, 3) for name in keys("script:sha", 20)], [3] * 20)
        expect(await add(keys=["script:object"], args=[3]), 3)
        pipe = r.pipeline(transaction=False)
        for name in keys("script:piped", 20):
            await add(keys=[name], args=[4], client=pipe)
        expect(await pipe.execute(), [4] * 20)

    async def big_values(self):
        r = self.client
        for length in (MIB, 20 * MIB):
            value = patterned_bytes(length)
            expect(await r.set("big", value), True)
            expect(await r.get("big") == value, True)
        expect(await r.delete("big"), 1)

    async def errors(self):
        r = self.client
        await r.set("errors", "text")
        failure = await raised(redis.ResponseError, r.lpush("errors", "x"))
        expect(str(failure).split()[0], "WRONGTYPE")
        expect(await r.get("errors"), b"text")
        pipe = r.pipeline(transaction=False)
        before, failure, after = await pipe.get("errors").incr("errors").get("errors").execute(raise_on_error=False)
        expect((before, after), (b"text", b"text"))
        expect(isinstance(failure, redis.ResponseError), True)

    async def concurrent(self):
        async def task(n):
            for name in keys(f"concurrent:{n}", 50):
                expect(await self.client.set(name, f"of {name}"), True)
                expect(await self.client.get(name), f"of {name}".encode())

        await asyncio.gather(*(task(n) for n in range(50)))

    async def cluster(self):
        async with redis.RedisCluster(**self.options) as cluster:
            values = {name: b"%d" % n for n, name in enumerate(keys("cluster", 100))}
            for name, value in values.items():
                expect(await cluster.set(name, value), True)
            expect(await asyncio.gather(*(cluster.get(name) for name in values)), list(values.values()))
            expect(await cluster.mget_nonatomic(list(values)), list(values.values()))
            tagged = {f"{name}:{{tag}}": n for n, name in enumerate(keys("cluster", 10))}
            expect(await cluster.mset(tagged), True)
            expect(await cluster.mget(list(tagged)), [b"%d" % n for n in range(10)])
            pipe = cluster.pipeline()
            for name in tagged:
                pipe.incr(name)
            expect(await pipe.execute(), [n + 1 for n in range(10)])
            expect(len(cluster.get_primaries()), 1)

    async def transactions(self):
        r = self.client
        async with r.pipeline(transaction=True) as pipe:
            pipe.set("tx:a{t}", 1).incr("tx:a{t}").rpush("tx:b{t}", "x", "y").lrange("tx:b{t}", 0, -1)
            expect(await pipe.execute(), [True, 2, 2, [b"x", b"y"]])

        async def watched(name):
            async with r.pipeline() as pipe:
                await pipe.watch("tx:a{t}")
                # By another connection of the pool.
                await r.set(name, 10)
                pipe.multi()
                pipe.incr("tx:a{t}")
                return await pipe.execute()

        await raised(redis.WatchError, watched("tx:a{t}"))
        expect(await watched("tx:b{t}"), [11])
        # Keys of several shards make no transaction, and none of its commands runs.
        pipe = r.pipeline(transaction=True)
        for name in keys("tx:apart", 20):
            pipe.set(name, "x")
        expect("same slot" in str(await raised(redis.RedisError, pipe.execute())), True)
        expect(await r.exists(*keys("tx:apart", 20)), 0)

    async def locks(self):
        r = self.client
        counted = []

        async def count():
            async with r.lock("lock:counter", timeout=30, blocking_timeout=20, sleep=0.005):
                # Without the lock some would be lost.
                counted.append(int(await r.get("lock:counted") or 0))
                await r.set("lock:counted", counted[-1] + 1)

        await asyncio.gather(*(count() for _ in range(20)))
        expect(counted, list(range(20)))
        mine = r.lock("lock:lost", timeout=30)
        await mine.acquire()
        await r.set("lock:lost", "of another")
        await raised(LockNotOwnedError, mine.release())

    async def blocking(self):
        r = self.client
        popped = asyncio.ensure_future(r.blpop(["blocking:a{t}", "blocking:b{t}"], timeout=20))

        async def is_waiting():
            expect(somebody_waits(await r.client_list()), True)

        await eventually_async(is_waiting)
        expect(await r.rpush("blocking:b{t}", "x"), 1)
        expect(list(await popped), [b"blocking:b{t}", b"x"])
        expect(await r.brpop(["blocking:none"], timeout=0.01), None)

    async def pubsub(self):
        r = self.client
        async with r.pubsub() as pubsub:
            await pubsub.subscribe("news:a")
            await pubsub.psubscribe("news:*")
            confirmed = sorted(message["type"] for message in await received(pubsub, 2))
            expect(confirmed, ["psubscribe", "subscribe"])
            expect(await r.publish("news:a", "x"), 2)
            told = sorted((message["type"], message["data"]) for message in await received(pubsub, 2))
            expect(told, [("message", b"x"), ("pmessage", b"x")])
            await pubsub.unsubscribe("news:a")
            await pubsub.punsubscribe("news:*")
            confirmed = sorted(message["type"] for message in await received(pubsub, 2))
            expect(confirmed, ["punsubscribe", "unsubscribe"])
        expect(await r.publish("news:a", "y"), 0)

    async def databases(self):
        r = self.client
        expect(await r.set("database", "zero"), True)
        async with redis.Redis(**self.options, db=1) as other:
            expect(await other.get("database"), None)
            expect(await other.set("database", "one"), True)
        expect(await r.get("database"), b"zero")

    async def reconnect(self):
        await asyncio.to_thread(restart)

        async def works_again():
            expect(await self.client.set("reconnect", "again"), True)
            expect(await self.client.get("reconnect"), b"again")

        # At the same time, so that every connection of the pool is tried and not just the first one.
        await asyncio.gather(*(eventually_async(works_again) for _ in range(50)))

    async def close(self):
        if self.client:
            await self.client.aclose()


async def raised(kind, work):
    """The exception of this kind that the coroutine `work` raises."""
    try:
        result = await work
    except kind as error:
        return error
    raise AssertionError(f"{result!r} instead of a {kind.__name__}")


async def received(pubsub, count):
    """The next messages of all kinds, so many."""
    messages = []
    while len(messages) < count:
        message = await pubsub.get_message(timeout=20)
        if message is None:
            raise AssertionError(f"{len(messages)} messages instead of {count}: {messages!r}")
        messages.append(message)
    return messages
