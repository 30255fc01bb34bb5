# SPDX-License-Identifier: MIT
"""The commands that ask a server: `daruma check enqueue tasks show run queues`, by the real program.

Most tests have a stand-in for the server, which answers by script and keeps what it was asked; those
at the end have the real one, where the program has it. Nothing here sleeps: the program is waited for,
and what it waits for is in the script.
"""
import base64
import contextlib
import fcntl
import http.server
import json
import os
import pty
import re
import resource
import socket
import ssl
import struct
import subprocess
import termios
import threading
import time
import unittest

import runner
from program import BIN
from target import FLOODS, Target, flood

ID = "0198c0de-0000-7000-8000-00000000000a"
OTHER = "0198c0de-0000-7001-8000-00000000000b"
SECRET = "tok-3n-s3cret"
COMMANDS = ("check", "enqueue", "tasks", "show", "run", "queues")
ASKING = COMMANDS[1:]
OPERANDS = {"enqueue": ["sync"], "show": [ID], "run": ["sync"]}
UNSET = ("DARUMA_URL", "DARUMA_TOKEN", "DARUMA_CA", "NO_COLOR", "COLUMNS", "http_proxy", "https_proxy")


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    return {**kept, "TERM": "xterm", **more}


def run(*arguments, given=b"", **more):
    """(exit status, stdout, stderr) of a whole run."""
    done = subprocess.run([BIN, *arguments], input=given, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment(**more), check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def on_terminal(*arguments, columns=80, seeing=lambda screen: None, **more):
    """(exit status, what was on the screen); `seeing` is told all there is so far, again and again."""
    pid, screen = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.execve(BIN, [BIN, *arguments], environment(**more))
    seen = b""
    with contextlib.suppress(OSError):  # Linux's way to say that nobody has it open any more
        while piece := os.read(screen, 65536):
            seen += piece
            seeing(seen.decode(errors="replace"))
    os.close(screen)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode()


def unused_url():
    """Where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


HAS_SERVE = re.search(r"^  serve\b", run("help")[1], re.M)


class Answer:
    """One answer of the script. `cut`: none at all, the connection ends."""

    def __init__(self, status=200, body=None, headers=None, cut=False):
        self.status, self.cut = status, cut
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.headers = {"Content-Type": "application/json", **(headers or {})}


def problem(status, code, detail, headers=None, **more):
    body = {"type": f"urn:daruma:problem:{code}", "title": "Title", "status": status,
            "detail": detail, "code": code, **more}
    return Answer(status, body, headers)


def task(state="waiting", **more):
    return {"id": ID, "queue": "sync", "state": state, "key": None, "labels": {},
            "created_at": "2026-11-15T10:20:30.123Z", "due_at": "2026-11-15T10:20:30.123Z",
            "attempts": 0, "max_attempts": 10, "next_wait_ms": None, **more}


def listed(**more):
    return task(**{"request": {"method": "POST", "target": "http://t/", "headers": {}}, **more})


def queue(name, paused=False, due=0, **counts):
    states = "waiting running unsettled succeeded failed cancelled".split()
    return {"name": name, "paused": paused, "in_file": True, "due": due, "in_flight": 0,
            "dead_letters": counts.get("failed", 0),
            "counts": {state: counts.get(state, 0) for state in states}}


def page(member, rows, after=None):
    return Answer(200, {member: rows, "next": after})


class Asked:
    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body

    @property
    def line(self):
        return f"{self.method} {self.path}"

    @property
    def json(self):
        return json.loads(self.body)


class StandIn:
    """A server that gives one answer after the other; the last one for ever."""

    def __init__(self, *answers):
        answers, asked = list(answers), []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = self.requestline.split()[1]  # self.path is smoothed out
                asked.append(Asked(self.command, path, self.headers, body))
                given = answers.pop(0) if len(answers) > 1 else answers[0]
                if given.cut:
                    self.close_connection = True
                    return
                self.send_response(given.status)
                for name, value in given.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(given.body)))
                self.end_headers()
                self.wfile.write(given.body)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_arguments):
                pass

        self.asked = asked
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._secure()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def _secure(self):
        """Before anything is accepted."""

    @property
    def lines(self):
        return [asked.line for asked in self.asked]

    @property
    def posted(self):
        """The last that was to change something."""
        return [asked for asked in self.asked if asked.method == "POST"][-1]

    def run(self, *arguments, **more):
        return run(*arguments, DARUMA_URL=self.url, **more)

    def on_terminal(self, *arguments, **more):
        return on_terminal(*arguments, DARUMA_URL=self.url, **more)


class TlsStandIn(StandIn):
    """The same over TLS, with the certificate of the folder."""

    def __init__(self, *answers):
        super().__init__(*answers)
        self.url = self.url.replace("http:", "https:")

    def _secure(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain("own.pem", "own.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)


def own_certificate(name):
    """NAME.pem and NAME.key, for this machine."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out",
                    f"{name}.pem", "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)


def write(name, text):
    with open(name, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


class Check(unittest.TestCase):
    def a_good_configuration_is_ok_and_summed_up(self):
        write("good.yaml", "store: sqlite:x.db\nqueues:\n  - name: sync\nlimits: {attempts: 50, connections: 99}\n")
        self.assertEqual(run("check", "-c", "good.yaml"),
                         (0, "good.yaml: ok: store sqlite:x.db, api 127.0.0.1:8700, 1 queue, "
                             "0 tokens\nlimits.attempts: 50, as the file says\n", ""))
        self.assertEqual(os.listdir(), ["good.yaml"])  # it only looks

    def a_gateway_and_its_routes_are_summed_up(self):
        write("g.yaml", "store: memory\npass: http://127.0.0.1:1\nlimits: {attempts: 50, connections: 99}\n"
                        "routes:\n  - {match: POST /a, upstream: 'http://127.0.0.1:1', scope: global}\n")
        status, out, err = run("check", "-c", "g.yaml")
        self.assertEqual((status, out.splitlines()[:1], err), (
            0, ["g.yaml: ok: store memory, api 127.0.0.1:8700, 0 queues, 0 tokens, gateway "
                "127.0.0.1:8701, 1 route, pass"], ""))
        document = json.loads(run("check", "-c", "g.yaml", "--json")[1])
        self.assertEqual((document["gateway"], document["routes"], document["pass"]),
                         ("127.0.0.1:8701", 1, True))

    def a_gateway_that_nothing_needs_is_told_not_to_be_opened(self):
        write("g.yaml", "store: memory\ngateway: {listen: 127.0.0.1:8701}\n")
        status, out, _ = run("check", "-c", "g.yaml")
        self.assertEqual(status, 0)
        self.assertIn("gateway: is not opened: there are no routes and no pass\n", out)
        write("g.yaml", "store: memory\ngateway: {listen: 127.0.0.1:8701}\npass: http://127.0.0.1:1\n")
        self.assertNotIn("not opened", run("check", "-c", "g.yaml")[1])

    def certificates_that_cannot_be_used_are_told(self):
        own_certificate("own")
        own_certificate("other")
        for cert, key, told in (
                ("none.pem", "own.key", "api.tls.cert: .*none.pem cannot be read: No such file"),
                ("own.pem", "other.key", "api.tls.key: .*other.key is not the key of the"),
                ("own.key", "own.key", "api.tls.cert: .*own.key is not a certificate"),
                ("own.pem", "own.key", None)):
            write("daruma.yaml", f"store: memory\napi: {{tls: {{cert: {cert}, key: {key}}}}}\n"
                                 "limits: {attempts: 50, connections: 99}\n")
            status, out, err = run("check")
            if told is None:
                self.assertEqual((status, err), (0, ""))
            else:
                self.assertEqual((status, out), (1, ""))
                self.assertRegex(err, told)

    def a_secret_or_a_certificate_that_is_a_pipe_is_refused_and_not_waited_for(self):
        os.mkfifo("pipe")
        for command, api in ((command, api) for command in ("check", "serve") for api in (
                "{tokens: [{name: a, role: admin, token: file:pipe}]}", "{tls: {cert: pipe, key: pipe}}")):
            write("daruma.yaml", f"store: memory\napi: {api}\n")
            done = subprocess.run([BIN, command, "-c", "daruma.yaml"], capture_output=True, check=False,
                                  timeout=20, env=environment())
            self.assertEqual(done.returncode, 1, command)
            self.assertIn(b"cannot be read: it is not a regular file", done.stderr)

    def too_few_descriptors_for_the_queues_are_told(self):
        queues = "".join(f"  - name: q{i}\n" for i in range(20))
        write("daruma.yaml", "store: memory\nlimits: {connections: 500}\nqueues:\n" + queues)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))
        status, out, err = run("check")
        self.assertEqual((status, out.splitlines()[1]),
                         (0, "limits.attempts: 250, what descriptors allow here"))
        self.assertRegex(err, r"^warning: this system allows 1000 open files; the configuration can use 3316: "
                              r"limits.connections \(500\), limits.attempts \(2048\), 512 for names that are looked up, 256 for the store "
                              r"and others. Raise 'ulimit -Hn' or ")
        document = json.loads(run("check", "--json")[1])
        self.assertEqual([document[name] for name in ("attempts", "files", "files_wanted", "files_few")],
                         [250, 1000, 3316, True])
        write("daruma.yaml", "store: memory\nlimits: {connections: 500}\nqueues: [{name: one}]\n")
        self.assertEqual(run("check")[2], "")  # 64 attempts are all that it can use
        write("daruma.yaml", "store: memory\nlimits: {connections: 500}\nqueues: [{name: one}]\n"
                             "pass: http://127.0.0.1:1\n")
        err = run("check")[2]
        self.assertIn("the configuration can use 3816: ", err)
        self.assertIn("gateway requests that are not recorded (500), 512 for names that are looked up, 256", err)

    def a_wrong_one_is_told_with_its_place(self):
        write("bad.yaml", "store: memory\nqueues:\n  - name: sync\n    lease: 5x\n")
        status, out, err = run("check", "-c", "bad.yaml")
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, r"^bad\.yaml:4:\d+: queues\[0\]\.lease: .*5x")

    def a_file_that_is_not_there_is_told(self):
        status, _, err = run("check", "-c", "nowhere.yaml")
        self.assertEqual((status, err), (1, "cannot read nowhere.yaml: No such file or directory\n"))

    def json_is_one_document_either_way(self):
        write("daruma.yaml", "store: memory\n")
        write("bad.yaml", "stores: memory\n")
        status, out, _ = run("check", "--json")
        self.assertEqual((status, json.loads(out)["ok"]), (0, True))
        status, out, _ = run("check", "--json", "-c", "bad.yaml")
        self.assertEqual((status, json.loads(out)["ok"]), (1, False))
        self.assertIn("bad.yaml:1:1", json.loads(out)["error"])

    def secrets_are_not_printed(self):
        write("daruma.yaml", "api:\n  tokens: [{name: ops, role: admin, token: env:OPS}]\n")
        for more in ([], ["--json"]):
            _, out, err = run("check", *more, OPS=SECRET)
            self.assertIn("token", out + err)
            self.assertNotIn(SECRET, out + err)


