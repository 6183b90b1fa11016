-- Stretches of time: what was remembered in one, how much in each part of it, and where it all begins.

-- fragment: between
-- Both ends are always given, so that it is one range of memories_in_time.
m.occurred_at >= %(begin)s::timestamptz AND m.occurred_at < %(end)s::timestamptz

-- name: walk_index
-- Makes the rest of the transaction read a page along an index: with old statistics the planner takes
-- a long stretch of time for a few rows, which it would rather fetch all and sort.
SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)

-- name: slice
-- Memories of a stretch of time, newest or oldest first.
SELECT {memory_columns} FROM memories m
WHERE {one_tenant} AND {between} AND {below} AND {current}
  AND (%(kinds)s::text[] IS NULL OR m.kind = ANY(%(kinds)s))
ORDER BY m.occurred_at {direction}, m.memory_id {direction}
LIMIT %(limit)s OFFSET %(offset)s

-- name: slice_counts
-- How many there are from each of the bounds, which rise, to the next; none where there are none.
SELECT width_bucket(m.occurred_at, %(bounds)b::timestamptz[]), count(*) FROM memories m
WHERE {one_tenant} AND {between} AND {below} AND {current}
  AND (%(kinds)s::text[] IS NULL OR m.kind = ANY(%(kinds)s))
GROUP BY 1

-- name: slice_extent
-- When the first and the last memory of a stretch of time were said.
SELECT min(m.occurred_at), max(m.occurred_at) FROM memories m
WHERE {one_tenant} AND {between} AND {below} AND {current}
  AND (%(kinds)s::text[] IS NULL OR m.kind = ANY(%(kinds)s))
