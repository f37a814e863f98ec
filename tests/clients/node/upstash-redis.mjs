// @upstash/redis, which speaks HTTP: each request is an HTTP request, and values are JSON.

import assert from 'node:assert/strict';
import { Redis } from '@upstash/redis';
import { assertEachOnce, keys, restart } from './checks.mjs';

export const HTTP_CHECKS = [
  'connect',
  'strings',
  'hashes',
  'lists-sets-zsets',
  'counters-expiry',
  'pipeline',
  'multi-key',
  'scan',
  'scripts',
  'big-values',
  'errors',
  'concurrent',
  'transactions',
  'reconnect',
];

export function upstashRedis({ port }) {
  let redis;

  return {
    async connect() {
      redis = new Redis({ url: `http://127.0.0.1:${port}`, token: 'default:any' });
      assert.equal(await redis.ping(), 'PONG');
    },

    async strings() {
      assert.equal(await redis.set('strings:text', 'ä"\\\n'), 'OK');
      assert.equal(await redis.get('strings:text'), 'ä"\\\n');
      const value = { number: 1.5, list: [1, null, 'x'], text: 'OK' };
      assert.equal(await redis.set('strings:json', value), 'OK');
      assert.deepEqual(await redis.get('strings:json'), value);
      assert.equal(await redis.get('strings:none'), null);
      assert.equal(await redis.set('strings:text', 'x', { nx: true }), null);
      assert.equal(await redis.append('strings:OK', 'OK'), 2);
      assert.equal(await redis.get('strings:OK'), 'OK');
      assert.equal(await redis.type('strings:OK'), 'string');
    },

    async hashes() {
      assert.equal(await redis.hset('hashes:a', { field: 'value', number: 7 }), 2);
      assert.deepEqual(await redis.hgetall('hashes:a'), { field: 'value', number: 7 });
      assert.deepEqual(await redis.hmget('hashes:a', 'field', 'none'), { field: 'value', none: null });
      assert.equal(await redis.hgetall('hashes:none'), null);
    },

    async 'lists-sets-zsets'() {
      assert.equal(await redis.rpush('lists:a', 'x', 'y', 'z'), 3);
      assert.deepEqual(await redis.lrange('lists:a', 0, -1), ['x', 'y', 'z']);
      assert.equal(await redis.sadd('sets:a', 1, 2, 2), 2);
      assertEachOnce(await redis.smembers('sets:a'), [1, 2]);
      assert.equal(await redis.zadd('zsets:a', { score: 2, member: 'two' }, { score: 1, member: 'one' }), 2);
      assert.deepEqual(await redis.zrange('zsets:a', 0, -1, { withScores: true }), ['one', 1, 'two', 2]);
      const id = await redis.xadd('streams:a', '*', { field: 'value' });
      assert.deepEqual(await redis.xrange('streams:a', '-', '+'), { [id]: { field: 'value' } });
    },

    async 'counters-expiry'() {
      assert.equal(await redis.incrby('counters:a', 40), 40);
      assert.equal(await redis.incr('counters:a'), 41);
      assert.equal(await redis.expire('counters:a', 100), 1);
      const left = await redis.ttl('counters:a');
      assert.ok(left > 90 && left <= 100, `${left}`);
    },

    async pipeline() {
      const pipeline = redis.pipeline();
      const names = keys('pipeline', 300);
      names.forEach((name, n) => pipeline.set(name, n).get(name));
      const replies = names.flatMap((_, n) => ['OK', n]);
      assert.deepEqual(await pipeline.exec(), replies);
    },

    async 'multi-key'() {
      const names = keys('multi', 100);
      assert.equal(await redis.mset(Object.fromEntries(names.map((name, n) => [name, n]))), 'OK');
      assert.deepEqual(await redis.mget(...names, 'multi:none'), [...names.keys(), null]);
      assert.equal(await redis.del(...names), 100);
    },

    async scan() {
      const names = keys('scan', 200);
      await redis.mset(Object.fromEntries(names.map((name) => [name, 'x'])));
      const seen = [];
      let cursor = '0';
      do {
        const [next, found] = await redis.scan(cursor, { match: 'scan:*', count: 50 });
        seen.push(...found);
        cursor = next;
      } while (cursor !== '0');
      assertEachOnce(seen, names);
    },

    async scripts() {
      const script = 'return {KEYS[1], ARGV[1], 1}';
      assert.deepEqual(await redis.eval(script, ['scripts:a'], ['x']), ['scripts:a', 'x', 1]);
      const sha = await redis.scriptLoad(script);
      assert.deepEqual(await redis.evalsha(sha, ['scripts:a'], ['y']), ['scripts:a', 'y', 1]);
    },

    async 'big-values'() {
      const value = 'x'.repeat(4 << 20);
      assert.equal(await redis.set('big:a', value), 'OK');
      assert.equal(await redis.get('big:a'), value);
    },

    async errors() {
      await redis.set('errors:a', 'x');
      await assert.rejects(redis.lpush('errors:a', 'y'), /WRONGTYPE/);
      await assert.rejects(redis.exec(['SUBSCRIBE', 'a']), /needs a client of Redis/);
      const wrong = new Redis({ url: `http://127.0.0.1:${port}`, token: 'nobody:x', retry: false });
      await assert.rejects(wrong.get('errors:a'), /WRONGPASS/);
      const pipeline = redis.pipeline().get('errors:a').lpush('errors:a', 'y');
      const [first, second] = await pipeline.exec({ keepErrors: true });
      assert.equal(first.result, 'x');
      assert.match(second.error, /WRONGTYPE/);
    },

    async concurrent() {
      const names = keys('concurrent', 200);
      await Promise.all(names.map((name, n) => redis.set(name, n)));
      assert.deepEqual(await Promise.all(names.map((name) => redis.get(name))), [...names.keys()]);
    },

    async transactions() {
      const multi = redis.multi().set('{transactions}:a', 1).incr('{transactions}:a').get('{transactions}:a');
      assert.deepEqual(await multi.exec(), ['OK', 2, 2]);
    },

    async reconnect() {
      await redis.set('reconnect:a', 'x');
      await restart();
      assert.equal(await redis.get('reconnect:a'), 'x');
    },

    close() {},
  };
}
