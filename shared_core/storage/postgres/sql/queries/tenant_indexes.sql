-- name: tenant_indexes
-- The approximate indexes: whether each can be used, and what it says of itself.
SELECT c.relname, i.indisvalid, obj_description(c.oid, 'pg_class')
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass('embeddings') AND c.relname ^@ 'embeddings_near_'
ORDER BY c.relname

-- name: vectors_per_page
-- As of the last time statistics were taken; null before.
SELECT CASE WHEN reltuples > 0 AND relpages > 0 THEN reltuples / relpages END
FROM pg_class WHERE oid = to_regclass('embeddings')

-- name: large_tenants
-- Vectors of the active model by tenant, of tenants that a sample of the pages of the table shows
-- often and of those named; how many are of memories above the cutoff. Counted in the index alone.
WITH active AS MATERIALIZED (
    SELECT model, dimensions FROM embedding_models WHERE active
), seen AS MATERIALIZED (
    SELECT e.tenant_id FROM embeddings e TABLESAMPLE SYSTEM (%(percent)s::float8)
    WHERE e.model = (SELECT model FROM active)
    GROUP BY e.tenant_id HAVING count(*) >= %(seen)s::float8
    UNION
    SELECT unnest(%(tenants)b::text[])
)
SELECT s.tenant_id, a.model, a.dimensions, n.vectors, n.tail
FROM seen s CROSS JOIN active a
LEFT JOIN unnest(%(tenants)b::text[], %(models)b::text[], %(cutoffs)b::uuid[])
          AS known(tenant_id, model, cutoff)
       ON known.tenant_id = s.tenant_id AND known.model = a.model
CROSS JOIN LATERAL (
    SELECT count(*) AS vectors,
           count(*) FILTER (WHERE known.cutoff IS NULL OR e.memory_id > known.cutoff) AS tail
    FROM embeddings e WHERE e.tenant_id = s.tenant_id AND e.model = a.model
) n
ORDER BY n.vectors DESC, s.tenant_id

-- name: tune_index_search
-- For the rest of the transaction: the scan of an index goes on until enough is found, and sorting is
-- shunned, so that the nearest come from the index whatever the statistics say. Compiling costs more
-- than the search.
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.ef_search', %(ef_search)s, true),
       set_config('hnsw.max_scan_tuples', %(max_scan)s, true),
       set_config('hnsw.scan_mem_multiplier', '8', true),
       set_config('enable_sort', 'off', true),
       set_config('jit', 'off', true)

-- name: search_items_indexed
-- As search_items, for a tenant that has an index: candidates from the index in the order they come,
-- and from the memories younger than the index in exact order, ranked exactly. No row when few
-- memories are below the path: then reading them all is less work, and complete. Tenant, model
-- and cutoff stand here as literals, or the planner could not prove that the index fits.
WITH reach AS MATERIALIZED (
    -- In the order of an index, so that nothing but this index is read.
    SELECT CASE WHEN %(path)s = '/' THEN true ELSE (
        SELECT count(*) >= %(few)s
        FROM (SELECT FROM memories m
              WHERE m.tenant_id = {tenant_literal} AND {below}
              ORDER BY m.tenant_id, m.namespace, m.key LIMIT %(few)s) n) END AS is_wide
), old AS MATERIALIZED (
    SELECT m.memory_id
    FROM (
        SELECT v.memory_id FROM embeddings v
        WHERE v.tenant_id = {tenant_literal} AND v.model = {model_literal}
          AND v.memory_id <= {cutoff_literal} AND (SELECT is_wide FROM reach)
        ORDER BY v.embedding::halfvec({dimensions}) <=> %(embedding)s::halfvec
    ) n
    CROSS JOIN LATERAL (
        SELECT m.memory_id FROM (
            -- A fence: of these conditions only the primary key is an index.
            SELECT m.* FROM memories m
            WHERE m.tenant_id = {tenant_literal} AND m.memory_id = n.memory_id
            OFFSET 0) m
        WHERE {below} AND {living} AND {begun} AND {filter}
    ) m
    LIMIT %(candidates)s
), young AS MATERIALIZED (
    SELECT m.memory_id
    FROM (
        SELECT v.memory_id FROM embeddings v
        WHERE v.tenant_id = {tenant_literal} AND v.model = {model_literal}
          AND v.memory_id > {cutoff_literal} AND (SELECT is_wide FROM reach)
        ORDER BY v.embedding <=> %(embedding)s::halfvec
    ) n
    CROSS JOIN LATERAL (
        SELECT m.memory_id FROM (
            -- A fence: of these conditions only the primary key is an index.
            SELECT m.* FROM memories m
            WHERE m.tenant_id = {tenant_literal} AND m.memory_id = n.memory_id
            OFFSET 0) m
        WHERE {below} AND {living} AND {begun} AND {filter}
    ) m
    LIMIT %(candidates)s
)
SELECT {item_columns}, e.similarity
FROM (SELECT memory_id FROM old UNION SELECT memory_id FROM young) n
CROSS JOIN LATERAL (
    SELECT m.* FROM memories m
    WHERE m.tenant_id = {tenant_literal} AND m.memory_id = n.memory_id
    OFFSET 0
) m
CROSS JOIN LATERAL (
    SELECT 1 - min(v.embedding <=> %(embedding)s::halfvec) AS similarity
    FROM embeddings v
    WHERE v.tenant_id = {tenant_literal} AND v.model = {model_literal} AND v.memory_id = m.memory_id
) e
ORDER BY e.similarity DESC, m.updated_at DESC, m.tenant_id, m.namespace, m.key
LIMIT %(limit)s OFFSET %(offset)s
