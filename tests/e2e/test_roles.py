# SPDX-License-Identifier: MIT
"""Who may call what, and about which queues: every call of docs/openapi.json, by every kind of caller,
about a queue of its own, a foreign one and one of the server's, from our own page and from another
site's. What is expected follows from the rules below and from nothing else."""
import itertools
import json
import os
import threading
import unittest

import gateway
import runner
from target import answer, hold
from test_openapi import load

PRODUCER, WORKER, VIEWER, OPERATOR, ADMIN = "producer", "worker", "viewer", "operator", "admin"
ALL = {PRODUCER, WORKER, VIEWER, OPERATOR, ADMIN}
WATCHING = {VIEWER, OPERATOR, ADMIN}  # who sees the server's own queues
MENDING = {OPERATOR, ADMIN}
OWN, FOREIGN, RESERVED = "own", "foreign", "reserved"
HOUR_MS = 3600000

# --- the rules --------------------------------------------------------------------------------
# By operationId: who may; what is refused as a reserved name (fills) or looked for (what); what comes of
# it where it is allowed. `None` as roles: everybody, without a token.
RULES = {
    "createTask": ({ADMIN, PRODUCER}, "fills", {200, 201}),
    "createTasks": ({ADMIN, PRODUCER}, "fills", {200}),
    "takeLeases": ({ADMIN, WORKER}, "fills", {200}),
    "putQueue": ({ADMIN}, "fills", {409}),  # queue_in_file
    "deleteQueue": ({ADMIN}, "fills", {409}),
    "listTasks": (ALL, "queue", {200}),
    "getQueue": (ALL, "queue", {200}),
    "pauseQueue": (MENDING, "queue", {200}),
    "resumeQueue": (MENDING, "queue", {200}),
    "runQueue": (MENDING, "queue", {202}),
    "purgeQueue": ({ADMIN}, "queue", {200}),
    "listDeadLetters": (WATCHING, "queue", {200}),
    "listUnsettled": (WATCHING, "queue", {200}),
    "listAudit": (WATCHING, "queue", {200}),
    "listKeys": (WATCHING, "queue", {200}),
    "redriveDeadLetters": (MENDING, "queue", {200}),
    "getTask": (ALL, "task", {200}),
    "runTask": (MENDING, "task", {409}),  # it has ended
    "cancelTask": (MENDING, "task", {409}),
    "settleTask": (MENDING, "task", {409}),
    "getDeadLetter": (WATCHING, "task", {200}),
    "redriveDeadLetter": (MENDING, "task", {409}),  # it is closed
    "resolveDeadLetter": (MENDING, "task", {409}),
    "forgetKey": ({ADMIN}, "task", {204}),
    "getRun": (ALL, "run", {200}),
    "getRedrive": (WATCHING, "redrive", {200}),
    "cancelRedrive": (MENDING, "redrive", {200}),
    "settleLeases": ({ADMIN, WORKER}, "leases", {200}),
    "listQueues": (ALL, "all", {200}),
    "listHosts": (WATCHING, "all", {200}),
    "metrics": (WATCHING, "all", {200}),
    "openapi": (ALL, "all", {200}),
    "health": (None, "all", {200}),
    "ready": (None, "all", {200}),
}


class Caller:
    def __init__(self, name, roles=(), queues=(), is_known=True):
        self.name, self.roles, self.queues, self.is_known = name, set(roles), queues, is_known

    def sees(self, operation, queue):
        allowed = RULES[operation][0]
        named = not self.queues or any(
            queue == one or (one.endswith("*") and queue.startswith(one[:-1]) and
                             (len(one) > 1 or not queue.startswith("_"))) for one in self.queues)
        return named and (not queue.startswith("_") or bool(self.roles & allowed & WATCHING))

    def token(self):
        return {"name": self.name, "token": f"env:TOKEN_{self.name}",
                **({"roles": sorted(self.roles)} if len(self.roles) > 1 else
                   {"role": list(self.roles)[0]}),
                **({"queues": list(self.queues)} if self.queues else {})}


CALLERS = [Caller("nobody", is_known=False), Caller("stranger", is_known=False)]
CALLERS += [Caller(role, {role}) for role in sorted(ALL)]
CALLERS += [Caller(f"{role}_of_orders", {role}, ["orders*"]) for role in sorted(ALL)]
CALLERS += [Caller("two", {PRODUCER, WORKER}, ["orders*"]),
            Caller("service", {PRODUCER, OPERATOR}, ["orders", "orders-*"]),
            Caller("both", {WORKER, VIEWER}),
            Caller("lead", {ADMIN}, ["orders*", "_*"]),
            Caller("star", {ADMIN}, ["*"])]
