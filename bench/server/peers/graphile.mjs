// SPDX-License-Identifier: MIT
// graphile-worker on PostgreSQL; PEER_STORE is a connection string, PEER_LOCAL the size of its local
// queue (0: none).
import pg from "pg";
import { makeWorkerUtils, run as runWorker } from "graphile-worker";
import { AT_ONCE, run } from "./front.mjs";

const POOL = 20;
const LOCAL = Number(process.env.PEER_LOCAL ?? 0);

const pgPool = new pg.Pool({ connectionString: process.env.PEER_STORE, max: POOL });
pgPool.on("error", () => {}); // it warns about a pool that has no ears; queries tell their own
pgPool.on("connect", (client) => client.on("error", () => {}));
const silent = { error() {}, warn() {}, info() {}, debug() {} };
const logger = { scope: () => logger, ...silent };
const tools = await makeWorkerUtils({ pgPool, logger });
await tools.migrate();

await run({
    add: async (payload) => (await tools.addJob("task", payload)).id,
    work: async (take, settled) => {
        const runner = await runWorker({
            pgPool,
            logger,
            concurrency: AT_ONCE,
            noHandleSignals: true,
            taskList: { task: take },
            preset: LOCAL > 0
                ? { worker: { concurrentJobs: AT_ONCE, localQueue: { size: LOCAL }, completeJobBatchDelay: 0 } }
                : { worker: { concurrentJobs: AT_ONCE } },
        });
        runner.events.on("job:complete", settled);
    },
});
