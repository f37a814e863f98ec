// What a program with a Redis library does, against the endpoint on 127.0.0.1:<port>, whose keyspace should be empty.
//
//     node main.mjs <ioredis|node-redis|bullmq> <port> <nodes|store>
//
// It prints a line per check, as checks.mjs says.

import { bullmq } from './bullmq.mjs';
import { QUEUE_CHECKS, run } from './checks.mjs';
import { ioredis } from './ioredis.mjs';
import { nodeRedis } from './node-redis.mjs';

const LIBRARIES = { ioredis, 'node-redis': nodeRedis, bullmq };

const [name, port, setup] = process.argv.slice(2);
if (!(name in LIBRARIES) || !(Number(port) > 0) || !['nodes', 'store'].includes(setup)) {
  console.error(`usage: node main.mjs <${Object.keys(LIBRARIES).join('|')}> <port> <nodes|store>`);
  process.exit(2);
}
// Not left to the end of the event loop: a client that did not come to an end must not keep the program alive.
const checks = name === 'bullmq' ? QUEUE_CHECKS : undefined;
process.exit(await run(LIBRARIES[name]({ port: Number(port), setup }), checks));
