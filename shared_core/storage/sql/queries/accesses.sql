-- name: add_accesses
-- Counts reads. A memory that is gone is skipped, and so is one that somebody deletes right now:
-- nobody who forgets waits for a counter. In one order, so that two who count never wait in a ring.
INSERT INTO memory_access AS a (tenant_id, memory_id, access_count, last_accessed_at)
SELECT tenant_id, memory_id, access_count, last_accessed_at
FROM (
    SELECT m.tenant_id, m.memory_id, g.access_count, g.last_accessed_at
    FROM unnest(%(tenants)b::text[], %(memory_ids)b::uuid[], %(counts)b::int[],
                %(moments)b::timestamptz[])
         AS g(tenant_id, memory_id, access_count, last_accessed_at)
    JOIN memories m USING (tenant_id, memory_id)
    ORDER BY m.tenant_id, m.memory_id
    FOR KEY SHARE OF m SKIP LOCKED
) living
ON CONFLICT (tenant_id, memory_id) DO UPDATE
SET access_count = a.access_count + excluded.access_count,
    last_accessed_at = greatest(a.last_accessed_at, excluded.last_accessed_at)

-- name: accesses
-- How often some memories were read, of those that were.
SELECT memory_id, access_count, last_accessed_at FROM memory_access
WHERE tenant_id = %(tenant)s AND memory_id = ANY(%(memory_ids)b::uuid[])
  AND last_accessed_at IS NOT NULL
