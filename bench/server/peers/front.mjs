// SPDX-License-Identifier: MIT
// What every peer needs: an HTTP front that stores what is posted to it before it answers, a way to
// post to a target on kept connections, and the two ways to be started:
//
//   node PEER.mjs front               listens on a free port, prints it, stores what comes
//   node PEER.mjs work URL COUNT      stores COUNT entries, then takes and posts each, prints seconds
import http from "node:http";

export const AT_ONCE = 64;
const FILL_AT_ONCE = 500;
const BODY = { order: "123456", note: "x".repeat(372) }; // 400 bytes as JSON

const agent = new http.Agent({ keepAlive: true, maxSockets: AT_ONCE });

/** Posts the payload; settles when the answer has been read. */
export function post(url, payload) {
    const body = JSON.stringify(payload);
    return new Promise((resolve, reject) => {
        const request = http.request(url, {
            method: "POST",
            agent,
            headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
        }, (answer) => {
            answer.resume();
            answer.on("end", () => (answer.statusCode === 200 ? resolve() : reject(new Error("not 200"))));
            answer.on("error", reject);
        });
        request.on("error", reject);
        request.end(body);
    });
}

/** `add(payload)` resolves to an id once the entry is stored. */
function serve(add) {
    const server = http.createServer((request, answer) => {
        const pieces = [];
        request.on("data", (piece) => pieces.push(piece));
        request.on("end", async () => {
            try {
                const id = await add(JSON.parse(Buffer.concat(pieces).toString()).json);
                const text = JSON.stringify({ id });
                answer.writeHead(201, { "content-type": "application/json", "content-length": text.length });
                answer.end(text);
            } catch (error) {
                answer.writeHead(503);
                answer.end(String(error));
            }
        });
    });
    server.keepAliveTimeout = 60000;
    server.listen(0, "127.0.0.1", 1024, () => console.log(server.address().port));
}

async function fill(add, count) {
    for (let left = count; left > 0; left -= FILL_AT_ONCE) {
        const some = Math.min(left, FILL_AT_ONCE);
        await Promise.all(Array.from({ length: some }, () => add(BODY)));
    }
}

/** `work(take, stop)`: calls take(payload) for each entry; what it resolves to is what `stop` gives. */
async function deliver(peer, url, count) {
    await fill(peer.add, count);
    let left = count;
    let finish;
    const finished = new Promise((resolve) => (finish = resolve));
    const began = process.hrtime.bigint();
    await peer.work((payload) => post(url, payload), () => {
        left -= 1;
        if (left === 0) {
            finish();
        }
    });
    await finished;
    console.log((Number(process.hrtime.bigint() - began) / 1e9).toFixed(6));
    process.exit(0);
}

/** peer: add(payload) -> id; work(take, settled): settled() after each entry is durably done. */
export async function run(peer) {
    const [how, url, count] = process.argv.slice(2);
    if (how === "front") {
        serve(peer.add);
    } else if (how === "work" && url && Number(count) > 0) {
        await deliver(peer, url, Number(count));
    } else {
        console.error("front, or work URL COUNT");
        process.exit(2);
    }
}
