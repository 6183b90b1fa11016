-- name: known_turns
-- Which of the given turns exist: the digest of the text, null for forgotten turns, and whether the
-- turn is remembered, or a session log alone holds it.
SELECT g.event_id,
       CASE WHEN t.event_id IS NULL THEN sha256(convert_to(e.text, 'UTF8')) END,
       e.memory_seq IS NOT NULL AND t.event_id IS NULL
FROM unnest(%(event_ids)b::text[]) AS g(event_id)
LEFT JOIN events e ON e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s
                  AND e.event_id = g.event_id
LEFT JOIN tombstones t ON t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s
                      AND t.event_id = g.event_id
WHERE e.event_id IS NOT NULL OR t.event_id IS NOT NULL

-- name: begin_append
-- Comes before append_turns: the turns that exclude_appends forgets are buried by the time that an
-- append looks for tombstones. Also keeps policies unchanged, as hold_policies does.
SELECT pg_advisory_xact_lock_shared(hashtextextended(path, seed))
FROM (VALUES ('/', 1), (substring(%(tenant)s FROM '^/[^/]+/'), 1), (%(tenant)s, 1),
             (%(tenant)s, 28)) AS held(path, seed)

-- name: exclude_appends
-- Appends and inputs of a tenant wait until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended(%(tenant)s, seed))
FROM (VALUES (27), (28)) AS held(seed)

-- Appending turns: hold_thread, append_turns, keep_turns, source_turns, time_turns and
-- count_turns, in one message. They are several statements because a Citus cluster executes an INSERT
-- within a statement apart and tells all nodes of its rows: one dead node would stop every append.

-- name: hold_thread
-- Creates a thread if it is missing, and makes concurrent writers of it wait: a row that is in the way
-- is locked and stays as it is.
INSERT INTO threads AS t (tenant_id, thread_id, last_seq, last_memory_seq, created_at, updated_at)
VALUES (%(tenant)s, %(thread_id)s, 0, 0, %(now)s, %(now)s)
ON CONFLICT (tenant_id, thread_id) DO UPDATE SET last_seq = t.last_seq WHERE false

-- name: append_turns
-- Remembers the given turns in order and returns the ids of new ones. New turns are appended to the
-- thread. Turns of its session log are there already; given without a text, they are remembered as
-- logged. Known and forgotten turns are skipped. The counters of the thread do not know them yet.
INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text, metadata, occurred_at,
                    time_zone, recorded_at, memory_seq, importance, expires_at)
SELECT t.tenant_id, t.thread_id,
       t.last_seq + count(*) FILTER (WHERE f.is_new) OVER (ORDER BY f.position), f.event_id,
       f.author, f.role, f.text, f.metadata, f.occurred_at, f.time_zone, %(now)s,
       t.last_memory_seq + row_number() OVER (ORDER BY f.position), f.importance, f.expires_at
FROM threads t CROSS JOIN (
    SELECT g.event_id, g.author, g.role, coalesce(g.text, e.text) AS text, g.metadata,
           g.occurred_at, g.time_zone, g.importance, g.expires_at, g.position, e.event_id IS NULL AS is_new
    FROM unnest(
        %(event_ids)b::text[], %(authors)b::text[], %(roles)b::text[], %(texts)b::text[],
        %(metadata)s::jsonb[], %(occurred_at)b::timestamptz[], %(time_zones)b::text[],
        %(importances)b::real[], %(expires_at)b::timestamptz[]
    ) WITH ORDINALITY AS g(event_id, author, role, text, metadata, occurred_at, time_zone,
                           importance, expires_at, position)
    LEFT JOIN LATERAL {stored_turn} ON true
    WHERE CASE WHEN e.event_id IS NULL THEN g.text IS NOT NULL
          ELSE e.memory_seq IS NULL AND e.payload IS NOT NULL END
      AND g.event_id NOT IN (SELECT t.event_id FROM tombstones t
                             WHERE t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s
                               AND t.event_id = ANY(%(event_ids)b::text[]))
) f
WHERE t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s
ON CONFLICT (tenant_id, thread_id, event_id) DO UPDATE
SET memory_seq = excluded.memory_seq, text = excluded.text, role = excluded.role,
    metadata = excluded.metadata, time_zone = excluded.time_zone,
    importance = excluded.importance, expires_at = excluded.expires_at
RETURNING event_id

-- fragment: stored_turn
-- OFFSET 0 keeps this a look-up by key for each turn: the planner would read all of the thread.
(SELECT * FROM events e
 WHERE e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s AND e.event_id = g.event_id
 OFFSET 0) e

