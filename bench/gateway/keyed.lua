-- SPDX-License-Identifier: MIT
-- What wrk sends through a gateway: POSTs with a key. WRK_KEYS=0: each its own; else round and round
-- through so many, which are the same ones in each run. The figures come at the end, in one line.
local count = tonumber(os.getenv("WRK_KEYS") or "0")
local start = os.getenv("WRK_START") or "k"
local number = 0

function request()
    number = number + 1
    local key = count > 0 and (number % count) or number
    return wrk.format("POST", "/orders", {["Content-Type"] = "application/json",
                                          ["Idempotency-Key"] = start .. key},
                      '{"order": 123, "amount": 5000}')
end

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        '\nRESULT {"requests":%d,"us":%d,"refused":%d,"broken":%d,"p50_us":%d,"p99_us":%d}\n',
        summary.requests, summary.duration, errors.status,
        errors.connect + errors.read + errors.write + errors.timeout,
        latency:percentile(50), latency:percentile(99)))
end