CROSS = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
NO_PAGE, OWN_PAGE, OTHER_PAGE = "no page", "our own page", "a page of another site"
PAGES = (NO_PAGE, OWN_PAGE, OTHER_PAGE)
# Calls that are about queues of one kind only: keys are those of routes.
RESERVED_ONLY = {"forgetKey", "listKeys"}


def page_headers(server, page):
    return {NO_PAGE: {}, OTHER_PAGE: CROSS,
            OWN_PAGE: {"Origin": f"http://127.0.0.1:{server.port}",
                       "Sec-Fetch-Site": "same-origin"}}[page]


def expected(caller, operation, queue, is_cross):
    """(statuses, code): the one rule. The code is None where it is not said."""
    roles, what, fine = RULES[operation]
    if is_cross:
        return {403}, "cross_site"
    if roles is None:
        return fine, None
    if not caller.is_known:
        return {401}, "unauthorized"
    if not caller.roles & roles:
        return {403}, "forbidden"
    if what == "fills" and queue.startswith("_"):
        return {403}, "queue_reserved"
    if what in ("all", "leases") or caller.sees(operation, queue):
        return fine, None
    return {404}, {"fills": "queue_unknown"}.get(what, what + "_unknown")


# --- what there is ----------------------------------------------------------------------------

class Fixtures:
    """Of each kind of queue: its names, a task that has ended, a closed dead letter, a redrive, a lease."""

    def __init__(self, server, target, headers):
        self.server, self.headers, self.count = server, headers, 0
        self.of = {kind: {} for kind in (OWN, FOREIGN, RESERVED)}
        for kind, name in ((OWN, "orders"), (FOREIGN, "mail")):
            made = self.of[kind]
            made.update(queue=name, acts=f"{name}-acts", pull=f"{name}-pull")
            made["task"] = self.end(name, target.url("/ok"))
            made["letter"] = self.end(name, target.url("/bad"))
            made["lease"] = self._lease(made["pull"])
        made = self.of[RESERVED]
        made.update(queue="_callbacks", acts="_route.POST-v1-spare", pull="_callbacks")
        made["task"] = self.forgettable()
        self.end("orders-acts", target.url("/ok"), callback={"url": target.url("/bad")})
        made["letter"] = self._ask("GET", "/v1/queues/_callbacks/tasks").json["tasks"][0]["id"]
        self._wait(made["letter"])
        made["lease"] = made["task"] + ".1.1"
        for made in self.of.values():
            self._ask("POST", f"/v1/dead-letters/{made['letter']}:resolve", {})
            got = self._ask("POST", "/v1/dead-letters:redrive", {"filter": {"queue": made["acts"]}})
            made["redrive"] = got.json["redrive"]

    def _ask(self, method, path, body=None):
        got = self.server.call(method, path, body, headers=self.headers)
        if got.status >= 400:
            raise AssertionError(f"{method} {path}: {got}")
        return got

    def _wait(self, identity):
        return self._ask("GET", f"/v1/tasks/{identity}?wait_ms=20000").json

    def end(self, queue, url, **more):
        """The id of a task that has ended."""
        made = self._ask("POST", f"/v1/queues/{queue}/tasks", {"target": url, **more}).json["id"]
        self._wait(made)
        return made

    def _lease(self, queue):
        self._ask("POST", f"/v1/queues/{queue}/tasks", {"body": "x"})
        got = self._ask("POST", f"/v1/queues/{queue}/leases", {"lease_ms": HOUR_MS, "wait_ms": 5000})
        return got.json["leases"][0]["lease"]

    def forgettable(self):
        """A request of a route that has ended."""
        self.count += 1
        self.server.send("/v1/orders", key=f"key-{self.count}")
        return self._ask("GET", f"/v1/keys?route=POST-v1-orders&key=key-{self.count}"
                         ).json["keys"][0]["task"]

    def run(self, kind):
        return self._ask("POST", f"/v1/queues/{self.of[kind]['acts']}:run").json["run"]