class CommandLine(unittest.TestCase):
    def help_of_a_command_is_its_help(self):
        for command in COMMANDS:
            self.assertEqual(run("help", command), run(command, "--help"))
        self.assertEqual(run("help", "dead", "list"), run("dead", "list", "--help"))
        self.assertEqual(run("help", "dead", "nonsense")[0], 2)
        self.assertIn("--config FILE", run("serve", "--help")[1])

    def what_is_no_command_is_refused_and_the_nearest_named(self):
        lists = "'daruma help' lists them\n"
        for words in (("taks",), ("help", "taks")):
            self.assertEqual(run(*words), (2, "", f"daruma: no command 'taks', did you mean 'tasks'? {lists}"))
        self.assertEqual(run("help", "nonsense"), (2, "", f"daruma: no command 'nonsense'; {lists}"))
        for words in (("version", "x"), ("--version", "x"), ("help", "dead", "list", "x")):
            status, out, err = run(*words)
            self.assertEqual((status, out), (2, ""), words)
            self.assertIn("'x' given, expected", err)

    def every_command_has_help(self):
        for command in COMMANDS:
            for flag in ("--help", "-h"):
                status, out, err = run(command, flag)
                self.assertEqual((status, err), (0, ""))
                self.assertTrue(out.startswith(f"usage: daruma {command}"))
                self.assertIn("--json", out)
                self.assertEqual("--token" in out, command != "check")

    def _refused(self, *arguments, **more):
        status, out, err = run(*arguments, **more)
        self.assertEqual((status, out), (2, ""), err)
        self.assertEqual(err.count("\n"), 1)
        return err

    def a_flag_that_is_not_known_is_named(self):
        for command in COMMANDS:
            err = self._refused(command, *OPERANDS.get(command, []), "--colour=red")
            self.assertEqual(err, f"daruma {command}: --colour: no such flag, expected one that "
                                  "--help lists\n")

    def a_wrong_value_names_its_flag(self):
        for flag, value in (("--delay", "soon"), ("--deadline", "0s"), ("--timeout", "-1s"),
                            ("--wait", "5"), ("--key", ""), ("--label", "x"), ("--method", "a b")):
            err = self._refused("enqueue", "sync", flag, value)
            self.assertTrue(err.startswith(f"daruma enqueue: {flag}: '{value}' given, expected "))
        for flag, value in (("--state", "done"), ("--limit", "0"), ("--limit", "x")):
            self.assertIn(f": {flag}: '{value}' given", self._refused("tasks", flag, value))
        self.assertIn(": --task: 'x' given", self._refused("run", "--task", "x"))
        self.assertIn(": --json: 'x' given, expected no value", self._refused("queues", "--json=x"))

    def a_flag_without_its_value_is_named(self):
        self.assertIn(": --delay: nothing given", self._refused("enqueue", "sync", "--delay"))

    def what_is_missing_is_named(self):
        self.assertIn("no QUEUE given", self._refused("enqueue"))
        self.assertIn("no ID given", self._refused("show"))
        self.assertIn("neither given", self._refused("run"))
        self.assertIn("both given", self._refused("run", "sync", "--task", ID))

    def what_is_too_much_is_named(self):
        self.assertIn("'more' given", self._refused("tasks", "sync", "more"))
        self.assertIn("'more' given", self._refused("queues", "more"))
        self.assertIn("'more' given", self._refused("show", ID, "--", "more"))

    def flags_that_exclude_each_other_are_refused(self):
        self.assertIn("--json-data", self._refused("enqueue", "sync", "--data", "a",
                                                   "--json-data", "1"))
        self.assertIn("--all", self._refused("tasks", "--limit", "5", "--all"))
        self.assertIn("--limit", self._refused("tasks", "--all", "--limit", "5"))
        self.assertIn("--label", self._refused("tasks", "--label", "a=b", "--label", "c=d"))
        self.assertIn("--header", self._refused("enqueue", "sync", "--header", "A: 1",
                                                "--header", "a: 2"))

    def names_that_would_lead_elsewhere_are_refused(self):
        for name in ("../queues", "a/tasks", "a:run", "a?x", "a%2fb", ""):
            self.assertIn("expected one QUEUE", self._refused("enqueue", name))
            self.assertIn("expected one QUEUE", self._refused("run", name))
        for name in ("x", ID + "/", "../" + ID):
            self.assertIn("expected one ID", self._refused("show", name))

    def secrets_are_not_repeated(self):
        for arguments in (("queues", "--token", SECRET + "\n"), ("queues", f"--token={SECRET} "),
                          ("queues", "--server", f"http://me:{SECRET}@127.0.0.1/"),
                          ("enqueue", "sync", "--header", SECRET),
                          ("enqueue", "sync", "--header", f"Authorization: {SECRET}\n"),
                          ("enqueue", "sync", "--json-data", f'"{SECRET}')):
            self.assertNotIn(SECRET, self._refused(*arguments))
        self.assertNotIn(SECRET, self._refused("queues", DARUMA_TOKEN=SECRET + "\x7f"))

    def a_wrong_server_is_told_by_its_flag_or_variable(self):
        for url in ("127.0.0.1:8700", "ftp://127.0.0.1/", "http://h/?x", "http://h/#x", "http://"):
            self.assertIn(": --server: '", self._refused("queues", "--server", url))
            self.assertIn(": DARUMA_URL: '", self._refused("queues", DARUMA_URL=url))


