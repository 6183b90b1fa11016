-- When memories leave their stages, and their fates then.

-- fragment: timed_written
-- Ends a statement whose CTE written holds written memories: puts those that fade in their first
-- stage, and computes when they leave it.
INSERT INTO memory_access AS a (tenant_id, memory_id, strength, forget_at)
SELECT w.tenant_id, w.memory_id, s.strength,
       next_stage_at(r, 0, NULL, c.pinned_at, s.strength, w.importance, w.arousal,
                     coalesce(c.access_count, 0), greatest(w.updated_at, c.last_accessed_at),
                     w.created_at)
FROM written w
CROSS JOIN LATERAL retention_rule(w.tenant_id, w.kind) r
LEFT JOIN memory_access c ON c.tenant_id = w.tenant_id AND c.memory_id = w.memory_id
LEFT JOIN unnest(%(strong_tenants)b::text[], %(strong_namespaces)b::text[],
                 %(strong_keys)b::text[], %(strengths)b::float8[])
          AS s(tenant_id, namespace, key, strength)
       ON s.key = w.key AND s.namespace = w.namespace AND s.tenant_id = w.tenant_id
WHERE w.superseded_at IS NULL AND (r.fades OR c.stage > 0)
ON CONFLICT (tenant_id, memory_id) DO UPDATE
SET stage = 0, staged_at = NULL, strength = excluded.strength, forget_at = excluded.forget_at

-- name: hold_policies
-- Keeps the policies of some tenants unchanged until the transaction ends: a writer of policies
-- waits.
SELECT pg_advisory_xact_lock_shared(hashtextextended(path, 1))
FROM (SELECT '/' AS path
      UNION
      SELECT unnest(ARRAY[tenant, substring(tenant FROM '^/[^/]+/')])
      FROM unnest(%(tenants)b::text[]) AS tenant) held

-- name: lock_policies
-- Waits for transactions that use the policies of a path; later ones see the policies set here.
SELECT pg_advisory_xact_lock(hashtextextended('', 1)),
       pg_advisory_xact_lock(hashtextextended(%(path)s, 1))

-- name: begin_retiming
INSERT INTO retimings (tenant_id, after_tenant, after_id)
VALUES (%(path)s, '', %(mark)s)
ON CONFLICT (tenant_id) DO UPDATE
SET after_tenant = excluded.after_tenant, after_id = excluded.after_id

-- name: by_index
-- Until the end of the transaction: has a statement read an index in its order, as far as its limit.
-- Row security, and tables that nobody analysed, make the planner expect few rows and sort them.
SELECT set_config('enable_sort', 'off', true), set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true)

-- name: memories_below
SELECT m.tenant_id, m.memory_id FROM memories m
WHERE {tenant_range} AND (m.tenant_id, m.memory_id) > (%(after_tenant)s, %(after_id)s)
ORDER BY m.tenant_id, m.memory_id LIMIT %(limit)s

-- name: due_memories
SELECT a.forget_at, a.tenant_id, a.memory_id FROM memory_access a
WHERE a.forget_at <= %(now)s AND (a.staged_at IS NULL OR a.staged_at < %(now)s)
  AND a.tenant_id >= %(tenant)s AND a.tenant_id < %(tenant_end)s
  AND (a.forget_at, a.tenant_id, a.memory_id)
      > (%(after_at)s, %(after_tenant)s, %(after_id)s)
ORDER BY a.forget_at, a.tenant_id, a.memory_id LIMIT %(limit)s

-- name: ahead_of_server
-- How many seconds a clock is ahead of the server's.
SELECT extract(epoch FROM %(now)s::timestamptz - clock_timestamp())::float8

-- name: retimings
-- Paths whose policies changed and whose memories are not all recomputed yet.
SELECT tenant_id FROM retimings
WHERE tenant_id >= %(tenant)s AND tenant_id < %(tenant_end)s
ORDER BY tenant_id

-- name: drop_policies
WITH untold AS (
    DELETE FROM retimings WHERE tenant_id = %(path)s
)
DELETE FROM retention_policies WHERE tenant_id = %(path)s

-- name: drop_policies_of
-- Deletes the policies of some kinds.
DELETE FROM retention_policies WHERE tenant_id = %(path)s AND kind = ANY(%(kinds)s::text[])

-- name: add_policies
INSERT INTO retention_policies (tenant_id, kind, fades, decay_rate, threshold, min_age_days,
                                archive_threshold, archive_after_days, erase_threshold,
                                erase_after_days, with_history, updated_at)
SELECT %(path)s, g.*, %(now)s
FROM unnest(%(kinds)s::text[], %(fades)s::bool[], %(decay_rate)s::float8[],
            %(threshold)s::float8[], %(min_age_days)s::float8[], %(archive_threshold)s::float8[],
            %(archive_after_days)s::float8[], %(erase_threshold)s::float8[],
            %(erase_after_days)s::float8[], %(with_history)s::bool[]) AS g

-- fragment: archived_value
coalesce((SELECT CASE WHEN x.is_shown THEN x.value || jsonb_build_object('content', x.text)
                 ELSE x.value END
          FROM memory_archive x
          WHERE x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id), m.value)
