-- SPDX-License-Identifier: MIT
-- What wrk sends: one POST, the same each time. Its path and body are files named by the environment
-- (WRK_PATH, WRK_BODY). The figures come at the end, in one line of JSON; refused are answers from 400
-- on.
local path = os.getenv("WRK_PATH") or "/"
local file = assert(io.open(assert(os.getenv("WRK_BODY")), "rb"))
local body = file:read("*a")
file:close()

function init()
    wrk.method = "POST"
    wrk.path = path
    wrk.body = body
    wrk.headers["Content-Type"] = "application/json"
end

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        '\nRESULT {"requests":%d,"us":%d,"refused":%d,"broken":%d,"p50_us":%d,"p99_us":%d}\n',
        summary.requests, summary.duration, errors.status,
        errors.connect + errors.read + errors.write + errors.timeout,
        latency:percentile(50), latency:percentile(99)))
end