class Reaching(unittest.TestCase):
    def nobody_there_is_exit_status_3_and_a_hint(self):
        url = unused_url()
        for command in ASKING:
            status, out, err = run(command, *OPERANDS.get(command, []), "--server", url)
            self.assertEqual((status, out), (3, ""))
            self.assertIn(f"daruma {command}: {url} is not reachable: ", err)
            self.assertIn("is 'daruma serve' running there?", err)

    def tls_that_fails_says_what_to_do(self):
        own_certificate("own")
        own_certificate("other")
        server = StandIn(page("queues", [queue("q")]))
        plain = server.url.replace("http:", "https:")
        secret = TlsStandIn(page("queues", [queue("q")]))
        for url, ca, hint in (
                (secret.url, None, "DARUMA_CA=FILE names the PEM file of who vouches for"),
                (secret.url, "other.pem", "DARUMA_CA names a file that does not vouch for"),
                (secret.url, "none.pem", "DARUMA_CA has to name a PEM file that can be read"),
                (plain, None, "If not, its address begins with http://"),
                (StandIn(Answer(cut=True)).url, None,
                 "does it speak https? Then its address begins with https://")):
            status, out, err = run("queues", DARUMA_URL=url, **({"DARUMA_CA": ca} if ca else {}))
            self.assertEqual((status, out), (3, ""))
            self.assertIn(hint, err)
            self.assertNotIn("daruma serve", err)
        self.assertEqual(run("queues", DARUMA_URL=secret.url, DARUMA_CA="own.pem")[0], 0)

    def the_flag_counts_more_than_the_variable(self):
        server = StandIn(page("queues", []))
        status, _, _ = run("queues", "--server", server.url + "/", "--token", SECRET,
                           DARUMA_URL=unused_url(), DARUMA_TOKEN="other")
        self.assertEqual((status, server.lines), (0, ["GET /v1/queues"]))
        self.assertEqual(server.asked[0].headers["Authorization"], f"Bearer {SECRET}")

    def the_token_goes_along_and_is_never_shown(self):
        server = StandIn(problem(403, "forbidden", "not for this role"))
        for command in ASKING:
            for more in ([], ["--json"]):
                status, out, err = server.run(command, *OPERANDS.get(command, []), *more,
                                              DARUMA_TOKEN=SECRET)
                self.assertEqual(status, 1)
                self.assertNotIn(SECRET, out + err)
                self.assertIn("role", err)
                self.assertEqual(server.asked[-1].headers["Authorization"], f"Bearer {SECRET}")

    def a_refusal_says_what_to_do_next_by_its_code(self):
        for status, code, field, command, hint in (
                (409, "queue_not_empty", "", ("queue", "purge", "w"), "--force"),
                (409, "queue_in_file", "", ("queue", "purge", "q"), "take it out of"),
                (409, "queue_missing", "", ("enqueue", "q", "--data", "x"), "daruma queue adopt"),
                (403, "queue_reserved", "", ("enqueue", "_callbacks", "--data", "x"), "the server"),
                (403, "cross_site", "", ("queues",), "docs/security.md"),
                (403, "forbidden", "filter.queue", ("dead", "redrive", "--all"), "give --queue"),
                (403, "forbidden", "targets[0].ca", ("enqueue", "q", "--data", "x"),
                 "not limited to queues"),
                (403, "forbidden", "", ("queues",), "the token's role")):
            server = StandIn(problem(status, code, "so it is", field=field))
            ended, _, err = server.run(*command, DARUMA_TOKEN=SECRET)
            self.assertEqual(ended, 1, command)
            self.assertIn(hint, err.splitlines()[-1])
            self.assertEqual("the token's role" in err, (code, field) == ("forbidden", ""), err)

    def the_field_of_a_refusal_is_named_once(self):
        server = StandIn(problem(422, "invalid", "article: expected the JSON", field="article"))
        _, _, err = server.run("enqueue", "q", "--json-data", "{}")
        self.assertIn("daruma enqueue: article: expected the JSON (invalid)", err)

    def a_route_for_a_method_that_does_not_exist_is_refused(self):
        for method, expected in (("PSOT", 1), ("POST,PSOT", 1), ("PUT,PATCH", 0), ("QUERY", 0)):
            write("daruma.yaml", json.dumps({"store": "memory", "gateway": {"listen": "127.0.0.1:0"},
                                             "routes": [{"match": f"{method} /v1/x", "scope": "global",
                                                         "upstream": "http://127.0.0.1:1"}]}))
            status, _, err = run("check", "-c", "daruma.yaml")
            self.assertEqual(status, expected, err)
            self.assertEqual("found the method PSOT, expected" in err, expected == 1, err)

    def serve_says_what_its_flag_lacks(self):
        status, _, err = run("serve", "--config")
        self.assertEqual(status, 2)
        self.assertIn("--config: nothing given, expected a file", err)

    def without_a_token_none_is_sent_and_401_says_how_to_give_one(self):
        server = StandIn(problem(401, "unauthorized", "a token is needed"))
        status, _, err = server.run("queues")
        self.assertNotIn("Authorization", server.asked[0].headers)
        self.assertEqual(status, 1)
        self.assertIn("DARUMA_TOKEN", err)
        self.assertIn("does not know this token", server.run("queues", "--token", "x")[2])

    def a_redirect_is_not_followed(self):
        other = StandIn(page("queues", []))
        server = StandIn(Answer(302, {}, {"Location": other.url + "/v1/queues"}))
        status, _, err = server.run("queues", "--token", SECRET)
        self.assertEqual((status, other.asked), (1, []))
        self.assertIn("status 302", err)

    def proxies_of_the_environment_are_not_used(self):
        server = StandIn(page("queues", []))
        status, _, _ = server.run("queues", http_proxy=unused_url(), ALL_PROXY=unused_url())
        self.assertEqual(status, 0)

    def a_server_of_another_kind_is_recognised(self):
        for answer in (Answer(200, b"<html>"), Answer(404, b"<html>"), Answer(200, [1]),
                       Answer(200, {"rows": []}), Answer(200, b""), Answer(500, b"{\"a\":")):
            status, out, err = StandIn(answer).run("queues")
            self.assertEqual((status, out), (1, ""))
            self.assertIn("not as a daruma server does", err)
            self.assertIn("--server", err)

    def a_problem_is_told_with_its_code_and_what_to_do(self):
        server = StandIn(problem(404, "queue_unknown", "There is no such queue"))
        self.assertEqual(
            server.run("tasks", "sync"),
            (1, "", "daruma tasks: There is no such queue (queue_unknown)\n"
                    "  'daruma queues' lists the queues there are; the configuration or "
                    "PUT /v1/queues/NAME makes one\n"))

    def when_to_come_back_is_told(self):
        server = StandIn(problem(503, "overloaded", "no room", {"Retry-After": "90"}))
        status, _, err = server.run("enqueue", "sync")
        self.assertEqual(status, 1)
        self.assertIn("no room (overloaded)\n  try again in 1m30s\n", err)

    def a_problem_that_names_a_field_names_the_flag(self):
        for field, flag in (("target", "--target"), ("headers.x", "--header"), ("key", "--key"),
                            ("labels.a b", "--label"), ("delay_ms", "--delay"),
                            ("timeout_ms", "--timeout"), ("body", "--data"), ("json", "--json-data")):
            server = StandIn(problem(400, "invalid_request", "it is wrong", field=field))
            self.assertIn(f"enqueue: {flag}: it is wrong (invalid_request)",
                          server.run("enqueue", "sync")[2])
        server = StandIn(problem(400, "invalid_request", "only one", field="label.x"))
        self.assertIn("tasks: --label: only one", server.run("tasks", "sync")[2])

    def with_json_a_problem_is_the_document(self):
        for command in ASKING:
            answer = problem(404, "task_unknown", "gone")
            status, out, err = StandIn(answer).run(command, *OPERANDS.get(command, []), "--json")
            self.assertEqual((status, out), (1, answer.body.decode() + "\n"))
            self.assertIn("gone (task_unknown)", err)

    def a_full_disk_under_the_output_is_a_failure(self):
        server = StandIn(page("queues", [queue("sync")]))
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BIN, "queues", "--server", server.url], stdout=full, check=False,
                                  stderr=subprocess.PIPE, env=environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write the output", done.stderr)


    def what_was_done_to_a_queue_is_done_also_when_its_report_is_lost(self):
        for act in ("pause", "resume", "purge", "delete"):
            server = StandIn(Answer(200, queue("sync")))
            with open("/dev/full", "wb") as full:
                done = subprocess.run([BIN, "queue", act, "sync", "--server", server.url], stdout=full,
                                      check=False, stderr=subprocess.PIPE, env=environment())
            self.assertEqual((done.returncode, len(server.asked)), (0, 1), act)
            self.assertIn(b"cannot write the output", done.stderr)

    def an_answer_without_end_is_not_kept_and_not_waited_for(self):
        began = time.monotonic()
        for name, (head, piece) in FLOODS.items():
            target = Target()
            target.script("/v1/queues", flood(head, piece))
            status, out, err = run("queues", DARUMA_URL=target.url(""))
            self.assertEqual((status, out), (3, ""), name)
            self.assertRegex(err, "no answer from .*over 256 KiB|Too large response headers", name)
        used_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(used_kib, 128 << 10)  # most of it is for a build with sanitizers
        self.assertLess(time.monotonic() - began, 20)  # less than one time-out


