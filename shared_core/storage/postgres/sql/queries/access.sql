-- name: bind
-- Binds role, names and scope for the rest of the transaction, and nothing longer: safe behind a
-- connection pooler that hands the connection to someone else afterwards.
SELECT set_config('role', %(role)s, true),
       set_config('search_path', %(search_path)s, true),
       set_config('statement_timeout', %(statement_timeout)s, true),
       -- Arrays hide their length from the planner: it would plan every call anew, for nothing.
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('hippocampus.scope', %(scope)s, true)

-- name: active_model
SELECT model, dimensions FROM embedding_models WHERE active

-- name: drop_unused_model
-- A model that made no vector which is still there gives way to another.
DELETE FROM embedding_models m
WHERE (model, dimensions) IS DISTINCT FROM (%(model)s, %(dimensions)s)
  AND NOT EXISTS (SELECT FROM embeddings e WHERE e.model = m.model)

-- name: add_model
INSERT INTO embedding_models (model, dimensions, created_at)
VALUES (%(model)s, %(dimensions)s, %(now)s)
ON CONFLICT DO NOTHING

-- name: forget_plans
-- Every statement of this connection is planned anew, by how large the tables are now.
DISCARD PLANS
