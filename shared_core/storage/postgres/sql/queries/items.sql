-- name: get_items
-- Items by address, also those that faded out of listings and searches.
SELECT m.tenant_id || substr(m.namespace, 2), m.key,
       CASE WHEN m.demoted_at IS NULL THEN m.value ELSE {archived_value} END,
       m.created_at, m.updated_at, m.ttl_s
FROM {addressed}
WHERE {still_read}

-- name: list_items
-- Living items below a path, newest first.
SELECT {item_columns}, NULL
FROM memories m
WHERE {tenant_scope} AND {below} AND {listed} AND {begun} AND {filter}
ORDER BY m.updated_at DESC, m.tenant_id, m.namespace, m.key
LIMIT %(limit)s OFFSET %(offset)s

-- fragment: nearest_vector
CROSS JOIN LATERAL (
    SELECT {similarity} AS similarity
    FROM embeddings v
    WHERE v.tenant_id = {its_tenant} AND v.model = %(model)s AND v.memory_id = m.memory_id
) e

-- name: search_items
-- Living items below a path, nearest first by the nearest of their vectors; those without a vector
-- come last and fill the page. Exact. The lateral
-- aggregate walks the index of the tenant, so no plan can turn this into an approximate scan.
SELECT {item_columns}, e.similarity
FROM memories m
{nearest_vector}
WHERE {tenant_scope} AND {below} AND {listed} AND {begun} AND {filter}
ORDER BY e.similarity DESC NULLS LAST, m.updated_at DESC, m.tenant_id, m.namespace, m.key
LIMIT %(limit)s OFFSET %(offset)s

-- name: search_nearest
-- The page of search_items, from the %(most)s nearest vectors alone: fewer rows where they do not fill
-- it, or where others may be as near as the last one. "+ 0" keeps it exact: no index is in that order.
WITH nearest AS MATERIALIZED (
    SELECT m.tenant_id, m.memory_id, ({distance}) + 0 AS distance
    FROM embeddings m WHERE {tenant_scope} AND m.model = %(model)s
    ORDER BY distance LIMIT %(most)s
)
SELECT {item_columns}, {similarity}
FROM (SELECT n.tenant_id, n.memory_id, min(n.distance) AS distance
      FROM nearest n GROUP BY n.tenant_id, n.memory_id) n
CROSS JOIN LATERAL (SELECT * FROM memories m
                    WHERE {tenant_scope} AND m.tenant_id = n.tenant_id
                      AND m.memory_id = n.memory_id OFFSET 0) m
WHERE (n.distance < (SELECT max(distance) FROM nearest)
       OR (SELECT count(*) FROM nearest) < %(most)s)
  AND {below} AND {listed} AND {begun} AND {filter}
ORDER BY n.distance, m.updated_at DESC, m.tenant_id, m.namespace, m.key
LIMIT %(limit)s OFFSET %(offset)s

-- name: search_rest
-- Living items below a path except the named ones: nearest first, then those without a vector, newest
-- first. Without a model only those that hold one of the words.
SELECT {item_columns}, e.similarity
FROM memories m
{nearest_vector}
WHERE (%(model)s::text IS NOT NULL OR m.terms @@ %(any_term)s::tsquery)
  AND {tenant_scope} AND {below} AND {living} AND {begun} AND {filter}
  AND m.memory_id NOT IN (SELECT unnest(%(besides)b::uuid[]))
ORDER BY e.similarity DESC NULLS LAST, m.updated_at DESC, m.tenant_id, m.namespace, m.key
LIMIT %(limit)s OFFSET %(offset)s

-- name: list_namespaces
-- Namespaces that hold living items, cut to a depth, ordered by their labels.
SELECT path FROM (
    SELECT DISTINCT CASE WHEN cardinality(n.parts) - 2 <= %(max_depth)s THEN n.path
                    ELSE array_to_string(n.parts[:%(max_depth)s + 1], '/') || '/' END AS path
    FROM memories m
    CROSS JOIN LATERAL (SELECT m.tenant_id || substr(m.namespace, 2) AS path) p
    CROSS JOIN LATERAL (SELECT p.path, string_to_array(p.path, '/') AS parts) n
    WHERE {tenant_scope} AND {below} AND {listed}
      AND (SELECT coalesce(bool_and(n.path ~ pattern), true)
           FROM unnest(%(patterns)b::text[]) AS pattern)
) found
ORDER BY (
    SELECT array_agg(replace(replace(part, '%%2F', '/'), '%%25', '%%') COLLATE "C" ORDER BY place)
    FROM unnest(string_to_array(path, '/')) WITH ORDINALITY AS labels(part, place))
LIMIT %(limit)s OFFSET %(offset)s

-- name: extend_items
-- Restarts the time to live of items that were read; items without one are never touched.
UPDATE memories m
SET expires_at = (%(now)s::timestamptz AT TIME ZONE 'UTC' + make_interval(secs => m.ttl_s))
                 AT TIME ZONE 'UTC'
WHERE m.tenant_id = %(tenant)s
  AND m.memory_id = ANY(ARRAY(SELECT m.memory_id FROM {addressed} WHERE m.ttl_s IS NOT NULL))
  AND m.ttl_s IS NOT NULL

-- name: expired_tenants
-- Tenants with expired memories below a path, or with expired turns that are no memory.
SELECT DISTINCT found.tenant_id
FROM (SELECT m.tenant_id FROM memories m
      WHERE {tenant_scope} AND {below} AND m.expires_at <= %(now)s
      UNION ALL
      SELECT m.tenant_id FROM events m
      WHERE {tenant_scope} AND '/memories/' >= %(path)s AND '/memories/' < %(path_end)s
        AND m.expires_at <= %(now)s AND (m.memory_seq IS NOT NULL OR m.payload IS NULL)
        AND NOT EXISTS (
              SELECT FROM memory_sources s JOIN memories x USING (tenant_id, memory_id)
              WHERE s.tenant_id = m.tenant_id AND s.thread_id = m.thread_id
                AND s.event_id = m.event_id AND x.kind = 'episodic')) found
ORDER BY found.tenant_id LIMIT %(limit)s