class Enqueue(unittest.TestCase):
    def the_whole_request_is_sent_as_the_flags_say(self):
        server = StandIn(Answer(201, task()))
        status, out, err = server.run(
            "enqueue", "--target", "http://t/x", "sync", "--method", "PUT", "--header", "X-A: b:c ",
            "--header", "Accept:*/*", "--data", "héllo\n", "--key", "order-1", "--delay", "1m30s",
            "--deadline", "2h", "--timeout=250ms", "--label", "name=山田=x", "--label", "b=")
        self.assertEqual((status, out, err), (0, f"{ID} waiting\n", ""))
        self.assertEqual(server.lines, ["POST /v1/queues/sync/tasks"])
        self.assertEqual(server.asked[0].headers["Content-Type"], "application/json")
        self.assertEqual(server.asked[0].json, {
            "target": "http://t/x", "method": "PUT", "headers": {"X-A": "b:c", "Accept": "*/*"},
            "body": "héllo\n", "key": "order-1", "delay_ms": 90000, "deadline_ms": 7200000,
            "timeout_ms": 250, "labels": {"name": "山田=x", "b": ""}})

    def what_is_not_given_is_not_sent(self):
        server = StandIn(Answer(201, task()))
        server.run("enqueue", "sync")
        self.assertEqual(server.asked[0].body, b"{}")

    def a_body_comes_from_a_file_or_standard_input(self):
        server = StandIn(Answer(201, task()))
        write("body", "from a file\0\n")
        server.run("enqueue", "sync", "--data", "@body")
        self.assertEqual(server.posted.json, {"body": "from a file\0\n"})
        for name in ("-", "@-"):
            server.run("enqueue", "sync", "--data", name, given=b"typed")
            self.assertEqual(server.posted.json, {"body": "typed"})

    def bytes_that_are_no_text_go_as_base64(self):
        server = StandIn(Answer(201, task()))
        server.run("enqueue", "sync", "--data", "-", given=bytes(range(256)))
        self.assertEqual(base64.b64decode(server.asked[0].json["body_base64"]), bytes(range(256)))

    def json_goes_on_byte_by_byte(self):
        server = StandIn(Answer(201, task()))
        text = '{"b": 1.10, "a": 12345678901234567890, "a": "é"}'
        write("body.json", text)
        for value in (text, "@body.json"):
            server.run("enqueue", "sync", "--json-data", value)
            self.assertIn(b'"json":' + text.encode() + b"}", server.posted.body)

    def what_is_not_json_is_refused_before_it_is_sent(self):
        server = StandIn(Answer(201, task()))
        for text in ("{", "1 2", "", "\ud800".encode("utf-8", "surrogatepass"), "nul"):
            write("body.json", text)
            status, _, err = server.run("enqueue", "sync", "--json-data", "@body.json")
            self.assertEqual(status, 2)
            self.assertIn("--json-data: what is given is not JSON", err)
        self.assertEqual(server.asked, [])

    def a_file_that_cannot_be_read_is_told(self):
        status, _, err = run("enqueue", "sync", "--data", "@nowhere")
        self.assertEqual(status, 1)
        self.assertIn("--data: cannot read nowhere: No such file or directory", err)

    def a_key_that_is_known_gives_the_task_it_has(self):
        server = StandIn(Answer(200, task("succeeded"), {"Idempotent-Replayed": "true"}))
        status, out, _ = server.run("enqueue", "sync", "--key", "k")
        self.assertEqual((status, out), (0, f"{ID} succeeded (recorded before)\n"))

    def json_is_what_the_server_said(self):
        answer = Answer(201, b'{"id":"' + ID.encode() + b'", "state" :"waiting","x":1.10}')
        self.assertEqual(StandIn(answer).run("enqueue", "sync", "--json"),
                         (0, answer.body.decode() + "\n", ""))

    def a_lost_answer_says_what_to_do_and_nothing_is_sent_twice(self):
        server = StandIn(Answer(cut=True))
        status, out, err = server.run("enqueue", "sync")
        self.assertEqual((status, out, len(server.asked)), (3, "", 1))
        self.assertIn("may have been recorded", err)
        status, _, err = server.run("enqueue", "sync", "--key", "k")
        self.assertEqual((status, len(server.asked)), (3, 2))
        self.assertIn("repeat the command: with the same key it is recorded once", err)

    def an_unsure_store_says_the_same(self):
        server = StandIn(problem(503, "store_unknown", "nobody knows"))
        self.assertIn("repeat the command", server.run("enqueue", "sync", "--key", "k")[2])

    def an_id_that_is_none_is_not_followed(self):
        server = StandIn(Answer(201, task(id="../../x")))
        status, _, err = server.run("enqueue", "sync", "--wait", "1m")
        self.assertEqual((status, len(server.asked)), (1, 1))
        self.assertIn("not as a daruma server does", err)


