-- Periods of time: their memories, how many there are in each part, and where they begin.

-- fragment: between
-- Both ends are always given, so that this is one range of the index memories_in_time.
m.occurred_at >= %(begin)s::timestamptz AND m.occurred_at < %(end)s::timestamptz

-- name: walk_index
-- Until the end of the transaction, read a page along an index. With old statistics the planner
-- expects few rows of a long period, and would fetch and sort all of them.
SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)

-- name: list_memories
-- Memories of a period, newest or oldest first.
SELECT {memory_columns} FROM memories m
WHERE {one_tenant} AND {between} AND {below} AND {current}
  AND (%(kinds)s::text[] IS NULL OR m.kind = ANY(%(kinds)s))
ORDER BY m.occurred_at {direction}, m.memory_id {direction}
LIMIT %(limit)s OFFSET %(offset)s

-- name: count_memories
-- The number of memories from each bound, in rising order, to the next; no row without memories.
SELECT width_bucket(m.occurred_at, %(bounds)b::timestamptz[]), count(*) FROM memories m
WHERE {one_tenant} AND {between} AND {below} AND {current}
  AND (%(kinds)s::text[] IS NULL OR m.kind = ANY(%(kinds)s))
GROUP BY 1
