// ioredis: one connection that pipelines by itself, `pipeline()`, scan streams, `defineCommand`, `multi()`,
// subscriptions and `Cluster`.
//
// It asks for RESP3 by itself, so it needs no option.

import assert from 'node:assert/strict';
import { Redis, ReplyError } from 'ioredis';
import {
  assertEachOnce, assertSameBytes, bytes, eventually, EVERY_BYTE, fiftyTasks, Heard, keys, MIB, restart,
  untilSomebodyWaits,
} from './checks.mjs';

const ADD = 'return redis.call("INCRBY", KEYS[1], ARGV[1])';

export function ioredis({ port }) {
  /** Made by `connect` and `concurrent`; `reconnect` goes on with both. */
  let redis;
  let batching;

  return {
    async connect() {
      redis = new Redis(port, '127.0.0.1');
      redis.on('error', (error) => console.error('ioredis:', error.message));
      assert.equal(await redis.ping(), 'PONG');
      assert.equal(redis.status, 'ready');
      const greeting = await redis.call('HELLO');
      assert.equal(greeting[greeting.indexOf('proto') + 1], 3);
    },

    async strings() {
      assert.equal(await redis.set('strings:a', 'one'), 'OK');
      assert.equal(await redis.get('strings:a'), 'one');
      assert.equal(await redis.get('strings:none'), null);
      assert.equal(await redis.set('strings:a', 'two', 'NX'), null);
      assert.equal(await redis.append('strings:a', ' é'), 6);
      assert.equal(await redis.getrange('strings:a', 0, 2), 'one');
      assert.equal(await redis.getdel('strings:a'), 'one é');
      assert.equal(await redis.exists('strings:a'), 0);
      assert.equal(await redis.set('strings:binary', EVERY_BYTE), 'OK');
      assertSameBytes(await redis.getBuffer('strings:binary'), EVERY_BYTE);
    },

    async hashes() {
      assert.equal(await redis.hset('hash', { name: 'Ada', born: 1815 }), 2);
      assert.deepEqual(await redis.hgetall('hash'), { name: 'Ada', born: '1815' });
      assert.deepEqual(await redis.hmget('hash', 'born', 'none'), ['1815', null]);
      assert.equal(await redis.hincrby('hash', 'born', 2), 1817);
      assert.equal(await redis.hdel('hash', 'name', 'none'), 1);
      assert.deepEqual(await redis.hkeys('hash'), ['born']);
    },

    async 'lists-sets-zsets'() {
      assert.equal(await redis.rpush('list', 'a', 'b', 'c'), 3);
      assert.equal(await redis.lpop('list'), 'a');
      assert.deepEqual(await redis.lrange('list', 0, -1), ['b', 'c']);

      assert.equal(await redis.sadd('set:1{tag}', 'a', 'b'), 2);
      assert.equal(await redis.sadd('set:2{tag}', 'b', 'c'), 2);
      assert.deepEqual(await redis.sinter('set:1{tag}', 'set:2{tag}'), ['b']);
      assert.equal(await redis.sismember('set:1{tag}', 'c'), 0);

      assert.equal(await redis.zadd('zset', 1.5, 'a', 0.5, 'b', 2, 'c'), 3);
      assert.deepEqual(await redis.zrange('zset', 0, 1, 'WITHSCORES'), ['b', '0.5', 'a', '1.5']);
      assert.equal(await redis.zscore('zset', 'c'), '2');
      assert.equal(await redis.zrank('zset', 'none'), null);
    },

    async 'counters-expiry'() {
      assert.equal(await redis.incr('counter'), 1);
      assert.equal(await redis.incrby('counter', 41), 42);
      assert.equal(await redis.incrbyfloat('counter', 0.5), '42.5');
      assert.equal(await redis.ttl('counter'), -1);
      assert.equal(await redis.expire('counter', 100), 1);
      const ttl = await redis.ttl('counter');
      assert.ok(ttl > 90 && ttl <= 100, `TTL is ${ttl}`);
      assert.equal(await redis.persist('counter'), 1);
      await redis.set('brief', 'x', 'PX', 50);
      await eventually(async () => assert.equal(await redis.get('brief'), null));
    },

    async pipeline() {
      const names = keys('pipeline', 300);
      const pipeline = redis.pipeline();
      names.forEach((name, n) => pipeline.set(name, n).get(name));
      const replies = await pipeline.exec();
      assert.deepEqual(replies, names.flatMap((_, n) => [[null, 'OK'], [null, String(n)]]));
    },

    async 'multi-key'() {
      const names = keys('multi', 100);
      assert.equal(await redis.mset(new Map(names.map((name, n) => [name, n]))), 'OK');
      assert.deepEqual(await redis.mget(...names, 'multi:none'), [...names.map((_, n) => String(n)), null]);
      assert.equal(await redis.exists(...names, 'multi:none'), 100);
      assert.equal(await redis.del(...names.slice(50)), 50);
      assert.deepEqual(await redis.mget(names), names.map((_, n) => (n < 50 ? String(n) : null)));
      assert.equal(await redis.unlink(names), 50);
    },

    async scan() {
      const names = keys('scan', 1000);
      await redis.mset(new Map(names.map((name) => [name, 'x'])));
      assertEachOnce(await collect(redis.scanStream({ match: 'scan:*', count: 50 })), names);

      const members = keys('member', 1000);
      await redis.hset('scanned:hash', new Map(members.map((member) => [member, 'x'])));
      await redis.sadd('scanned:set', members);
      await redis.zadd('scanned:zset', members.flatMap((member, n) => [n, member]));
      const pairs = members.flatMap((member) => [member, 'x']);
      assertEachOnce(await collect(redis.hscanStream('scanned:hash', { count: 50 })), pairs);
      assertEachOnce(await collect(redis.sscanStream('scanned:set', { count: 50 })), members);
      const scored = members.flatMap((member, n) => [member, String(n)]);
      assertEachOnce(await collect(redis.zscanStream('scanned:zset', { count: 50 })), scored);
    },

    async scripts() {
      redis.defineCommand('add', { numberOfKeys: 1, lua: ADD });
      assert.equal(await redis.eval(ADD, 1, 'script:a', 5), 5);
      const sha = await redis.script('LOAD', ADD);
      // Keys of several shards: each must have got the script.
      for (const name of keys('script:sha', 20)) {
        assert.equal(await redis.evalsha(sha, 1, name, 3), 3);
      }
      assert.equal(await redis.add('script:defined', 3), 3);
      assert.equal(await redis.add('script:defined', 4), 7);
    },

    async 'big-values'() {
      for (const length of [MIB, 20 * MIB]) {
        const value = bytes(length);
        assert.equal(await redis.set('big', value), 'OK');
        assertSameBytes(await redis.getBuffer('big'), value);
      }
      assert.equal(await redis.del('big'), 1);
    },

    async errors() {
      await redis.set('errors', 'text');
      await assert.rejects(redis.lpush('errors', 'x'), { name: 'ReplyError', message: /^WRONGTYPE / });
      assert.equal(await redis.get('errors'), 'text');
      const replies = await redis.pipeline().get('errors').incr('errors').get('errors').exec();
      const [[, before], [failure], [, after]] = replies;
      assert.deepEqual([before, after], ['text', 'text']);
      assert.match(failure.message, /^ERR value is not an integer/);
    },

    // ioredis has no pool: simultaneous requests share a connection, and auto-pipelining batches them.
    async concurrent() {
      batching = redis.duplicate({ enableAutoPipelining: true });
      batching.on('error', (error) => console.error('ioredis:', error.message));
      await fiftyTasks(async (task) => {
        for (const name of keys(`concurrent:${task}`, 50)) {
          assert.equal(await batching.set(name, `of ${name}`), 'OK');
          assert.equal(await batching.get(name), `of ${name}`);
        }
      });
    },

    async cluster() {
      const cluster = new Redis.Cluster([{ host: '127.0.0.1', port }], {
        // By default it asks again about every 100 ms, without end.
        clusterRetryStrategy: (times) => (times < 10 ? 100 : null),
      });
      cluster.on('error', (error) => console.error('ioredis cluster:', error.message));
      try {
        const names = keys('cluster', 100);
        for (const [n, name] of names.entries()) {
          assert.equal(await cluster.set(name, n), 'OK');
        }
        assert.deepEqual(await Promise.all(names.map((name) => cluster.get(name))), names.map((_, n) => String(n)));
        const tagged = names.slice(0, 10).map((name) => `${name}:{tag}`);
        assert.equal(await cluster.mset(tagged.flatMap((name, n) => [name, n])), 'OK');
        assert.deepEqual(await cluster.mget(tagged), tagged.map((_, n) => String(n)));
        const pipeline = cluster.pipeline();
        tagged.forEach((name) => pipeline.incr(name));
        assert.deepEqual(await pipeline.exec(), tagged.map((_, n) => [null, n + 1]));
        assert.equal(cluster.nodes('master').length, 1);
      } finally {
        cluster.disconnect();
      }
    },

    async transactions() {
      const multi = redis.multi().set('tx:a{t}', 1).incr('tx:a{t}').rpush('tx:b{t}', 'x', 'y');
      const replies = await multi.lrange('tx:b{t}', 0, -1).exec();
      assert.deepEqual(replies, [[null, 'OK'], [null, 2], [null, 2], [null, ['x', 'y']]]);
      // Request by request instead of all in one write.
      assert.equal(await redis.multi({ pipeline: false }), 'OK');
      assert.equal(await redis.incr('tx:a{t}'), 'QUEUED');
      assert.deepEqual(await redis.exec(), [[null, 3]]);

      // WATCH needs a connection of its own.
      const watcher = redis.duplicate();
      try {
        assert.equal(await watcher.watch('tx:a{t}'), 'OK');
        await redis.set('tx:a{t}', 10);
        assert.equal(await watcher.multi().incr('tx:a{t}').exec(), null);
        assert.equal(await watcher.watch('tx:a{t}'), 'OK');
        assert.deepEqual(await watcher.multi().incr('tx:a{t}').exec(), [[null, 11]]);
      } finally {
        watcher.disconnect();
      }

      // Keys of several shards make no transaction, and none of its commands runs.
      const apart = redis.multi();
      keys('tx:apart', 20).forEach((name) => apart.set(name, 'x'));
      await assert.rejects(apart.exec(), (error) => {
        assert.match(error.message, /^EXECABORT /);
        assert.match(error.previousErrors[0].message, /^CROSSSLOT /);
        return true;
      });
      assert.equal(await redis.exists(...keys('tx:apart', 20)), 0);
    },

    async blocking() {
      const waiting = redis.duplicate();
      try {
        const popped = waiting.blpop('blocking:a{t}', 'blocking:b{t}', 20);
        await untilSomebodyWaits(() => redis.client('LIST'));
        assert.equal(await redis.rpush('blocking:b{t}', 'x', 'y'), 2);
        assert.deepEqual(await popped, ['blocking:b{t}', 'x']);
        assert.equal(await waiting.brpop('blocking:none', 0.01), null);
        const read = waiting.xread('BLOCK', 20_000, 'STREAMS', 'blocking:stream', '0');
        await untilSomebodyWaits(() => redis.client('LIST'));
        const id = await redis.xadd('blocking:stream', '*', 'field', 'value');
        assert.ok(JSON.stringify(await read).includes(id));
      } finally {
        waiting.disconnect();
      }
    },

    async pubsub() {
      const subscriber = redis.duplicate();
      const heard = new Heard();
      subscriber.on('message', (channel, message) => heard.add(channel, message));
      subscriber.on('pmessage', (pattern, channel, message) => heard.add(pattern, channel, message));
      try {
        assert.equal(await subscriber.subscribe('news:a', 'news:b'), 2);
        assert.equal(await subscriber.psubscribe('news:*'), 3);
        assert.equal(await redis.publish('news:a', 'x'), 2);
        assert.deepEqual((await heard.take(2)).sort(), ['news:* news:a x', 'news:a x']);
        assert.equal(await subscriber.punsubscribe('news:*'), 2);
        for (const n of keys('told', 100)) {
          await redis.publish('news:b', n);
        }
        assert.deepEqual(await heard.take(100), keys('told', 100).map((n) => `news:b ${n}`));
        assert.equal(await subscriber.unsubscribe(), 0);
        assert.equal(await redis.publish('news:a', 'y'), 0);
        // It is an ordinary connection again.
        assert.equal(await subscriber.ping(), 'PONG');
      } finally {
        subscriber.disconnect();
      }
    },

    async databases() {
      assert.equal(await redis.set('database', 'zero'), 'OK');
      const other = redis.duplicate({ db: 1 });
      try {
        assert.equal(await other.get('database'), null);
        assert.equal(await other.set('database', 'one'), 'OK');
        assert.equal(await other.select(0), 'OK');
        assert.equal(await other.get('database'), 'zero');
        await assert.rejects(other.select(99), { name: 'ReplyError', message: 'ERR DB index is out of range' });
      } finally {
        other.disconnect();
      }
    },

    async reconnect() {
      await restart();
      for (const client of [redis, batching]) {
        await eventually(async () => {
          assert.equal(await client.set('reconnect', 'again'), 'OK');
          assert.equal(await client.get('reconnect'), 'again');
        });
      }
    },

    close() {
      redis?.disconnect();
      batching?.disconnect();
    },
  };
}

/** All items of a scan stream, whose chunks are one reply each. */
async function collect(stream) {
  const items = [];
  for await (const chunk of stream) {
    items.push(...chunk);
  }
  return items;
}