class EnqueueAndWait(unittest.TestCase):
    def it_long_polls_until_the_task_has_succeeded(self):
        server = StandIn(Answer(201, task()), Answer(200, task("running")),
                         Answer(200, task("succeeded")))
        status, out, err = server.run("enqueue", "sync", "--wait", "5m")
        self.assertEqual((status, out, err), (0, f"{ID} succeeded\n", ""))
        self.assertEqual(len(server.asked), 3)
        for line in server.lines[1:]:
            self.assertEqual(line, f"GET /v1/tasks/{ID}?wait_ms=60000")

    def one_that_fails_is_exit_status_1_and_why(self):
        error = {"class": "transient", "message": "connection refused", "status": None}
        server = StandIn(Answer(201, task()), Answer(200, task("failed", attempts=10, error=error)))
        self.assertEqual(server.run("enqueue", "sync", "--wait", "1m"),
                         (1, f"{ID} failed\n",
                          "  attempt 10 of 10: transient: connection refused\n"))

    def one_in_doubt_ends_the_waiting(self):
        server = StandIn(Answer(201, task()), Answer(200, task("unsettled", attempts=1)))
        status, out, err = server.run("enqueue", "sync", "--wait", "1m")
        self.assertEqual((status, out, len(server.asked)), (1, f"{ID} unsettled\n", 2))
        self.assertIn("may have been carried out", err)

    def time_that_is_over_is_exit_status_1(self):
        error = {"class": "transient", "message": "HTTP 503", "status": 503}
        waiting = task(attempts=2, next_wait_ms=2500, error=error)
        server = StandIn(Answer(201, task()), Answer(200, waiting))
        self.assertEqual(server.run("enqueue", "sync", "--wait", "0s"),
                         (1, f"{ID} waiting\n", "  attempt 2 of 10: transient 503; "
                                                "the next try 2.5s later\n"))

    def json_is_the_task_at_the_end(self):
        last = Answer(200, task("succeeded"))
        server = StandIn(Answer(201, task()), last)
        self.assertEqual(server.run("enqueue", "sync", "--wait", "1m", "--json"),
                         (0, last.body.decode() + "\n", ""))

    def a_server_that_is_away_for_a_moment_is_asked_again(self):
        server = StandIn(Answer(201, task()), Answer(cut=True),
                         problem(503, "draining", "stopping"), Answer(200, task("succeeded")))
        status, out, err = server.run("enqueue", "sync", "--wait", "1m")
        self.assertEqual((status, out, err), (0, f"{ID} succeeded\n", ""))

    def the_id_is_not_lost_when_the_server_is(self):
        created = Answer(201, task())
        for more, expected in (([], ID + "\n"), (["--json"], created.body.decode() + "\n")):
            server = StandIn(created, Answer(cut=True))
            status, out, err = server.run("enqueue", "sync", "--wait", "1s", *more)
            self.assertEqual((status, out), (3, expected))
            self.assertIn(f"'daruma show {ID}'", err)


class Tasks(unittest.TestCase):
    def filters_are_escaped(self):
        server = StandIn(page("tasks", []))
        status, out, err = server.run("tasks", "sync", "--state", "failed", "--label",
                                      "a/b=x y&limit=1+山", "--limit", "7")
        self.assertEqual((status, out, err), (0, "", "there are no such tasks\n"))
        self.assertEqual(server.lines, ["GET /v1/queues/sync/tasks?limit=7&state=failed&"
                                        "label.a%2Fb=x%20y%26limit%3D1%2B%E5%B1%B1"])

    def all_follows_the_cursor(self):
        server = StandIn(page("tasks", [listed()], "1&2"), page("tasks", [], "3"),
                         page("tasks", [listed(id=OTHER)]))
        status, out, err = server.run("tasks", "sync", "--all")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual([line.split()[0] for line in out.splitlines()], ["ID", ID, OTHER])
        self.assertEqual(server.lines, ["GET /v1/queues/sync/tasks?limit=1000",
                                        "GET /v1/queues/sync/tasks?limit=1000&after=1%262",
                                        "GET /v1/queues/sync/tasks?limit=1000&after=3"])

    def a_limit_ends_the_list_and_says_that_there_is_more(self):
        server = StandIn(page("tasks", [listed()], "1"), page("tasks", [listed(id=OTHER)], "2"))
        status, out, err = server.run("tasks", "sync", "--limit", "2")
        self.assertEqual((status, len(out.splitlines()), len(server.asked)), (0, 3, 2))
        self.assertIn("there are more: --all", err)

    def without_a_queue_all_are_listed(self):
        server = StandIn(page("queues", [queue("a"), queue("b")]), page("tasks", []),
                         page("tasks", [listed(queue="b")]))
        status, out, _ = server.run("tasks")
        self.assertEqual((status, len(out.splitlines())), (0, 2))
        self.assertEqual(server.lines, ["GET /v1/queues", "GET /v1/queues/a/tasks?limit=100",
                                        "GET /v1/queues/b/tasks?limit=100"])

    def json_is_one_document_of_every_page_as_it_came(self):
        first = b'{"tasks": [ {"id":"x", "n":1.10} ,{"id":"y"}],"next":"5"}'
        server = StandIn(Answer(200, first), page("tasks", [], "6"), page("tasks", [{"id": "z"}]))
        status, out, err = server.run("tasks", "sync", "--all", "--json")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out, '{"tasks":[{"id":"x", "n":1.10},{"id":"y"},{"id": "z"}],'
                              '"next":null}\n')

    def json_says_where_it_would_go_on(self):
        server = StandIn(page("tasks", [{"id": "x"}], "5"))
        out = server.run("tasks", "sync", "--limit", "1", "--json")[1]
        self.assertEqual(json.loads(out), {"tasks": [{"id": "x"}], "next": "5"})
        server = StandIn(page("queues", [queue("a"), queue("b")]), page("tasks", [{"id": "x"}]))
        out = server.run("tasks", "--limit", "1", "--json")[1]
        self.assertEqual(json.loads(out), {"tasks": [{"id": "x"}], "next": "b:0"})

    def json_of_nothing_is_a_document_too(self):
        out = StandIn(page("queues", [])).run("tasks", "--json")[1]
        self.assertEqual(json.loads(out), {"tasks": [], "next": None})

    def a_document_that_was_begun_is_not_followed_by_another(self):
        server = StandIn(page("tasks", [{"id": "x"}], "5"), problem(503, "overloaded", "no room"))
        status, out, err = server.run("tasks", "sync", "--all", "--json")
        self.assertEqual((status, out), (1, '{"tasks":[{"id": "x"}'))
        self.assertIn("no room (overloaded)", err)


