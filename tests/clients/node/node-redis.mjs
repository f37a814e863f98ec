// node-redis: promises that pipeline by themselves, `execAsPipeline`, scan iterators, `defineScript`, the pool, `multi`,
// subscriptions and `createCluster`.

import assert from 'node:assert/strict';
import {
  createClient, createClientPool, createCluster, defineScript, ErrorReply, RESP_TYPES, WatchError,
} from 'redis';
import {
  assertEachOnce, assertSameBytes, bytes, eventually, EVERY_BYTE, fiftyTasks, Heard, keys, MIB, restart,
  untilSomebodyWaits,
} from './checks.mjs';

const AS_BUFFERS = { [RESP_TYPES.BLOB_STRING]: Buffer };

const ADD = 'return redis.call("INCRBY", KEYS[1], ARGV[1])';
const scripts = {
  add: defineScript({
    SCRIPT: ADD,
    NUMBER_OF_KEYS: 1,
    parseCommand(parser, key, amount) {
      parser.pushKey(key);
      parser.push(String(amount));
    },
    transformReply: undefined,
  }),
};

export function nodeRedis({ port }) {
  const options = { socket: { host: '127.0.0.1', port } };
  /** Made by `connect` and `concurrent`; `reconnect` goes on with both. */
  let client;
  let pool;

  return {
    async connect() {
      client = createClient({ ...options, scripts });
      client.on('error', (error) => console.error('node-redis:', error.message));
      await client.connect();
      assert.equal(await client.ping(), 'PONG');
      assert.ok(client.isReady);
      assert.equal((await client.hello()).proto, 3);
    },

    async strings() {
      assert.equal(await client.set('strings:a', 'one'), 'OK');
      assert.equal(await client.get('strings:a'), 'one');
      assert.equal(await client.get('strings:none'), null);
      assert.equal(await client.set('strings:a', 'two', { condition: 'NX' }), null);
      assert.equal(await client.append('strings:a', ' é'), 6);
      assert.equal(await client.getRange('strings:a', 0, 2), 'one');
      assert.equal(await client.getDel('strings:a'), 'one é');
      assert.equal(await client.exists('strings:a'), 0);
      assert.equal(await client.set('strings:binary', EVERY_BYTE), 'OK');
      assertSameBytes(await client.withTypeMapping(AS_BUFFERS).get('strings:binary'), EVERY_BYTE);
    },

    async hashes() {
      assert.equal(await client.hSet('hash', { name: 'Ada', born: 1815 }), 2);
      assert.deepEqual({ ...(await client.hGetAll('hash')) }, { name: 'Ada', born: '1815' });
      assert.deepEqual(await client.hmGet('hash', ['born', 'none']), ['1815', null]);
      assert.equal(await client.hIncrBy('hash', 'born', 2), 1817);
      assert.equal(await client.hDel('hash', ['name', 'none']), 1);
      assert.deepEqual(await client.hKeys('hash'), ['born']);
    },

    async 'lists-sets-zsets'() {
      assert.equal(await client.rPush('list', ['a', 'b', 'c']), 3);
      assert.equal(await client.lPop('list'), 'a');
      assert.deepEqual(await client.lRange('list', 0, -1), ['b', 'c']);

      assert.equal(await client.sAdd('set:1{tag}', ['a', 'b']), 2);
      assert.equal(await client.sAdd('set:2{tag}', ['b', 'c']), 2);
      assert.deepEqual(await client.sInter(['set:1{tag}', 'set:2{tag}']), ['b']);
      assert.equal(await client.sIsMember('set:1{tag}', 'c'), 0);

      const scored = [{ value: 'b', score: 0.5 }, { value: 'a', score: 1.5 }, { value: 'c', score: 2 }];
      assert.equal(await client.zAdd('zset', scored), 3);
      assert.deepEqual(await client.zRangeWithScores('zset', 0, -1), scored);
      assert.equal(await client.zScore('zset', 'c'), 2);
      assert.equal(await client.zRank('zset', 'none'), null);
    },

    async 'counters-expiry'() {
      assert.equal(await client.incr('counter'), 1);
      assert.equal(await client.incrBy('counter', 41), 42);
      assert.equal(await client.incrByFloat('counter', 0.5), '42.5');
      assert.equal(await client.ttl('counter'), -1);
      assert.equal(await client.expire('counter', 100), 1);
      const ttl = await client.ttl('counter');
      assert.ok(ttl > 90 && ttl <= 100, `TTL is ${ttl}`);
      assert.equal(await client.persist('counter'), 1);
      await client.set('brief', 'x', { expiration: { type: 'PX', value: 50 } });
      await eventually(async () => assert.equal(await client.get('brief'), null));
    },

    async pipeline() {
      const names = keys('pipeline', 300);
      // `exec` would send MULTI and EXEC; this check is about the pipeline alone.
      const batch = client.multi();
      names.forEach((name, n) => batch.set(name, String(n)).get(name));
      assert.deepEqual(await batch.execAsPipeline(), names.flatMap((_, n) => ['OK', String(n)]));

      const replies = await Promise.all(names.flatMap((name) => [client.incr(name), client.get(name)]));
      assert.deepEqual(replies, names.flatMap((_, n) => [n + 1, String(n + 1)]));
    },

    async 'multi-key'() {
      const names = keys('multi', 100);
      assert.equal(await client.mSet(names.map((name, n) => [name, String(n)])), 'OK');
      assert.deepEqual(await client.mGet([...names, 'multi:none']), [...names.map((_, n) => String(n)), null]);
      assert.equal(await client.exists([...names, 'multi:none']), 100);
      assert.equal(await client.del(names.slice(50)), 50);
      assert.deepEqual(await client.mGet(names), names.map((_, n) => (n < 50 ? String(n) : null)));
      assert.equal(await client.unlink(names), 50);
    },

    async scan() {
      const names = keys('scan', 1000);
      await client.mSet(names.map((name) => [name, 'x']));
      assertEachOnce(await collect(client.scanIterator({ MATCH: 'scan:*', COUNT: 50 })), names);

      const members = keys('member', 1000);
      await client.hSet('scanned:hash', members.map((member) => [member, 'x']));
      await client.sAdd('scanned:set', members);
      await client.zAdd('scanned:zset', members.map((value, score) => ({ value, score })));
      const pairs = await collect(client.hScanIterator('scanned:hash', { COUNT: 50 }));
      assertEachOnce(pairs.map(({ field, value }) => `${field}=${value}`), members.map((member) => `${member}=x`));
      assertEachOnce(await collect(client.sScanIterator('scanned:set', { COUNT: 50 })), members);
      const scored = await collect(client.zScanIterator('scanned:zset', { COUNT: 50 }));
      const found = scored.map(({ value, score }) => `${value}=${score}`);
      assertEachOnce(found, members.map((member, n) => `${member}=${n}`));
    },

    async scripts() {
      assert.equal(await client.eval(ADD, { keys: ['script:a'], arguments: ['5'] }), 5);
      const sha = await client.scriptLoad(ADD);
      // Keys of several shards: each must have got the script.
      for (const name of keys('script:sha', 20)) {
        assert.equal(await client.evalSha(sha, { keys: [name], arguments: ['3'] }), 3);
      }
      assert.equal(await client.add('script:defined', 3), 3);
      assert.equal(await client.add('script:defined', 4), 7);
    },

    async 'big-values'() {
      const binary = client.withTypeMapping(AS_BUFFERS);
      for (const length of [MIB, 20 * MIB]) {
        const value = bytes(length);
        assert.equal(await client.set('big', value), 'OK');
        assertSameBytes(await binary.get('big'), value);
      }
      assert.equal(await client.del('big'), 1);
    },

    async errors() {
      await client.set('errors', 'text');
      await assert.rejects(client.lPush('errors', 'x'), (error) => {
        assert.ok(error instanceof ErrorReply);
        assert.match(error.message, /^WRONGTYPE /);
        return true;
      });
      assert.equal(await client.get('errors'), 'text');
      const replies = await Promise.allSettled([client.get('errors'), client.incr('errors'), client.get('errors')]);
      assert.deepEqual([replies[0].value, replies[2].value], ['text', 'text']);
      assert.match(replies[1].reason.message, /^ERR value is not an integer/);
    },

    async concurrent() {
      pool = createClientPool(options, { minimum: 2, maximum: 10, acquireTimeout: 10_000 });
      pool.on('error', (error) => console.error('node-redis pool:', error.message));
      await pool.connect();
      await fiftyTasks(async (task) => {
        for (const name of keys(`concurrent:${task}`, 50)) {
          assert.equal(await pool.set(name, `of ${name}`), 'OK');
          assert.equal(await pool.get(name), `of ${name}`);
        }
      });
    },

    async cluster() {
      const cluster = createCluster({
        rootNodes: [{ ...options, url: `redis://127.0.0.1:${port}` }],
      });
      cluster.on('error', (error) => console.error('node-redis cluster:', error.message));
      await cluster.connect();
      try {
        const names = keys('cluster', 100);
        for (const [n, name] of names.entries()) {
          assert.equal(await cluster.set(name, String(n)), 'OK');
        }
        assert.deepEqual(await Promise.all(names.map((name) => cluster.get(name))), names.map((_, n) => String(n)));
        const tagged = names.slice(0, 10).map((name) => `${name}:{tag}`);
        assert.equal(await cluster.mSet(tagged.map((name, n) => [name, String(n)])), 'OK');
        assert.deepEqual(await cluster.mGet(tagged), tagged.map((_, n) => String(n)));
        const batch = cluster.multi();
        tagged.forEach((name) => batch.incr(name));
        assert.deepEqual(await batch.execAsPipeline(), tagged.map((_, n) => n + 1));
        assert.equal(cluster.masters.length, 1);
      } finally {
        cluster.destroy();
      }
    },

    async transactions() {
      const multi = client.multi().set('tx:a{t}', '1').incr('tx:a{t}').rPush('tx:b{t}', ['x', 'y']);
      const replies = await multi.lRange('tx:b{t}', 0, -1).exec();
      assert.deepEqual(replies, ['OK', 2, 2, ['x', 'y']]);

      // WATCH needs a connection of its own.
      const watcher = await client.duplicate().connect();
      try {
        assert.equal(await watcher.watch('tx:a{t}'), 'OK');
        await client.set('tx:a{t}', '10');
        await assert.rejects(watcher.multi().incr('tx:a{t}').exec(), WatchError);
        assert.equal(await watcher.watch('tx:a{t}'), 'OK');
        assert.deepEqual(await watcher.multi().incr('tx:a{t}').exec(), [11]);
      } finally {
        watcher.destroy();
      }

      // Keys of several shards make no transaction, and none of its commands runs.
      const apart = client.multi();
      keys('tx:apart', 20).forEach((name) => apart.set(name, 'x'));
      await assert.rejects(apart.exec(), /same slot/);
      assert.equal(await client.exists(keys('tx:apart', 20)), 0);
      assert.equal(await client.get('tx:a{t}'), '11');
    },

    async blocking() {
      const waiting = await client.duplicate().connect();
      try {
        const popped = waiting.blPop(['blocking:a{t}', 'blocking:b{t}'], 20);
        await untilSomebodyWaits(() => client.sendCommand(['CLIENT', 'LIST']));
        assert.equal(await client.rPush('blocking:b{t}', ['x', 'y']), 2);
        assert.deepEqual({ ...(await popped) }, { key: 'blocking:b{t}', element: 'x' });
        assert.equal(await waiting.brPop('blocking:none', 0.01), null);
        const read = waiting.xRead({ key: 'blocking:stream', id: '0' }, { BLOCK: 20_000 });
        await untilSomebodyWaits(() => client.sendCommand(['CLIENT', 'LIST']));
        const id = await client.xAdd('blocking:stream', '*', { field: 'value' });
        assert.ok(JSON.stringify(await read).includes(id));
      } finally {
        waiting.destroy();
      }
    },

    // With RESP3 a connection that subscribes may do everything else meanwhile.
    async pubsub() {
      const heard = new Heard();
      await client.subscribe(['news:a', 'news:b'], (message, channel) => heard.add(channel, message));
      await client.pSubscribe('news:*', (message, channel) => heard.add('news:*', channel, message));
      assert.equal(await client.publish('news:a', 'x'), 2);
      assert.deepEqual((await heard.take(2)).sort(), ['news:* news:a x', 'news:a x']);
      await client.pUnsubscribe('news:*');
      await Promise.all(keys('told', 100).map((n) => client.publish('news:b', n)));
      assert.deepEqual(await heard.take(100), keys('told', 100).map((n) => `news:b ${n}`));
      await client.unsubscribe();
      assert.equal(await client.publish('news:a', 'y'), 0);
    },

    async databases() {
      assert.equal(await client.set('database', 'zero'), 'OK');
      const other = await client.duplicate({ database: 1 }).connect();
      try {
        assert.equal(await other.get('database'), null);
        assert.equal(await other.set('database', 'one'), 'OK');
        await other.select(0);
        assert.equal(await other.get('database'), 'zero');
        await assert.rejects(other.select(99), { message: 'ERR DB index is out of range' });
      } finally {
        other.destroy();
      }
    },

    async reconnect() {
      await restart();
      for (const connected of [client, pool]) {
        await eventually(async () => {
          assert.equal(await connected.set('reconnect', 'again'), 'OK');
          assert.equal(await connected.get('reconnect'), 'again');
        });
      }
    },

    close() {
      client?.destroy();
      pool?.destroy();
    },
  };
}

/** All items of a scan iterator, which gives those of one reply at a time. */
async function collect(iterator) {
  const items = [];
  for await (const batch of iterator) {
    items.push(...batch);
  }
  return items;
}
