-- A log of what was admitted in the window that ends now: one decision on one key, by the clock of the server.
--
-- KEYS[1]      the log, a sorted set: one entry for each request that passed, by the microsecond in which it did
-- ARGV[1]      decide, peek, charge or refund
-- ARGV[2]      permits
-- ARGV[3]      most permits in a window
-- ARGV[4]      the window, in microseconds
--
-- Returns whether they passed, how many permits are used then, and in microseconds: how long until none is, and how long
-- until these pass, or -1.
--
-- An entry is "first:count": how many permits had passed before it, and how many it is. So entries are unique, those of
-- one microsecond are in order by their names, what is used is a difference of two of them, and a request for a million
-- permits is one entry. Numbers of Lua are doubles, exact below 2^53: microseconds are until the year 2255, and a million
-- permits a second for as long.

local key, op = KEYS[1], ARGV[1]
local permits, limit, window = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Of the entry at a rank: permits before it, permits with it, its time.
local function entry(rank)
    local found = redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')
    if found[1] then
        local first, count = string.match(found[1], '^(%d+):(%d+)$')
        return tonumber(first), first + count, tonumber(found[2])
    end
end

-- What has left the window is trimmed before anything is counted. A peek counts what would be: it changes nothing.
local oldest = 0
local gone = string.format('%.0f', now - window)
if op == 'peek' then
    oldest = redis.call('ZCOUNT', key, '-inf', gone)
else
    redis.call('ZREMRANGEBYSCORE', key, '-inf', gone)
end

local _
local first, first_end, first_at = entry(oldest)
local used, last_end, last_at = 0, 0, now
if first then
    _, last_end, last_at = entry(-1)
    used = last_end - first
end

-- The rank of the entry with which as many permits have passed.
local function rank_of(passed)
    local low, high = oldest, redis.call('ZCARD', key) - 1
    while low < high do
        local middle = math.floor((low + high) / 2)
        local _, passed_then = entry(middle)
        if passed_then >= passed then
            high = middle
        else
            low = middle + 1
        end
    end
    return low
end

-- The log says nothing any more when its last entry has left.
local function expire(at)
    redis.call('PEXPIRE', key, string.format('%.0f', math.ceil((at + window - now) / 1000) + 1))
end

local function add(first, count, at)
    redis.call('ZADD', key, string.format('%.0f', at), string.format('%016.0f:%.0f', first, count))
    expire(at)
end

local function consume(count)
    -- Where the clock has gone back, entries stay in order.
    last_at = math.max(now, last_at)
    add(last_end, count, last_at)
    used = used + count
end

-- Somebody may have taken the expiry away.
local function repair()
    if first and redis.call('PTTL', key) == -1 then
        expire(last_at)
    end
end

local function answer(passed, wait)
    return { passed, used, used > 0 and last_at + window - now or 0, wait }
end

-- So many permits have to leave the window first.
local function refuse(excess)
    local at = first_at
    if first_end - first < excess then
        _, _, at = entry(rank_of(first + excess))
    end
    return answer(0, at + window - now)
end

if op == 'charge' then
    permits = math.min(permits, 2 * limit - used)
    if permits > 0 then
        consume(permits)
    else
        repair()
    end
elseif op == 'refund' then
    -- The last ones go, as they were consumed last.
    permits = math.min(permits, used)
    if permits > 0 then
        local kept = last_end - permits
        local rank = rank_of(kept + 1)
        local cut, _, at = entry(rank)
        redis.call('ZREMRANGEBYRANK', key, rank, -1)
        if cut < kept then
            add(cut, kept - cut, at)
        end
        used = used - permits
        if used > 0 then
            _, _, last_at = entry(-1)
            first, first_end, first_at = entry(oldest)
        end
    end
    repair()
else
    if used + permits > limit then
        if op == 'decide' then
            repair()
        end
        return refuse(used + permits - limit)
    end
    if op == 'decide' then
        consume(permits)
    end
    return answer(1, -1)
end

-- Corrected: the log as it is then.
if used > limit then
    if not first then
        first, first_end, first_at = entry(oldest)
    end
    return refuse(used - limit)
end
return answer(1, -1)
