-- name: tenant_indexes
-- The approximate indexes: whether each is valid, and the comment that describes it.
SELECT c.relname, i.indisvalid, obj_description(c.oid, 'pg_class')
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass('embeddings') AND c.relname ^@ 'embeddings_near_'
ORDER BY c.relname

-- name: vectors_per_page
-- As of the last statistics; null before the first.
SELECT CASE WHEN reltuples > 0 AND relpages > 0 THEN reltuples / relpages END
FROM pg_class WHERE oid = to_regclass('embeddings')

-- name: large_tenants
-- The number of vectors of the active model by tenant, and of memories above the cutoff: of tenants
-- that a sample of the table's pages shows often, and of the named ones. Counted in the index alone.
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
-- Until the end of the transaction: an index scan continues until it has found enough. Sorting is
-- disabled, so that the nearest come from the index whatever the statistics say. Compiling would cost
-- more than the search.
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.ef_search', %(ef_search)s, true),
       set_config('hnsw.max_scan_tuples', %(max_scan)s, true),
       set_config('hnsw.scan_mem_multiplier', '8', true),
       set_config('enable_sort', 'off', true),
       set_config('jit', 'off', true)

-- fragment: first_matching
-- The first of the nearest (n) that match. OFFSET 0 leaves the planner only the primary key.
CROSS JOIN LATERAL (
    SELECT m.memory_id FROM (
        SELECT m.* FROM memories m
        WHERE m.tenant_id = {tenant_literal} AND m.memory_id = n.memory_id
        OFFSET 0) m
    WHERE {below} AND {listed} AND {begun} AND {filter}
) m
LIMIT %(candidates)s

-- name: search_items_indexed
-- As search_items, for a tenant with an index: candidates of the index in its order and memories
-- younger than the index in exact order, all ranked exactly. No row if few memories are below the
-- path: reading all of them is then less work, and complete. Tenant, model and cutoff are literals,
-- so that the planner can prove that the partial index fits (decision 9).
WITH reach AS MATERIALIZED (
    -- In the order of an index, so that only this index is read.
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
    {first_matching}
), young AS MATERIALIZED (
    SELECT m.memory_id
    FROM (
        SELECT v.memory_id FROM embeddings v
        WHERE v.tenant_id = {tenant_literal} AND v.model = {model_literal}
          AND v.memory_id > {cutoff_literal} AND (SELECT is_wide FROM reach)
        ORDER BY v.embedding <=> %(embedding)s::halfvec
    ) n
    {first_matching}
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
