-- Erasures: one transaction deletes everything of a user or a thread and writes the receipt.

-- name: drop_marks_of_words
-- Deletes tombstones whose id is made of the words of a turn (shared_core.core.ids.id_of_words): such
-- an id would confirm a guess of the words.
DELETE FROM tombstones
WHERE tenant_id = %(tenant)s AND (%(thread_id)s::text IS NULL OR thread_id = %(thread_id)s)
  AND event_id ^@ 'words-'

-- name: blur_profiles
-- Replaces the hash of a version that lost an entry: it too would confirm a guess.
UPDATE profiles p SET content_hash = sha256(
    %(salt)s::bytea || uuid_send(p.memory_id) || int8send(p.version::bigint))
WHERE p.tenant_id = %(tenant)s AND EXISTS (
    SELECT FROM jsonb_array_elements(p.entries) AS x(entry)
    WHERE NOT EXISTS (SELECT FROM memories m WHERE m.tenant_id = p.tenant_id
                      AND m.memory_id = (x.entry ->> 'id')::uuid))

-- name: count_before_erasing
-- Keeps the counts until the end of the transaction, for add_erasure.
SELECT set_config('hippocampus.erasing', jsonb_object_agg(n.name, n.rows)::text, true),
       set_config('hippocampus.erased_tokens', '0', true)
FROM ({rows_of_tenant}) n

-- name: erase_logs
-- Deletes session logs and threads, after their memories are forgotten and their turns marked.
WITH unsaid AS (
    DELETE FROM events
    WHERE tenant_id = %(tenant)s AND (%(thread_id)s::text IS NULL OR thread_id = %(thread_id)s)
)
DELETE FROM threads
WHERE tenant_id = %(tenant)s AND (%(thread_id)s::text IS NULL OR thread_id = %(thread_id)s)

-- name: erase_user
-- Deletes what belongs to no thread.
WITH unshared AS (
    DELETE FROM shared_state WHERE tenant_id = %(tenant)s
), unretracted AS (
    DELETE FROM retractions WHERE tenant_id = %(tenant)s
)
DELETE FROM schedules WHERE tenant_id = %(tenant)s

-- name: bind_app
-- Tokens belong to the application.
SELECT set_config('hippocampus.scope', %(app_tenant)s, true)

-- name: bind_user
SELECT set_config('hippocampus.scope', %(tenant)s, true)

-- name: erase_tokens
-- Revokes tokens for this user alone and clears their label, which may name the user. Removes the
-- user's name from all tokens. No token is left without users: null means all users.
WITH named AS (
    UPDATE api_tokens
    SET users = CASE WHEN array_remove(users, %(user)s) = '{}' THEN ARRAY[%(nobody)s]
                ELSE array_remove(users, %(user)s) END,
        label = CASE WHEN array_remove(users, %(user)s) = '{}' THEN '' ELSE label END,
        revoked_at = CASE WHEN array_remove(users, %(user)s) = '{}'
                     THEN coalesce(revoked_at, %(now)s) ELSE revoked_at END
    WHERE tenant_id = %(app_tenant)s AND %(user)s = ANY(users)
    RETURNING 1
)
SELECT set_config('hippocampus.erased_tokens', count(*)::text, true) FROM named

-- name: add_erasure
-- Writes the receipt: how many rows of each table were deleted, and how many tombstones were added.
-- Sent again after a lost answer it changes nothing. receipt_hash: as in ErasureReceipt.is_intact.
WITH counted AS (
    SELECT n.name, abs((b.before ->> n.name)::bigint - n.rows) AS rows
    FROM ({rows_of_tenant}) n
    CROSS JOIN (SELECT current_setting('hippocampus.erasing')::jsonb AS before) b
    UNION ALL SELECT 'api_tokens', current_setting('hippocampus.erased_tokens')::bigint
), told AS (
    SELECT coalesce(jsonb_object_agg(name, rows) FILTER (WHERE rows > 0), '{}') AS counts,
           string_agg(E'\n' || name || '=' || rows, '' ORDER BY name COLLATE "C")
               FILTER (WHERE rows > 0) AS lines
    FROM counted
)
INSERT INTO erasures (tenant_id, erasure_id, target, counts, receipt_hash, requested_at, completed_at)
SELECT %(tenant)s, %(erasure_id)s, jsonb_strip_nulls(jsonb_build_object('thread_id', %(thread_id)s::text)),
       counts, sha256(convert_to(concat_ws(E'\n', %(erasure_id)s::uuid::text, %(app)s::text,
           %(user)s::text, coalesce(%(thread_id)s::text, ''),
           (extract(epoch FROM %(requested_at)s::timestamptz) * 1000000)::bigint,
           (extract(epoch FROM %(now)s::timestamptz) * 1000000)::bigint)
           || coalesce(lines, ''), 'UTF8')), %(requested_at)s, %(now)s
FROM told
ON CONFLICT DO NOTHING

-- name: erasure
SELECT tenant_id, erasure_id, target, counts, receipt_hash, requested_at, completed_at
FROM erasures WHERE tenant_id = %(tenant)s AND erasure_id = %(erasure_id)s

-- name: erasures
SELECT tenant_id, erasure_id, target, counts, receipt_hash, requested_at, completed_at
FROM erasures WHERE tenant_id ^@ %(above)s
ORDER BY completed_at DESC, erasure_id DESC
