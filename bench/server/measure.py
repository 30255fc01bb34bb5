# SPDX-License-Identifier: MIT
"""What is measured. Each function gives plain figures; what they come to is decided in verdict.py.

A round measures all systems one after the other, each alone on the machine with its load generator,
so that a ratio within a round is one of neighbours in time."""
import contextlib
import json
import os
import random
import re
import socket
import time
from datetime import datetime, timezone
from pathlib import Path

import peers as others
from process import (Unmeasured, cpu_seconds, folder, listening, run, wait_until, want_files)
from subject import BODY_BYTES, QUEUE, TASK, TASKS, Server

LUA = Path(__file__).resolve().parent / "enqueue.lua"
SYSTEMS = ["sqlite", "memory", "noop", "beanstalkd", "bullmq", "graphile", "pgboss"]
DAY_MS = 24 * 3600 * 1000
WARM_SECONDS = 1


class Bench:
    """The programs, the peers and the sizes of one run."""

    def __init__(self, daruma, programs, peers, settings):
        self.daruma, self.programs, self.peers = daruma, programs, peers
        self.settings = settings

    def noop(self, place, late=False, **more):
        flags = [word for name, value in more.items()
                 for word in (f"--{name.replace('_', '-')}", value)]
        return listening([self.programs / "noop", "--late", int(late), *flags],
                         place / "noop.log")

    def server(self, place, **more):
        return Server(self.daruma, place, **more)


# --- taking requests in -------------------------------------------------------------------------


def wrk(port, place, connections, seconds, path=TASKS, body=TASK):
    """Requests per second, and their latency in microseconds."""
    (place / "body").write_text(body)
    text = run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", LUA,
                f"http://127.0.0.1:{port}"], env={**os.environ, "WRK_PATH": path,
                                                   "WRK_BODY": str(place / "body")})
    found = re.search(r"^RESULT (.+)$", text, re.M)
    if not found:
        raise Unmeasured("wrk says nothing")
    figures = json.loads(found.group(1))
    if figures["refused"] or figures["broken"] or not figures["requests"]:
        raise Unmeasured(f"wrk: {figures['refused']} refused, {figures['broken']} broken, of "
                         f"{figures['requests']}")
    return {"per_s": figures["requests"] / figures["us"] * 1e6, "p50_us": figures["p50_us"],
            "p99_us": figures["p99_us"]}


@contextlib.contextmanager
def system(bench, name, place):
    """The port at which it takes POSTs."""
    with contextlib.ExitStack() as stack:
        if name in ("sqlite", "memory"):
            server = stack.enter_context(bench.server(place, store=name))
            server.pause()
            yield server.port
        elif name == "noop":
            yield stack.enter_context(bench.noop(place))[1]
        elif name == "bullmq":
            store = stack.enter_context(others.redis(place))
            yield stack.enter_context(bench.peers.front(name, place, store))
        else:
            store = stack.enter_context(others.postgres(place))
            yield stack.enter_context(bench.peers.front(name, place, store))


def beans(bench, port, *arguments):
    """Entries per second."""
    done, seconds = run([bench.programs / "beans", "--port", port, *arguments]).split()
    return int(done) / float(seconds)


def enqueue_of(bench, name, connections):
    seconds = bench.settings["enqueue_seconds"]
    figures = {}
    with folder() as place:
        if name == "beanstalkd":
            with others.beanstalkd(place) as port:
                for count in connections:
                    figures[str(count)] = {"per_s": beans(bench, port, "--connections", count,
                                                          "--seconds", seconds)}
            return figures
        with system(bench, name, place) as port:
            wrk(port, place, connections[0], WARM_SECONDS)
            for count in connections:
                figures[str(count)] = wrk(port, place, count, seconds)
    return figures


def measure_enqueue(bench):
    rounds = []
    for _ in range(bench.settings["rounds"]):
        rounds.append({name: enqueue_of(bench, name, bench.settings["connections"])
                       for name in SYSTEMS})
    return rounds


def measure_batch(bench):
    """Tasks per second, one in a call and a hundred in a call."""
    size, seconds = bench.settings["batch"], bench.settings["enqueue_seconds"]
    rounds = []
    for _ in range(bench.settings["rounds"]):
        with folder() as place, bench.server(place) as server:
            server.pause()
            single = wrk(server.port, place, 64, seconds)["per_s"]
            calls = wrk(server.port, place, bench.settings["batch_connections"], seconds,
                        f"{TASKS}:batch", f"[{','.join([TASK] * size)}]")["per_s"]
            rounds.append({"single_per_s": single, "batch_per_s": calls * size})
    return rounds


# --- sending them out -----------------------------------------------------------------------------


def deliver(bench, place, target_port):
    """Loads while the queue is paused, then lets go: deliveries per second."""
    count = bench.settings["deliveries"]
    with bench.server(place, target_port=target_port) as server:
        server.pause()
        server.load(count)
        began, cpu = time.monotonic(), server.cpu()
        server.resume()
        server.wait_succeeded(count)
        return {"per_s": count / (time.monotonic() - began),
                "cpu_us": (server.cpu() - cpu) / count * 1e6}


