-- Vectors of another model, kept beside those of the active one until it takes their place.

-- name: begin_model
-- Notes a model that is not active yet.
INSERT INTO embedding_models (model, dimensions, active, created_at)
VALUES (%(model)s, %(dimensions)s, false, %(now)s)
ON CONFLICT (model) DO UPDATE SET beside = false

-- name: model_dimensions
SELECT dimensions FROM embedding_models WHERE model = %(model)s

-- name: embedded_otherwise
-- The next fields with a vector of another model and none of this one, with their text. Only the
-- first field of a memory has its value: a file of 1 MB has hundreds of passages.
WITH next AS (
    SELECT e.tenant_id, e.memory_id, e.field FROM embeddings e
    WHERE (e.tenant_id, e.memory_id) > (%(after_tenant)s::text, %(after_memory)s::uuid)
      AND e.model <> %(model)s
      AND e.model NOT IN (SELECT b.model FROM embedding_models b WHERE b.beside)
      AND NOT EXISTS (SELECT FROM embeddings n
                      WHERE n.tenant_id = e.tenant_id AND n.model = %(model)s
                        AND n.memory_id = e.memory_id AND n.field = e.field)
    ORDER BY e.tenant_id, e.memory_id LIMIT %(limit)s
), numbered AS (
    SELECT *, row_number() OVER (PARTITION BY tenant_id, memory_id) AS place FROM next
)
SELECT n.tenant_id, n.memory_id, m.namespace, m.key, n.field, m.text,
       CASE WHEN n.place = 1 THEN m.value::text END, m.updated_at
FROM numbered n JOIN memories m USING (tenant_id, memory_id)
ORDER BY n.tenant_id, n.memory_id, n.place

-- name: retire_model
UPDATE embedding_models SET active = false WHERE active AND model <> %(model)s

-- name: activate_model
UPDATE embedding_models SET active = true WHERE model = %(model)s

-- name: drop_old_vectors
-- Deletes some vectors of other models where this model has one; returns their number by user.
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
    RETURNING e.tenant_id
)
SELECT tenant_id, count(*) FROM gone GROUP BY tenant_id ORDER BY tenant_id
