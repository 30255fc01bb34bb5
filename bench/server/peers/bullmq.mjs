// SPDX-License-Identifier: MIT
// BullMQ on redis; PEER_STORE is redis' port.
import { Queue, Worker } from "bullmq";
import { AT_ONCE, run } from "./front.mjs";

const connection = { host: "127.0.0.1", port: Number(process.env.PEER_STORE), maxRetriesPerRequest: null };
const queue = new Queue("bench", { connection, defaultJobOptions: { removeOnComplete: true } });
await queue.waitUntilReady();

await run({
    add: async (payload) => (await queue.add("task", payload)).id,
    work: async (take, settled) => {
        const worker = new Worker("bench", (entry) => take(entry.data), { connection, concurrency: AT_ONCE });
        worker.on("completed", settled);
        await worker.waitUntilReady();
    },
});
