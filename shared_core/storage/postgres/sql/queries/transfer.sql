-- All rows of a user or an application as lines of JSON, and back. {table}, {columns} and the keys
-- are quoted names of the catalogue.

-- name: plain_values
-- Fixes the text form of values whatever the server's settings, so that two exports of the same rows
-- are equal.
SELECT set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO, YMD', true),
       set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true)

-- name: table_shapes
-- The columns of tables, and those of their primary keys in order.
SELECT g.name, columns.names, keys.names
FROM unnest(%(tables)s::text[]) AS g(name)
CROSS JOIN LATERAL (
    SELECT array_agg(a.attname::text ORDER BY a.attnum) AS names FROM pg_attribute a
    WHERE a.attrelid = to_regclass(g.name) AND a.attnum > 0 AND NOT a.attisdropped) columns
CROSS JOIN LATERAL (
    SELECT array_agg(a.attname::text ORDER BY k.place) AS names
    FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE i.indrelid = to_regclass(g.name) AND i.indisprimary) keys

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
WHERE {tenant_range} ORDER BY {key}

-- name: export_embedded
-- The fields with vectors of the active model.
SELECT json_build_object('tenant_id', m.tenant_id, 'memory_id', m.memory_id, 'field', m.field)::text
FROM embeddings m JOIN embedding_models a ON a.model = m.model AND a.active
WHERE {tenant_range} ORDER BY m.tenant_id, m.memory_id, m.field

-- name: export_vectors
SELECT json_build_object('tenant_id', m.tenant_id, 'memory_id', m.memory_id, 'field', m.field,
                         'embedding', m.embedding)::text
FROM embeddings m JOIN embedding_models a ON a.model = m.model AND a.active
WHERE {tenant_range} ORDER BY m.tenant_id, m.memory_id, m.field

-- fragment: given_rows
(SELECT r.* FROM unnest(%(rows)b::text[]) AS line(text)
 CROSS JOIN LATERAL json_populate_record(NULL::{table}, line.text::json -> 'row') r)

-- name: restore_turns
-- Deletes the tombstones of the given turns.
DELETE FROM tombstones t USING {given_rows} g
WHERE t.tenant_id = g.tenant_id AND t.thread_id = g.thread_id AND t.event_id = g.event_id
  AND g.memory_seq IS NOT NULL

-- name: require_unforgotten
SELECT require(NOT EXISTS (
    SELECT FROM {given_rows} g
    JOIN tombstones t ON t.tenant_id = g.tenant_id AND t.thread_id = g.thread_id
                     AND t.event_id = g.event_id
    WHERE g.memory_seq IS NOT NULL),
    'this turn was forgotten here: import it with restore (--restore) to bring such turns back')

-- name: require_unerased_sessions
SELECT require(NOT EXISTS (
    SELECT FROM {given_rows} g
    JOIN tombstones t ON t.tenant_id = g.tenant_id AND t.thread_id = g.thread_id
    WHERE NOT EXISTS (SELECT FROM conversations c
                      WHERE c.tenant_id = g.tenant_id AND c.thread_id = g.thread_id)),
    'this session was erased here: import it with restore (--restore) to bring such sessions back')

-- name: import_rows
-- Writes the missing rows and counts them.
WITH written AS (
    INSERT INTO {table} ({columns}) SELECT {columns} FROM {given_rows} g
    ON CONFLICT DO NOTHING RETURNING 1
)
SELECT count(*) FROM written

-- name: count_on_threads
-- Lets existing threads number their turns behind the given ones. What they have read and summarised
-- stays where it is, so that no unread turn is skipped.
UPDATE threads t
SET last_seq = greatest(t.last_seq, g.last_seq),
    last_memory_seq = greatest(t.last_memory_seq, g.last_memory_seq),
    unread_bytes = CASE WHEN g.last_memory_seq > t.last_memory_seq
                        THEN greatest(t.unread_bytes, g.unread_bytes) ELSE t.unread_bytes END,
    updated_at = greatest(t.updated_at, g.updated_at)
FROM {given_rows} g
WHERE t.tenant_id = g.tenant_id AND t.thread_id = g.thread_id
  AND (g.last_seq > t.last_seq OR g.last_memory_seq > t.last_memory_seq)

-- name: count_on_events
-- Lets the threads of events number their turns behind them, whatever the lines of the threads said.
UPDATE threads t
SET last_seq = greatest(t.last_seq, g.last_seq),
    last_memory_seq = greatest(t.last_memory_seq, g.last_memory_seq)
FROM (SELECT r.tenant_id, r.thread_id, max(r.seq) AS last_seq, max(r.memory_seq) AS last_memory_seq
      FROM {given_rows} r GROUP BY r.tenant_id, r.thread_id) g
WHERE t.tenant_id = g.tenant_id AND t.thread_id = g.thread_id
  AND (g.last_seq > t.last_seq OR g.last_memory_seq > t.last_memory_seq)

-- name: require_rows
-- Undoes the transaction if another row has kept one of the given rows out.
SELECT require(bool_and(EXISTS (SELECT FROM {table} t WHERE ({here_key}) = ({given_key}))),
    'something else has its place here: export and forget that first, or import into another schema')
FROM {given_rows} g

-- name: import_ended
-- Writes conversations that are active in the export as ended ones, if another conversation of the
-- user is active here; their consolidation is enqueued afterwards. An empty conversation has nothing
-- to wait for.
WITH written AS (
    INSERT INTO {table} ({columns}) SELECT {columns} FROM (
        SELECT r.* FROM {given_rows} g CROSS JOIN LATERAL jsonb_populate_record(
            NULL::{table}, to_jsonb(g) || jsonb_build_object(
                'ended_at', g.last_active_at,
                'status', CASE WHEN g.event_count > 0 THEN 'ending' ELSE 'ended' END)) r
        WHERE g.status = 'active') ended
    ON CONFLICT DO NOTHING RETURNING 1
)
SELECT count(*) FROM written

-- name: count_other_rows
-- The number of rows that were here before with other values.
SELECT count(*) FROM {given_rows} g JOIN {table} t ON ({here_key}) = ({given_key})
WHERE row_to_json(t)::text <> row_to_json(g)::text
