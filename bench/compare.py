#!/usr/bin/env python3
"""CPU time per request of shardis beside twemproxy, over the same nodes in the same run.

    bench/compare.py [--seconds 3] [--rounds 3] [--pipelines 1,10,100] [--tests set,get,mset] [--out bench/runs/NAME.txt]

Starts four redis-servers and redis-benchmark on core 1, each proxy alone on core 0, and drives the proxies in turn, so
that noise of the machine hits all alike. Per cell: the proxy process's CPU time (user and kernel, from
/proc/PID/schedstat) over the requests of the run, and the requests per second that redis-benchmark reports. Medians
over the rounds; `min` beside them. Ratios compare within this run only.

Needs redis-server, redis-benchmark, nutcracker and taskset on PATH (Debian: redis nutcracker util-linux), Linux, two
cores, and `cargo build --release`.
"""

import argparse
import datetime
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROXY_CORE, LOAD_CORE = "0", "1"
NODES = 4
CLIENTS = 50


def main():
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(folder)
        try:
            report = run(rig, args)
        finally:
            rig.stop()
    print(report)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(report + "\n")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3, help="length of one measurement, about (default 3)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each cell (default 3)")
    parser.add_argument("--pipelines", default="1,10,100")
    parser.add_argument("--tests", default="set,get,mset", help="of redis-benchmark; MSET has 10 keys")
    parser.add_argument("--data", type=int, default=3, help="bytes of a value (default 3)")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--proxies", default="shardis,nutcracker,direct", help="shardis@PATH is another build of it")
    parser.add_argument("--out", help="also write the report there")
    return parser.parse_args()


def run(rig, args):
    names = args.proxies.split(",")
    targets = {name: rig.start(name) for name in names}
    cells = [(test, int(depth)) for depth in args.pipelines.split(",") for test in args.tests.split(",")]
    results = {}
    for test, depth in cells:
        requests = {name: calibrate(targets[name], test, depth, args) for name in names}
        for _ in range(args.rounds):
            for name in names:
                cpu, rps = measure(targets[name], test, depth, requests[name], args)
                results.setdefault((name, test, depth), []).append((cpu, rps))
                print(f"{name:10} {test:5} -P {depth:<4} {cpu:8.3f} us  {rps:10.0f}/s", file=sys.stderr)
    return table(names, cells, results, args)


def table(names, cells, results, args):
    lines = [
        f"# {datetime.date.today()}  {platform.machine()}  Linux {platform.release()}  {versions()}",
        f"# -c {args.clients} -d {args.data}; {NODES} nodes and load on core {LOAD_CORE}, proxy on core {PROXY_CORE}, one worker",
        f"# CPU us per request of the proxy process, median of {args.rounds} (min); requests per second, median",
        "",
        f"{'cell':14}" + "".join(f"{name:>32}" for name in names) + f"{'CPU ratio':>14}",
    ]
    for test, depth in cells:
        row = f"{test.upper():5} -P {depth:<5}"
        cpu_of = {}
        for name in names:
            runs = results[(name, test, depth)]
            cpu_of[name] = statistics.median(cpu for cpu, _ in runs)
            rps = statistics.median(rps for _, rps in runs)
            row += f"{cpu_of[name]:12.3f} ({min(cpu for cpu, _ in runs):.3f}) {rps:9.0f}/s"
        if "shardis" in cpu_of and "nutcracker" in cpu_of:
            row += f"{cpu_of['shardis'] / cpu_of['nutcracker']:14.2f}"
        lines.append(row)
    return "\n".join(lines)


def versions():
    redis = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout
    return f"redis {redis}  shardis {commit.strip()}"


def calibrate(target, test, depth, args):
    """How many requests take about the wanted time."""
    probe = 20_000 * min(depth, 10)
    _, rps = measure(target, test, depth, probe, args)
    return max(probe, int(rps * args.seconds))


def measure(target, test, depth, requests, args):
    """CPU us per request of the target, and requests per second."""
    before = cpu_ns(target.pid)
    command = ["taskset", "-c", LOAD_CORE, "redis-benchmark", "-p", str(target.port), "-t", test, "-n", str(requests)]
    command += ["-P", str(depth), "-c", str(args.clients), "-d", str(args.data), "-r", "100000", "-q"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    spent = cpu_ns(target.pid) - before
    found = re.findall(r"([\d.]+) requests per second", output)
    if not found:
        raise RuntimeError(f"redis-benchmark said: {output}")
    return spent / requests / 1000, float(found[-1])


def cpu_ns(pid):
    """CPU time of all threads of a process in ns."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total


class Target:
    """What redis-benchmark talks to, and whose CPU time counts."""

    def __init__(self, port, pid):
        self.port, self.pid = port, pid


class Rig:
    """The processes of one run."""

    def __init__(self, folder):
        self.folder = folder
        self.children = []
        self.ports = [free_port() for _ in range(NODES)]
        self.node_pids = [self.node(port) for port in self.ports]

    def node(self, port):
        words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", self.folder]
        return self.spawn(LOAD_CORE, words, port)

    def start(self, name):
        port = free_port()
        if name.startswith("shardis"):
            nodes = ",".join(f"127.0.0.1:{node}" for node in self.ports)
            _, _, other = name.partition("@")
            binary = other or os.path.join(ROOT, "target/release/shardis")
            pid = self.spawn(PROXY_CORE, [binary, "proxy", f"--nodes={nodes}", f"--port={port}", "--workers=1"], port)
        elif name == "nutcracker":
            pid = self.spawn(PROXY_CORE, self.nutcracker(port), port)
        elif name == "direct":
            return Target(self.ports[0], self.node_pids[0])
        else:
            raise ValueError(f"no proxy called {name}: shardis, nutcracker or direct")
        return Target(port, pid)

    def nutcracker(self, port):
        path = os.path.join(self.folder, "nutcracker.yml")
        servers = "".join(f"  - 127.0.0.1:{node}:1\n" for node in self.ports)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"pool:\n  listen: 127.0.0.1:{port}\n  hash: crc32a\n  distribution: modula\n  redis: true\n")
            file.write(f"  preconnect: true\n  servers:\n{servers}")
        binary = shutil.which("nutcracker") or "/usr/sbin/nutcracker"
        log = os.path.join(self.folder, "nutcracker.log")
        return [binary, "-c", path, "-s", str(free_port()), "-a", "127.0.0.1", "-o", log]

    def spawn(self, core, words, port):
        child = subprocess.Popen(["taskset", "-c", core, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.children.append(child)
        await_port(port, child)
        return child.pid

    def stop(self):
        for child in reversed(self.children):
            child.send_signal(signal.SIGKILL)
            child.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_port(port, child):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise RuntimeError(f"{child.args} ended with {child.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"{child.args} does not listen")


if __name__ == "__main__":
    main()