def request(fixtures, operation, kind, is_cross):
    """(queue that it is about, path, body) of one call; None: it is about none of that kind."""
    of = fixtures.of[kind]
    queue, task, names = of["queue"], of["task"], {}
    body = {"createTask": {"target": "http://127.0.0.1:9/", "delay_ms": HOUR_MS, "key": "same"},
            "createTasks": [{"target": "http://127.0.0.1:9/", "delay_ms": HOUR_MS, "key": "same"}],
            "takeLeases": {}, "putQueue": {}, "settleTask": {"outcome": "succeeded"},
            "redriveDeadLetter": {}, "resolveDeadLetter": {},
            "redriveDeadLetters": {"filter": {"queue": queue}, "dry_run": True},
            "settleLeases": {"extend": [{"lease": of["lease"], "lease_ms": HOUR_MS}]}}.get(operation)
    if operation in ("pauseQueue", "resumeQueue", "runQueue", "purgeQueue", "getRun", "getRedrive",
                     "cancelRedrive"):
        queue = of["acts"]
    if "DeadLetter" in operation and operation[-1] != "s":
        task = of["letter"]
    elif operation == "settleLeases":
        queue = of["pull"]
    elif operation == "forgetKey":
        if kind != RESERVED:
            return None
        queue = "_route.POST-v1-orders"
        task = fixtures.forgettable()
    elif kind == RESERVED and RULES[operation][1] == "task":
        queue = "_route.POST-v1-orders"
    elif operation == "listKeys":
        if kind != RESERVED:
            return None
        queue = "_route.POST-v1-orders"
    names["run"] = fixtures.run(kind) if operation == "getRun" and not is_cross else "1"
    query = "?route=POST-v1-orders" if operation == "listKeys" else \
        f"?queue={queue}" if operation in ("listDeadLetters", "listUnsettled", "listAudit") else ""
    path = PATHS[operation][1]
    for name, value in {"queue": queue, "id": task, "redrive": of["redrive"], **names}.items():
        path = path.replace("{" + name + "}", value)
    return queue, path + query, body


PATHS = {call["operationId"]: (method.upper(), path)
         for path, calls in load()["paths"].items() for method, call in calls.items()}


