# SPDX-License-Identifier: MIT
"""`daruma key URL` (A3), by the real program: held against Python's own uuid5."""
import hashlib
import json
import os
import pwd
import socket
import subprocess
import unittest
import uuid

import runner
from program import BIN

NAMESPACE = uuid.UUID("e01b6ffb-1f60-5a68-979b-f8a5f9b582d2")
URL = "https://example.org/article"
AT = "2026-11-15T10:20:30Z"
AT_MS = 1794738030000
WINDOW_MS = 300000


def key(*arguments, given=b"", **more):
    """(exit status, stdout, stderr)."""
    kept = {name: value for name, value in os.environ.items() if name != "DARUMA_CLIENT"}
    done = subprocess.run([BIN, "key", *arguments], input=given, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**kept, **more}, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def expected(url=URL, client="me", window_ms=WINDOW_MS, at_ms=AT_MS, more=()):
    name = [url, client, str(window_ms), str(at_ms // window_ms), *more]
    return str(uuid.uuid5(NAMESPACE, "\n".join(name)))


class Key(unittest.TestCase):
    def it_is_a_uuid_5_of_url_client_and_window(self):  # A3
        self.assertEqual(key(URL, "--client", "me", "--at", AT), (0, expected() + "\n", ""))
        self.assertEqual(key("HTTPS://Example.org:443/article#top", "--client", "me", "--at", AT)[1],
                         expected() + "\n")

    def a_double_send_has_one_key_and_a_later_save_another(self):  # A3
        flags = ("--client", "me", "--window", "10s")
        first = key(URL, *flags, "--at", "2026-11-15T10:20:30Z")[1]
        self.assertEqual(key(URL, *flags, "--at", "2026-11-15T10:20:39.999Z")[1], first)
        self.assertEqual(key(URL, *flags, "--at", "2026-11-15T19:20:35+09:00")[1], first)
        self.assertNotEqual(key(URL, *flags, "--at", "2026-11-15T10:20:40Z")[1], first)
        self.assertEqual(first, expected(window_ms=10000) + "\n")

    def the_time_is_now_unless_it_is_given(self):
        said = json.loads(key(URL, "--window", "366d", "--json")[1])
        self.assertEqual(key(URL, "--window", "366d")[1], said["key"] + "\n")
        self.assertLess(said["window_from"], said["window_until"])

    def the_client_is_the_flag_or_the_variable_or_the_user(self):
        user = f"{pwd.getpwuid(os.geteuid()).pw_name}@{socket.gethostname()}"
        self.assertEqual(key(URL, "--at", AT)[1], expected(client=user) + "\n")
        self.assertEqual(key(URL, "--at", AT, DARUMA_CLIENT="ios")[1],
                         expected(client="ios") + "\n")
        self.assertEqual(key(URL, "--at", AT, "--client", "web", DARUMA_CLIENT="ios")[1],
                         expected(client="web") + "\n")

    def a_request_has_its_method_and_its_body_in_it(self):
        body = bytes(range(256))
        for flags, method in ((("--data", "-"), "POST"), (("--data", "-", "--method", "PUT"), "PUT")):
            self.assertEqual(key(URL, "--client", "me", "--at", AT, *flags, given=body)[1],
                             expected(more=(method, hashlib.sha256(body).hexdigest())) + "\n")

    def json_tells_what_it_was_made_from(self):
        status, out, _ = key("http://E.org", "--client", "山田", "--at", AT, "--json")
        self.assertEqual(status, 0)
        self.assertEqual(json.loads(out), {
            "key": expected(url="http://e.org/", client="山田"), "url": "http://e.org/",
            "client": "山田", "window_ms": 300000, "window_from": "2026-11-15T10:20:00.000Z",
            "window_until": "2026-11-15T10:25:00.000Z"})

    def what_is_wrong_is_named(self):
        for arguments, named in ((("ftp://x/",), "URL: expected"), ((), "no URL given"),
                                 ((URL, "more"), "'more' given"),
                                 ((URL, "--window", "0s"), "--window: '0s'"),
                                 ((URL, "--window", "367d"), "--window: '367d'"),
                                 ((URL, "--at", "noon"), "--at: 'noon'"),
                                 ((URL, "--client", ""), "--client: ''"),
                                 (("http://u:s3cret@e.org/",), "a user name or password")):
            status, out, err = key(*arguments)
            self.assertEqual((status, out), (2, ""))
            self.assertIn(named, err)
            self.assertNotIn("s3cret", err)
        self.assertIn("DARUMA_CLIENT: expected", key(URL, DARUMA_CLIENT="a\nb")[2])
        self.assertEqual(key(URL, "--data", "@nowhere")[0], 1)


if __name__ == "__main__":
    runner.main()
