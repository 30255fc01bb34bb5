# SPDX-License-Identifier: MIT
"""More tasks than anybody would enqueue one by one: they come by `daruma import`, as they would from
another installation."""
import json
import random
import subprocess
import time

import measure
from process import Unmeasured, cpu_seconds, folder
from subject import QUEUE, TASK


def exported(count, dice):
    """Lines as `daruma export` writes them: tasks due within the next day, but for the first hour.
    An id is made of milliseconds and a number within each."""
    now_ms = int(time.time() * 1000)
    rest = json.dumps({"state": "waiting", "attempts": 0, "fingerprint": "0" * 64,
                       "headers": [["content-type", "application/json"]],
                       "body": json.dumps(json.loads(TASK)["json"])})[1:]
    yield '{"kind": "begin", "format": "daruma export", "version": 1}\n'
    yield f'{{"kind": "queue", "number": 1, "name": "{QUEUE}"}}\n'
    for number in range(count):
        made_ms = now_ms - (count - number) // 1000
        when = f"{made_ms >> 16:08x}-{made_ms & 65535:04x}-7{number % 1000:03x}"
        due = measure.moment_text(now_ms + dice.randrange(3600000, measure.DAY_MS))
        yield (f'{{"kind": "task", "queue": "{QUEUE}", "id": "{when}-8c1f-{number:012x}", '
               f'"due_at": "{due}", {rest}\n')
    yield '{"kind": "end"}\n'


def load_by_import(bench, place, count, dice):
    """Into the store of a server that is not running: time and processor time each, in
    microseconds."""
    began = time.monotonic()
    with subprocess.Popen([bench.daruma, "import", "--store", f"sqlite:{place}/tasks.db"],
                          stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, text=True) as process:
        process.stdin.writelines(exported(count, dice))
        process.stdin.close()
        cpu = cpu_seconds(process.pid)  # all but the last of it
        if process.wait() != 0:
            raise Unmeasured(f"daruma import of {count} tasks: {process.returncode}")
    return {"us": (time.monotonic() - began) / count * 1e6, "cpu_us": cpu / count * 1e6}


def measure_huge(bench):
    """Few and many, each in a store of its own."""
    few, many = bench.settings["huge_few"], bench.settings["huge"]
    lives, dice, figures = bench.settings["lives"], random.Random(78), {}
    for name, count in (("at_few", few), ("at_many", many)):
        with folder() as place, bench.noop(place) as (_, port):
            load = load_by_import(bench, place, count, dice)
            with bench.server(place, target_port=port, backlog=2 * many) as server:
                figures[name] = {"load": load, "resident_loaded_bytes": server.resident(),
                                 "life_cpu_us": measure.life_cpu(server, lives),
                                 **measure.measure_restart(server),
                                 "file_bytes": sum(path.stat().st_size
                                                   for path in place.glob("tasks.db*"))}
    return {"many": many, "few": few, **figures}
