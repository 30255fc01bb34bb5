# SPDX-License-Identifier: MIT
"""Who gets in, and over what: tokens and their roles, TLS, on the real program."""
import http.client
import json
import os
import socket
import ssl
import subprocess
import threading
import time
import unittest

import runner
from program import BIN
from server import Server
from target import Target

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


def daruma(*arguments, token=None, ca=None):
    environment = {**os.environ, **({"DARUMA_TOKEN": token} if token else {}),
                   **({"DARUMA_CA": ca} if ca else {})}
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

    def a_token_is_not_left_in_the_environment(self):
        os.environ["OTHER_SECRET"] = "a-signing-secret-of-24-b"
        server = guarded(self).start()
        def environ():
            with open(f"/proc/{server.process.pid}/environ", "rb") as file:
                return file.read()
        self.assertIn(b"OPS_TOKEN=\0", environ())
        for secret in (ADMIN, VIEWER):
            self.assertNotIn(secret.encode(), environ())
        self.assertEqual(server.get("/v1/queues", headers=bearer(ADMIN)).status, 200)
        def sign(name):
            target = {"name": "t", "url": "http://127.0.0.1:1/", "sign": [f"env:{name}"]}
            return server.call("PUT", "/v1/queues/signed", {"targets": [target]}, bearer(ADMIN)).status
        self.assertEqual(sign("OTHER_SECRET"), 201)  # what queues may name stays
        self.assertEqual(sign("OPS_TOKEN"), 400)

    def other_machines_get_in_only_with_tokens(self):
        server = guarded(self, listen="0.0.0.0:0").start()
        self.assertEqual(server.get("/v1/queues", headers=bearer(ADMIN)).status, 200)
        server.stop()
        server.configure(api={"listen": "0.0.0.0:0"})
        server.launch()
        self.assertEqual(server.end(), 1)
        self.assertIn("api.tokens", server.said())