class Roles(unittest.TestCase):
    def _begin(self, callers, queues=()):
        os.environ.update({f"TOKEN_{caller.name}": caller.name * 8 for caller in CALLERS})
        once = {"max_attempts": 1}
        server = {"queues": [{"name": name, "policy": once} for name in
                             ("orders", "orders-acts", "orders-pull", "mail", "mail-acts", "mail-pull",
                              "_callbacks")] + list(queues),
                  **({"api": {"listen": "127.0.0.1:0", "tokens": [one.token() for one in callers]}}
                     if callers else {})}
        made, target = gateway.setup(self, lambda t: gateway.route(t, "POST /v1/orders"),
                                     lambda t: gateway.route(t, "POST /v1/spare"), server=server)
        for path, status in (("/ok", 200), ("/bad", 400), ("/v1/orders", 200), ("/v1/spare", 200)):
            target.script(path, answer(status))
        return made, target

    def _check_all(self, server, fixtures, caller, headers, connection):
        done = set()
        for operation, kind, page in itertools.product(PATHS, (OWN, FOREIGN, RESERVED), PAGES):
            method, is_cross = PATHS[operation][0], page == OTHER_PAGE
            made = request(fixtures, operation, kind, is_cross)
            if made is None:
                continue
            queue, path, body = made
            statuses, code = expected(caller, operation, queue, is_cross)
            got = server.call(method, path, body, connection=connection,
                              headers={**headers, **page_headers(server, page)})
            told = f"{caller.name}: {method} {path}, from {page}: {got}"
            self.assertIn(got.status, statuses, told)
            if code is not None:
                self.assertEqual(got.code, code, told)
            self._check_answer(caller, operation, queue, got)
            done.add((operation, kind, page))
        self._check_complete(done)

    def _check_complete(self, done):
        """Every call of the document was made, about every kind of queue, from every page."""
        calls = {call["operationId"] for calls in load()["paths"].values() for call in calls.values()}
        every = {(call, kind, page) for call in calls for kind in (OWN, FOREIGN, RESERVED)
                 for page in PAGES if kind == RESERVED or call not in RESERVED_ONLY}
        self.assertEqual(done, every)

    def _check_answer(self, caller, operation, queue, got):
        """What is seen of a list is what the caller sees, and no more."""
        if got.status != 200:
            return
        if operation == "settleLeases":
            is_seen = caller.sees(operation, queue) and not queue.startswith("_")
            self.assertEqual(got.json["results"][0]["result"], "extended" if is_seen else "stale",
                             (caller.name, queue))
        seen = None
        if operation == "listQueues":
            seen = {one["name"] for one in got.json["queues"]}
        elif operation == "metrics":
            seen = {line.split('queue="')[1].split('"')[0]
                    for line in got.body.decode().split("\n") if 'queue="' in line}
        if seen is not None:
            self.assertEqual(seen, {name for name in self.queues if caller.sees(operation, name)},
                             caller.name)

    def _queues(self, server, headers):
        self.queues = {one["name"] for one in server.get("/v1/queues", headers=headers).json["queues"]}
        self.assertIn("_callbacks", self.queues)
        self.assertIn("_route.POST-v1-orders", self.queues)

    def the_rules_know_every_call_and_agree_with_the_document(self):
        self.assertEqual(set(RULES), set(PATHS))
        for path, calls in load()["paths"].items():
            for method, call in calls.items():
                roles = RULES[call["operationId"]][0]
                self.assertEqual(set(call["x-daruma-roles"]), roles or set(), (method, path))

    def each_caller_does_its_part_to_the_queues_it_sees(self):
        known = [caller for caller in CALLERS if caller.is_known]
        server, target = self._begin(known)
        headers = {caller.name: {"Authorization": "Bearer " + caller.name * 8} for caller in CALLERS}
        headers["nobody"] = {}
        fixtures = Fixtures(server, target, headers[ADMIN])
        self._queues(server, headers[ADMIN])
        connection = server.connect()
        for caller in CALLERS:
            self._check_all(server, fixtures, caller, headers[caller.name], connection)
        connection.close()

    def without_tokens_everybody_is_admin(self):
        server, target = self._begin([])
        fixtures = Fixtures(server, target, {})
        self._queues(server, {})
        connection = server.connect()
        self._check_all(server, fixtures, Caller("local", {ADMIN}), {}, connection)
        connection.close()

    def lists_of_all_queues_show_the_callers_own(self):
        names = ("admin", "viewer_of_orders", "operator_of_orders")
        server, target = self._begin([one for one in CALLERS if one.name in names])
        headers = {name: {"Authorization": "Bearer " + name * 8} for name in names}
        fixtures = Fixtures(server, target, headers[ADMIN])
        for number in range(12):  # more foreign ones than a page has
            for queue in ("mail", "mail", "orders"):
                fixtures.end(queue, target.url("/bad"), key=f"{queue}-{number}")
        for path, name in (("/v1/dead-letters?limit=3", "dead_letters"), ("/v1/audit?limit=2", "audit")):
            seen = {who: self._pages(server, path, name, headers[who]) for who in names[:2]}
            self.assertLess({"mail", "orders"}, {one["queue"] for one in seen[ADMIN]}, path)
            mine = [one for one in seen[ADMIN] if one["queue"].startswith("orders")]
            self.assertEqual(seen["viewer_of_orders"], mine, path)
            self.assertGreater(len(mine), 0)
        got = server.post("/v1/dead-letters:redrive", {"dry_run": True},
                          headers=headers["operator_of_orders"])
        self.assertEqual((got.status, got.code), (403, "forbidden"))

    def _pages(self, server, path, name, headers):
        seen, after = [], ""
        while True:
            page = server.get(path + after, headers=headers).json
            seen += page[name]
            if page["next"] is None:
                return seen
            after = "&after=" + page["next"]

    def only_an_unlimited_admin_names_files_and_variables(self):
        """A caller that chooses the secret and the body has the server compute any HMAC: limited tokens name no
        secrets and no files, neither by another spelling nor to learn whether they are there."""
        os.environ["SIGN_SECRET"] = "a-signing-secret-of-24-b"
        server, _target = self._begin(CALLERS[2:])
        def put(who, target, raw=None):
            body = raw or json.dumps({"targets": [{"name": "t", "url": "http://127.0.0.1:1/"} | target]})
            return server.call("PUT", "/v1/queues/orders-signed", body.encode(),
                               {"Authorization": f"Bearer {who * 8}"})
        for who in ("admin_of_orders", "lead", "star"):
            for target, field in (({"sign": ["env:SIGN_SECRET"]}, "targets[0].sign"),
                                  ({"sign": ["env:NOT_SET"]}, "targets[0].sign"),
                                  ({"sign": ["file:/etc/hostname"]}, "targets[0].sign"),
                                  ({"sign": []}, "targets[0].sign"),
                                  ({"ca": "/etc/hostname"}, "targets[0].ca")):
                got = put(who, target)
                self.assertEqual((got.status, got.code, got.json.get("field")),
                                 (403, "forbidden", field), (who, target, got))
            got = put(who, {}, '{"targets": [{"name": "t", "url": "http://127.0.0.1:1/"}, {"name": "u",'
                      '"url": "http://127.0.0.1:1/", "s\\u0069gn": ["env:SIGN_SECRET"]}]}')
            self.assertEqual((got.status, got.json["field"]), (403, "targets[1].sign"), got)
            self.assertEqual(put(who, {}).status, 200 if who != "admin_of_orders" else 201)
        self.assertEqual(put("admin", {"sign": ["env:SIGN_SECRET"]}).status, 200)

    def a_limited_token_borrows_the_settings_of_no_foreign_queue(self):
        """The settings of a queue have its secrets in them: {"like": NAME} of a queue that is out of reach is
        refused as one of a name that no queue has is, however it is written, and changes nothing."""
        os.environ["SIGN_SECRET"] = "a-signing-secret-of-24-b"
        who = {"Authorization": "Bearer " + "admin_of_orders" * 8}
        signed = [{"name": "t", "url": "http://127.0.0.1:1/", "sign": ["env:SIGN_SECRET"]}]
        longest = "payroll-" + "x" * 92
        server, _target = self._begin([one for one in CALLERS if one.name in ("admin", "admin_of_orders")],
                                      [{"name": name, "targets": signed}
                                       for name in ("payroll", longest, "orders-signed", "123")])
        def put(name, like, headers=who):
            return server.call("PUT", "/v1/queues/" + name, b'{"like": %s}' % like.encode(), headers)
        for like, unknown in (('"payroll"', '"nosuchq"'), ('"p\\u0061yroll"', '"nosuchq"'),
                              ('"_callbacks"', '"_nosuchque"'), (f'"{longest}"', f'"{longest[:-1]}y"')):
            got, other = put("orders-x", like), put("orders-x", unknown)
            self.assertEqual((got.status, got.code, got.json["field"]), (400, "invalid_request", "like"), like)
            self.assertEqual(got.body.replace(json.loads(like)[:40].encode(), b"NAME"),
                             other.body.replace(json.loads(unknown)[:40].encode(), b"NAME"))
        for body in (b'{"like": "orders", "like": "payroll"}', b'{"l\\u0069ke": "payroll"}',
                     b'{"concurrency": 1, "like": "payroll"}', b'{"like": 123}'):
            got = server.call("PUT", "/v1/queues/orders-x", body, who)
            self.assertEqual((got.status, got.code), (400, "invalid_request"), (body, got))
        self.assertEqual(server.get("/v1/queues/orders-x", headers=who).status, 404)
        self.assertEqual(put("mail", '"payroll"').code, "queue_unknown")
        self.assertEqual(put("orders-x", '"orders-signed"').status, 201)  # it could put the task into that one
        got = put("orders-y", '"payroll"', {"Authorization": "Bearer " + "admin" * 8})
        self.assertEqual(got.status, 201)

    def nobody_waits_for_a_task_that_it_does_not_see(self):
        server, target = self._begin([one for one in CALLERS if one.name in
                                      ("admin", "producer", "producer_of_orders")])
        done = threading.Event()
        target.script("/slow", hold(done))
        self.addCleanup(done.set)
        admin = {"Authorization": "Bearer " + "admin" * 8}
        task = server.post("/v1/queues/mail/tasks", {"target": target.url("/slow")}, headers=admin)
        path = f"/v1/tasks/{task.json['id']}?wait_ms=60000"
        got = server.get(path, headers={"Authorization": "Bearer " + "producer_of_orders" * 8})
        self.assertEqual((got.status, got.code), (404, "task_unknown"))
        unknown = server.get(path.replace(task.json["id"][:8], "01932c07"),
                             headers={"Authorization": "Bearer " + "producer_of_orders" * 8})
        self.assertEqual(json.loads(got.body), json.loads(unknown.body))
        done.set()
        got = server.get(path, headers={"Authorization": "Bearer " + "producer" * 8})
        self.assertEqual(got.json["state"], "succeeded")


if __name__ == "__main__":
    runner.main()