-- fragment: appended
-- The turns of append_turns are above the counters of their thread.
CROSS JOIN LATERAL {stored_turn}
WHERE t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s AND e.memory_seq > t.last_memory_seq

-- name: keep_turns
-- Makes the appended turns memories.
INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms, term_count,
                      author, role, importance, thread_id, occurred_at, created_at, updated_at,
                      expires_at)
SELECT t.tenant_id, g.memory_id, %(namespace)s, g.memory_id::text, 'episodic', e.text,
       g.value || jsonb_build_object('content', e.text), g.terms::tsvector, g.term_count, e.author,
       e.role, e.importance, e.thread_id, e.occurred_at, %(now)s, %(now)s, e.expires_at
FROM threads t
CROSS JOIN unnest(%(event_ids)b::text[], %(memory_ids)b::uuid[], %(values)s::jsonb[],
                  %(terms)b::text[], %(term_counts)b::int[])
           AS g(event_id, memory_id, value, terms, term_count)
{appended} AND g.memory_id IS NOT NULL
RETURNING 1

-- fragment: given_memory
CROSS JOIN LATERAL (SELECT * FROM memories m
                    WHERE m.tenant_id = %(tenant)s AND m.memory_id = g.memory_id OFFSET 0) m

-- name: source_turns
-- Notes the turn of each new memory; of turns that are given again with their ids, it is noted.
INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id)
SELECT m.tenant_id, m.memory_id, %(thread_id)s, g.event_id
FROM unnest(%(memory_ids)b::uuid[], %(event_ids)b::text[]) AS g(memory_id, event_id)
{given_memory}
ON CONFLICT DO NOTHING

-- name: time_turns
-- Computes when the new memories leave their first stage.
INSERT INTO memory_access (tenant_id, memory_id, strength, forget_at)
SELECT %(tenant)s, m.memory_id, g.strength,
       next_stage_at({rule}, 0, NULL, NULL, g.strength, m.importance, memory_arousal(m.value), 0,
                     %(now)s, %(now)s)
FROM unnest(%(memory_ids)b::uuid[], %(strengths)b::float8[]) AS g(memory_id, strength)
JOIN {rules} ON r.kind = 'episodic' AND r.fades
{given_memory}
ON CONFLICT DO NOTHING

-- name: count_turns
-- The counters of the thread reach the appended turns.
UPDATE threads t
SET last_seq = greatest(t.last_seq, n.last_seq), last_memory_seq = n.last_memory_seq,
    unread_bytes = t.unread_bytes + n.bytes, updated_at = %(now)s
FROM (SELECT max(e.seq) AS last_seq, max(e.memory_seq) AS last_memory_seq,
             sum(octet_length(e.text)) AS bytes
      FROM threads t
      CROSS JOIN unnest(%(event_ids)b::text[]) AS g(event_id)
      {appended}) n
WHERE t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s AND n.last_memory_seq IS NOT NULL

-- name: thread_events
-- The last remembered turns of a thread, newest first.
SELECT seq, event_id, author, role, text, occurred_at, time_zone, metadata, importance, expires_at
FROM events
WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s AND memory_seq IS NOT NULL
  AND (expires_at IS NULL OR expires_at > %(now)s)
ORDER BY seq DESC LIMIT %(limit)s

-- name: thread_history
-- The last turns of a thread with text that were neither forgotten nor set aside, newest first.
SELECT e.seq, e.event_id, e.author, e.role, e.text, e.occurred_at, e.time_zone, e.metadata,
       e.importance, e.expires_at
FROM events e
WHERE e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s AND e.text <> ''
  AND (e.expires_at IS NULL OR e.expires_at > %(now)s)
  AND (e.memory_seq IS NOT NULL OR NOT EXISTS (
      SELECT FROM tombstones t WHERE t.tenant_id = %(tenant)s AND t.thread_id = e.thread_id
                                 AND t.event_id = e.event_id))
  AND NOT EXISTS (
      SELECT FROM memory_sources s
      CROSS JOIN LATERAL (SELECT * FROM memories m
                          WHERE m.tenant_id = %(tenant)s AND m.memory_id = s.memory_id OFFSET 0) m
      WHERE s.tenant_id = %(tenant)s AND s.thread_id = e.thread_id AND s.event_id = e.event_id
        AND m.kind = 'episodic' AND m.superseded_at <= coalesce(%(known)s::timestamptz, %(now)s)
      OFFSET 0)
  AND (%(known)s::timestamptz IS NULL OR e.recorded_at <= %(known)s)
  AND (%(valid)s::timestamptz IS NULL OR e.occurred_at <= %(valid)s)
ORDER BY e.seq DESC LIMIT %(limit)s
