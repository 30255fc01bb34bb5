// SPDX-License-Identifier: MIT
// The peer: express with an in-memory idempotency package in front of a handler that does nothing.
//   node express.js [plain]    prints its port
const express = require("express");
const application = express();

application.use(express.json());
if (process.argv[2] !== "plain") {
    const {idempotency} = require("express-idempotency");
    application.use(idempotency());
    application.post("/orders", (request, response) => {
        const service = require("express-idempotency").getSharedIdempotencyService();
        if (!service.isHit(request)) {
            response.status(200).json({});
        }
    });
} else {
    application.post("/orders", (_request, response) => response.status(200).json({}));
}
const server = application.listen(0, "127.0.0.1", () => console.log(server.address().port));
