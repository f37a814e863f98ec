// The checks of all libraries, and their report.
//
// A library is an object with one asynchronous function per name in CHECKS, and `close`. A check that throws has
// failed; its error is the reason.

import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';

/** In the order in which they run: `connect` makes the client that the others use, `reconnect` loses its connection. */
const CHECKS = [
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
  'cluster',
  'transactions',
  'blocking',
  'pubsub',
  'databases',
  'reconnect',
];

/** The one check of a job queue. */
export const QUEUE_CHECKS = ['jobs'];

/** Longer than any check takes on a busy machine. */
const CHECK_MS_MAX = 30_000;
/** The longest time for the harness to restart the proxy, and then for the client to notice. */
const RESTART_MS_MAX = 60_000;
const RECONNECT_MS_MAX = 10_000;

export const MIB = 1 << 20;

/** A small value that only a client and a proxy leave alone which take values for bytes. */
export const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

/** Runs all checks and prints one line for each; gives the exit code. */
export async function run(library, checks = CHECKS) {
  let failed = 0;
  // Why no more checks can be run. Without this each of them would wait until its deadline.
  let lost = null;
  for (const name of checks) {
    try {
      if (lost) {
        throw new Error(lost);
      }
      await within(name === 'reconnect' ? RESTART_MS_MAX + 2 * RECONNECT_MS_MAX : CHECK_MS_MAX, library[name]());
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      if (name === 'connect' || error instanceof Late) {
        lost = `${name} left no client that can be used`;
      }
      console.log(`not ok ${name}: ${oneLine(error)}`);
    }
  }
  library.close();
  console.log('done');
  return failed === 0 ? 0 : 1;
}

class Late extends Error {}

/** The outcome of `promise`, or an error if there is none after `ms` milliseconds. */
export async function within(ms, promise) {
  const deadline = new AbortController();
  const late = pause(ms, null, { signal: deadline.signal }).then(() => {
    throw new Late(`not done after ${ms} ms`);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    late.catch(() => {});
    deadline.abort();
  }
}

/** Asks the harness to restart the proxy, and waits until that is done. */
export async function restart() {
  console.log('restart?');
  const lines = createInterface({ input: process.stdin });
  try {
    const { value } = await within(RESTART_MS_MAX, lines[Symbol.asyncIterator]().next());
    assert.equal(value, 'restarted');
  } finally {
    lines.close();
  }
}

/** Does `work` again and again until it does not throw, as a program with a lost connection would. */
export async function eventually(work) {
  const deadline = Date.now() + RECONNECT_MS_MAX;
  for (;;) {
    try {
      return await within(deadline - Date.now(), work());
    } catch (error) {
      if (Date.now() >= deadline) {
        throw new Error(`still failing after ${RECONNECT_MS_MAX} ms: ${error.message}`, { cause: error });
      }
      await pause(100);
    }
  }
}

/** Resolves when the text of CLIENT LIST, which `list` gives, has a client whose request waits, as BLPOP does. */
export async function untilSomebodyWaits(list) {
  await eventually(async () => assert.match(String(await list()), / flags=b /));
}

/** Collects the messages of a subscriber, so that a check can wait for a number of them. */
export class Heard {
  #messages = [];
  #wanted = null;

  add(...message) {
    this.#messages.push(message.map(String).join(' '));
    this.#wanted?.();
  }

  /** The next `count` of them in their order. */
  async take(count) {
    while (this.#messages.length < count) {
      await new Promise((resolve) => {
        this.#wanted = resolve;
      });
    }
    return this.#messages.splice(0, count);
  }
}

/** `count` keys of a check, in the order of their numbers; they spread over all shards. */
export function keys(prefix, count) {
  return Array.from({ length: count }, (_, n) => `${prefix}:${n}`);
}

/** Bytes that are all different around any cut, and no valid UTF-8. */
export function bytes(length) {
  const value = Buffer.allocUnsafe(length);
  for (let at = 0; at < length; at += 1) {
    value[at] = (at * 31 + (at >> 8) * 7 + (at >> 16)) & 0xff;
  }
  return value;
}

/** That two large buffers are the same; an assertion on whole values would print them. */
export function assertSameBytes(actual, expected) {
  assert.equal(actual.length, expected.length);
  const differs = actual.equals(expected) ? -1 : actual.findIndex((byte, at) => byte !== expected[at]);
  assert.equal(differs, -1, `${expected.length} bytes come back different from byte ${differs} on`);
}

/** That `found` has every one of `expected` exactly once, in any order. */
export function assertEachOnce(found, expected) {
  assert.deepEqual([...found].sort(), [...expected].sort());
}

/** Runs `task(n)` for 50 tasks at once. */
export async function fiftyTasks(task) {
  await Promise.all(Array.from({ length: 50 }, (_, n) => task(n)));
}

function oneLine(error) {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return text.replaceAll(/\s+/g, ' ').slice(0, 500);
}
