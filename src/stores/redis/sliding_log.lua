-- Logs of what was admitted in the window that ends now, by the clock of the server: one decision on each key.
--
-- KEYS         the logs: one entry for each request that passed, the oldest first, after one that has left the window. As
--              long as there are few, they are one string, then a list
-- ARGV[1]      decide, peek, charge or refund
-- ARGV[2]      two doubles: most permits in a window, and the window in microseconds
-- ARGV[3]      permits, a double for each key
--
-- Returns how many permits are used then, and how long until none is, in microseconds, as a list. Where these do not pass
-- also how long until they do. Where the last that are used passed now, the first number says it all, and is no list. For
-- several keys a list of all that, with nil for a key on which nothing was decided, as it is no log.
--
-- An entry is two numbers: the microsecond in which it passed, and how many permits had passed with it. So what is used is
-- the difference between the last entry and the one before the first, requests of one microsecond are two, one for a
-- million permits is one entry, and one of many entries is found by halving. Numbers of Lua are doubles, exact below 2^53:
-- microseconds are until the year 2255, and a million permits a second for as long.

local ENTRY, SIZE, AT, TO = '>dd', 16, 1, 2
-- So many entries are sooner read and written together than one by one.
local FEW = 32

local call, read, write = redis.call, struct.unpack, struct.pack
local op, permits = ARGV[1], ARGV[3]
local limit, window = read('>dd', ARGV[2])

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local gone = now - window

