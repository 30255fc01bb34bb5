# SPDX-License-Identifier: MIT
"""Web pages of other sites, and names that are not this server's: what a browser sends for them is
refused, with the headers a browser sends and with a real one."""
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import npm
import runner
from server import Server
from target import Target, answer

CHROMIUM = "/usr/bin/chromium"
SECRET = "what-only-we-may-read"
PATIENCE_SECONDS = 60
CROSS = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}

# Pages are answered by the browser itself, so that one can be of any origin, this server's own port
# under another name included; all else they ask for goes out. Each tries everything a page can.
BROWSE = """
const {chromium} = require("playwright-core");
const given = JSON.parse(require("fs").readFileSync(0));
const tries = async api => {
    const seen = [];
    const see = async (what, doing) => {
        try {
            const got = await doing();
            seen.push([what, got.type, got.status, await got.text()]);
        } catch (error) {
            seen.push([what, "error", 0, String(error)]);
        }
    };
    const task = JSON.stringify({target: api + "/healthz", delay_ms: 3600000});
    const tasks = api + "/v1/queues/q/tasks";
    await see("read", () => fetch(tasks));
    await see("read blindly", () => fetch(tasks, {mode: "no-cors"}));
    await see("create", () => fetch(tasks, {method: "POST", body: task}));
    await see("create blindly", () => fetch(tasks, {method: "POST", mode: "no-cors", body: task}));
    await see("pause", () => fetch(api + "/v1/queues/q:pause", {method: "POST", mode: "no-cors"}));
    await see("purge", () => fetch(api + "/v1/queues/q:purge", {method: "POST", mode: "no-cors"}));
    await see("put", () => fetch(api + "/v1/queues/new", {method: "PUT", body: "{}"}));
    navigator.sendBeacon(tasks, task);
    await new Promise(done => {
        const frame = document.createElement("iframe");
        frame.name = "into";
        document.body.append(frame);
        const form = document.createElement("form");
        form.action = tasks, form.method = "post", form.enctype = "text/plain", form.target = "into";
        const field = document.createElement("input");
        field.name = task.slice(0, -1) + ', "body": "', field.value = '"}';
        form.append(field);
        document.body.append(form);
        frame.onload = done;
        form.submit();
        setTimeout(done, 3000);
    });
    return seen;
};
(async () => {
    const browser = await chromium.launch({executablePath: given.chromium, args: [
        "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP evil.example 127.0.0.1",
        "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests"]});
    const seen = {};
    for (const origin of given.origins) {
        const page = await browser.newPage();
        await page.route(url => url.pathname === "/page", route => route.fulfill(
            {contentType: "text/html", body: "<!doctype html><body></body>"}));
        await page.goto(origin + "/page");
        const api = origin === given.rebound ? origin : given.api;
        seen[origin] = await page.evaluate(tries, api);
        if (origin !== given.own) {
            const followed = page.waitForResponse(given.api + "/");
            await page.evaluate(to => { location.href = to; }, given.api + "/");
            seen[origin].push(["follow", "link", (await followed).status(), ""]);
        }
        await page.close();
    }
    await browser.close();
    console.log(JSON.stringify(seen));
})();
"""


def foretelling(urls):
    """A page that has the browser fetch these before any person wants them."""
    rules = {"prefetch": [{"source": "list", "urls": urls, "eagerness": "immediate"}]}
    text = f"<!doctype html><script type=speculationrules>{json.dumps(rules)}</script>"
    return answer(200, {"Content-Type": "text/html"}, text.encode())


