-- name: known_turns
-- Which of the given turns exist. Null for remembered and forgotten turns; the digest of the text for
-- turns that only a session log holds.
SELECT g.event_id, CASE WHEN t.event_id IS NULL AND e.memory_seq IS NULL AND e.payload IS NOT NULL
                   THEN sha256(convert_to(e.text, 'UTF8')) END
FROM unnest(%(event_ids)b::text[]) AS g(event_id)
LEFT JOIN events e ON e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s
                  AND e.event_id = g.event_id
LEFT JOIN tombstones t ON t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s
                      AND t.event_id = g.event_id
WHERE e.event_id IS NOT NULL OR t.event_id IS NOT NULL

-- name: begin_append
-- Comes before append_events: the turns that exclude_appends forgets are buried by the time that an
-- append looks for tombstones. Also keeps policies unchanged, as hold_policies does.
SELECT pg_advisory_xact_lock_shared(hashtextextended(path, seed))
FROM (VALUES ('/', 1), (substring(%(tenant)s FROM '^/[^/]+/'), 1), (%(tenant)s, 1),
             (%(tenant)s, 28)) AS held(path, seed)

-- name: exclude_appends
-- Appends and inputs of a tenant wait until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended(%(tenant)s, seed))
FROM (VALUES (27), (28)) AS held(seed)