-- Written out once: a command would do so with every number that it is given.
local expiry = string.format('%.0f', math.floor(window / 1000) + 2)
local answers, others = {}, nil
for i = 1, #KEYS do
    local key, cost = KEYS[i], read('>d', permits, i * 8 - 7)
    -- Unlike GET it takes a list for none.
    local log = call('MGET', key)[1]
    local list = not log and redis.pcall('LRANGE', key, '0', '2')
    if list and not (list[1] or list.err) then
        log, list = write(ENTRY, 0, 0), nil
    end
    -- Most requests pass, or wait for the oldest entry, and since the last one on their key one entry has left the window, or
    -- none. Such a one needs nothing of what follows, not even its functions.
    local answer
    if op == 'decide' and (log and #log > 0 and #log % SIZE == 0
        or list and list[3] and #list[1] + #list[2] + #list[3] == 3 * SIZE) then
        -- The entry before the window, the one after it, which is in `head` at `first`, and the last one.
        local base, from, head, first, last_at, to, _ = 1, nil, nil, nil, nil, nil, nil
        if log then
            while base + SIZE < #log and read('>d', log, base + SIZE) <= gone do
                base = base + SIZE
            end
            _, from = read(ENTRY, log, base)
            head, first = log, base + SIZE
            last_at, to = read(ENTRY, log, #log - SIZE + 1)
        else
            base = read('>d', list[2]) <= gone and 2 or 1
            _, from = read(ENTRY, list[base])
            head, first = list[base + 1], 1
            last_at, to = read(ENTRY, call('LINDEX', key, '-1'))
        end
        local excess = to + cost - from - limit
        if excess <= 0 and last_at <= now then
            if log and #log < FEW * SIZE then
                if base > 1 then
                    log = string.sub(log, base)
                end
                call('SET', key, log .. write(ENTRY, now, to + cost), 'PX', expiry)
                answer = to + cost - from
            elseif list and read('>d', head) > gone then
                if base > 1 then
                    call('LTRIM', key, '1', '-1')
                end
                call('RPUSH', key, write(ENTRY, now, to + cost))
                call('PEXPIRE', key, expiry)
                answer = to + cost - from
            end
        elseif excess > 0 and base == 1 and first < #head and last_at <= now then
            -- Nothing has left the window, and nothing is written, but where somebody has taken the expiry away.
            local first_at, first_to = read(ENTRY, head, first)
            if first_to - from >= excess and first_at > gone and call('PTTL', key) ~= -1 then
                answer = { to - from, last_at + window - now, first_at + window - now }
            end
        end
    end
    if answer then
        answers[i] = answer
    else
        others = others or {}
        others[#others + 1] = i
    end
end

if others then
    local floor = math.floor
    -- What is looked at: a string, or else a list, and how many entries it has.
    local key, log, length

    local function entry(rank)
        if log then
            return read(ENTRY, log, rank * SIZE + 1)
        end
        return read(ENTRY, call('LINDEX', key, rank))
    end

    -- The rank of the first entry of which a number is above `value`, from rank `low` on, or `high`. The numbers only grow.
    local function first_above(number, value, low, high)
        while low < high do
            local middle = floor((low + high) / 2)
            if select(number, entry(middle)) > value then
                high = middle
            else
                low = middle + 1
            end
        end
        return low
    end

    -- Leaves the entries from rank `base` on and before `stop`, then one more, if there is one.
    local function keep(base, stop, more, expiry)
        local count = stop - base + (more and 1 or 0)
        if count == 1 then
            call('DEL', key)
        elseif log and count <= FEW then
            call('SET', key, string.sub(log, base * SIZE + 1, stop * SIZE) .. (more or ''), 'PX', expiry)
        else
            if log then
                local entries = {}
                for rank = base, stop - 1 do
                    entries[#entries + 1] = string.sub(log, rank * SIZE + 1, (rank + 1) * SIZE)
                end
                call('DEL', key)
                call('RPUSH', key, unpack(entries))
            elseif base > 0 or stop < length then
                call('LTRIM', key, base, stop - 1)
            end
            if more then
                call('RPUSH', key, more)
            end
            call('PEXPIRE', key, expiry)
        end
    end

    local function apply(permits)
        length = log and #log / SIZE or redis.pcall('LLEN', key)
        if type(length) == 'table' then
            return length
        end
        local missing = not log and length == 0
        if missing then
            log, length = write(ENTRY, 0, 0), 1
        end
        if length == 0 or length ~= floor(length) or not (log or #call('LINDEX', key, 0) == SIZE) then
            return redis.error_reply('ERR what is kept is no log')
        end

        local first = 1
        if length > 1 and entry(1) <= gone then
            first = first_above(AT, gone, 2, length)
        end
        local base = first - 1
        local _, from = entry(base)
        local last_at, to = entry(length - 1)
        local used = to - from
        if not (used >= 0 and used <= 2 ^ 53 and math.abs(last_at) <= 2 ^ 53) then
            return redis.error_reply('ERR what is kept is no log')
        end

        local stop, more, excess = length, nil, used + permits - limit
        if op == 'charge' then
            permits = math.min(permits, 2 * limit - used)
        end
        if (op == 'decide' and excess <= 0) or (op == 'charge' and permits > 0) then
            -- Where the clock has gone back, entries stay in order.
            last_at = math.max(now, last_at)
            used, more = used + permits, write(ENTRY, last_at, to + permits)
        elseif op == 'refund' then
            -- The last ones go, as they were consumed last.
            local kept = math.max(from, to - permits)
            stop = first_above(TO, kept, first, length)
            if stop < length then
                local before_at, before = entry(stop - 1)
                if before < kept then
                    last_at = entry(stop)
                    more = write(ENTRY, last_at, kept)
                else
                    last_at = before_at
                end
            end
            used = kept - from
        end
        if op == 'charge' or op == 'refund' then
            excess = used - limit
        end

        local rest = last_at + window - now
        local answer = { used, used > 0 and rest or 0 }
        if excess > 0 then
            -- So many permits have to leave the window first.
            local rank = first_above(TO, from + excess - 1, first, stop)
            answer[3] = (rank < stop and entry(rank) or last_at) + window - now
        end

        if op ~= 'peek' then
            local expiry = floor(rest / 1000) + 2
            if base > 0 or stop < length or more then
                keep(base, stop, more, expiry)
            elseif not missing and call('PTTL', key) == -1 then
                -- Somebody has taken the expiry away.
                call('PEXPIRE', key, expiry)
            end
        end
        return answer
    end

    for _, i in ipairs(others) do
        key, log = KEYS[i], call('MGET', KEYS[i])[1]
        local answer = apply(read('>d', permits, i * 8 - 7))
        if #KEYS > 1 and answer.err then
            answer = false
        end
        answers[i] = answer
    end
end

if #KEYS > 1 then
    return answers
end
return answers[1]