class ForPeople(unittest.TestCase):
    def columns_are_aligned_by_cells_where_characters_are_wide(self):
        rows = [listed(labels={"n": "山田"}, queue="日本語", attempts=3),
                listed(state="succeeded", id=OTHER, queue="é", attempts=10)]
        for locale in ("C", "C.UTF-8", "ja_JP.UTF-8"):
            out = StandIn(page("tasks", rows)).run("tasks", "sync", LC_ALL=locale)[1].splitlines()
            starts = [re.search(pattern, line).start() for pattern, line in
                      zip(("QUEUE", "日本語", "é"), out)]
            self.assertEqual(len(set(starts)), 1)
            self.assertIn("日本語  POST http://t/  n=山田", out[1])
            self.assertIn("é       POST http://t/", out[2])
            self.assertRegex(out[1], r"waiting     3/10 ")
            self.assertRegex(out[2], r"succeeded  10/10 ")

    def the_rows_of_several_queues_stand_below_each_other(self):
        first, second = listed(queue="a"), listed(queue="long-name", state="succeeded", id=OTHER)
        server = StandIn(page("queues", [queue("a"), queue("long-name")]), page("tasks", [first]),
                         page("tasks", [second]))
        titles, *rows = server.run("tasks")[1].splitlines()
        self.assertEqual([titles.index("QUEUE"), titles.index("REQUEST")],
                         [rows[0].index(" a  ") + 1, rows[0].index("POST")])
        self.assertEqual([titles.index("QUEUE"), titles.index("REQUEST")],
                         [rows[1].index("long-name"), rows[1].index("POST")])

    def what_is_piped_is_neither_cut_nor_coloured(self):
        long = "http://t/" + "x" * 300
        rows = [listed(state="failed", request={"method": "PUT", "target": long})]
        out = StandIn(page("tasks", rows)).run("tasks", "sync", COLUMNS="80")[1]
        self.assertIn(f"PUT {long}\n", out)
        self.assertNotIn("\033", out)

    def a_terminal_gets_lines_of_its_width(self):
        rows = [listed(request={"method": "POST", "target": "http://t/" + "山" * 300},
                       labels={"n": "田" * 50}), listed(id=OTHER)]
        for columns in (40, 80, 81, 100, 101, 140):
            out = StandIn(page("tasks", rows)).on_terminal("tasks", "sync", columns=columns,
                                                           NO_COLOR="1")[1].splitlines()
            self.assertEqual(len(out), 3)
            for line in out:
                wide = len(re.findall("[山田]", line))
                self.assertLessEqual(len(line) + wide, columns)
            if columns >= 140:
                self.assertRegex(out[1], r"POST http://t/山+… +n=田+…$")

    def states_are_coloured_on_a_terminal_only(self):
        rows = [listed(state="failed")]
        screen = StandIn(page("tasks", rows)).on_terminal("tasks", "sync")[1]
        self.assertIn("\033[31mfailed\033[0m", screen)
        for more in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            screen = StandIn(page("tasks", rows)).on_terminal("tasks", "sync", **more)[1]
            self.assertIn("failed", screen)
            self.assertNotIn("\033", screen)

    def headers_of_a_task_can_come_from_a_file(self):
        with open("headers", "w", encoding="utf-8") as file:
            file.write(f"Authorization: Bearer {SECRET}\nX-B: two\n")
        for command in (("enqueue", "sync"), ("dead", "redrive", ID)):
            server = StandIn(Answer(201, task()))
            self.assertEqual(server.run(*command, "--header", "@headers")[0], 0)
            self.assertEqual(json.loads(server.asked[0].body)["headers"],
                             {"Authorization": f"Bearer {SECRET}", "X-B": "two"})
            status, _, err = StandIn().run(*command, "--header", "@missing")
            self.assertEqual(status, 1)
            self.assertIn("--header: cannot read missing", err)

    def nothing_from_outside_can_move_the_cursor(self):
        evil = "a\033[2Jb\u009b2Jc\rd\u202ee\x7f"
        row = listed(labels={"n": evil}, key=evil, state="failed", trail=[
            {"attempt": 1, "target": evil, "class": evil, "message": evil, "sent": evil}],
            request={"method": evil, "target": evil, "headers": {"x": evil}, "body": evil})
        for arguments, answer in ((("tasks", "sync"), page("tasks", [row])),
                                  (("show", ID), Answer(200, row)),
                                  (("show", ID, "--json"), Answer(200, row)),
                                  (("tasks", "sync", "--json"), page("tasks", [row])),
                                  (("show", ID), problem(404, evil, evil, field=evil))):
            answer.body = json.dumps(json.loads(answer.body), ensure_ascii=False).encode()
            screen = StandIn(answer).on_terminal(*arguments, NO_COLOR="1", columns=400)[1]
            self.assertNotRegex(screen.replace("\r\n", ""), "[\033\u009b\r\x7f\u202e]")
            if "--json" not in arguments:
                self.assertIn("a�[2Jb�2Jc�d�e�", screen)

    def json_has_the_same_value_with_nothing_in_it_that_moves_the_cursor(self):
        evil = "é山\u061c\u0680\u0085\x7f\u200f\u2028\u2069\u2070\ufeff\uffee\U0001f600 \u009b"
        answer = page("tasks", [listed(labels={"n": evil}, key=evil)])
        answer.body = json.dumps(json.loads(answer.body), ensure_ascii=False).encode()
        for arguments in (("show", ID, "--json"), ("tasks", "sync", "--json")):
            out = StandIn(answer).run(*arguments)[1]
            self.assertEqual(json.loads(out)["tasks"][0]["key"], evil)
            self.assertNotRegex(out, "[\x7f-\x9f\u061c\u200f\u2028\u2069\ufeff]")
            self.assertIn("é山\\u061c\u0680\\u0085\\u007f\\u200f\\u2028\\u2069\u2070\\ufeff\uffee\U0001f600", out)

    def queues_are_a_table_of_counts(self):
        server = StandIn(page("queues", [queue("sync", paused=True, waiting=12, due=3, failed=1),
                                         queue("mail", succeeded=1234567)]))
        status, out, _ = server.run("queues")
        self.assertEqual(status, 0)
        self.assertEqual([line.split() for line in out.splitlines()], [
            "QUEUE STATE DEAD UNSETTLED WAITING DUE RUNNING SUCCEEDED FAILED CANCELLED".split(),
            "sync paused 1 0 12 3 0 0 1 0".split(),
            "mail active 0 0 0 0 0 1234567 0 0".split()])
        ends = {re.search(pattern, line).end() for pattern, line in
                zip((r"SUCCEEDED", r"3 +0 +0(?= +1 +0$)", r"1234567"), out.splitlines())}
        self.assertEqual(len(ends), 1)

    def queues_as_json_are_the_servers(self):
        answer = page("queues", [queue("sync")])
        self.assertEqual(StandIn(answer).run("queues", "--json"),
                         (0, answer.body.decode() + "\n", ""))