-- name: append_events
-- Remembers the given turns in order and returns the ids of new ones. New turns are appended to the
-- thread. Turns of its session log are there already; given without a text, they are remembered as
-- logged. Known and forgotten turns are skipped.
WITH given AS (
    SELECT * FROM unnest(
        %(event_ids)b::text[], %(authors)b::text[], %(roles)b::text[], %(texts)b::text[],
        %(metadata)s::jsonb[], %(occurred_at)b::timestamptz[], %(importances)b::real[],
        %(expires_at)b::timestamptz[], %(memory_ids)b::uuid[], %(values)s::jsonb[],
        %(terms)b::text[], %(term_counts)b::int[], %(strengths)b::float8[]
    ) WITH ORDINALITY AS g(event_id, author, role, text, metadata, occurred_at, importance,
                           expires_at, memory_id, value, terms, term_count, strength, position)
), there AS (
    SELECT e.event_id, e.memory_seq IS NULL AND e.payload IS NOT NULL AS is_logged,
           octet_length(e.text) AS bytes
    FROM events e
    WHERE e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s
      AND e.event_id = ANY(%(event_ids)b::text[])
), fresh AS (
    SELECT g.*, e.event_id IS NOT NULL AS logged,
           coalesce(octet_length(g.text), e.bytes) AS bytes
    FROM given g LEFT JOIN there e USING (event_id)
    WHERE coalesce(e.is_logged, g.text IS NOT NULL)
      AND g.event_id NOT IN (SELECT t.event_id FROM tombstones t
                             WHERE t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s
                               AND t.event_id = ANY(%(event_ids)b::text[]))
), thread AS (
    -- Reserves the numbers; the row lock makes concurrent writers of one thread wait.
    INSERT INTO threads AS t (tenant_id, thread_id, last_seq, last_memory_seq, unread_bytes,
                              created_at, updated_at)
    SELECT %(tenant)s, %(thread_id)s, count(*) FILTER (WHERE NOT logged), count(*),
           coalesce(sum(bytes), 0), %(now)s, %(now)s
    FROM fresh
    ON CONFLICT (tenant_id, thread_id) DO UPDATE
    SET last_seq = t.last_seq + excluded.last_seq,
        last_memory_seq = t.last_memory_seq + excluded.last_memory_seq,
        unread_bytes = t.unread_bytes + excluded.unread_bytes,
        updated_at = excluded.updated_at
    WHERE excluded.last_memory_seq > 0
    RETURNING t.last_seq, t.last_memory_seq
), numbered AS (
    SELECT f.*, thread.last_seq - count(*) FILTER (WHERE NOT logged) OVER ()
                + count(*) FILTER (WHERE NOT logged) OVER (ORDER BY position) AS seq,
           thread.last_memory_seq - count(*) OVER ()
                + row_number() OVER (ORDER BY position) AS memory_seq
    FROM fresh f CROSS JOIN thread
), said AS (
    INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text, metadata,
                        occurred_at, recorded_at, memory_seq, importance, expires_at)
    SELECT %(tenant)s, %(thread_id)s, seq, event_id, author, role, text, metadata, occurred_at,
           %(now)s, memory_seq, importance, expires_at
    FROM numbered WHERE NOT logged
    ON CONFLICT (tenant_id, thread_id, event_id) DO NOTHING
    RETURNING event_id, author, role, text, occurred_at
), marked AS (
    UPDATE events e
    SET memory_seq = n.memory_seq, text = coalesce(n.text, e.text), role = n.role,
        metadata = n.metadata, importance = n.importance, expires_at = n.expires_at
    FROM numbered n
    WHERE n.logged AND e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s
      AND e.event_id = n.event_id AND e.memory_seq IS NULL
    RETURNING e.event_id, e.author, e.role, e.text, e.occurred_at
), kept AS (
    SELECT k.*, g.memory_id, g.value, g.terms, g.term_count, g.importance, g.expires_at, g.strength
    FROM (SELECT * FROM said UNION ALL SELECT * FROM marked) k JOIN given g USING (event_id)
), remembered AS (
    INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms,
                          term_count, author, role, importance, thread_id, occurred_at, created_at,
                          updated_at, expires_at)
    SELECT %(tenant)s, memory_id, %(namespace)s, memory_id::text, 'episodic', text,
           value || jsonb_build_object('content', text), terms::tsvector, term_count, author, role,
           importance, %(thread_id)s, occurred_at, %(now)s, %(now)s, expires_at
    FROM kept WHERE memory_id IS NOT NULL
    RETURNING 1
), sourced AS (
    INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id)
    SELECT %(tenant)s, memory_id, %(thread_id)s, event_id
    FROM kept WHERE memory_id IS NOT NULL
    RETURNING 1
), timed AS (
    INSERT INTO memory_access (tenant_id, memory_id, strength, forget_at)
    SELECT %(tenant)s, k.memory_id, k.strength,
           next_stage_at({rule}, 0, NULL, NULL, k.strength, k.importance, memory_arousal(k.value),
                         0, %(now)s, %(now)s)
    FROM kept k
    JOIN {rules} ON r.kind = 'episodic'
    WHERE k.memory_id IS NOT NULL AND r.fades
    RETURNING 1
)
SELECT event_id FROM kept

-- name: thread_events
-- The last remembered turns of a thread, newest first.
SELECT seq, event_id, author, role, text, occurred_at, metadata, importance, expires_at
FROM events
WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s AND memory_seq IS NOT NULL
  AND (expires_at IS NULL OR expires_at > %(now)s)
ORDER BY seq DESC LIMIT %(limit)s

-- name: thread_history
-- The last turns of a thread with text that were not forgotten, newest first.
SELECT e.seq, e.event_id, e.author, e.role, e.text, e.occurred_at, e.metadata, e.importance,
       e.expires_at
FROM events e
WHERE e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s AND e.text <> ''
  AND (e.expires_at IS NULL OR e.expires_at > %(now)s)
  AND (e.memory_seq IS NOT NULL OR NOT EXISTS (
      SELECT FROM tombstones t WHERE t.tenant_id = %(tenant)s AND t.thread_id = e.thread_id
                                 AND t.event_id = e.event_id))
  AND (%(known)s::timestamptz IS NULL OR e.recorded_at <= %(known)s)
  AND (%(valid)s::timestamptz IS NULL OR e.occurred_at <= %(valid)s)
ORDER BY e.seq DESC LIMIT %(limit)s
