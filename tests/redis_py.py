"""What a program with redis-py does, against the port given as the only argument. Prints "all well" at the end."""

import sys

import redis

PORT = int(sys.argv[1])


def connect(**options):
    # RESP2, which shardis speaks; redis-py 8 would ask for RESP3 unless told otherwise.
    return redis.Redis(host="127.0.0.1", port=PORT, socket_timeout=10, protocol=2, **options)


def strings(r):
    assert r.ping() is True
    assert r.set("k", "v") is True
    assert r.get("k") == b"v"
    assert r.get("nosuch") is None
    assert r.set("k", "w", nx=True) is None
    assert r.incr("n", 5) == 5
    assert r.expire("k", 100) and 0 < r.ttl("k") <= 100
    assert r.delete("k", "n", "nosuch") == 2
    assert connect(decode_responses=True).set("text", "é") and connect(decode_responses=True).get("text") == "é"


def collections(r):
    assert r.hset("h", mapping={"a": 1, "b": 2}) == 2
    assert r.hgetall("h") == {b"a": b"1", b"b": b"2"}
    assert r.rpush("l", *range(5)) == 5 and r.lrange("l", 0, -1) == [b"0", b"1", b"2", b"3", b"4"]
    assert r.zadd("z", {"a": 1.5, "b": 0.5}) == 2 and r.zrange("z", 0, -1, withscores=True) == [(b"b", 0.5), (b"a", 1.5)]
    assert r.sadd("s{t}", 1, 2) == 2 and r.sunion("s{t}", "other{t}") == {b"1", b"2"}


def many_keys(r):
    values = {f"many:{n}": str(n).encode() for n in range(100)}
    assert r.mset(values) is True
    assert r.mget(list(values) + ["nosuch"]) == list(values.values()) + [None]
    assert r.exists(*values) == 100
    pipe = r.pipeline(transaction=False)
    for n in range(1000):
        pipe.set(f"scan:{n}", n).get(f"scan:{n}")
    assert pipe.execute() == [x for n in range(1000) for x in (True, str(n).encode())]
    assert sorted(r.scan_iter("scan:*", count=50)) == sorted(f"scan:{n}".encode() for n in range(1000))
    assert len(r.keys("scan:*")) == 1000


def scripts(r):
    assert r.eval("return {KEYS[1], ARGV[1]}", 1, "k", "v") == [b"k", b"v"]
    script = r.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
    assert script(keys=["counter"], args=[3]) == 3 and script(keys=["counter"], args=[4]) == 7


def big_values(r):
    for size in (1 << 20, 3_000_001):
        value = bytes(range(256)) * (size // 256)
        assert r.set("big", value) and r.get("big") == value


def errors(r):
    r.set("string", "x")
    for call, error, text in [
        (lambda: r.lpush("string", 1), redis.ResponseError, "WRONGTYPE"),
        (lambda: r.incr("string"), redis.ResponseError, "not an integer"),
        (lambda: r.execute_command("NOSUCH", "arg"), redis.ResponseError, "unknown command"),
        (lambda: r.execute_command("GET"), redis.ResponseError, "wrong number of arguments"),
    ]:
        try:
            call()
        except error as raised:
            assert text in str(raised), raised
        else:
            raise AssertionError(f"no error with {text}")
    pipe = r.pipeline(transaction=False)
    pipe.set("a", 1).lpush("string", 1).get("a")
    good, bad, last = pipe.execute(raise_on_error=False)
    assert (good, last) == (True, b"1") and isinstance(bad, redis.ResponseError)


def reconnects(r):
    for _ in range(20):
        r.connection_pool.disconnect()
        assert r.ping() is True
    clients = [connect() for _ in range(50)]
    assert all(client.set(f"client:{n}", n) for n, client in enumerate(clients))
    assert [int(client.get(f"client:{n}")) for n, client in enumerate(clients)] == list(range(50))


def cluster(r):
    """To a library for Redis Cluster the proxy is a cluster of one node."""
    port = r.connection_pool.connection_kwargs["port"]
    nodes = redis.RedisCluster(host="127.0.0.1", port=port, protocol=2)
    assert [node.name for node in nodes.get_nodes()] == [f"127.0.0.1:{port}"]
    assert all(nodes.set(f"cluster:{n}", n) for n in range(50))
    assert [int(nodes.get(f"cluster:{n}")) for n in range(50)] == list(range(50))
    assert nodes.mget_nonatomic("cluster:1", "cluster:2") == [b"1", b"2"]
    assert nodes.cluster_info()["cluster_state"] == "ok"
    with nodes.pipeline() as pipe:
        assert pipe.set("cluster:a", 1).get("cluster:a").execute() == [True, b"1"]


redis_server = connect()
for step in (strings, collections, many_keys, scripts, big_values, errors, reconnects, cluster):
    step(redis_server)
print("all well")
