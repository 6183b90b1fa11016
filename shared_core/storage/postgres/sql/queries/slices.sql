-- Periods of time: their memories, how many there are in each part, and where they begin.

-- fragment: between
-- Both ends are always given, so that this is one range of the index memories_in_time.
m.occurred_at >= %(begin)s::timestamptz AND m.occurred_at < %(end)s::timestamptz

-- fragment: all_memories
memories

-- fragment: of_thread
-- The memories with a turn of a thread among their sources, each looked up by its key.
(SELECT o.* FROM (SELECT DISTINCT s.memory_id FROM memory_sources s
                  WHERE s.tenant_id = %(tenant)s AND s.thread_id = %(thread_id)s) s
 CROSS JOIN LATERAL (SELECT * FROM memories o
                     WHERE o.tenant_id = %(tenant)s AND o.memory_id = s.memory_id OFFSET 0) o)

-- name: walk_index
-- Until the end of the transaction, read a page along an index. With old statistics the planner
-- expects few rows of a long period, and would fetch and sort all of them.
SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)

-- name: list_memories
-- Memories of a period, newest or oldest first.
SELECT {memory_columns}
FROM (SELECT * FROM {listed_from} m
      WHERE {one_tenant} AND {between} AND {below} AND {current} AND {filter}
        AND (%(kinds)s::text[] IS NULL OR m.kind = ANY(%(kinds)s))
      ORDER BY m.occurred_at {direction}, m.memory_id {direction}
      LIMIT %(limit)s OFFSET %(offset)s) m
ORDER BY m.occurred_at {direction}, m.memory_id {direction}

-- name: count_memories
-- The number of memories from each bound, in rising order, to the next; no row without memories.
SELECT width_bucket(m.occurred_at, %(bounds)b::timestamptz[]), count(*) FROM {listed_from} m
WHERE {one_tenant} AND {between} AND {below} AND {current} AND {filter}
  AND (%(kinds)s::text[] IS NULL OR m.kind = ANY(%(kinds)s))
GROUP BY 1

-- name: newest_memory
-- When the newest memory below a namespace occurred.
SELECT m.occurred_at FROM memories m WHERE {one_tenant} AND {below}
ORDER BY m.occurred_at DESC, m.memory_id DESC LIMIT 1

-- name: tenants
-- The next tenants with memories. Each step jumps over all rows of a tenant in the index.
WITH RECURSIVE walked(tenant_id, number) AS (
    SELECT * FROM (SELECT m.tenant_id, 1 FROM memories m
                   WHERE m.tenant_id > %(after)s AND m.tenant_id < %(tenant_end)s
                   ORDER BY m.tenant_id LIMIT 1) first
    UNION ALL
    SELECT following.tenant_id, w.number + 1
    FROM walked w
    CROSS JOIN LATERAL (SELECT m.tenant_id FROM memories m
                        WHERE m.tenant_id > w.tenant_id AND m.tenant_id < %(tenant_end)s
                        ORDER BY m.tenant_id LIMIT 1) following
    WHERE w.number < %(limit)s
)
SELECT tenant_id FROM walked

-- name: tenants_of_cluster
-- The same on a Citus cluster, which refuses the recursion: each shard reads its whole index.
SELECT DISTINCT m.tenant_id FROM memories m
WHERE m.tenant_id > %(after)s AND m.tenant_id < %(tenant_end)s
ORDER BY m.tenant_id LIMIT %(limit)s
