-- A token bucket by the generic cell rate algorithm: one decision on one key, by the clock of the server.
--
-- KEYS[1]          the bucket, a string "microseconds.ticks": when it will be full again
-- ARGV[1]          decide, peek, charge or refund
-- ARGV[2], [3]     what the permits cost: microseconds, and ticks of the next one
-- ARGV[4], [5]     what a full bucket holds, likewise
--
-- Returns whether they passed, and how far the bucket is from full: microseconds and ticks.
--
-- Numbers of Lua are doubles, exact below 2^53. The largest here is the time now and twenty years, in microseconds: that
-- is below until the year 2235. What is finer than a microsecond is counted apart, so that a time has no rounding.

local TICKS = 16000

local key, op = KEYS[1], ARGV[1]
local cost_us, cost_ticks = tonumber(ARGV[2]), tonumber(ARGV[3])
local full_us, full_ticks = tonumber(ARGV[4]), tonumber(ARGV[5])

local function exceeds(us, ticks, most_us, most_ticks)
    return us > most_us or (us == most_us and ticks > most_ticks)
end

-- Never more than what is missing of a bucket in the deepest debt, one more burst.
local function floored(us, ticks)
    local floor_us, floor_ticks = 2 * full_us, 2 * full_ticks
    if floor_ticks >= TICKS then
        floor_us, floor_ticks = floor_us + 1, floor_ticks - TICKS
    end
    if exceeds(us, ticks, floor_us, floor_ticks) then
        return floor_us, floor_ticks
    end
    return us, ticks
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- A time that has passed is a full bucket. One that is too far away was written by a clock that has gone back since.
local us, ticks = 0, 0
local kept = redis.call('GET', key)
if kept then
    local at_us, at_ticks = string.match(kept, '^(%d+)%.(%d+)$')
    if not at_us then
        return redis.error_reply('ERR what is kept is no token bucket')
    end
    if at_us - now >= 0 then
        us, ticks = floored(at_us - now, tonumber(at_ticks))
    end
end

-- The value and its expiry are one command. It is gone when it says nothing any more.
local function keep(us, ticks)
    local value = string.format('%.0f.%.0f', now + us, ticks)
    redis.call('SET', key, value, 'PX', string.format('%.0f', math.floor(us / 1000) + 2))
end

if op == 'peek' then
    return { 1, us, ticks }
end

if op == 'refund' then
    if kept and not exceeds(us, ticks, cost_us, cost_ticks) then
        redis.call('DEL', key)
        return { 1, 0, 0 }
    end
    if kept then
        us, ticks = us - cost_us, ticks - cost_ticks
        if ticks < 0 then
            us, ticks = us - 1, ticks + TICKS
        end
        keep(us, ticks)
    end
    return { 1, us, ticks }
end

local after_us, after_ticks = us + cost_us, ticks + cost_ticks
if after_ticks >= TICKS then
    after_us, after_ticks = after_us + 1, after_ticks - TICKS
end

if op == 'charge' then
    after_us, after_ticks = floored(after_us, after_ticks)
elseif exceeds(after_us, after_ticks, full_us, full_ticks) then
    -- Nothing is written, but that a bucket somebody took the expiry from does not stay for ever.
    if kept and redis.call('PTTL', key) == -1 then
        keep(us, ticks)
    end
    return { 0, us, ticks }
end

keep(after_us, after_ticks)
return { 1, after_us, after_ticks }
