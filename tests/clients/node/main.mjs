// Typical uses of a Redis library, against the endpoint on 127.0.0.1:<port>, whose keyspace should be empty.
//
//     node main.mjs <ioredis|node-redis|bullmq> <port> <nodes|store>
//     node main.mjs ioredis <port> emulate
//     node main.mjs upstash-redis <port of HTTP clients> http
//
// It prints a line per check, as checks.mjs says.

import { bullmq } from './bullmq.mjs';
import { QUEUE_CHECKS, run } from './checks.mjs';
import { ioredis } from './ioredis.mjs';
import { AS_ONE_CHECKS, ioredisAsOne } from './ioredis-as-one.mjs';
import { nodeRedis } from './node-redis.mjs';
import { HTTP_CHECKS, upstashRedis } from './upstash-redis.mjs';

const LIBRARIES = { ioredis, 'node-redis': nodeRedis, 'upstash-redis': upstashRedis, bullmq };

const [name, port, setup] = process.argv.slice(2);
if (!(name in LIBRARIES) || !(Number(port) > 0) || !['nodes', 'store', 'emulate', 'http'].includes(setup)) {
  console.error(`usage: node main.mjs <${Object.keys(LIBRARIES).join('|')}> <port> <nodes|store|emulate|http>`);
  process.exit(2);
}
// Not left to the end of the event loop: a client that did not come to an end must not keep the program alive.
const given = { port: Number(port), setup };
if (setup === 'emulate' && name !== 'bullmq') {
  process.exit(await run(ioredisAsOne(given), AS_ONE_CHECKS));
}
const CHECKS_OF = { bullmq: QUEUE_CHECKS, 'upstash-redis': HTTP_CHECKS };
const checks = CHECKS_OF[name];
process.exit(await run(LIBRARIES[name](given), checks));