STORY = task(
    "succeeded", key="order-1", labels={"a": "b", "name": "山田"}, attempts=3,
    request={"method": "POST", "target": "http://t/x", "headers": {"authorization": "(hidden)"},
             "body": "line 1\nline 2"},
    response={"status": 200, "headers": {"x": "y"}, "body_base64": "AAAA"}, settled_by="bq",
    trail=[{"attempt": 1, "target": "bq", "started_at": "2026-11-15T10:20:30.000Z",
            "ended_at": "2026-11-15T10:20:30.250Z", "class": "transient", "status": None,
            "sent": "no", "message": "connection refused", "wait_ms": 1000},
           {"attempt": 2, "target": "bq", "started_at": "2026-11-15T10:20:31.250Z",
            "ended_at": "2026-11-15T10:20:32.750Z", "class": "rate_limited", "status": 429,
            "sent": "yes", "sends": 2, "message": "HTTP 429", "wait_ms": 90000},
           {"attempt": 3, "target": "bq", "started_at": "2026-11-15T10:22:02.750Z",
            "ended_at": "2026-11-15T10:22:02.752Z", "class": None, "status": 200, "sent": "yes",
            "message": None, "wait_ms": 0}])


class Show(unittest.TestCase):
    def a_task_is_told_as_a_story(self):
        server = StandIn(Answer(200, STORY), problem(404, "dead_letter_unknown", "No"))
        status, out, err = server.run("show", ID)
        self.assertEqual((status, err, server.lines), (0, "", [f"GET /v1/tasks/{ID}",
                                                              f"GET /v1/dead-letters/{ID}"]))
        self.assertEqual(out, f"""\
{ID}  succeeded
queue     sync
key       order-1
labels    a=b
          name=山田
created   2026-11-15T10:20:30.123Z
tries     3 of 10
request   POST http://t/x
          authorization: (hidden)
          line 1
          line 2
attempts  1. 2026-11-15T10:20:30.000Z  transient in 250ms, not sent, to bq
             connection refused
             then a wait of 1s
          2. 2026-11-15T10:20:31.250Z  rate_limited 429 in 1.5s, sent 2 times, to bq
             HTTP 429
             then a wait of 1m30s
          3. 2026-11-15T10:22:02.750Z  succeeded 200 in 2ms, sent, to bq
answer    200 from bq
          x: y
          3 bytes that are not text: --json shows them
""")

    def json_is_the_servers(self):
        answer = Answer(200, STORY)
        self.assertEqual(StandIn(answer).run("show", ID, "--json"),
                         (0, answer.body.decode() + "\n", ""))

    def a_long_body_is_cut_and_the_whole_is_where_it_says(self):
        for body in ("x\n" * 1000, "y" * 100000):
            answer = Answer(200, task(request={"method": "POST", "target": None, "body": body}))
            out = StandIn(answer).run("show", ID)[1]
            self.assertLess(len(out), 6000)
            self.assertIn(f"… {len(body)} bytes in all: --json shows them", out)
            self.assertIn("POST (as its queue says: its targets, its providers, or a worker)", out)

    def a_waiting_task_says_when_it_is_due(self):
        out = StandIn(Answer(200, task(due_at="2026-12-24T18:00:00.000Z"))).run("show", ID)[1]
        self.assertIn("due       2026-12-24T18:00:00.000Z\n", out)

    def a_task_that_is_not_there_is_told(self):
        server = StandIn(problem(404, "task_unknown", "There is no such task"))
        status, out, err = server.run("show", ID)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("There is no such task (task_unknown)\n  see that the id is whole", err)


def tally(taken, succeeded, failed, retrying=0, unsettled=0):
    return Answer(200, {"run": "7", "queue": "sync", "taken": taken, "succeeded": succeeded,
                        "failed": failed, "retrying": retrying, "unsettled": unsettled,
                        "pending": taken - succeeded - failed})


class Run(unittest.TestCase):
    def a_queue_is_run_and_watched_to_the_end(self):  # D4.1, D4.2
        server = StandIn(Answer(202, {"run": "7", "taken": 3}), tally(3, 0, 0), tally(3, 1, 0),
                         tally(3, 3, 0))
        self.assertEqual(server.run("run", "sync"),
                         (0, "sync: taken 3, succeeded 3, failed 0\n", ""))
        self.assertEqual(server.lines, ["POST /v1/queues/sync:run"] + ["GET /v1/runs/7"] * 3)
        self.assertEqual(server.asked[0].body, b"")

    def one_that_failed_is_exit_status_1(self):  # D4.4
        server = StandIn(Answer(202, {"run": "7", "taken": 3}), tally(3, 1, 2))
        self.assertEqual(server.run("run", "sync"),
                         (1, "sync: taken 3, succeeded 1, failed 2\n", ""))

    def what_waits_again_or_is_in_doubt_is_not_told_as_failed(self):
        server = StandIn(Answer(202, {"run": "7", "taken": 4}), tally(4, 1, 3, 2, 1))
        self.assertEqual(server.run("run", "sync"),
                         (1, "sync: taken 4, succeeded 1, failed 0, waiting for another try 2, "
                             "unsettled 1\n", ""))

    def an_empty_queue_is_done_at_once(self):
        server = StandIn(Answer(202, {"run": "7", "taken": 0}), tally(0, 0, 0))
        self.assertEqual(server.run("run", "sync"),
                         (0, "sync: taken 0, succeeded 0, failed 0\n", ""))

    def json_is_the_tally_at_the_end(self):
        server = StandIn(Answer(202, {"run": "7", "taken": 1}), tally(1, 0, 0), tally(1, 1, 0))
        self.assertEqual(server.run("run", "sync", "--json"),
                         (0, tally(1, 1, 0).body.decode() + "\n", ""))

    def no_wait_ends_when_they_are_due(self):
        begun = Answer(202, {"run": "7", "taken": 3})
        server = StandIn(begun)
        self.assertEqual(server.run("run", "sync", "--no-wait"), (0, "sync: taken 3\n", ""))
        self.assertEqual(server.run("run", "sync", "--no-wait", "--json"),
                         (0, begun.body.decode() + "\n", ""))
        self.assertEqual(len(server.asked), 2)

    def progress_is_shown_on_a_terminal_only(self):
        answers = [Answer(202, {"run": "7", "taken": 3}), tally(3, 0, 1), tally(3, 2, 1)]
        status, screen = StandIn(*answers).on_terminal("run", "sync")
        self.assertEqual(status, 1)
        self.assertIn("sync: 1 of 3 done, 1 failed", screen)
        self.assertTrue(screen.endswith("\033[Ksync: taken 3, succeeded 2, failed 1\r\n"))

    def a_restart_that_forgot_the_run_is_told(self):
        server = StandIn(Answer(202, {"run": "7", "taken": 3}), Answer(cut=True),
                         problem(404, "run_unknown", "There is no such run"))
        status, _, err = server.run("run", "sync")
        self.assertEqual(status, 1)
        self.assertIn("a restart forgets runs, not their tasks", err)

    def one_task_is_run_until_its_next_outcome(self):
        error = {"class": "transient", "message": "HTTP 503", "status": 503}
        server = StandIn(Answer(200, task(attempts=1, error=error)),
                         Answer(200, task(attempts=1, error=error)),
                         Answer(200, task("running", attempts=2)),
                         Answer(200, task(attempts=2, error=error, next_wait_ms=2000)))
        self.assertEqual(server.run("run", "--task", ID),
                         (1, f"{ID} waiting\n", "  attempt 2 of 10: transient 503; "
                                                "the next try 2s later\n"))
        self.assertEqual(server.lines[0], f"POST /v1/tasks/{ID}:run")
        self.assertEqual(len(server.asked), 4)

    def a_task_that_began_at_once_is_followed_too(self):
        server = StandIn(Answer(200, task("running", attempts=1)),
                         Answer(200, task("succeeded", attempts=1)))
        self.assertEqual(server.run("run", "--task", ID), (0, f"{ID} succeeded\n", ""))

    def one_task_without_waiting(self):
        server = StandIn(Answer(200, task()))
        self.assertEqual(server.run("run", "--task", ID, "--no-wait"), (0, f"{ID} due now\n", ""))
        self.assertEqual(len(server.asked), 1)

    def what_does_not_wait_cannot_be_run(self):
        server = StandIn(problem(409, "not_waiting", "the task is running"))
        status, _, err = server.run("run", "--task", ID)
        self.assertEqual((status, err),
                         (1, "daruma run: the task is running (not_waiting)\n"
                             "  'daruma show ID' tells what it is doing; only what waits can be "
                             "run\n"))


