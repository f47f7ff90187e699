-- Token buckets by the generic cell rate algorithm, by the clock of the server: one decision on each key.
--
-- KEYS         the buckets, strings of 8 bytes or 10: the microsecond in which it will be full again, as a double, and the
--              ticks of the next one, where there are any
-- ARGV[1]      decide, peek, charge or refund
-- ARGV[2]      three doubles: permits that a full bucket holds, and what one costs in microseconds, and in ticks of the next
-- ARGV[3]      permits, a double for each key
--
-- Returns how far the bucket is from full, in microseconds, twice, and 1 more if the permits passed. Where there are ticks
-- of the next microsecond, a list of that number and of them. For several keys a list of all that, with nil for a key on
-- which nothing was decided, as it is no bucket.
--
-- Numbers of Lua are doubles, exact below 2^53. The largest here is the time now and twenty years, in microseconds: that
-- is below until the year 2235. What is finer than a microsecond is counted apart, so that a time has no rounding; most
-- quotas need none of it, and are spared it.

local TICKS = 16000

local call, read, write = redis.call, struct.unpack, struct.pack
local op, permits = ARGV[1], ARGV[3]
local burst, interval, interval_ticks = read('>ddd', ARGV[2])
local full = burst * interval

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local answers, others = {}, nil
for i = 1, #KEYS do
    local key = KEYS[i]
    local kept = redis.pcall('GET', key)
    -- A time that has passed is a full bucket.
    local us, bytes = 0, kept and #kept
    if bytes == 8 then
        us = read('>d', kept) - now
        if not (us > 0) then
            us = 0
        end
    end
    local after = us + read('>d', permits, i * 8 - 7) * interval
    -- Most requests are decided by this, and most quotas have no ticks. Such a one needs nothing of what follows, not even its
    -- functions.
    local usual = op == 'decide' and interval_ticks == 0 and (not bytes or bytes == 8)
    if usual and after <= full then
        call('SET', key, write('>d', now + after), 'PX', math.floor(after / 1000) + 2)
        answers[i] = after * 2 + 1
    elseif usual and us <= full and call('PTTL', key) ~= -1 then
        -- Nothing is written, but where somebody has taken the expiry away.
        answers[i] = us * 2
    else
        others = others or {}
        others[#others + 1] = i
    end
end

if others then
    -- What so many permits cost.
    local function cost_of(permits)
        local ticks = permits * interval_ticks
        local more = math.floor(ticks / TICKS)
        return permits * interval + more, ticks - more * TICKS
    end

    local full, full_ticks = cost_of(burst)
    local empty, empty_ticks = cost_of(2 * burst)

    -- Never more than what is missing of a bucket in the deepest debt, one more burst. What was kept may be more, where the
    -- quota is a smaller one now or the clock has gone back.
    local function in_debt(us, ticks)
        if us > empty or (us == empty and ticks > empty_ticks) then
            return empty, empty_ticks
        end
        return us, ticks
    end

    local function apply(key, permits)
        local kept = redis.pcall('GET', key)
        local us, ticks = 0, 0
        if kept then
            if kept.err then
                return kept
            elseif #kept == 8 then
                us = read('>d', kept) - now
            elseif #kept == 10 then
                us, ticks = read('>dI2', kept)
                us = us - now
            else
                return redis.error_reply('ERR what is kept is no token bucket')
            end
            if not (us >= 0) then
                us, ticks = 0, 0
            end
            us, ticks = in_debt(us, ticks)
        end

        local cost, cost_ticks = cost_of(permits)
        local passed, changed = 1, true
        if op == 'decide' or op == 'charge' then
            local after, after_ticks = us + cost, ticks + cost_ticks
            if after_ticks >= TICKS then
                after, after_ticks = after + 1, after_ticks - TICKS
            end
            if op == 'decide' and (after > full or (after == full and after_ticks > full_ticks)) then
                -- Nothing is written, but that a bucket somebody took the expiry from does not stay for ever.
                passed, changed = 0, kept and call('PTTL', key) == -1
            else
                us, ticks = in_debt(after, after_ticks)
            end
        elseif op == 'refund' and kept then
            us, ticks = us - cost, ticks - cost_ticks
            if ticks < 0 then
                us, ticks = us - 1, ticks + TICKS
            end
            if us < 0 then
                us, ticks = 0, 0
            end
        else
            changed = false
        end

        if changed and us == 0 and ticks == 0 then
            call('DEL', key)
        elseif changed then
            -- The value and its expiry are one command. It is gone when it says nothing any more.
            local value = ticks == 0 and write('>d', now + us) or write('>dI2', now + us, ticks)
            call('SET', key, value, 'PX', math.floor(us / 1000) + 2)
        end
        if ticks == 0 then
            return us * 2 + passed
        end
        return { us * 2 + passed, ticks }
    end

    for _, i in ipairs(others) do
        local answer = apply(KEYS[i], read('>d', permits, i * 8 - 7))
        if #KEYS > 1 and type(answer) == 'table' and answer.err then
            answer = false
        end
        answers[i] = answer
    end
end

if #KEYS > 1 then
    return answers
end
return answers[1]