def multi(bench, target_port):
    count = bench.settings["deliveries"]
    seconds = run([bench.programs / "multi", "--url", f"http://127.0.0.1:{target_port}/", "--count",
                   count, "--at-once", bench.settings["at_once"]])
    return count / float(seconds)


def measure_delivery(bench):
    rounds = []
    for _ in range(bench.settings["rounds"]):
        with folder() as place, bench.noop(place) as (target, port):
            limit = multi(bench, port)
            cpu = cpu_seconds(target.pid)
            figures = deliver(bench, place, port)
            figures["target_cpu_us"] = ((cpu_seconds(target.pid) - cpu) /
                                        bench.settings["deliveries"] * 1e6)
            rounds.append({"multi_per_s": limit, **figures})
    return rounds


def measure_peer_delivery(bench):
    """Entries that a peer takes, posts and marks as done, per second; for orientation."""
    count, figures = bench.settings["peer_deliveries"], {}
    with folder() as place, bench.noop(place) as (_, port):
        url = f"http://127.0.0.1:{port}/"
        with others.redis(place) as store:
            figures["bullmq"] = bench.peers.work("bullmq", place, store, url, count)
        with others.postgres(place) as store:
            figures["graphile"] = bench.peers.work("graphile", place, store, url, count)
            figures["graphile_local"] = bench.peers.work("graphile", place, store, url, count,
                                                         PEER_LOCAL="500")
            figures["pgboss"] = bench.peers.work("pgboss", place, store, url, count)
    with folder() as place, others.beanstalkd(place) as port:
        seconds = bench.settings["enqueue_seconds"]
        rate = beans(bench, port, "--connections", 64, "--seconds", seconds)
        figures["beanstalkd"] = beans(bench, port, "--connections", 64, "--take",
                                      max(64, int(rate * seconds) - 64))
    return figures


def measure_life(bench):
    """wrk enqueues while what it enqueues is delivered: from its first request until all is done."""
    rounds = []
    for _ in range(bench.settings["rounds"]):
        with folder() as place, bench.noop(place) as (_, port):
            with bench.server(place, target_port=port) as server:
                began = time.monotonic()
                taken = wrk(server.port, place, 64, bench.settings["enqueue_seconds"])["per_s"]
                recorded = server.metric("daruma_tasks_recorded_total")
                left = recorded - server.succeeded()
                server.wait_succeeded(recorded)
                rounds.append({"lives_per_s": recorded / (time.monotonic() - began),
                               "enqueued_per_s": taken, "left_at_the_end_of_load": left})
    return rounds


# --- time and size --------------------------------------------------------------------------------


