// BullMQ with shardis as the store of its queue: a producer adds 1,000 jobs, and two workers do them.
//
// Its scripts have several keys each, so all keys have the prefix `{bull}`, and `--tag-rule={}` of shardis finds the hash
// tag there. BullMQ's users do the same for a Redis Cluster.

import assert from 'node:assert/strict';
import { Queue, QueueEvents, UnrecoverableError, Worker } from 'bullmq';

const JOBS = 1000;
const PREFIX = '{bull}';

export function bullmq({ port }) {
  // Workers wait in blocking requests, which BullMQ wants to be repeated without limit.
  const options = { connection: { host: '127.0.0.1', port, maxRetriesPerRequest: null }, prefix: PREFIX };
  const opened = [];

  /** One of BullMQ's objects, which reports its errors and is closed in the end. */
  function open(object) {
    object.on('error', (error) => console.error('bullmq:', error.message));
    opened.push(object);
    return object;
  }

  return {
    async jobs() {
      const queue = open(new Queue('jobs', options));
      // Each waiter for a job listens for the queue's end.
      queue.setMaxListeners(0);
      const events = open(new QueueEvents('jobs', options));
      await events.waitUntilReady();
      const done = new Set();
      const work = async ({ data }) => {
        assert.ok(!done.has(data.n), `job ${data.n} is done twice`);
        done.add(data.n);
        if (data.n === 0) {
          throw new UnrecoverableError('on purpose');
        }
        return data.n + 1;
      };
      open(new Worker('jobs', work, { ...options, concurrency: 10 }));
      open(new Worker('jobs', work, { ...options, concurrency: 10 }));

      const failed = await queue.add('add', { n: 0 });
      await assert.rejects(failed.waitUntilFinished(events), /on purpose/);
      // Some at a time, some one by one, some later: each goes another way through the scripts.
      const numbers = Array.from({ length: JOBS - 1 }, (_, n) => n + 1);
      const jobs = await queue.addBulk(numbers.slice(0, 500).map((n) => ({ name: 'add', data: { n } })));
      for (const n of numbers.slice(500, 900)) {
        jobs.push(await queue.add('add', { n }));
      }
      for (const n of numbers.slice(900)) {
        jobs.push(await queue.add('add', { n }, { delay: 1, priority: n % 3 }));
      }
      const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events)));
      assert.deepEqual(results, numbers.map((n) => n + 1));
      assert.equal(done.size, JOBS);
      const counts = await queue.getJobCounts('waiting', 'active', 'delayed', 'prioritized', 'completed', 'failed');
      assert.deepEqual(counts, { waiting: 0, active: 0, delayed: 0, prioritized: 0, completed: JOBS - 1, failed: 1 });
    },

    close() {
      // The process ends after this, and nothing waits for unfinished work.
      opened.forEach((object) => object.close().catch(() => {}));
    },
  };
}
