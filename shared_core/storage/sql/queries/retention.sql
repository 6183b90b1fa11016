-- When memories leave their stages, and what becomes of them then.

-- fragment: due_at
-- When a memory m leaves its stage, by its rule r and its counters a, which may be missing.
CASE WHEN m.superseded_at IS NULL THEN
    next_stage_at(r, coalesce(a.stage, 0), a.staged_at, a.pinned_at, a.strength, m.importance,
                  memory_arousal(m.value), coalesce(a.access_count, 0),
                  greatest(m.updated_at, a.last_accessed_at), m.created_at) END

-- fragment: timed_written
-- Ends a statement whose CTE written holds memories that were written: those that fade are in their
-- first stage, and it is known when they leave it.
INSERT INTO memory_access AS a (tenant_id, memory_id, strength, forget_at)
SELECT w.tenant_id, w.memory_id, s.strength,
       next_stage_at(r, 0, NULL, NULL, s.strength, w.importance, w.arousal, 0, w.updated_at,
                     w.created_at)
FROM written w
CROSS JOIN LATERAL retention_rule(w.tenant_id, w.kind) r
LEFT JOIN unnest(%(tenants)b::text[], %(namespaces)b::text[], %(keys)b::text[],
                 %(strengths)b::float8[]) AS s(tenant_id, namespace, key, strength)
       ON s.tenant_id = w.tenant_id AND s.namespace = w.namespace AND s.key = w.key
WHERE r.fades AND w.superseded_at IS NULL
ON CONFLICT (tenant_id, memory_id) DO UPDATE
SET stage = 0, staged_at = NULL, strength = excluded.strength,
    forget_at = (
        SELECT next_stage_at(r, 0, NULL, a.pinned_at, excluded.strength, w.importance, w.arousal,
                             a.access_count, greatest(w.updated_at, a.last_accessed_at),
                             w.created_at)
        FROM written w CROSS JOIN LATERAL retention_rule(w.tenant_id, w.kind) r
        WHERE w.tenant_id = a.tenant_id AND w.memory_id = a.memory_id)

-- name: retime_turns
-- After turns were rated: when their memories leave their stage.
UPDATE memory_access a SET forget_at = {due_at}
FROM memory_sources s
JOIN memories m USING (tenant_id, memory_id)
CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
WHERE s.tenant_id = %(tenant)s AND s.thread_id = %(thread_id)s
  AND s.event_id = ANY(%(event_ids)b::text[]) AND m.kind = 'episodic'
  AND a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id

-- name: retime_memories
-- After a policy changed: when memories of its tenants leave their stage, a page at a time in the
-- order of their ids; the last row of the page tells where the next begins.
WITH page AS MATERIALIZED (
    SELECT m.tenant_id, m.memory_id, m.kind FROM memories m
    WHERE {tenant_range} AND (m.tenant_id, m.memory_id) > (%(after_tenant)s, %(after_id)s::uuid)
    ORDER BY m.tenant_id, m.memory_id LIMIT %(limit)s
    FOR KEY SHARE OF m
), timed AS (
    INSERT INTO memory_access AS x (tenant_id, memory_id, forget_at)
    SELECT m.tenant_id, m.memory_id, {due_at}
    FROM page p
    JOIN memories m USING (tenant_id, memory_id)
    CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
    LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
    WHERE r.fades OR a.forget_at IS NOT NULL
    ON CONFLICT (tenant_id, memory_id) DO UPDATE SET forget_at = excluded.forget_at
    WHERE x.forget_at IS DISTINCT FROM excluded.forget_at
    RETURNING 1
)
SELECT tenant_id, memory_id, (SELECT count(*) FROM timed) FROM page
ORDER BY tenant_id DESC, memory_id DESC LIMIT 1

-- fragment: policy_columns
r.fades, r.decay_rate, r.threshold, r.min_age_days, r.archive_threshold, r.archive_after_days,
r.erase_threshold, r.erase_after_days, r.with_history

-- name: retention_rules
-- What holds for a tenant, an application or all: of each kind the nearest policy.
SELECT k.kind, {policy_columns}
FROM unnest(%(kinds)s::text[]) AS k(kind)
CROSS JOIN LATERAL retention_rule(%(path)s, k.kind) r

-- name: drop_policies
DELETE FROM retention_policies WHERE tenant_id = %(path)s

-- name: add_policies
INSERT INTO retention_policies (tenant_id, kind, fades, decay_rate, threshold, min_age_days,
                                archive_threshold, archive_after_days, erase_threshold,
                                erase_after_days, with_history, updated_at)
SELECT %(path)s, g.*, %(now)s
FROM unnest(%(kinds)s::text[], %(fades)s::bool[], %(decay_rate)s::float8[],
            %(threshold)s::float8[], %(min_age_days)s::float8[], %(archive_threshold)s::float8[],
            %(archive_after_days)s::float8[], %(erase_threshold)s::float8[],
            %(erase_after_days)s::float8[], %(with_history)s::bool[]) AS g

-- fragment: kept_columns
m.memory_id, m.tenant_id || substr(m.namespace, 2), m.key, m.kind, m.text,
coalesce(a.stage, 0), a.staged_at, a.pinned_at IS NOT NULL,
coalesce(a.strength, initial_strength(m.importance)), m.importance::float8,
memory_arousal(m.value), coalesce(a.access_count, 0), a.last_accessed_at,
greatest(m.updated_at, a.last_accessed_at), m.created_at, a.forget_at, {policy_columns}

-- name: kept
-- How some memories are kept.
SELECT {kept_columns}
FROM memories m
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
WHERE {one_tenant} AND m.memory_id = ANY(%(memory_ids)b::uuid[])
