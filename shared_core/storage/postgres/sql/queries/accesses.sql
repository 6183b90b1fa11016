-- name: commit_without_waiting
-- Commits without waiting for the disk: a server that crashes may lose the reads of its last half
-- second, and nothing else.
SELECT set_config('synchronous_commit', 'off', true)

-- name: add_accesses
-- Counts reads of a tenant's memories. Skips memories that are gone or being deleted, so that a
-- deletion never waits for a counter. One order for all, so that two counting transactions never
-- deadlock.
INSERT INTO memory_access AS a (tenant_id, memory_id, access_count, last_accessed_at)
SELECT tenant_id, memory_id, access_count, last_accessed_at
FROM (
    SELECT m.tenant_id, m.memory_id, g.access_count, g.last_accessed_at
    FROM unnest(%(memory_ids)b::uuid[], %(counts)b::int[], %(moments)b::timestamptz[])
         AS g(memory_id, access_count, last_accessed_at)
    JOIN memories m ON m.tenant_id = %(tenant)s AND m.memory_id = g.memory_id
                   AND m.memory_id = ANY(%(memory_ids)b::uuid[])
    ORDER BY m.memory_id
    FOR KEY SHARE OF m SKIP LOCKED
) living
ON CONFLICT (tenant_id, memory_id) DO UPDATE
SET access_count = {counted},
    last_accessed_at = greatest(a.last_accessed_at, excluded.last_accessed_at)

-- name: time_accesses
-- After add_accesses: postpones the moment at which each memory leaves its stage.
UPDATE memory_access a
SET forget_at = (
    SELECT next_stage_at({rule}, a.stage, a.staged_at, a.pinned_at, a.strength, m.importance,
                         memory_arousal(m.value), a.access_count,
                         greatest(m.updated_at, a.last_accessed_at), m.created_at)
    FROM memories m JOIN {rules} ON r.kind = m.kind
    WHERE m.tenant_id = %(tenant)s AND m.memory_id = a.memory_id AND m.superseded_at IS NULL)
WHERE a.tenant_id = %(tenant)s
  AND a.memory_id = ANY(ARRAY(
      SELECT x.memory_id FROM memory_access x
      WHERE x.tenant_id = %(tenant)s AND x.memory_id = ANY(%(memory_ids)b::uuid[])
      FOR UPDATE SKIP LOCKED))

-- fragment: counted
-- A count that the column cannot hold stays at its maximum.
least(a.access_count::bigint + excluded.access_count, 2147483647)::integer
