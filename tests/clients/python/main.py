"""What a program with a Redis library does, against the endpoint on 127.0.0.1:<port>, whose keyspace should be empty.

    python main.py <redis-py|redis-py-asyncio> <port> <nodes|store>
    python main.py celery <port> nodes
    python main.py <redis-py|rq> <port> emulate

It prints a line per check, as checks.py says.
"""

import argparse
import asyncio
import os
import sys

from checks import run, run_async
from redis_py import RedisPy
from redis_py_as_one import RedisPyAsOne
from redis_py_asyncio import RedisPyAsyncio

LIBRARIES = ["redis-py", "redis-py-asyncio", "celery", "celery-worker", "rq", "rq-worker"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("port", type=int)
    parser.add_argument("setup", choices=["nodes", "store", "emulate"])
    given = parser.parse_args()
    if given.library.startswith("celery"):
        # Only where it is asked for is it installed.
        import jobs

        return jobs.run(given.port) if given.library == "celery" else jobs.run_worker(given.port)
    if given.library.startswith("rq"):
        import rq_jobs

        return rq_jobs.run(given.port) if given.library == "rq" else rq_jobs.run_worker(given.port)
    if given.setup == "emulate":
        return run(RedisPyAsOne(given.port), RedisPyAsOne.CHECKS)
    if given.library == "redis-py":
        return run(RedisPy(given.port))
    return asyncio.run(run_async(RedisPyAsyncio(given.port)))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Not sys.exit, which would wait for a thread that still hangs in a check.
    os._exit(code)
