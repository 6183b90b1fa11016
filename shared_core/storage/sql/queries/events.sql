-- name: known_event_ids
-- Which of the given turns need not be ingested: they are there, or were forgotten.
SELECT event_id FROM events
WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s AND event_id = ANY(%(event_ids)s)
UNION
SELECT event_id FROM tombstones
WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s AND event_id = ANY(%(event_ids)s)

-- name: append_events
-- Appends the turns that are new to the thread, in the given order, and remembers those that have
-- text. Known and forgotten turns are passed over. Returns the ids of the turns that were new.
WITH given AS (
    SELECT * FROM unnest(
        %(event_ids)b::text[], %(authors)b::text[], %(roles)b::text[], %(texts)b::text[],
        %(metadata)s::jsonb[], %(occurred_at)b::timestamptz[], %(memory_ids)b::uuid[],
        %(values)s::jsonb[], %(terms)b::text[], %(term_counts)b::int[]
    ) WITH ORDINALITY AS g(event_id, author, role, text, metadata, occurred_at, memory_id,
                           value, terms, term_count, position)
), fresh AS (
    SELECT * FROM given g
    WHERE NOT EXISTS (SELECT FROM events e WHERE e.tenant_id = %(tenant)s
                      AND e.thread_id = %(thread_id)s AND e.event_id = g.event_id)
      AND NOT EXISTS (SELECT FROM tombstones t WHERE t.tenant_id = %(tenant)s
                      AND t.thread_id = %(thread_id)s AND t.event_id = g.event_id)
), thread AS (
    -- Reserves the numbers; the row lock puts concurrent writers of one thread in line.
    INSERT INTO threads AS t (tenant_id, thread_id, last_seq, created_at, updated_at)
    SELECT %(tenant)s, %(thread_id)s, count(*), %(now)s, %(now)s FROM fresh
    ON CONFLICT (tenant_id, thread_id) DO UPDATE
    SET last_seq = t.last_seq + excluded.last_seq, version = t.version + 1,
        updated_at = excluded.updated_at
    WHERE excluded.last_seq > 0
    RETURNING t.last_seq
), said AS (
    INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text, metadata,
                        occurred_at, recorded_at)
    SELECT %(tenant)s, %(thread_id)s,
           thread.last_seq - count(*) OVER () + row_number() OVER (ORDER BY position),
           event_id, author, role, text, metadata, occurred_at, %(now)s
    FROM fresh CROSS JOIN thread
    ON CONFLICT (tenant_id, thread_id, event_id) DO NOTHING
    RETURNING event_id
), remembered AS (
    INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms,
                          term_count, author, thread_id, occurred_at, created_at, updated_at)
    SELECT %(tenant)s, memory_id, %(namespace)s, memory_id::text, 'episodic', text, value,
           terms::tsvector, term_count, author, %(thread_id)s, occurred_at, %(now)s, %(now)s
    FROM fresh JOIN said USING (event_id)
    WHERE memory_id IS NOT NULL
), sourced AS (
    INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id)
    SELECT %(tenant)s, memory_id, %(thread_id)s, event_id
    FROM fresh JOIN said USING (event_id)
    WHERE memory_id IS NOT NULL
)
SELECT event_id FROM said

-- name: events_to_consolidate
-- The watermark of a thread, and its turns after it, oldest first.
SELECT t.consolidated_seq, e.seq, e.event_id, e.author, e.role, e.text, e.occurred_at, e.metadata
FROM threads t
LEFT JOIN events e ON e.tenant_id = t.tenant_id AND e.thread_id = t.thread_id
                  AND e.seq > t.consolidated_seq
WHERE t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s
ORDER BY e.seq

-- name: thread_events
-- All turns of a thread, oldest first.
SELECT seq, event_id, author, role, text, occurred_at, metadata
FROM events WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s
ORDER BY seq

-- name: move_watermark
-- Moves the watermark from where the run began, or undoes the run if another one came first.
WITH moved AS (
    UPDATE threads SET consolidated_seq = %(to_seq)s
    WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s AND consolidated_seq = %(from_seq)s
    RETURNING 1
)
SELECT require(count(*) = 1, 'the thread was consolidated by another run') FROM moved

-- name: require_turns
-- Undoes the run if a turn it draws from was forgotten since the run read it.
SELECT require(count(*) = cardinality(%(event_ids)b::text[]), 'a turn was forgotten meanwhile')
FROM events
WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s
  AND event_id = ANY(%(event_ids)b::text[])
