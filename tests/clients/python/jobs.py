"""Celery with shardis as its broker and its store of results: a worker in a process of its own does 1,000 tasks.

Requests of Celery's have several keys and some are transactions, so all its keys have a hash tag: `global_keyprefix` puts
it in front of them, and `--tag-rule={}` of shardis finds it there. `redis_py.py` is for everything else.
"""

import os
import sys
import threading

from celery import Celery

from checks import Report, expect, in_background, within

TASKS = 1000
# Two or three seconds on an idle machine, most of it until the worker has started.
SECONDS_MAX = 100
# Where the broker is, for worker and client alike.
PREFIX = {"global_keyprefix": "{cel}"}

app = Celery("jobs")
app.conf.broker_transport_options = PREFIX
app.conf.result_backend_transport_options = PREFIX
app.conf.broker_connection_retry_on_startup = True


@app.task(name="add")
def add(a, b):
    return a + b


def use(port):
    """Tells Celery where shardis is. The databases differ, as many set it up."""
    app.conf.broker_url = f"redis://127.0.0.1:{port}/0"
    app.conf.result_backend = f"redis://127.0.0.1:{port}/1"


def run_worker(port):
    """Works until stdin is closed: whoever started it has ended then, in whatever way. Gives the exit code."""

    def end_with_stdin():
        sys.stdin.read()
        os._exit(0)

    use(port)
    threading.Thread(target=end_with_stdin, daemon=True).start()
    app.worker_main(["worker", "--pool=solo", "--loglevel=WARNING"])
    return 0


def run(port):
    """Has the worker do all tasks and prints one line about it; gives the exit code."""
    use(port)
    report = Report()
    with report.line_of("jobs"), in_background("celery-worker", port, "nodes"):
        within(SECONDS_MAX, all_tasks)
    return report.done()


def all_tasks():
    """Each task gives its own result, and nothing is left of them in the queue."""
    results = [add.delay(n, 1) for n in range(TASKS)]
    # Waits by subscribing to a channel for each result, and by GET.
    expect([result.get(timeout=SECONDS_MAX) for result in results], [n + 1 for n in range(TASKS)])
    expect({result.state for result in results}, {"SUCCESS"})
    with app.connection_for_read() as connection:
        expect(connection.default_channel.client.llen("celery"), 0)
