# SPDX-License-Identifier: MIT
"""What an attack costs the server: its memory, and the longest turn of its loop."""
import threading
import time
from pathlib import Path

CALL_SECONDS = 30


class Meter:
    """The server's memory, and the most that its loop did while a caller waited for /healthz: on a
    busy machine the wait itself says nothing."""

    def __init__(self, server):
        self.server, self.worst, self.waited, self.count = server, 0, 0, 0
        self.is_instrumented = b"asan" in Path(f"/proc/{server.process.pid}/maps").read_bytes()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self):
        connection = self.server.connect(CALL_SECONDS)
        while not self._is_over.wait(0.005):
            began, ran = time.monotonic(), self._ran()
            self.server.get("/healthz", connection=connection)
            self.worst = max(self.worst, self._ran() - ran)
            self.waited = max(self.waited, time.monotonic() - began)
            self.count += 1
        connection.close()

    def _ran(self):
        """Seconds of the loop's thread on a core."""
        return int(Path(f"/proc/{self.server.process.pid}/schedstat").read_text().split()[0]) / 1e9

    def mib(self, field):
        for line in Path(f"/proc/{self.server.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) // 1024
        raise AssertionError(field)

    def __enter__(self):
        self.before = self.mib("VmRSS")
        self._thread.start()
        return self

    def __exit__(self, *_wrong):
        self._is_over.set()
        self._thread.join()

    def check(self, test, peak_mib=96, kept_mib=48, turn_seconds=0.5):
        peak, kept = self.mib("VmHWM") - self.before, self.mib("VmRSS") - self.before
        print(f"loop worst {self.worst * 1000:.0f} ms, wait worst {self.waited * 1000:.0f} ms of "
              f"{self.count}, memory +{peak} MiB, then +{kept} MiB")
        test.assertGreater(self.count, 0)
        if not self.is_instrumented:
            test.assertLess(peak, peak_mib)
            test.assertLess(kept, kept_mib)
        test.assertLess(self.worst, turn_seconds * 6 if self.is_instrumented else turn_seconds)
