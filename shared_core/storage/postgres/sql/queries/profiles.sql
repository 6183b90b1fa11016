-- Profiles: versions of the knowledge about a user or an agent, made of memories. The newest version
-- decides which memories are shown; the others serve history and rollback.

-- fragment: version_columns
p.subject_kind, p.subject_id, p.version, p.memory_id, p.event_limit, p.content_hash, p.run_id,
p.began_at, p.created_at, p.revision

-- fragment: with_entries
-- Versions (p) with their memories in order, each with its turns by basis. A version without memories
-- has one row without a memory. Forgotten memories are absent.
SELECT {version_columns}, (x.entry ->> 'id')::uuid, x.entry ->> 'role', m.value::text,
       (SELECT jsonb_agg(jsonb_build_array(s.basis, s.thread_id, s.event_id)
                         ORDER BY s.basis, s.thread_id, s.event_id)
        FROM memory_sources s WHERE s.tenant_id = m.tenant_id AND s.memory_id = m.memory_id)
FROM chosen p
LEFT JOIN LATERAL jsonb_array_elements(p.entries) WITH ORDINALITY AS x(entry, place)
    ON %(roles)s::text[] IS NULL OR x.entry ->> 'role' = ANY(%(roles)s)
LEFT JOIN LATERAL (
    -- Looked up by key: the planner cannot know how few rows there are.
    SELECT m.tenant_id, m.memory_id, m.value FROM memories m
    WHERE m.tenant_id = p.tenant_id AND m.memory_id = (x.entry ->> 'id')::uuid OFFSET 0
) m ON true
ORDER BY p.subject_kind DESC, p.version DESC, x.place

-- name: profile_by_id
-- The newest version of a profile, or the one with a number.
WITH chosen AS (
    SELECT p.* FROM profiles p
    WHERE p.tenant_id = %(tenant)s AND p.memory_id = %(memory_id)s
      AND (%(version)s::int IS NULL OR p.version = %(version)s)
    ORDER BY p.version DESC LIMIT 1
)
{with_entries}

-- name: profile_of_subject
WITH chosen AS (
    SELECT p.* FROM profiles p
    WHERE p.tenant_id = %(tenant)s AND p.subject_kind = %(subject_kind)s
      AND p.subject_id = %(subject_id)s
    ORDER BY p.version DESC LIMIT 1
)
{with_entries}

-- name: profiles_to_show
-- The profile of the user and that of the agent at a moment. Of several agents the one named like the
-- application is used, else the one that changed last.
WITH newest AS (
    SELECT DISTINCT ON (p.subject_kind, p.subject_id) p.* FROM profiles p
    WHERE p.tenant_id = %(tenant)s
      AND (%(known)s::timestamptz IS NULL OR p.created_at <= %(known)s)
    ORDER BY p.subject_kind, p.subject_id, p.version DESC
), chosen AS (
    SELECT DISTINCT ON (n.subject_kind) n.* FROM newest n
    ORDER BY n.subject_kind, n.subject_id = %(app)s DESC, n.created_at DESC, n.subject_id
)
{with_entries}

-- name: profile_versions
-- The versions of a profile, newest first.
SELECT {version_columns} FROM profiles p
WHERE p.tenant_id = %(tenant)s AND p.memory_id = %(memory_id)s
ORDER BY p.version DESC LIMIT %(limit)s

-- name: profile_of_run
-- The version that a run wrote, and the newest version of the same profile.
SELECT p.memory_id, p.version, n.version, n.run_id
FROM profiles p
CROSS JOIN LATERAL (SELECT l.version, l.run_id FROM profiles l
                    WHERE l.tenant_id = p.tenant_id AND l.memory_id = p.memory_id
                    ORDER BY l.version DESC LIMIT 1) n
WHERE p.tenant_id = %(tenant)s AND p.run_id = %(run_id)s

-- name: is_profile_run
SELECT FROM runs
WHERE tenant_id = %(tenant)s AND run_id = %(run_id)s AND kind = 'profile'

