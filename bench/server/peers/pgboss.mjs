// SPDX-License-Identifier: MIT
// pg-boss on PostgreSQL; PEER_STORE is a connection string.
import PgBoss from "pg-boss";
import { AT_ONCE, run } from "./front.mjs";

const POOL = 20;

const boss = new PgBoss({ connectionString: process.env.PEER_STORE, max: POOL, supervise: false, schedule: false });
await boss.start();
await boss.createQueue("bench");

async function loop(take, settled) {
    for (;;) {
        const entries = await boss.fetch("bench", { batchSize: AT_ONCE });
        if (entries.length === 0) {
            return;
        }
        await Promise.all(entries.map((entry) => take(entry.data)));
        await boss.complete("bench", entries.map((entry) => entry.id));
        entries.forEach(settled);
    }
}

await run({
    add: (payload) => boss.send("bench", payload),
    work: (take, settled) => loop(take, settled),
});
