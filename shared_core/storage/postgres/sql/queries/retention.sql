-- When memories leave their stages, and their fates then.

-- fragment: rules
-- The nearest policy of each kind, as r. They are read here and not in a function: on a Citus cluster,
-- a function that reads a table cannot be a part of a statement.
(SELECT DISTINCT ON (kind) * FROM (
     SELECT p.* FROM retention_policies p
     WHERE p.tenant_id IN ('/', substring(%(tenant)s::text FROM '^/[^/]+/'), %(tenant)s)
     UNION ALL
     SELECT u.* FROM unset_policies() u) every
 ORDER BY kind, length(tenant_id) DESC, updated_at DESC) r

-- fragment: rule
-- What next_stage_at() needs of a policy r.
r.fades, r.decay_rate, r.threshold, r.min_age_days, r.archive_threshold, r.archive_after_days,
r.erase_threshold, r.erase_after_days

-- name: time_written
-- After put_memories: puts those that fade in their first stage, and computes when they leave it.
INSERT INTO memory_access AS a (tenant_id, memory_id, strength, forget_at)
SELECT %(tenant)s, m.memory_id, s.strength,
       next_stage_at({rule}, 0, NULL, c.pinned_at, s.strength, m.importance,
                     memory_arousal(m.value), coalesce(c.access_count, 0),
                     greatest(m.updated_at, c.last_accessed_at), m.created_at)
FROM {addressed}
JOIN {rules} ON r.kind = m.kind
LEFT JOIN LATERAL (SELECT * FROM memory_access c
                   WHERE c.tenant_id = %(tenant)s AND c.memory_id = m.memory_id
                   OFFSET 0) c ON true
LEFT JOIN unnest(%(strong_namespaces)b::text[], %(strong_keys)b::text[], %(strengths)b::float8[])
          AS s(namespace, key, strength)
       ON s.key = m.key AND s.namespace = m.namespace
WHERE m.superseded_at IS NULL AND (r.fades OR c.stage > 0)
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
WHERE {tenant_scope} AND (m.tenant_id, m.memory_id) > (%(after_tenant)s, %(after_id)s)
ORDER BY m.tenant_id, m.memory_id LIMIT %(limit)s

-- name: due_memories
SELECT m.forget_at, m.tenant_id, m.memory_id FROM memory_access m
WHERE {tenant_scope} AND m.forget_at <= %(now)s
  AND (m.staged_at IS NULL OR m.staged_at < %(now)s)
  AND (m.forget_at, m.tenant_id, m.memory_id)
      > (%(after_at)s, %(after_tenant)s, %(after_id)s)
ORDER BY m.forget_at, m.tenant_id, m.memory_id LIMIT %(limit)s

-- name: ahead_of_server
-- How many seconds a clock is ahead of the server's.
SELECT extract(epoch FROM %(now)s::timestamptz - clock_timestamp())::float8

-- name: retimings
-- Paths whose policies changed and whose memories are not all recomputed yet.
SELECT tenant_id FROM retimings
WHERE tenant_id >= %(tenant)s AND tenant_id < %(tenant_end)s
ORDER BY tenant_id

-- name: drop_policies
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
RETURNING 1

-- fragment: archived_value
coalesce((SELECT CASE WHEN x.is_shown THEN x.value || jsonb_build_object('content', x.text)
                 ELSE x.value END
          FROM memory_archive x
          WHERE x.tenant_id = {its_tenant} AND x.memory_id = m.memory_id), m.value)
