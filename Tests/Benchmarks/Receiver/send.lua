-- Sends each request of a file once, or repeats the first ones up to a limit, and prints the result as one line.
-- wrk … -s send.lua URL -- FILE [LIMIT [OFFSET]]

local threads = {}

function setup(thread) table.insert(threads, thread) end

function init(args)
  file = assert(io.open(args[1], "rb"))
  offset = tonumber(args[3] or "0")
  file:seek("set", offset)
  limit = tonumber(args[2] or "0")
  sent = 0
  looked = false
  ranOut = false
end

function request()
  if limit > 0 and sent > 0 and sent % limit == 0 then file:seek("set", 0) end
  local length = file:read(8)
  if not length then
    ranOut = true
    file:seek("set", 0)
    length = file:read(8)
  end
  sent = sent + 1
  local text = file:read(tonumber(length))
  -- wrk calls this once before the run without sending the request, so the first request is returned again.
  if not looked then
    looked = true
    sent = 0
    file:seek("set", offset)
  end
  return text
end

function done(summary, latency)
  local errors = summary.errors
  local ranOut = false
  for _, thread in ipairs(threads) do ranOut = ranOut or thread:get("ranOut") end
  print(string.format(
    'result {"requests":%d,"seconds":%.6f,"p50":%.3f,"p99":%.3f,"notOK":%d,"broken":%d,"ranOut":%s}',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout, tostring(ranOut)))
end
