-- name: get
SELECT m.namespace, m.key, m.value, m.created_at, m.updated_at
FROM memories m
WHERE m.tenant_id = %(tenant)s AND m.namespace = %(path)s AND m.key = %(key)s
  AND (m.expires_at IS NULL OR m.expires_at > now())

-- name: search
SELECT m.namespace, m.key, m.value, m.created_at, m.updated_at,
       e.embedding <=> %(embedding)s AS distance
FROM embeddings e
JOIN memories m ON m.tenant_id = e.tenant_id AND m.memory_id = e.memory_id
WHERE e.tenant_id = %(tenant)s AND e.model = %(model)s
  AND m.namespace >= %(path)s AND m.namespace < %(path_end)s
  AND m.superseded_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())
ORDER BY distance
LIMIT %(limit)s

-- name: search_everything
SELECT m.namespace, m.key, m.value, m.created_at, m.updated_at,
       e.embedding <=> %(embedding)s AS distance
FROM embeddings e
JOIN memories m ON m.tenant_id = e.tenant_id AND m.memory_id = e.memory_id
WHERE e.model = %(model)s
  AND m.superseded_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())
ORDER BY distance
LIMIT %(limit)s

-- name: put
WITH given AS (
    SELECT * FROM unnest(%(tenants)s::text[], %(ids)s::uuid[], %(paths)s::text[], %(keys)s::text[],
                         %(texts)s::text[], %(values)s::jsonb[], %(embeddings)b::halfvec[])
         AS g(tenant_id, memory_id, namespace, key, text, value, embedding)
), put AS (
    INSERT INTO by_hand.memories AS m (tenant_id, memory_id, namespace, key, kind, text, value,
                                       terms, term_count, occurred_at, created_at, updated_at)
    SELECT tenant_id, memory_id, namespace, key, 'item', text, value,
           to_tsvector('simple', text), length(to_tsvector('simple', text)), now(), now(), now()
    FROM given
    ON CONFLICT (tenant_id, namespace, key) DO UPDATE
    SET text = excluded.text, value = excluded.value, terms = excluded.terms,
        term_count = excluded.term_count, updated_at = excluded.updated_at
    RETURNING m.tenant_id, m.namespace, m.key, m.memory_id
)
INSERT INTO by_hand.embeddings AS e (tenant_id, model, memory_id, field, embedding)
SELECT p.tenant_id, %(model)s, p.memory_id, 'text', g.embedding
FROM put p JOIN given g USING (tenant_id, namespace, key)
ON CONFLICT (tenant_id, model, memory_id, field) DO UPDATE SET embedding = excluded.embedding
