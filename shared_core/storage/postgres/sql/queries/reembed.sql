-- Vectors of another model, kept beside those of the active one until it takes their place.

-- name: begin_model
-- Notes a model that is not active yet.
INSERT INTO embedding_models (model, dimensions, active, created_at)
VALUES (%(model)s, %(dimensions)s, false, %(now)s) ON CONFLICT DO NOTHING

-- name: model_dimensions
SELECT dimensions FROM embedding_models WHERE model = %(model)s

-- name: embedded_otherwise
-- The next fields with a vector of another model and none of this one, with their text.
SELECT e.tenant_id, e.memory_id, e.field, m.text, m.value::text, m.updated_at
FROM embeddings e JOIN memories m USING (tenant_id, memory_id)
WHERE (e.tenant_id, e.memory_id) > (%(after_tenant)s::text, %(after_memory)s::uuid)
  AND e.model <> %(model)s
  AND NOT EXISTS (SELECT FROM embeddings n
                  WHERE n.tenant_id = e.tenant_id AND n.model = %(model)s
                    AND n.memory_id = e.memory_id AND n.field = e.field)
ORDER BY e.tenant_id, e.memory_id LIMIT %(limit)s

-- name: add_reembedded
-- Adds vectors unless the memory was rewritten since it was read: its new text needs another vector.
-- A concurrent rewrite is waited for, or waits and then deletes the vector added here.
WITH given AS (
    SELECT * FROM unnest(%(tenants)b::text[], %(memory_ids)b::uuid[], %(fields)b::text[],
                         %(updated_at)b::timestamptz[], %(embeddings)b::halfvec[])
        AS g(tenant_id, memory_id, field, updated_at, embedding)
), unchanged AS (
    SELECT m.tenant_id, m.memory_id, g.field, g.embedding
    FROM given g JOIN memories m USING (tenant_id, memory_id)
    WHERE m.updated_at = g.updated_at
    ORDER BY m.tenant_id, m.memory_id FOR SHARE OF m
), added AS (
    INSERT INTO embeddings (tenant_id, model, memory_id, field, embedding)
    SELECT tenant_id, %(model)s, memory_id, field, embedding FROM unchanged
    ON CONFLICT DO NOTHING RETURNING 1
)
SELECT count(*) FROM added

-- name: retire_model
UPDATE embedding_models SET active = false WHERE active AND model <> %(model)s

-- name: activate_model
UPDATE embedding_models SET active = true WHERE model = %(model)s

-- name: drop_old_vectors
-- Deletes some vectors of other models where this model has one, and returns how many.
WITH old AS (
    SELECT e.tenant_id, e.model, e.memory_id, e.field FROM embeddings e
    WHERE e.model <> %(model)s
      AND EXISTS (SELECT FROM embeddings n
                  WHERE n.tenant_id = e.tenant_id AND n.model = %(model)s
                    AND n.memory_id = e.memory_id AND n.field = e.field)
    LIMIT %(limit)s
), gone AS (
    DELETE FROM embeddings e USING old o
    WHERE e.tenant_id = o.tenant_id AND e.model = o.model AND e.memory_id = o.memory_id
      AND e.field = o.field
    RETURNING 1
)
SELECT count(*) FROM gone