CONFIGURATION = """
store: sqlite:daruma.db
api: {{listen: "127.0.0.1:0"}}
policies:
  - name: quick
    max_attempts: 3
    transient: {{backoff: fixed, base: 1ms, jitter: none}}
  - name: slow
    max_attempts: 3
    transient: {{backoff: fixed, base: 1h, jitter: none}}
queues:
  - {{name: quick, policy: quick, targets: [{{name: there, url: "{url}/x"}}]}}
  - {{name: slow, policy: slow, targets: [{{name: there, url: "{url}/x"}}]}}
"""


@contextlib.contextmanager
def real_server(*answers):
    """(the server's URL, the target that its queues send to)."""
    target = StandIn(*answers)
    write("daruma.yaml", CONFIGURATION.format(url=target.url))
    with subprocess.Popen([BIN, "serve", "-c", "daruma.yaml"], stderr=subprocess.PIPE,
                          env=environment()) as started:
        try:
            line = started.stderr.readline()
            while b"event=ready" not in line:
                if not line:
                    raise AssertionError("the server did not start")
                line = started.stderr.readline()
            threading.Thread(target=started.stderr.read, daemon=True).start()
            yield re.search(rb"api=(\S+)", line).group(1).decode(), target
        finally:
            started.terminate()
    if started.returncode != 0:
        raise AssertionError(f"the server ended with {started.returncode}")


if HAS_SERVE:
    class RealServer(unittest.TestCase):
        def a_task_is_sent_and_its_story_told(self):
            with real_server(Answer(503, {}), Answer(200, {"done": True})) as (url, target):
                status, out, err = run("enqueue", "quick", "--json-data", '{"a": 1.10}', "--key",
                                       "k", "--label", "a=b", "--wait", "30s", DARUMA_URL=url)
                self.assertEqual((status, err), (0, ""))
                task_id = re.fullmatch(r"(\S{36}) succeeded\n", out).group(1)
                self.assertEqual([asked.body for asked in target.asked], [b'{"a": 1.10}'] * 2)
                story = run("show", task_id, DARUMA_URL=url)[1]
                self.assertRegex(story, r"1\. \S+  transient 503 in .*, sent, to there\n")
                self.assertIn("then a wait of 1ms\n", story)
                self.assertRegex(story, r"2\. \S+  succeeded 200 in .*, sent, to there\n")
                self.assertIn('{"done": true}', story)
                again = run("enqueue", "quick", "--json-data", '{"a": 1.10}', "--key", "k",
                            DARUMA_URL=url)
                self.assertEqual(again, (0, f"{task_id} succeeded (recorded before)\n", ""))
                status, _, err = run("enqueue", "quick", "--data", "x", "--key", "k",
                                     DARUMA_URL=url)
                self.assertEqual(status, 1)
                self.assertIn("(key_conflict)", err)

        def one_that_fails_for_good_is_exit_status_1(self):
            with real_server(Answer(400, {})) as (url, _):
                status, out, err = run("enqueue", "quick", "--wait", "30s", DARUMA_URL=url)
                self.assertEqual(status, 1)
                self.assertRegex(out, r"^\S{36} failed\n$")
                self.assertIn("invalid 400", err)

        def a_run_takes_all_that_waits_whatever_its_time(self):  # D4.1-4
            with real_server(Answer(503, {}), Answer(200, {})) as (url, target):
                ids = [run("enqueue", "slow", "--delay", "1h", DARUMA_URL=url)[1].split()[0]
                       for _ in range(3)]
                self.assertEqual(target.asked, [])
                self.assertEqual(run("run", "slow", DARUMA_URL=url)[:2],
                                 (1, "slow: taken 3, succeeded 2, failed 0, "
                                     "waiting for another try 1\n"))
                out = run("tasks", "slow", "--state", "waiting", "--json", DARUMA_URL=url)[1]
                left = [row["id"] for row in json.loads(out)["tasks"]]
                self.assertEqual(len(left), 1)
                self.assertIn(left[0], ids)
                self.assertEqual(run("run", "--task", left[0], DARUMA_URL=url),
                                 (0, f"{left[0]} succeeded\n", ""))
                self.assertEqual(run("run", "slow", "--json", DARUMA_URL=url)[0], 0)
                status, _, err = run("run", "--task", left[0], DARUMA_URL=url)
                self.assertEqual(status, 1)
                self.assertIn("(not_waiting)", err)

        def lists_are_whole_and_can_be_narrowed(self):
            with real_server(Answer(200, {})) as (url, _):
                for number in range(5):
                    run("enqueue", "slow", "--delay", "1h", "--label", f"n=山 {number}",
                        DARUMA_URL=url)
                run("enqueue", "quick", "--wait", "30s", DARUMA_URL=url)
                for more, count in (([], 6), (["slow"], 5), (["--limit", "2"], 2),
                                    (["--state", "succeeded"], 1), (["--all"], 6),
                                    (["--label", "n=山 3"], 1)):
                    out = run("tasks", *more, "--json", DARUMA_URL=url)[1]
                    self.assertEqual(len(json.loads(out)["tasks"]), count)
                    table = run("tasks", *more, DARUMA_URL=url)[1]
                    self.assertEqual(len(table.splitlines()), count + 1)
                rows = run("queues", DARUMA_URL=url)[1].splitlines()
                self.assertEqual(rows[1].split()[:3], ["quick", "active", "0"])
                self.assertEqual(rows[2].split()[:5], ["slow", "active", "0", "0", "5"])

        def what_is_refused_names_the_flag(self):
            with real_server(Answer(200, {})) as (url, _):
                for flag, value in (("--target", "gopher://x"), ("--header", "Host: x"),
                                    ("--label", "a b=c"), ("--delay", "9999d"),
                                    ("--timeout", "30d"), ("--method", "TRACE")):
                    status, _, err = run("enqueue", "quick", flag, value, DARUMA_URL=url)
                    self.assertEqual(status, 1)
                    self.assertTrue(err.startswith(f"daruma enqueue: {flag}: "), err)
                status, _, err = run("show", OTHER, DARUMA_URL=url)
                self.assertEqual(status, 1)
                self.assertIn("(task_unknown)", err)


if __name__ == "__main__":
    runner.main()