def browse(test, url):
    """Opens the page in a browser, which stays until the test has ended."""
    profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    test.addCleanup(profile.cleanup)
    browser = subprocess.Popen(
        [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
         f"--user-data-dir={profile.name}", "--host-resolver-rules=MAP evil.example 127.0.0.1",
         "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests", url],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    test.addCleanup(browser.wait)
    test.addCleanup(os.killpg, browser.pid, signal.SIGKILL)


def answered(server):
    """How many requests the api has answered, this one not yet, and how many of them it refused."""
    text = server.get("/metrics").body.decode()
    return [int(re.search(rf"^daruma_http_{name}_total (\d+)", text, re.M).group(1))
            for name in ("requests", "refused")]


def raw(server, head):
    with socket.create_connection(("127.0.0.1", server.port), 10) as client:
        client.sendall(head)
        return client.makefile("rb").read()


class Pages(unittest.TestCase):
    def a_page_of_another_site_commands_nothing(self):
        target = Target()
        self.addCleanup(target.close)
        target.script("/internal", answer(200))
        server = Server(self, queues=[{"name": "demo"}]).start()
        kept = server.add("demo", target=target.url("/internal"), delay_ms=3600000)
        task = {"target": target.url("/internal"), "method": "PUT",
                "headers": {"X-aws-ec2-metadata-token-ttl-seconds": "60"},
                "callback": {"url": target.url("/got")}}
        text = {**CROSS, "Content-Type": "text/plain"}
        calls = [("POST", "/v1/queues/demo/tasks", task), ("POST", "/v1/queues/demo:purge", None),
                 ("POST", "/v1/queues/demo:pause", None), ("GET", "/v1/queues", None),
                 ("POST", f"/v1/tasks/{kept}:cancel", None), ("GET", "/healthz", None),
                 ("PUT", "/v1/queues/new", {}), ("OPTIONS", "/v1/queues/demo/tasks", None)]
        for page in (text, {"Origin": "http://evil.example"}, {"Origin": "null"},
                     {"Sec-Fetch-Site": "same-site"},
                     {"Origin": f"http://127.0.0.1:{server.port + 1}"},
                     {"Origin": f"https://127.0.0.1:{server.port}"}):
            for method, path, body in calls:
                got = server.call(method, path, body, headers=page)
                self.assertEqual((got.status, got.code), (403, "cross_site"), (page, path))
                self.assertFalse([name for name in got.headers if name.startswith("access-control")])
        self.assertEqual(server.task(kept)["state"], "waiting")
        self.assertEqual(len(server.get("/v1/queues/demo/tasks").json["tasks"]), 1)
        self.assertFalse(server.get("/v1/queues/demo").json["paused"])
        self.assertEqual(target.ledger, [])
        for ours in ({}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"},
                     {"Origin": f"http://127.0.0.1:{server.port}"}):
            self.assertEqual(server.get("/v1/queues", headers=ours).status, 200, ours)

    def a_name_that_is_rebound_reads_nothing(self):
        server = Server(self, queues=[{"name": "demo"}]).start()
        for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example"):
            got = server.get("/v1/queues/demo/tasks", headers={"Host": host})
            self.assertEqual((got.status, got.code), (421, "host_unknown"))
            self.assertEqual(server.get("/healthz", headers={"Host": host}).status, 200)
            self.assertEqual(server.get("/readyz", headers={"Host": host}).status, 200)
        for host in ("127.0.0.1", f"localhost:{server.port}", "127.9.9.9:1", "[::1]:99", "LOCALHOST"):
            self.assertEqual(server.get("/v1/queues", headers={"Host": host}).status, 200)
        self.assertIn(b" 200 ", raw(server, b"GET /v1/queues HTTP/1.0\r\n\r\n"))
        self.assertIn(b" 400 ", raw(server, b"GET /v1/queues HTTP/1.1\r\n\r\n"))

    def names_that_are_listed_are_answered(self):
        os.environ["OPS"] = "o" * 40
        bearer = {"Authorization": "Bearer " + "o" * 40}
        server = Server(self, queues=[{"name": "demo"}], api={
            "listen": "127.0.0.1:0", "hosts": ["Daruma.example.org", "10.0.0.5", "[fd00::5]"],
            "tokens": [{"name": "ops", "role": "admin", "token": "env:OPS"}]}).start()
        for host, status in (("daruma.example.org:99", 200), ("10.0.0.5", 200), ("[FD00::5]:1", 200),
                             ("localhost", 200), ("evil.example", 421), ("10.0.0.6", 421)):
            got = server.get("/v1/queues", headers={**bearer, "Host": host})
            self.assertEqual(got.status, status, host)
        server.kill()
        server.config["api"].pop("hosts")
        server.configure(**{name: server.config[name] for name in ("queues", "api")})
        server.start()
        got = server.get("/v1/queues", headers={**bearer, "Host": "any.name"})
        self.assertEqual(got.status, 200)
        got = server.get("/v1/queues", headers={**bearer, **CROSS})
        self.assertEqual(got.code, "cross_site")

    def a_browser_does_nothing_for_another_site(self):
        npm.install()
        server = Server(self, queues=[{"name": "q"}]).start()
        kept = server.add("q", target="http://127.0.0.1:9/", delay_ms=3600000,
                          labels={"name": SECRET})
        own = f"http://127.0.0.1:{server.port}"
        rebound = f"http://evil.example:{server.port}"
        pages = ["http://evil.example:1024", "http://127.0.0.1:1024", rebound]
        seen = npm.node(BROWSE, {"chromium": CHROMIUM, "api": own, "origins": pages,
                                 "rebound": rebound})
        for origin in pages:
            self.assertEqual(len(seen[origin]), 8)
            for what, kind, status, text in seen[origin]:
                if what == "follow":
                    self.assertEqual(status, 404)  # there is no page yet
                elif origin == rebound:
                    self.assertEqual((kind, status), ("basic", 421), what)
                else:
                    self.assertIn((kind, status), [("error", 0), ("opaque", 0)], what)
                self.assertNotIn(SECRET, text)
        tasks = server.get("/v1/queues/q/tasks").json["tasks"]
        self.assertEqual([(task["id"], task["state"]) for task in tasks], [(kept, "waiting")])
        self.assertFalse(server.get("/v1/queues/q").json["paused"])
        self.assertEqual(server.get("/v1/queues/new").status, 404)
        refused = [line for line in server.get("/metrics").body.decode().split("\n")
                   if line.startswith("daruma_http_refused_total")][0]
        self.assertGreater(int(refused.split()[1]), 20)  # they have come, and were refused

    def a_browser_fetches_nothing_ahead_for_another_site(self):
        target = Target()
        self.addCleanup(target.close)
        server = Server(self, queues=[{"name": "q"}]).start()
        kept = server.add("q", target="http://127.0.0.1:9/", delay_ms=3600000)
        paths = ["/v1/queues", "/metrics", f"/v1/tasks/{kept}?wait_ms=60000", "/", "/console/"]
        paths += [f"/v1/queues/q/tasks?limit={count}" for count in range(1, 10)]
        target.script("/page", foretelling([f"http://127.0.0.1:{server.port}{path}" for path in paths]))
        before, looks = answered(server), 0
        browse(self, f"http://evil.example:{target.port}/page")
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            requests, refused = answered(server)
            looks += 1
            if refused - before[1] >= len(paths) or time.monotonic() > until:
                break
            time.sleep(0.1)
        self.assertEqual(refused - before[1], len(paths))  # all have come, and were refused
        self.assertEqual(requests - before[0], len(paths) + looks)

    def a_browser_serves_our_own_page(self):
        npm.install()
        server = Server(self, queues=[{"name": "q"}]).start()
        server.add("q", target="http://127.0.0.1:9/", delay_ms=3600000, labels={"name": SECRET})
        own = f"http://127.0.0.1:{server.port}"
        seen = npm.node(BROWSE, {"chromium": CHROMIUM, "api": own, "origins": [own], "own": own})
        statuses = {what: status for what, _kind, status, _text in seen[own]}
        self.assertEqual(statuses, {"read": 200, "read blindly": 200, "create": 201,
                                    "create blindly": 201, "pause": 200, "purge": 200, "put": 201})
        self.assertIn(SECRET, seen[own][0][3])


if __name__ == "__main__":
    runner.main()
