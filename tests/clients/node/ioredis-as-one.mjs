// ioredis where shards look like one Redis: `multi()` as it is by default, over keys of any shard.
//
// The checks of ioredis.mjs without hash tags.

import assert from 'node:assert/strict';
import { Redis, ReplyError } from 'ioredis';
import { assertEachOnce, keys, untilSomebodyWaits } from './checks.mjs';
import { ioredis } from './ioredis.mjs';

export const AS_ONE_CHECKS = [
  'connect',
  'strings',
  'pipeline',
  'multi-key',
  'scan',
  'scripts',
  'errors',
  'concurrent',
  'transactions',
  'blocking',
  'pubsub',
  'reconnect',
];

export function ioredisAsOne({ port }) {
  const apart = ioredis({ port });
  let redis;

  return {
    ...apart,

    async connect() {
      await apart.connect();
      redis = new Redis(port, '127.0.0.1');
      redis.on('error', (error) => console.error('ioredis:', error.message));
    },

    async pipeline() {
      await apart.pipeline();
      const names = keys('pipeline', 300);
      const multi = redis.multi();
      names.forEach((name, n) => multi.set(name, n).get(name));
      multi.mget(names).publish('pipeline', 'x').del(names.slice(0, 50));
      const replies = names.flatMap((_, n) => ['OK', String(n)]);
      assert.deepEqual(values(await multi.exec()), [...replies, names.map((_, n) => String(n)), 0, 50]);
      assert.equal(await redis.exists(names), 250);
    },

    async 'multi-key'() {
      await apart['multi-key']();
      await redis.set('multi:old', 'x');
      assert.equal(await redis.rename('multi:old', 'multi:new'), 'OK');
      assert.equal(await redis.msetnx('multi:new', 'x', 'multi:other', 'y'), 0);
      for (const [n, name] of keys('multi:set', 20).entries()) {
        await redis.sadd(name, n, n + 1);
      }
      const all = Array.from({ length: 21 }, (_, n) => String(n));
      assertEachOnce(await redis.sunion(keys('multi:set', 20)), all);
      assert.equal(await redis.sinterstore('multi:both', 'multi:set:3', 'multi:set:4'), 1);
      assert.deepEqual(await redis.smembers('multi:both'), ['4']);
      assert.equal(await redis.lmove('multi:none', 'multi:nowhere', 'LEFT', 'RIGHT'), null);
    },

    async transactions() {
      const names = keys('tx', 20);
      await redis.mset(names.flatMap((name) => [name, 1]));
      // An error at run time is the reply of one command; the others run, on all shards.
      const multi = redis.multi();
      names.forEach((name) => multi.incr(name));
      const replies = await multi.lpush('tx:3', 'x').get('tx:4').exec();
      const [[failure], last] = replies.splice(20);
      assert.deepEqual(values(replies), names.map(() => 2));
      assert.ok(failure instanceof ReplyError && failure.message.startsWith('WRONGTYPE '));
      assert.deepEqual(last, [null, '2']);

      const watched = async (meanwhile) => {
        await redis.watch(names.slice(0, 10));
        await meanwhile();
        const counting = redis.multi();
        names.forEach((name) => counting.incr(name));
        return counting.exec();
      };
      const other = redis.duplicate();
      try {
        for (const name of names.slice(0, 10)) {
          assert.equal(await watched(() => other.set(name, 2)), null);
        }
        assert.deepEqual(await redis.mget(names), names.map(() => '2'));
        assert.deepEqual(values(await watched(() => other.set('tx:19', 2))), names.map(() => 3));
      } finally {
        other.disconnect();
      }
    },

    async blocking() {
      const waiting = redis.duplicate();
      try {
        const popped = waiting.blpop(...keys('blocking', 20), 20);
        await untilSomebodyWaits(() => redis.client('LIST'));
        const pushed = await redis.multi().rpush('blocking:7', 'x', 'y').rpush('blocking:8', 'z').exec();
        assert.deepEqual(values(pushed), [2, 1]);
        // Each part of a transaction is seen by itself: which of the two comes first is open.
        assert.ok(['blocking:7 x', 'blocking:8 z'].includes((await popped).join(' ')));
        assert.equal((await redis.llen('blocking:7')) + (await redis.llen('blocking:8')), 2);
        assert.equal(await waiting.brpop(...keys('blocking:none', 5), 0.01), null);
        const streams = waiting.xread('BLOCK', 20_000, 'STREAMS', 'blocking:stream:0', 'blocking:stream:1', '0', '0');
        await untilSomebodyWaits(() => redis.client('LIST'));
        const id = await redis.xadd('blocking:stream:1', '*', 'field', 'value');
        assert.ok(JSON.stringify(await streams).includes(id));
      } finally {
        waiting.disconnect();
      }
    },

    close() {
      apart.close();
      redis?.disconnect();
    },
  };
}

/** The replies of a transaction that had no error. */
function values(replies) {
  return replies.map(([error, value]) => {
    assert.equal(error, null);
    return value;
  });
}