def moment_text(at_ms):
    moment = datetime.fromtimestamp(at_ms // 1000, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{at_ms % 1000:03d}Z"


LATE_NAMES = ["count", "earliest_us", "p50_us", "p99_us", "p999_us", "latest_us"]


def due_task(due_ms):
    """One whose body says when it is due, for a target that is asked how late it came."""
    return (f'{{"due_at":"{moment_text(due_ms)}","body":"{due_ms} '
            f'{"x" * (BODY_BYTES - 14)}"}}')


def lateness_of(target, count):
    """What the target has seen, which ends it: one row, or one a slot."""
    target.terminate()
    rows = [dict(zip(LATE_NAMES, map(int, line.split())))
            for line in target.stdout.read().decode().splitlines()]
    seen = sum(row["count"] for row in rows)
    if seen != count:
        raise Unmeasured(f"the target saw {seen} of {count} requests")
    return rows


def measure_lateness(bench, per_s):
    """Loaded beforehand, due evenly over a minute; how late the first byte came, in microseconds."""
    seconds = bench.settings["lateness_seconds"]
    count = per_s * seconds
    with folder() as place, bench.noop(place, late=True) as (target, port):
        with bench.server(place, target_port=port,
                          concurrency=bench.settings["lateness_at_once"]) as server:
            first_ms = int(time.time() * 1000) + bench.settings["lateness_lead_seconds"] * 1000

            server.load(count, lambda i: due_task(first_ms + i * 1000 // per_s))
            spare = first_ms / 1000 - time.time()
            if spare < 1:
                raise Unmeasured(f"loading {count} tasks took too long")
            server.wait_succeeded(count, seconds + bench.settings["lateness_lead_seconds"] + 60)
        late = lateness_of(target, count)[0]
    return {"per_s": per_s, "seconds": seconds, **late}


def make_letters(server, count):
    """Tasks that fail at their only attempt: the target refuses as many."""
    server.load(count, lambda i: '{"retry":{"max_attempts":1},%s' % TASK[1:])
    wait_until(lambda: server.metric("daruma_tasks_failed_total") >= count, f"{count} dead letters",
               170, pause=0.05)


def redrive_for(server, per_s, until):
    """Begins to send them again, and stops: how many, in what time."""
    status, text = server.call("POST", "/v1/dead-letters:redrive",
                               json.dumps({"rate_per_second": per_s}).encode())
    began = time.monotonic()
    if status != 202:
        raise Unmeasured(f"redrive: {status} {text[:200]!r}")
    path = f"/v1/redrives/{json.loads(text)['redrive']}"
    time.sleep(max(0, until - time.time()))
    ended = json.loads(server.call("POST", f"{path}:cancel")[1])
    return {"redriven": ended["redriven"], "seconds": time.monotonic() - began,
            "is_whole": ended["state"] == "cancelled"}


def measure_redrive(bench):
    """Live tasks, due evenly; in every second slot dead letters are sent again meanwhile. Neighbours
    in time are compared, since others use the machine too."""
    letters, per_s = bench.settings["letters"], bench.settings["redrive_per_s"]
    live_per_s, slot = bench.settings["redrive_live_per_s"], bench.settings["redrive_slot_seconds"]
    slots = 2 * (letters // (per_s * slot))
    count = live_per_s * slot * slots
    with folder() as place, bench.noop(place, late=True, refuse=letters,
                                       slot_ms=slot * 1000) as (target, port):
        with bench.server(place, target_port=port,
                          concurrency=bench.settings["lateness_at_once"]) as server:
            make_letters(server, letters)
            first_ms = int(time.time() * 1000) + bench.settings["redrive_lead_seconds"] * 1000
            server.load(count, lambda i: due_task(first_ms + i * 1000 // live_per_s))
            if first_ms / 1000 < time.time():
                raise Unmeasured(f"loading {count} tasks took too long")
            sent = []
            for i in range(1, slots, 2):
                time.sleep(max(0, first_ms / 1000 + i * slot - time.time()))
                sent.append(redrive_for(server, per_s, first_ms / 1000 + (i + 1) * slot))
            server.wait_succeeded(count + sum(part["redriven"] for part in sent), slot + 120)
        rows = lateness_of(target, count)
    return {"letters": sum(part["redriven"] for part in sent), "asked_per_s": per_s,
            "live_per_s": live_per_s, "slot_seconds": slot,
            "rounds": [{"without": rows[2 * i], "with": {**rows[2 * i + 1], **part}}
                       for i, part in enumerate(sent)]}


def life_cpu(server, count):
    """What a whole life costs at this moment: processor time of the server, in microseconds."""
    before, cpu = server.succeeded(), server.cpu()
    server.load(count)
    server.wait_succeeded(before + count)
    return (server.cpu() - cpu) / count * 1e6


def load_spread(server, count, dice):
    """Tasks due within the next day, evenly, but for the first hour: time and processor time each,
    in microseconds."""
    began, cpu = time.monotonic(), server.cpu()
    server.load(count, lambda i: '{"delay_ms":%d,%s' % (dice.randrange(3600000, DAY_MS), TASK[1:]))
    return {"us": (time.monotonic() - began) / count * 1e6,
            "cpu_us": (server.cpu() - cpu) / count * 1e6}


def drop_caches():
    """The kernel's memory of files; only root may."""
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
        return True
    except OSError:
        return False


def measure_restart(server):
    """kill -9, then the seconds until it is ready: with the file in the kernel's memory, and
    without."""
    figures = {}
    server.kill()
    figures["warm_s"] = server.start()
    figures["resident_restarted_bytes"] = server.resident()
    server.kill()
    figures["cold_s"] = server.start() if drop_caches() else None
    if figures["cold_s"] is None:
        server.start()
    return figures


def measure_scale(bench):
    many, few = bench.settings["waiting"], bench.settings["waiting"] // 10
    lives, dice = bench.settings["lives"], random.Random(78)
    with folder() as place, bench.noop(place) as (_, port):
        with bench.server(place, target_port=port) as server:
            parts = [load_spread(server, few, dice)]
            at_few = {"resident_loaded_bytes": server.resident(),
                      "life_cpu_us": life_cpu(server, lives), **measure_restart(server)}
            parts += [load_spread(server, few, dice) for _ in range(9)]
            at_many = {"resident_loaded_bytes": server.resident(),
                       "life_cpu_us": life_cpu(server, lives), **measure_restart(server),
                       "file_bytes": sum(path.stat().st_size for path in place.glob("tasks.db*"))}
    return {"many": many, "few": few, "load": parts, "at_few": at_few, "at_many": at_many}


def measure_memory(bench):
    """Connections that have served a request each and wait for the next."""
    count = bench.settings["idle_connections"]
    want_files(count + 1000)
    # Nothing is stored, so that what grows is not the store's cache.
    request = (f"GET /v1/queues/{QUEUE} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench/1\r\n"
               f"Accept: application/json\r\n\r\n").encode()
    sockets = []
    with folder() as place, bench.server(place, connections=count + 100,
                                         idle_time="600s") as server:
        before = server.resident()
        try:
            for _ in range(count):
                sockets.append(socket.create_connection(("127.0.0.1", server.port), 30))
                sockets[-1].sendall(request)
                if not sockets[-1].recv(4096).startswith(b"HTTP/1.1 200"):
                    raise Unmeasured("a connection was refused")
            each = (server.resident() - before) / count
        except OSError as error:
            raise Unmeasured(f"after {len(sockets)} connections: {error}") from error
        finally:
            for each_socket in sockets:
                each_socket.close()
    return {"connections": count, "bytes_each": each}