-- name: require_profile_version
-- Undoes the transaction unless the newest version of the subject is the expected one of this
-- profile.
SELECT require(coalesce(
    (SELECT (p.version, p.revision, p.memory_id)
            = (%(expected)s::int, %(revision)s::int, %(memory_id)s::uuid)
     FROM profiles p
     WHERE p.tenant_id = %(tenant)s AND p.subject_kind = %(subject_kind)s
       AND p.subject_id = %(subject_id)s
     ORDER BY p.version DESC LIMIT 1),
    %(expected)s::int = 0), 'the profile was changed meanwhile')

-- name: revise_profile
-- Notes that other turns stated the newest version again.
UPDATE profiles SET revision = revision + 1
WHERE tenant_id = %(tenant)s AND subject_kind = %(subject_kind)s AND subject_id = %(subject_id)s
  AND version = %(expected)s::int

-- name: require_profile_rows
-- Undoes the transaction if a memory that it rewrites was forgotten meanwhile.
SELECT require(count(*) = cardinality(%(rewritten)b::uuid[]), 'a memory was forgotten meanwhile')
FROM memories m WHERE m.tenant_id = %(tenant)s AND m.memory_id = ANY(%(rewritten)b::uuid[])

-- name: add_profile_version
INSERT INTO profiles (tenant_id, subject_kind, subject_id, version, content_hash, run_id, created_at,
                      memory_id, entries, event_limit, began_at)
VALUES (%(tenant)s, %(subject_kind)s, %(subject_id)s, %(expected)s::int + 1, %(content_hash)s,
        %(run_id)s, %(now)s, %(memory_id)s, %(entries)s::jsonb, %(event_limit)s, %(began_at)s)

-- name: prune_profile
-- Deletes the versions before the newest %(keep)s, and memories that only they named.
WITH gone AS (
    DELETE FROM profiles p
    WHERE p.tenant_id = %(tenant)s AND p.subject_kind = %(subject_kind)s
      AND p.subject_id = %(subject_id)s AND p.version <= %(expected)s::int + 1 - %(keep)s::int
    RETURNING p.entries
), named AS MATERIALIZED (
    SELECT x.entry ->> 'id' AS id
    FROM gone CROSS JOIN LATERAL jsonb_array_elements(gone.entries) AS x(entry)
    EXCEPT
    SELECT x.entry ->> 'id'
    FROM profiles p CROSS JOIN LATERAL jsonb_array_elements(p.entries) AS x(entry)
    WHERE p.tenant_id = %(tenant)s AND p.subject_kind = %(subject_kind)s
      AND p.subject_id = %(subject_id)s AND p.version = %(expected)s::int + 1
)
DELETE FROM memories m USING named o
WHERE m.tenant_id = %(tenant)s AND m.memory_id = o.id::uuid
  AND NOT EXISTS (
    SELECT FROM profiles k
    WHERE k.tenant_id = %(tenant)s AND k.subject_kind = %(subject_kind)s
      AND k.subject_id = %(subject_id)s AND k.version > %(expected)s::int + 1 - %(keep)s::int
      AND k.entries @> jsonb_build_array(jsonb_build_object('id', o.id)))

-- name: add_profile_sources
-- Adds the turns of memories named by key, in bases; forgotten turns are skipped.
INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id, basis)
SELECT m.tenant_id, m.memory_id, g.thread_id, g.event_id, g.basis
FROM unnest(%(keys)b::text[], %(thread_ids)b::text[], %(event_ids)b::text[], %(bases)b::int[])
     AS g(key, thread_id, event_id, basis)
CROSS JOIN LATERAL (SELECT m.tenant_id, m.memory_id FROM memories m
                    WHERE m.tenant_id = %(tenant)s AND m.namespace = %(namespace)s
                      AND m.key = g.key OFFSET 0) m
ON CONFLICT DO NOTHING

-- name: drop_profile_bases
DELETE FROM memory_bases b USING memories m
WHERE m.tenant_id = %(tenant)s AND m.namespace = %(namespace)s AND m.key = %(paragraph_key)s
  AND b.tenant_id = m.tenant_id AND b.memory_id = m.memory_id

