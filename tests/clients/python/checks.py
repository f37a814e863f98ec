"""What all libraries are asked to do, and how it is reported.

A library is an object with one method per name in CHECKS (`-` becomes `_`), and `close`. A check that raises has
failed; its exception is the reason.
"""

import asyncio
import contextlib
import os
import select
import subprocess
import sys
import threading
import time
import traceback

# In the order in which they run: `connect` makes the client that the others use, `reconnect` loses its connection.
CHECKS = [
    "connect",
    "strings",
    "hashes",
    "lists-sets-zsets",
    "counters-expiry",
    "pipeline",
    "multi-key",
    "scan",
    "scripts",
    "big-values",
    "errors",
    "concurrent",
    "cluster",
    "transactions",
    "locks",
    "blocking",
    "pubsub",
    "databases",
    "reconnect",
]

# Longer than any check takes on a busy machine.
CHECK_SECONDS_MAX = 30
# The longest time for the harness to restart the proxy, and then for the client to notice.
RESTART_SECONDS_MAX = 60
RECONNECT_SECONDS_MAX = 10

MIB = 1 << 20

# A small value that only a client and a proxy leave alone which take values for bytes.
EVERY_BYTE = bytes(range(256))


@contextlib.contextmanager
def in_background(role, port, setup):
    """This program in the role of a worker, for as long as the body of the `with` runs. Its log goes to stderr, since stdout is
    for checks.
    """
    command = [sys.executable, sys.argv[0], role, str(port), setup]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr)
    try:
        yield
    finally:
        process.stdin.close()
        process.wait()


def run(library, checks=CHECKS):
    """Runs all checks of a library that blocks and prints one line for each; gives the exit code."""
    report = Report()
    for name in checks:
        with report.line_of(name):
            report.expect_usable_client()
            within(limit_of(name), method_of(library, name))
    library.close()
    return report.done()


async def run_async(library):
    """Runs all checks of a library of coroutines and prints one line for each; gives the exit code."""
    report = Report()
    for name in CHECKS:
        with report.line_of(name):
            report.expect_usable_client()
            await within_async(limit_of(name), method_of(library, name))
    await library.close()
    return report.done()


class Report:
    """The lines on stdout."""

    def __init__(self):
        self.failed = 0
        # Why no more checks can be run. Without this each of them would wait until its deadline.
        self.lost = None

    @contextlib.contextmanager
    def line_of(self, name):
        """Prints how the check went that is the body of the `with`."""
        try:
            yield
        except Exception as error:
            self.failed += 1
            if name == "connect" or isinstance(error, TimeoutError):
                self.lost = f"{name} left no client that can be used"
            print(f"not ok {name}: {reason(error)}", flush=True)
        else:
            print(f"ok {name}", flush=True)

    def expect_usable_client(self):
        if self.lost:
            raise AssertionError(self.lost)

    def done(self):
        """Says that all is told; gives the exit code."""
        print("done", flush=True)
        return 1 if self.failed else 0


def within(seconds, work):
    """Does `work` in a thread of its own, since a call that blocks in a library cannot be cut short otherwise."""
    failures = []

    def perform():
        try:
            work()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=perform, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"not done after {seconds} s")
    if failures:
        raise failures[0]


async def within_async(seconds, work):
    """The same for a coroutine function, which can be cut short."""
    try:
        await asyncio.wait_for(work(), seconds)
    except asyncio.TimeoutError:
        raise TimeoutError(f"not done after {seconds} s") from None


def method_of(library, name):
    return getattr(library, name.replace("-", "_"))


def limit_of(name):
    return RESTART_SECONDS_MAX + 2 * RECONNECT_SECONDS_MAX if name == "reconnect" else CHECK_SECONDS_MAX


def restart():
    """Asks whoever runs this program to restart the proxy, and waits until that is done."""
    print("restart?", flush=True)
    readable, _, _ = select.select([sys.stdin], [], [], RESTART_SECONDS_MAX)
    if not readable:
        raise TimeoutError("nobody restarted the proxy")
    expect(sys.stdin.readline().strip(), "restarted")


def eventually(work):
    """Does `work` again and again until it does not raise, as a program with a lost connection would."""
    deadline = time.monotonic() + RECONNECT_SECONDS_MAX
    while True:
        try:
            return work()
        except Exception:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)


async def eventually_async(work):
    """The same for a coroutine function."""
    deadline = time.monotonic() + RECONNECT_SECONDS_MAX
    while True:
        try:
            return await asyncio.wait_for(work(), deadline - time.monotonic())
        except Exception:
            if time.monotonic() >= deadline:
                raise
            await asyncio.sleep(0.1)


def expect(actual, expected):
    """That two values are equal. Not a bare assert, which would not say what they are."""
    if actual == expected:
        return
    if isinstance(actual, list) and isinstance(expected, list):
        expect(len(actual), len(expected))
        at = next(n for n, (one, other) in enumerate(zip(actual, expected)) if one != other)
        raise AssertionError(f"{abridged(actual[at])} instead of {abridged(expected[at])} at {at} of {len(actual)}")
    raise AssertionError(f"{abridged(actual)} instead of {abridged(expected)}")


def expect_each_once(found, expected):
    """That `found` has every one of `expected` exactly once, in any order."""
    expect(sorted(found), sorted(expected))


def somebody_waits(client_list):
    """Whether what CLIENT LIST gives has a client whose request waits, as BLPOP does."""
    return any("b" in client["flags"] for client in client_list)


def keys(prefix, count):
    """`count` keys of a check, in the order of their numbers; they spread over all shards."""
    return [f"{prefix}:{n}" for n in range(count)]


def patterned_bytes(length):
    """Bytes without a period that a cut could hide in, and no valid UTF-8; the same in each run."""
    block = bytes((n * 31 + (n >> 8) * 7) & 0xFF for n in range(65_521))
    return (block * (length // len(block) + 1))[:length]


def abridged(value):
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:100]} … {text[-90:]}"


def reason(error):
    """One line: the exception, and where the library was asked for what failed."""
    frames = [(os.path.basename(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    own = [f" ({file}:{line})" for file, line in frames if file.startswith("redis_py")]
    place = own[-1] if own else ""
    return " ".join(f"{type(error).__name__}: {error}".split())[:500] + place
