-- A log of what was admitted in the window that ends now: one decision on one key, by the clock of the server.
--
-- KEYS[1]      the log, a list: one entry for each request that passed, the oldest first
-- ARGV[1]      decide, peek, charge or refund
-- ARGV[2]      permits
-- ARGV[3]      most permits in a window
-- ARGV[4]      the window, in microseconds
--
-- Returns how many permits are used then, and how long until none is, in microseconds. Where these do not pass also how long
-- until they do.
--
-- An entry is three numbers: the microsecond in which it passed, how many permits had passed before it, and how many had
-- with it. So what is used is a difference between the last entry and the first, requests of one microsecond are two, one
-- for a million permits is one entry, and one of many entries is found by halving. Numbers of Lua are doubles, exact below
-- 2^53: microseconds are until the year 2255, and a million permits a second for as long.

local call, pack, unpack = redis.call, struct.pack, struct.unpack
local ENTRY, AT, TO = '>ddd', 1, 3

local key, op = KEYS[1], ARGV[1]
local permits, limit, window = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local gone = now - window

-- The rank of the first entry of which a number is above `value`, from rank `low` on. The numbers only grow.
local function first_above(number, value, low)
    local high = call('LLEN', key)
    while low < high do
        local middle = math.floor((low + high) / 2)
        if select(number, unpack(ENTRY, call('LINDEX', key, middle))) > value then
            high = middle
        else
            low = middle + 1
        end
    end
    return low
end

-- What has left the window is trimmed before anything is counted. Mostly that is one entry, or none, since the last request.
-- A peek only passes it over: it changes nothing.
local two = call('LRANGE', key, 0, 1)
local oldest, rank = two[1], 0
if oldest and unpack(ENTRY, oldest) <= gone then
    oldest, rank = two[2], 1
    if oldest and unpack(ENTRY, oldest) <= gone then
        rank = first_above(AT, gone, 2)
        oldest = call('LINDEX', key, rank)
    end
    if op ~= 'peek' then
        call('LTRIM', key, rank, -1)
        rank = 0
    end
end

local used, first_at, from, first_to, last_at, _, to = 0, nil, 0, 0, now, nil, 0
if oldest then
    first_at, from, first_to = unpack(ENTRY, oldest)
    last_at, _, to = unpack(ENTRY, call('LINDEX', key, -1))
    used = to - from
end

-- Where the clock has gone back, entries stay in order.
local next_at = math.max(now, last_at)

-- Most requests pass. Such a one needs nothing of what follows, not even its functions.
if op == 'decide' and used + permits <= limit then
    call('RPUSH', key, pack(ENTRY, next_at, to, to + permits))
    call('PEXPIRE', key, math.floor((next_at + window - now) / 1000) + 2)
    return { used + permits, next_at + window - now }
end

-- The log says nothing any more when its last entry has left.
local function expire()
    call('PEXPIRE', key, math.floor((last_at + window - now) / 1000) + 2)
end

-- Somebody may have taken the expiry away.
local function repair()
    if oldest and call('PTTL', key) == -1 then
        expire()
    end
end

local function answer()
    return { used, used > 0 and last_at + window - now or 0 }
end

-- So many permits have to leave the window first.
local function refuse(excess)
    local at = first_at
    if first_to - from < excess then
        at = unpack(ENTRY, call('LINDEX', key, first_above(TO, from + excess - 1, rank)))
    end
    return { used, last_at + window - now, at + window - now }
end

if op == 'decide' or op == 'peek' then
    local excess = used + permits - limit
    if excess <= 0 then
        return answer()
    end
    if op == 'decide' then
        repair()
    end
    return refuse(excess)
end

if op == 'charge' then
    permits = math.min(permits, 2 * limit - used)
    if permits > 0 then
        last_at = next_at
        call('RPUSH', key, pack(ENTRY, last_at, to, to + permits))
        expire()
        used = used + permits
        if not oldest then
            first_at, from, first_to = last_at, 0, permits
        end
    else
        repair()
    end
else
    -- The last ones go, as they were consumed last.
    permits = math.min(permits, used)
    if permits > 0 then
        local kept = to - permits
        local cut = first_above(TO, kept, 0)
        local cut_at, cut_from = unpack(ENTRY, call('LINDEX', key, cut))
        if cut_from < kept then
            call('LSET', key, cut, pack(ENTRY, cut_at, cut_from, kept))
            cut = cut + 1
        end
        if cut == 0 then
            call('DEL', key)
        else
            call('LTRIM', key, 0, cut - 1)
            last_at = unpack(ENTRY, call('LINDEX', key, -1))
            -- Where one is left, it may be the one that was cut.
            first_at, from, first_to = unpack(ENTRY, call('LINDEX', key, 0))
        end
        used = used - permits
    end
    repair()
end

-- The log as it is after it was corrected.
if used > limit then
    return refuse(used - limit)
end
return answer()
