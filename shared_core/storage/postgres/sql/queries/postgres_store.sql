-- Reads the tables of LangGraph's PostgresStore, wherever they are on the search path. Old tables
-- lack expires_at and ttl_minutes: these names then mean the NULLs of `absent`.

-- name: store_tables
-- Whether the search path has a table store of the expected form, and one with vectors.
SELECT (SELECT count(*) = 3 FROM pg_attribute
        WHERE attrelid = to_regclass('store') AND attname IN ('prefix', 'key', 'value')
          AND NOT attisdropped),
       to_regclass('store_vectors') IS NOT NULL

-- fragment: store_below
(%(below)s::text = '' OR s.prefix = %(below)s::text OR s.prefix ^@ (%(below)s::text || '.'))

-- name: store_tally
SELECT count(*), count(*) FILTER (WHERE t.expires_at <= now())
FROM (VALUES (NULL::timestamptz)) AS absent (expires_at)
CROSS JOIN LATERAL (SELECT expires_at FROM store s WHERE {store_below}) t

-- name: store_vector_tally
-- How many items have vectors, and the dimensions of one vector.
SELECT (SELECT count(*) FROM store s
        WHERE {store_below} AND EXISTS (SELECT FROM store_vectors v
                                        WHERE v.prefix = s.prefix AND v.key = s.key)),
       (SELECT array_length(embedding::real[], 1) FROM store_vectors
        WHERE embedding IS NOT NULL LIMIT 1)

-- name: store_sizes
-- The next items in order of the primary key, with the stored bytes of their values.
SELECT s.prefix, s.key, pg_column_size(s.value)::bigint FROM store s
WHERE {filter} AND {store_below}
ORDER BY s.prefix, s.key LIMIT %(limit)s

-- name: store_sizes_with_vectors
-- As store_sizes, with vectors: read as numbers they take eight times their stored bytes.
SELECT s.prefix, s.key,
       pg_column_size(s.value) + 8 * coalesce((
           SELECT sum(pg_column_size(v.embedding)) FROM store_vectors v
           WHERE v.prefix = s.prefix AND v.key = s.key), 0)::bigint
FROM store s
WHERE {filter} AND {store_below}
ORDER BY s.prefix, s.key LIMIT %(limit)s

-- name: store_page
-- Some items, in order of the primary key.
SELECT i.* FROM (VALUES (NULL::timestamptz, NULL::integer)) AS absent (expires_at, ttl_minutes)
CROSS JOIN LATERAL (
    SELECT s.prefix, s.key, s.value::text, coalesce(s.created_at, s.updated_at, now()),
           coalesce(s.updated_at, s.created_at, now()), expires_at, ttl_minutes
    FROM unnest(%(prefixes)s::text[], %(keys)s::text[]) AS g(prefix, key)
    JOIN store s USING (prefix, key)
) i
ORDER BY i.prefix, i.key

-- name: store_fields
-- The fields that have vectors, of some items.
SELECT v.prefix, v.key, v.field_name, NULL
FROM unnest(%(prefixes)s::text[], %(keys)s::text[]) AS g(prefix, key)
JOIN store_vectors v USING (prefix, key)
WHERE v.embedding IS NOT NULL

-- name: store_vectors
-- The vectors of some items, by field.
SELECT v.prefix, v.key, v.field_name, v.embedding::real[]
FROM unnest(%(prefixes)s::text[], %(keys)s::text[]) AS g(prefix, key)
JOIN store_vectors v USING (prefix, key)
WHERE v.embedding IS NOT NULL
