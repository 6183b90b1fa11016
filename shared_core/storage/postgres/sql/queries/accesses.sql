-- name: commit_without_waiting
-- Commits without waiting for the disk: a server that crashes may lose the reads of its last half
-- second, and nothing else.
SELECT set_config('synchronous_commit', 'off', true)

-- name: add_accesses
-- Counts reads, and postpones the moment at which each memory leaves its stage. Skips memories that
-- are gone or being deleted, so that a deletion never waits for a counter. One order for all, so that
-- two counting transactions never deadlock.
INSERT INTO memory_access AS a (tenant_id, memory_id, access_count, last_accessed_at, forget_at)
SELECT tenant_id, memory_id, access_count, last_accessed_at, forget_at
FROM (
    SELECT m.tenant_id, m.memory_id, g.access_count, g.last_accessed_at,
           CASE WHEN m.superseded_at IS NULL THEN
               next_stage_at(r, 0, NULL, NULL, NULL, m.importance, memory_arousal(m.value),
                             g.access_count, greatest(m.updated_at, g.last_accessed_at),
                             m.created_at) END AS forget_at
    FROM unnest(%(tenants)b::text[], %(memory_ids)b::uuid[], %(counts)b::int[],
                %(moments)b::timestamptz[])
         AS g(tenant_id, memory_id, access_count, last_accessed_at)
    JOIN memories m USING (tenant_id, memory_id)
    LEFT JOIN LATERAL retention_rule(m.tenant_id, m.kind) r ON true
    ORDER BY m.tenant_id, m.memory_id
    FOR KEY SHARE OF m SKIP LOCKED
) living
ON CONFLICT (tenant_id, memory_id) DO UPDATE
SET access_count = {counted},
    last_accessed_at = greatest(a.last_accessed_at, excluded.last_accessed_at),
    forget_at = (
        SELECT next_stage_at(r, a.stage, a.staged_at, a.pinned_at, a.strength, m.importance,
                             memory_arousal(m.value), {counted},
                             greatest(m.updated_at, a.last_accessed_at, excluded.last_accessed_at),
                             m.created_at)
        FROM memories m CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
        WHERE m.tenant_id = a.tenant_id AND m.memory_id = a.memory_id AND m.superseded_at IS NULL)

-- fragment: counted
-- A count that the column cannot hold stays at its maximum.
least(a.access_count::bigint + excluded.access_count, 2147483647)::integer