-- name: add_profile_bases
-- Makes the paragraph go with any memory it is made of.
INSERT INTO memory_bases (tenant_id, memory_id, basis_id)
SELECT m.tenant_id, m.memory_id, g.basis_id
FROM memories m CROSS JOIN unnest(%(told)b::uuid[]) AS g(basis_id)
WHERE m.tenant_id = %(tenant)s AND m.namespace = %(namespace)s AND m.key = %(paragraph_key)s
ON CONFLICT DO NOTHING

-- name: show_profile
-- Shows the memories that the newest version names, and retires the others.
UPDATE memories m
SET superseded_at = CASE WHEN m.memory_id = ANY(%(shown)b::uuid[]) OR m.key = %(paragraph_key)s
                    THEN NULL ELSE %(now)s::timestamptz END
WHERE m.tenant_id = %(tenant)s AND m.namespace = %(namespace)s
  AND (m.superseded_at IS NULL)
      <> (m.memory_id = ANY(%(shown)b::uuid[]) OR m.key = %(paragraph_key)s)

-- name: add_pipeline_log
INSERT INTO pipeline_log (tenant_id, run_id, step, stage, output, error, started_at, duration_s,
                          status, input, memory_id, thread_id)
SELECT %(tenant)s, %(run_id)s, g.step, g.stage, g.output, g.error, g.started_at, g.duration_s,
       g.status, g.input, %(memory_id)s, %(conversation_id)s
FROM unnest(%(stages)b::text[], %(outputs)s::jsonb[], %(errors)b::text[],
            %(stages_began)b::timestamptz[], %(durations)b::float8[], %(statuses)b::text[],
            %(inputs)s::jsonb[])
     WITH ORDINALITY AS g(stage, output, error, started_at, duration_s, status, input, step)

-- name: mark_turns_read
-- Notes which turns of a thread a run was given, unless it followed the thread.
UPDATE pipeline_log l SET input = l.input || jsonb_build_object('read', r.read::text)
FROM (SELECT range_agg(int8range(e.memory_seq, e.memory_seq, '[]')) AS read FROM events e
      WHERE e.tenant_id = %(tenant)s AND e.thread_id = %(conversation_id)s
        AND e.event_id = ANY(%(event_ids)b::text[]) AND e.memory_seq IS NOT NULL) r
WHERE l.tenant_id = %(tenant)s AND l.run_id = %(run_id)s AND l.step = 1
  AND r.read IS NOT NULL AND NOT l.input ? 'to_seq'

-- name: mark_all_read
-- Before a profile is deleted: keeps earlier turns out of the next profile of the same agent.
WITH earlier AS (
    DELETE FROM runs r
    WHERE r.tenant_id = %(tenant)s AND r.run_id IN (
        SELECT l.run_id FROM pipeline_log l
        WHERE l.tenant_id = %(tenant)s AND l.memory_id = %(marks_id)s)
), marking AS (
    INSERT INTO runs (tenant_id, run_id, kind, extractor, counts, started_at, finished_at, number)
    SELECT %(tenant)s, %(run_id)s, 'profile', '', '{"deleted": true}', %(now)s, %(now)s,
           (SELECT coalesce(max(number), 0) + 1 FROM runs WHERE tenant_id = %(tenant)s)
    WHERE EXISTS (SELECT FROM profiles p
                  WHERE p.tenant_id = %(tenant)s AND p.memory_id = %(memory_id)s)
    RETURNING run_id
)
INSERT INTO pipeline_log (tenant_id, run_id, step, stage, started_at, duration_s, input, memory_id,
                          thread_id)
SELECT %(tenant)s, m.run_id, row_number() OVER (), 'deletion', %(now)s, 0,
       jsonb_build_object('to_seq', t.last_memory_seq), %(marks_id)s, t.thread_id
FROM marking m CROSS JOIN threads t
WHERE t.tenant_id = %(tenant)s AND t.last_memory_seq > 0

-- name: pipeline_history
-- The stages of the runs about a profile, newest run first.
SELECT l.run_id, l.step, l.stage, l.status, l.input, l.output, l.started_at, l.duration_s, l.error,
       l.thread_id, p.version
FROM (SELECT DISTINCT ON (l.started_at, l.run_id) l.run_id, l.started_at FROM pipeline_log l
      WHERE l.tenant_id = %(tenant)s AND l.memory_id = %(memory_id)s AND l.step = 1
      ORDER BY l.started_at DESC, l.run_id DESC LIMIT %(limit)s) r
