-- name: bind
-- Binds role, search path and scope until the end of the transaction only: safe behind a pooler that
-- hands the connection to another client afterwards (decision 2).
SELECT set_config('role', %(role)s, true),
       set_config('search_path', %(search_path)s, true),
       set_config('statement_timeout', %(statement_timeout)s, true),
       -- The planner does not see the length of an array, so planning every call anew gains nothing.
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('hippocampus.scope', %(scope)s, true)

-- name: deadline_of_client
-- The statement_timeout in the options of the DSN, in milliseconds; no row without one.
SELECT setting::integer FROM pg_settings WHERE name = 'statement_timeout' AND source = 'client'

-- name: active_model
SELECT model, dimensions FROM embedding_models WHERE active

-- name: drop_unused_model
-- Drops the active model, so that another one can take its place; its vectors, if there are any,
-- refuse that by their foreign key.
DELETE FROM embedding_models
WHERE active AND (model, dimensions) IS DISTINCT FROM (%(model)s, %(dimensions)s)

-- name: add_model
INSERT INTO embedding_models (model, dimensions, created_at)
VALUES (%(model)s, %(dimensions)s, %(now)s)
ON CONFLICT DO NOTHING

-- name: take_beside
-- Makes a model of a store's items the one of the database, which has none.
UPDATE embedding_models SET active = true, beside = false
WHERE model = %(model)s AND beside
  AND NOT EXISTS (SELECT FROM embedding_models a WHERE a.active)

-- name: add_model_beside
INSERT INTO embedding_models (model, dimensions, active, beside, created_at)
VALUES (%(model)s, %(dimensions)s, false, true, %(now)s)
ON CONFLICT (model) DO UPDATE SET beside = true WHERE NOT embedding_models.active

-- name: model_in_use
-- The dimensions of a model, and whether anybody uses it.
SELECT dimensions, active OR beside FROM embedding_models WHERE model = %(model)s

-- name: forget_plans
-- Lets this connection plan every statement anew, for the present size of the tables.
DISCARD PLANS
