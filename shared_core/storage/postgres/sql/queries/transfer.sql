-- All rows of a user or an application as lines of JSON. {table} and {key} are names of the schema.

-- name: plain_values
-- Fixes the text form of values whatever the server's settings, so that two exports of the same rows
-- are equal.
SELECT set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO, YMD', true),
       set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true)

-- name: applications
-- The first label of every tenant, from all tables that can hold the first row of a user.
SELECT DISTINCT split_part(tenant_id, '/', 2) AS label
FROM (SELECT tenant_id FROM threads UNION SELECT tenant_id FROM memories
      UNION SELECT tenant_id FROM tombstones UNION SELECT tenant_id FROM shared_state
      UNION SELECT tenant_id FROM instructions UNION SELECT tenant_id FROM import_marks
      UNION SELECT tenant_id FROM retention_policies UNION SELECT tenant_id FROM erasures
      UNION SELECT tenant_id FROM entity_aliases UNION SELECT tenant_id FROM edges) t
WHERE tenant_id <> '/' ORDER BY label

-- name: export_rows
-- The rows of a table in order of its key. Line breaks between the parts of a JSON value become
-- blanks; within a text they are escaped.
SELECT replace(row_to_json(m)::text, E'\n', ' ') FROM {table} m
WHERE {tenant_scope} ORDER BY {key}

-- name: export_vectors
-- The fields with vectors of the active model. {vector}: nothing, or what adds the vector.
SELECT json_build_object('tenant_id', m.tenant_id, 'memory_id', m.memory_id, 'field', m.field
                         {vector})::text
FROM embeddings m WHERE {tenant_scope} AND m.model = %(model)s
ORDER BY m.tenant_id, m.memory_id, m.field
