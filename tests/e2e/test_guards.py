# SPDX-License-Identifier: MIT
"""Who gets in: tokens and their roles on the real program, from the configuration to the answer."""
import json
import os
import subprocess
import unittest

import runner
from program import BIN
from server import Server

ADMIN, PRODUCER, VIEWER = "a" * 40, "p" * 40, "v" * 40
TOKENS = [{"name": "ops", "role": "admin", "token": "env:OPS_TOKEN"},
          {"name": "shop", "role": "producer", "token": "file:shop.token"},
          {"name": "board", "role": "viewer", "token": "env:BOARD_TOKEN"}]


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def guarded(test, listen="127.0.0.1:0", **more):
    os.environ.update(OPS_TOKEN=ADMIN, BOARD_TOKEN=VIEWER)
    with open("shop.token", "w", encoding="ascii") as file:
        file.write(PRODUCER + "\n")
    return Server(test, queues=[{"name": "q"}], api={"listen": listen, "tokens": TOKENS}, **more)


def daruma(*arguments, token=None):
    environment = {**os.environ, **({"DARUMA_TOKEN": token} if token else {})}
    return subprocess.run([BIN, *arguments], capture_output=True, text=True, check=False,
                          env=environment)


class Tokens(unittest.TestCase):
    def each_role_does_its_part(self):
        server = guarded(self).start()
        task = {"target": "http://127.0.0.1:9/x", "delay_ms": 3600000}
        made = server.post("/v1/queues/q/tasks", task, headers=bearer(PRODUCER))
        self.assertEqual(made.status, 201)
        path = made.headers["location"]
        for token, status in ((VIEWER, 200), (PRODUCER, 200), (ADMIN, 200), ("x" * 40, 401)):
            self.assertEqual(server.get(path, headers=bearer(token)).status, status)
        self.assertEqual(server.get(path).status, 401)
        for token, status in ((VIEWER, 403), (PRODUCER, 403), (ADMIN, 200)):
            got = server.post(path + ":cancel", headers=bearer(token))
            self.assertEqual(got.status, status)
        self.assertEqual(server.get("/metrics", headers=bearer(PRODUCER)).code, "forbidden")
        self.assertEqual(server.get("/metrics", headers=bearer(VIEWER)).status, 200)
        for path in ("/healthz", "/readyz"):
            self.assertEqual(server.get(path).status, 200)

    def what_is_refused_leaves_no_trace(self):
        server = guarded(self).start()
        task = {"target": "http://127.0.0.1:9/x", "delay_ms": 3600000}
        refused = server.post("/v1/queues/q/tasks", task)
        self.assertEqual((refused.status, refused.code), (401, "unauthorized"))
        self.assertEqual(refused.headers["www-authenticate"], "Bearer")
        self.assertEqual(server.post("/v1/queues/q/tasks", task, headers=bearer(VIEWER)).status, 403)
        listed = server.get("/v1/queues/q/tasks", headers=bearer(VIEWER))
        self.assertEqual(listed.json["tasks"], [])

    def tokens_are_in_no_log_metric_or_answer(self):  # I10
        server = guarded(self, log={"level": "debug"}).start()
        said = [server.get(path, headers=bearer(token)).body.decode()
                for path in ("/v1/queues", "/metrics", "/v1/openapi.json", "/nowhere")
                for token in (ADMIN, PRODUCER, "x" * 40)]
        server.stop()
        for secret in (ADMIN, PRODUCER, VIEWER, "x" * 40):
            self.assertNotIn(secret, server.said() + "".join(said))

    def the_command_line_brings_its_token(self):
        server = guarded(self).start()
        url = f"http://127.0.0.1:{server.port}"
        done = daruma("queues", "--server", url, "--json", token=VIEWER)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["queues"][0]["name"], "q")
        done = daruma("queues", "--server", url)
        self.assertEqual(done.returncode, 1)
        self.assertIn("token", done.stderr.lower())
        done = daruma("run", "q", "--server", url, token=VIEWER)
        self.assertEqual(done.returncode, 1)

    def other_machines_get_in_only_with_tokens(self):
        server = guarded(self, listen="0.0.0.0:0").start()
        self.assertEqual(server.get("/v1/queues", headers=bearer(ADMIN)).status, 200)
        server.stop()
        server.configure(api={"listen": "0.0.0.0:0"})
        server.launch()
        self.assertEqual(server.end(), 1)
        self.assertIn("api.tokens", server.said())


if __name__ == "__main__":
    runner.main()
