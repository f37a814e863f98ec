"""redis-py where shards look like one Redis: `pipeline()` as it is by default, a transaction, over keys of any shard."""

from concurrent.futures import ThreadPoolExecutor

import redis

from checks import eventually, expect, keys, somebody_waits
from redis_py import RedisPy, raised


class RedisPyAsOne(RedisPy):
    """Does what its base does where that names no hash tags."""

    CHECKS = [
        "connect",
        "strings",
        "pipeline",
        "multi-key",
        "scan",
        "scripts",
        "errors",
        "transactions",
        "locks",
        "blocking",
        "pubsub",
        "reconnect",
    ]

    def __init__(self, port):
        super().__init__(port)

    def connect(self):
        super().connect()
        self.pooled = self.client

    def pipeline(self):
        names = keys("pipeline", 300)
        pipe = self.client.pipeline()
        for n, name in enumerate(names):
            pipe.set(name, n).get(name)
        pipe.mget(names).publish("pipeline", "x").delete(*names[:50])
        replies = [reply for n in range(300) for reply in (True, b"%d" % n)]
        expect(pipe.execute(), replies + [[b"%d" % n for n in range(300)], 0, 50])
        expect(self.client.exists(*names), 250)

    def multi_key(self):
        super().multi_key()
        r = self.client
        r.set("multi:old", "x")
        expect(r.rename("multi:old", "multi:new"), True)
        expect(r.msetnx({"multi:new": "x", "multi:other": "y"}), False)
        for n, name in enumerate(keys("multi:set", 20)):
            r.sadd(name, n, n + 1)
        expect(r.sunion(keys("multi:set", 20)), {b"%d" % n for n in range(21)})
        expect(r.sinterstore("multi:both", ["multi:set:3", "multi:set:4"]), 1)
        expect(r.smembers("multi:both"), {b"4"})
        expect(r.smove("multi:both", "multi:moved", "4"), True)
        expect(r.lmove("multi:none", "multi:nowhere"), None)

    def transactions(self):
        r = self.client
        names = keys("tx", 20)
        r.mset(dict.fromkeys(names, 1))
        # An error at run time is the reply of one command; the others run, on all shards.
        pipe = r.pipeline()
        for name in names:
            pipe.incr(name)
        *counts, failure, last = pipe.lpush("tx:3", "x").get("tx:4").execute(raise_on_error=False)
        expect((counts, isinstance(failure, redis.ResponseError), last), ([2] * 20, True, b"2"))

        def double(pipe):
            values = [int(pipe.get(name)) for name in names]
            pipe.multi()
            for name, value in zip(names, values):
                pipe.set(name, value * 2)

        expect(r.transaction(double, *names), [True] * 20)
        expect(r.mget(names), [b"4"] * 20)

        def watched(meanwhile):
            with r.pipeline() as pipe:
                pipe.watch(*names[:10])
                meanwhile()
                pipe.multi()
                for name in names:
                    pipe.incr(name)
                return pipe.execute()

        for name in names[:10]:
            raised(redis.WatchError, lambda: watched(lambda: r.set(name, 4)))
        expect(r.mget(names), [b"4"] * 20)
        expect(watched(lambda: r.set("tx:19", 4)), [5] * 20)

    def blocking(self):
        r = self.client
        names = keys("blocking", 20)
        with ThreadPoolExecutor(1) as executor:
            popped = executor.submit(lambda: r.blpop(names, timeout=20))
            eventually(lambda: expect(somebody_waits(r.client_list()), True))
            expect(r.pipeline().rpush("blocking:7", "x", "y").rpush("blocking:8", "z").execute(), [2, 1])
            # Each part of a transaction is seen by itself: which of the two comes first is open.
            expect(list(popped.result()) in ([b"blocking:7", b"x"], [b"blocking:8", b"z"]), True)
        expect(r.llen("blocking:7") + r.llen("blocking:8"), 2)
        expect(r.brpop(keys("blocking:none", 5), timeout=0.01), None)
        expect(r.blmpop(0.01, 5, *keys("blocking:none", 5), direction="LEFT"), None)
        entry = r.xadd("blocking:stream:1", {"field": "value"})
        streams = r.xread({"blocking:stream:0": "0", "blocking:stream:1": "0"}, block=20000)
        expect(entry in str(streams).encode(), True)
