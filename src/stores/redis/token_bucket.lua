-- A token bucket by the generic cell rate algorithm: one decision on one key, by the clock of the server.
--
-- KEYS[1]          the bucket, a string "microseconds" or "microseconds.ticks": when it will be full again
-- ARGV[1]          decide, peek, charge or refund
-- ARGV[2], [3]     in microseconds: what the permits cost, and what a full bucket holds
-- ARGV[4], [5]     ticks of the next microsecond of either, where there are any
--
-- Returns how far the bucket is from full, in microseconds, twice, and 1 more if the permits passed. Where there are ticks
-- of the next microsecond, a list of that number and of them.
--
-- Numbers of Lua are doubles, exact below 2^53. The largest here is the time now and twenty years, in microseconds: that
-- is below until the year 2235. What is finer than a microsecond is counted apart, so that a time has no rounding; most
-- quotas need none of it, and are spared it.

local TICKS = 16000

local call, key, op = redis.call, KEYS[1], ARGV[1]
local cost_us, full_us = tonumber(ARGV[2]), tonumber(ARGV[3])
local cost_ticks, full_ticks = 0, 0
if ARGV[4] then
    cost_ticks, full_ticks = tonumber(ARGV[4]), tonumber(ARGV[5])
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- A time that has passed is a full bucket.
local us, ticks = 0, 0
local kept = call('GET', key)
if kept then
    local at, at_ticks = kept, 0
    if #kept > 16 then
        at, at_ticks = string.match(kept, '^(%d+)%.(%d+)$')
    end
    at = tonumber(at)
    if not at then
        return redis.error_reply('ERR what is kept is no token bucket')
    end
    if at >= now then
        us, ticks = at - now, tonumber(at_ticks)
    end
end

-- Most requests pass, and most quotas have no ticks. Such a one needs nothing of what follows, not even its functions.
if op == 'decide' and ticks == 0 and cost_ticks == 0 and us + cost_us <= full_us then
    us = us + cost_us
    call('SET', key, now + us, 'PX', math.floor(us / 1000) + 2)
    return us * 2 + 1
end

-- Never more than what is missing of a bucket in the deepest debt, one more burst. What was kept may be more, where the
-- quota is a smaller one now or the clock has gone back.
local function floored(us, ticks)
    local floor_us, floor_ticks = 2 * full_us, 2 * full_ticks
    if floor_ticks >= TICKS then
        floor_us, floor_ticks = floor_us + 1, floor_ticks - TICKS
    end
    if us > floor_us or (us == floor_us and ticks > floor_ticks) then
        return floor_us, floor_ticks
    end
    return us, ticks
end

if us > full_us then
    us, ticks = floored(us, ticks)
end

-- The value and its expiry are one command. It is gone when it says nothing any more.
local function keep(us, ticks)
    -- Numbers are passed on with all their digits; Lua itself would write fourteen.
    local value = now + us
    if ticks ~= 0 then
        value = string.format('%.0f.%.0f', value, ticks)
    end
    call('SET', key, value, 'PX', math.floor(us / 1000) + 2)
end

local function answer(passed, us, ticks)
    local code = us * 2 + passed
    if ticks == 0 then
        return code
    end
    return { code, ticks }
end

if op == 'decide' or op == 'charge' then
    local after_us, after_ticks = us + cost_us, ticks + cost_ticks
    if after_ticks >= TICKS then
        after_us, after_ticks = after_us + 1, after_ticks - TICKS
    end
    if op == 'charge' then
        after_us, after_ticks = floored(after_us, after_ticks)
    elseif after_us > full_us or (after_us == full_us and after_ticks > full_ticks) then
        -- Nothing is written, but that a bucket somebody took the expiry from does not stay for ever.
        if kept and call('PTTL', key) == -1 then
            keep(us, ticks)
        end
        return answer(0, us, ticks)
    end
    keep(after_us, after_ticks)
    return answer(1, after_us, after_ticks)
end

if op == 'refund' and kept then
    us, ticks = us - cost_us, ticks - cost_ticks
    if ticks < 0 then
        us, ticks = us - 1, ticks + TICKS
    end
    if us < 0 or (us == 0 and ticks == 0) then
        call('DEL', key)
        us, ticks = 0, 0
    else
        keep(us, ticks)
    end
end

return answer(1, us, ticks)