JOIN pipeline_log l ON l.tenant_id = %(tenant)s AND l.run_id = r.run_id
LEFT JOIN profiles p ON p.tenant_id = l.tenant_id AND p.run_id = l.run_id
ORDER BY r.started_at DESC, l.run_id DESC, l.step

-- name: turns_to_profile
-- The first consolidated turns of a thread that no profile of these ids has read, neither up to
-- to_seq nor in a conversation it was given (read). Undone runs count as well.
WITH known AS MATERIALIZED (
    SELECT coalesce(max((l.input ->> 'to_seq')::bigint), 0) AS to_seq,
           coalesce(range_agg((l.input ->> 'read')::int8multirange), '{}') AS read
    FROM pipeline_log l
    WHERE l.tenant_id = %(tenant)s AND l.memory_id = ANY(%(memory_ids)b::uuid[])
      AND l.thread_id = %(thread_id)s AND l.status <> 'error'
)
SELECT {event_columns} FROM events e
WHERE e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s AND {unexpired}
  AND e.memory_seq > (SELECT to_seq FROM known)
  AND NOT e.memory_seq <@ (SELECT read FROM known)
  AND e.memory_seq <= (SELECT consolidated_seq FROM threads
                       WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s)
ORDER BY e.memory_seq LIMIT %(limit)s

-- name: forgotten_turns
SELECT t.event_id FROM tombstones t
WHERE t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s
  AND t.event_id = ANY(%(event_ids)b::text[])

-- name: drop_profile
-- Deletes a profile with all its versions and memories, and the record of the runs about it.
WITH gone AS (
    DELETE FROM profiles WHERE tenant_id = %(tenant)s AND memory_id = %(memory_id)s
    RETURNING 1
), unlogged AS (
    DELETE FROM runs r
    WHERE r.tenant_id = %(tenant)s AND r.run_id IN (
        SELECT l.run_id FROM pipeline_log l
        WHERE l.tenant_id = %(tenant)s AND l.memory_id = %(memory_id)s)
), unsaid AS (
    DELETE FROM memories m
    WHERE m.tenant_id = %(tenant)s AND m.namespace = %(namespace)s AND EXISTS (SELECT FROM gone)
)
SELECT count(*) FROM gone

-- name: recent_threads
-- The threads with the newest turns, with their number of turns, summary, and the beginnings of the
-- user's last turns.
SELECT t.thread_id, n.first_at, n.last_at, n.turns,
       (SELECT m.text FROM memories m
        WHERE m.tenant_id = %(tenant)s AND m.thread_id = t.thread_id AND m.kind = 'summary'
          AND m.superseded_at IS NULL LIMIT 1),
       ARRAY(SELECT s.text FROM (
                 SELECT e.seq, left(e.text, %(characters)s::int) AS text FROM events e
                 WHERE e.tenant_id = %(tenant)s AND e.thread_id = t.thread_id
                   AND e.memory_seq IS NOT NULL AND e.role = 'user' AND e.text <> ''
                   AND (e.expires_at IS NULL OR e.expires_at > %(now)s)
                 ORDER BY e.seq DESC LIMIT %(said)s::int) s
             ORDER BY s.seq)
FROM (
    SELECT t.thread_id FROM threads t
    WHERE t.tenant_id = %(tenant)s AND EXISTS (
        SELECT FROM events e
        WHERE e.tenant_id = t.tenant_id AND e.thread_id = t.thread_id AND e.memory_seq IS NOT NULL
          AND (%(author)s::text IS NULL OR (e.role = 'agent' AND e.author = %(author)s)))
    ORDER BY t.updated_at DESC, t.thread_id
    LIMIT %(limit)s
) t
CROSS JOIN LATERAL (
    SELECT count(*) AS turns, min(e.occurred_at) AS first_at, max(e.occurred_at) AS last_at
    FROM events e
    WHERE e.tenant_id = %(tenant)s AND e.thread_id = t.thread_id AND e.memory_seq IS NOT NULL
) n
ORDER BY n.last_at DESC, t.thread_id
