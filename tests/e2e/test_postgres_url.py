# SPDX-License-Identifier: MIT
"""The URL of the database may hold a password, and a password may hold anything: whatever a command
makes of such a URL, it prints nothing of the password (I10).
"""
import os
import signal
import subprocess
import unittest
import urllib.parse

import postgres
import runner
from program import BIN

HEAD, TAIL = "sesameHead", "sesameTail"
UNREADABLE = ("%zz", "@", "/", "@x/", "/?a=", "@x?host=", "%")  # as they are, between head and tail
READABLE = ("?", "#", "&", "=", "'", "%40%2F%3F%23%25")


class Passwords(unittest.TestCase):
    def setUp(self):
        self.server = postgres.shared()
        self.database = self.server.new()
        with open("empty.ndjson", "w", encoding="utf-8"):
            pass

    def _url(self, password):
        host = urllib.parse.quote(self.server.folder, safe="")
        return f"postgres://daruma:{password}@{host}/{self.database}"

    def _said(self, arguments, password=""):
        """Until it ends, or is ready to serve: exit status and all that it said."""
        process = subprocess.Popen([BIN, *arguments], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env={**os.environ, "PGPASS": password})
        lines = []
        for line in process.stdout:
            lines.append(line.decode())
            if "event=ready" in lines[-1]:
                process.send_signal(signal.SIGTERM)
        process.stdout.close()
        return process.wait(), "".join(lines)

    def _commands(self, password):
        url = self._url(password)
        yield ["check", "-c", "daruma.yaml"]
        yield ["check", "-c", "daruma.yaml", "--json"]
        yield ["check", "-c", "memory.yaml", "--against", url]
        yield ["serve", "-c", "daruma.yaml"]
        yield ["export", "--store", url]
        yield ["import", "--store", url, "--input", "empty.ndjson"]
        yield ["restore", "--store", url]
        yield ["compact", "--store", url]
        yield ["export", "--store", f"host=h password={password}"]

    def _configure(self):
        with open("daruma.yaml", "w", encoding="utf-8") as file:
            file.write(f'store: "{self._url("${PGPASS}")}"\napi: {{listen: "127.0.0.1:0"}}\n')
        with open("memory.yaml", "w", encoding="utf-8") as file:
            file.write('store: memory\napi: {listen: "127.0.0.1:0"}\n')

    def _all(self, between):
        """{command: exit status}, {command: what it said}; nothing of the password is in what they said."""
        self._configure()
        password, ends, words = HEAD + between + TAIL, {}, {}
        for arguments in self._commands(password):
            status, said = self._said(arguments, password)
            self.assertNotIn(HEAD, said, arguments)
            self.assertNotIn(TAIL, said, arguments)
            ends.setdefault(arguments[0], status)
            words.setdefault(arguments[0], said)
        return ends, words

    def a_password_that_has_to_be_encoded_is_asked_for_so_and_not_shown(self):
        for between in UNREADABLE:
            ends, said = self._all(between)
            self.assertNotIn(0, ends.values(), (between, ends))
            self.assertTrue(all("percent-encoded" in said[command]
                                for command in ("check", "serve", "export", "restore")), said)

    def a_password_that_can_be_read_is_used_and_not_shown(self):
        for between in READABLE:
            ends, _said = self._all(between)
            self.assertEqual((ends["check"], ends["serve"], ends["export"]), (0, 0, 0), between)


if __name__ == "__main__":
    postgres.shared()
    runner.main()
