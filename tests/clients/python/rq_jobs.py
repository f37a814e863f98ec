"""RQ with shardis as its Redis: a worker in a process of its own does the jobs of two queues.

RQ sends its pipelines as transactions, waits for jobs of all queues with one BLPOP, and knows nothing of hash tags. A worker
of one queue would wait with BLMOVE for a list of another shard, which shardis refuses.
"""

import os
import signal
import sys
import threading
import time

import redis
from rq import Queue, SimpleWorker, get_current_job
from rq.job import Job
from rq.registry import FailedJobRegistry, FinishedJobRegistry
from rq.worker import BaseWorker

from checks import Report, expect, in_background, within

# A job costs client and worker seven milliseconds of computing together.
JOBS = int(os.environ.get("SHARDIS_RQ_JOBS", "200"))
# A few seconds on an idle machine.
SECONDS_MAX = max(100, JOBS // 2)
QUEUES = ["first", "second"]


def connection(port):
    return redis.Redis(host="127.0.0.1", port=port, socket_timeout=SECONDS_MAX)


def work(n):
    """One job. Job 0 fails."""
    times = get_current_job().connection.hincrby("done", n, 1)
    if n == 0:
        raise ValueError("on purpose")
    return n + times


def run_worker(port):
    """Works until stdin is closed: whoever started it has ended then, in whatever way. Gives the exit code."""

    def end_with_stdin():
        sys.stdin.read()
        # It ends its job and takes itself off the list of workers.
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_stdin, daemon=True).start()
    # The common worker forks for each job, which would take longer than all else.
    SimpleWorker(QUEUES, connection=connection(port)).work(logging_level="WARNING")
    return 0


def run(port):
    """Has the worker do all jobs and prints one line about it; gives the exit code."""
    report = Report()
    with report.line_of("jobs"):
        within(SECONDS_MAX, lambda: all_jobs(port))
    return report.done()


def all_jobs(port):
    """Each job is done once and has its own result; the one that failed is where failures are kept; nothing is left."""
    r = connection(port)
    queues = [Queue(name, connection=r) for name in QUEUES]
    with in_background("rq-worker", port, "emulate"):
        # Some one by one, some at once: each is pushed in another way.
        jobs = [queues[n % 2].enqueue(work, n, result_ttl=500) for n in range(JOBS // 2)]
        many = [Queue.prepare_data(work, (n,), result_ttl=500) for n in range(JOBS // 2, JOBS)]
        jobs += queues[1].enqueue_many(many)
        until_done(r, jobs)
    expect(r.hgetall("done"), {b"%d" % n: b"1" for n in range(JOBS)})
    done = Job.fetch_many([job.id for job in jobs], connection=r)
    expect([job.get_status().value for job in done], ["failed"] + ["finished"] * (JOBS - 1))
    expect([job.return_value() for job in done], [None] + [n + 1 for n in range(1, JOBS)])
    expect([len(queue) for queue in queues], [0, 0])
    expect(sum(FinishedJobRegistry(queue=queue).count for queue in queues), JOBS - 1)
    expect(FailedJobRegistry(queue=queues[0]).get_job_ids(), [jobs[0].id])
    expect(BaseWorker.count(connection=r), 0)


def until_done(r, jobs):
    """Returns when the last of `jobs` has ended, or raises after the time that the check has."""
    deadline = time.monotonic() + SECONDS_MAX
    while r.hlen("done") < JOBS or jobs[-1].get_status().value in ("queued", "started"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{r.hlen('done')} of {JOBS} jobs are done")
        time.sleep(0.2)