def make_pair(name, *more):
    """A key and a certificate of its own for 127.0.0.1, in the test's folder."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=daruma",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{name}.key", "-out",
                    f"{name}.pem", *more], check=True, capture_output=True)


def secured(test, **more):
    make_pair("own")
    server = Server(test, queues=[{"name": "q"}],
                    api={"listen": "127.0.0.1:0", "tls": {"cert": "own.pem", "key": "own.key"}},
                    **more)
    server.tls = ssl.create_default_context(cafile="own.pem")
    return server


class Trust(unittest.TestCase):
    """The file of authorities that a target names (`ca`) is read where it is named."""

    def _with_a_target(self):
        """A server, and a queue that sends to it over TLS; its authority is not read yet."""
        server = secured(self).start()
        os.rename("own.pem", "ca.pem")
        made = server.call("PUT", "/v1/queues/self", {"policy": {"max_attempts": 1}, "outage": {"after_failures": 1},
            "targets": [{"name": "a", "url": f"https://127.0.0.1:{server.port}/healthz", "method": "GET",
                         "ca": os.path.abspath("ca.pem")}]})
        self.assertEqual(made.status, 201, made)
        return server

    def _given_back(self, server, task):
        end = time.monotonic() + 30
        while server.task(task)["state"] == "running":
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        return server.task(task)

    def a_file_that_is_none_is_refused_by_check_at_the_start_and_in_a_put(self):
        make_pair("own")
        target = {"name": "a", "url": "https://127.0.0.1:9/"}
        server = Server(self, queues=[{"name": "q", "targets": [target | {"ca": "no.pem"}]}])
        checked = subprocess.run([BIN, "check", "-c", server.path], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, check=False, timeout=60)
        self.assertEqual(checked.returncode, 1)
        server.launch()
        self.assertEqual(server.end(), 1)
        for said in (checked.stdout.decode(), server.said()):
            self.assertRegex(said, r":1:\d+: queues\[0\]\.targets\[0\]\.ca: found .*no\.pem.* \(No such file "
                                   r"or directory\), expected a PEM file with certificates")
        server = Server(self, queues=[{"name": "q", "targets": [target | {"ca": "own.pem"}]}]).start()
        for ca in ("no.pem", "own.key", ".", "/dev/zero"):
            got = server.call("PUT", "/v1/queues/p", {"targets": [target | {"ca": ca}]})
            self.assertEqual((got.status, got.json["field"]), (400, "targets[0].ca"), got)
            self.assertIn(ca, got.json["detail"])
        self.assertEqual(server.get("/v1/queues/p").status, 404)
        got = server.call("PUT", "/v1/queues/p", {"targets": [target | {"ca": "own.pem"}]})
        self.assertEqual(got.status, 201, got)

    def one_that_is_gone_uses_up_no_attempt_and_says_nothing_of_the_target(self):
        server = self._with_a_target()
        os.rename("ca.pem", "away.pem")
        task = server.add("self")
        self.assertIn("this machine, not the target: tls: ", server.wait_line("sending_short").text)
        back = self._given_back(server, task)
        self.assertEqual((back["state"], back["attempts"], back["trail"]), ("waiting", 0, []), back)
        self.assertGreater(back["due_at"], back["created_at"])
        self.assertIsNone(server.get("/v1/queues/self").json["outage_since"])
        self.assertIn("\ndaruma_attempts_short_total 1\n", server.get("/metrics").body.decode())
        os.rename("away.pem", "ca.pem")
        self.assertEqual(server.post("/v1/queues/self:run").status // 100, 2)
        ended = server.settled(task)
        self.assertEqual((ended["state"], ended["attempts"]), ("succeeded", 1), ended)

    def one_that_has_become_a_pipe_does_not_hold_up_the_server(self):
        server = self._with_a_target()
        os.remove("ca.pem")
        os.mkfifo("ca.pem")
        task = server.add("self")
        self.assertIn("error setting certificate file: ", server.wait_line("sending_short").text)
        self.assertEqual(self._given_back(server, task)["attempts"], 0)
        self.assertEqual(server.get("/healthz").status, 200)

    def a_queue_of_the_store_waits_for_its_file(self):
        """As for the file of a secret: nothing is lost, and nothing is sent."""
        server = self._with_a_target()
        task = server.add("self", delay_ms=3600000)
        os.rename("ca.pem", "away.pem")
        server.stop()
        os.rename("away.pem", "own.pem")  # the server's own, and not what the queue names
        server.restart()
        self.assertEqual(server.task(task)["state"], "waiting")
        queue = server.get("/v1/queues/self").json
        self.assertEqual(queue["held_by"], "settings")
        self.assertRegex(queue["held_because"], r"targets\[0\]\.ca: found .*ca\.pem \(No such file or directory\)")
        server.stop()
        os.link("own.pem", "ca.pem")
        server.restart()
        self.assertEqual(server.task(task)["state"], "waiting")
        self.assertIsNone(server.get("/v1/queues/self").json.get("held_by"))


class Tls(unittest.TestCase):
    def the_gateway_speaks_tls_and_replays_through_it(self):
        make_pair("own")
        upstream = Target()
        self.addCleanup(upstream.close)
        server = Server(self, gateway={"listen": "127.0.0.1:0",
                                       "tls": {"cert": "own.pem", "key": "own.key"}},
                        routes=[{"match": "POST /v1/orders", "upstream": upstream.url("").rstrip("/"),
                                 "scope": "global"}]).start()
        ready = server.wait_line("gateway_ready")
        self.assertTrue(ready.fields["gateway"].startswith("https://127.0.0.1:"))
        port = int(ready.fields["gateway"].rsplit(":", 1)[1])
        trusted = ssl.create_default_context(cafile="own.pem")
        said = []
        for _ in range(2):
            connection = http.client.HTTPSConnection("127.0.0.1", port, context=trusted, timeout=30)
            connection.request("POST", "/v1/orders", b"{}", {"Idempotency-Key": "k"})
            answer = connection.getresponse()
            said.append((answer.status, answer.read()))
            replayed = answer.headers["Idempotent-Replayed"]
            connection.close()
        self.assertEqual(said[0], said[1])
        self.assertEqual(replayed, "true")
        self.assertEqual(len(upstream.ledger), 1)

    def the_api_speaks_tls(self):
        server = secured(self).start()
        self.assertIn("api=https://127.0.0.1:", server.said())
        connection = server.connect()
        task = {"target": "http://127.0.0.1:9/x", "delay_ms": 3600000, "body": "x" * 300000}
        for _ in range(3):  # on one connection, the body in many records
            made = server.post("/v1/queues/q/tasks", task, connection=connection)
            self.assertEqual(made.status, 201)
        self.assertGreaterEqual(connection.sock.version(), "TLSv1.2")
        read = server.get(made.headers["location"], connection=connection)
        self.assertEqual(read.json["request"]["body"], "x" * 300000)
        many = [threading.Thread(target=server.get, args=("/v1/queues",)) for _ in range(20)]
        for thread in many:
            thread.start()
        for thread in many:
            thread.join()
        self.assertEqual(server.get("/healthz").status, 200)
        connection.close()
        self.assertEqual(server.stop(), 0)

    def the_command_line_speaks_tls(self):
        server = secured(self).start()
        url = f"https://127.0.0.1:{server.port}"
        done = daruma("queues", "--server", url, ca="own.pem")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = daruma("queues", "--server", url)  # nobody vouches for it
        self.assertEqual(done.returncode, 3)
        self.assertIn("certificate", done.stderr)

    def only_ciphers_with_forward_secrecy_and_authenticated_data_are_spoken(self):
        server = secured(self)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                        "/CN=daruma", "-keyout", "own.key", "-out", "own.pem"], check=True,
                       capture_output=True)
        server.start()
        def speaks(cipher, *, version=ssl.TLSVersion.TLSv1_2):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.minimum_version = context.maximum_version = version
            context.set_ciphers(f"{cipher}:@SECLEVEL=0")
            try:
                with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw, \
                        context.wrap_socket(raw) as shaken:
                    return shaken.cipher()[0]
            except (ssl.SSLError, OSError):
                return None
        for cipher in ("AES128-SHA", "AES256-SHA", "AES128-GCM-SHA256", "AES256-GCM-SHA384",
                       "AES128-SHA256", "ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA",
                       "DHE-RSA-AES128-SHA", "ECDHE-RSA-AES128-SHA256",
                       "ECDHE-RSA-AES256-SHA384", "DHE-RSA-AES128-SHA256", "AES128-CCM"):
            self.assertIsNone(speaks(cipher), cipher)
        strong = [speaks(cipher) for cipher in ("ECDHE+AESGCM", "ECDHE+CHACHA20")]
        self.assertEqual([one is not None for one in strong], [True, True], strong)
        self.assertTrue(speaks("ALL", version=ssl.TLSVersion.TLSv1_3).startswith("TLS_"))

    def what_is_too_old_or_no_tls_is_turned_away(self):
        server = secured(self).start()
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with socket.create_connection(("127.0.0.1", server.port), 20) as raw:
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                old.wrap_socket(raw)
        with socket.create_connection(("127.0.0.1", server.port), 20) as raw:
            raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertNotIn(b"200", raw.recv(1000))
        self.assertEqual(server.get("/healthz").status, 200)

    def a_handshake_that_does_not_end_is_cut(self):
        server = secured(self, limits={"header_time": "300ms"}).start()
        for said in (b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"):
            with socket.create_connection(("127.0.0.1", server.port), 20) as raw:
                raw.sendall(said)
                self.assertEqual(raw.recv(1000), b"")  # it is told, not left waiting
        self.assertEqual(server.get("/healthz").status, 200)

    def a_storm_of_handshakes_does_not_stall_others(self):  # trap 8
        server = secured(self).start()
        kept = server.connect()
        self.assertEqual(server.get("/healthz", connection=kept).status, 200)
        storm = [socket.create_connection(("127.0.0.1", server.port), 50) for _ in range(200)]
        shaken = []

        def shake(some):
            for raw in some:
                shaken.append(server.tls.wrap_socket(raw, server_hostname="127.0.0.1"))
        threads = [threading.Thread(target=shake, args=(storm[i::8],)) for i in range(8)]
        for thread in threads:
            thread.start()
        served = 0
        while any(thread.is_alive() for thread in threads):
            self.assertEqual(server.get("/healthz", connection=kept).status, 200)
            served += 1
        self.assertEqual(len(shaken), 200)
        self.assertGreater(served, 5)  # while they shook hands
        for raw in shaken:
            raw.close()
        kept.close()

    def a_bad_pair_is_refused_at_start_naming_the_file(self):
        server = secured(self)
        make_pair("other")
        subprocess.run(["openssl", "ec", "-in", "own.key", "-aes128", "-passout", "pass:geheim",
                        "-out", "locked.key"], check=True, capture_output=True)
        with open("text.pem", "w", encoding="ascii") as file:
            file.write("no PEM at all\n")
        rows = [("missing.pem", "own.key", "api.tls.cert: missing.pem cannot be read: No such file"),
                ("own.pem", "missing.key", "api.tls.key: missing.key cannot be read: No such file"),
                (".", "own.key", "api.tls.cert: . "),
                ("text.pem", "own.key", "api.tls.cert: text.pem is not a certificate"),
                ("own.pem", "text.pem", "api.tls.key: text.pem is not a private key"),
                ("own.pem", "locked.key", "api.tls.key: locked.key is encrypted"),
                ("own.pem", "other.key", "api.tls.key: other.key is not the key of the certificate")]
        for cert, key, expected in rows:
            first = len(server.lines)
            server.configure(api={"listen": "127.0.0.1:0", "tls": {"cert": cert, "key": key}})
            server.launch()
            self.assertEqual(server.end(), 1)
            self.assertIn(expected, server.said(first))


if __name__ == "__main__":
    runner.main()
