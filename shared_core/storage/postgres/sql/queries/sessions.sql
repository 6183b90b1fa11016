-- Session logs: threads with the events of a framework and the state they leave.

-- name: shared_state
SELECT tenant_id, state FROM shared_state WHERE tenant_id = %(tenant)s

-- name: load_session
-- One snapshot of a session log: first the log itself, then its newest events, newest first.
SELECT version, session_updated_at, state, NULL FROM threads
WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s AND session_started_at IS NOT NULL
UNION ALL
SELECT * FROM (
    SELECT seq, NULL::timestamptz, NULL::jsonb, payload::text FROM events
    WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s AND payload IS NOT NULL
      AND (%(after)s::timestamptz IS NULL OR occurred_at >= %(after)s)
    ORDER BY seq DESC LIMIT %(limit)s
) newest

-- name: list_sessions
-- The session logs of a tenant or a range of tenants, last changed last.
SELECT m.tenant_id, m.thread_id, m.version, m.session_updated_at, m.state FROM threads m
WHERE {tenant_scope} AND m.session_started_at IS NOT NULL
ORDER BY m.session_updated_at, m.tenant_id, m.thread_id

-- name: list_shared_state
SELECT m.tenant_id, m.state FROM shared_state m WHERE {tenant_scope}

-- name: append_session_event
-- Appends an event to a session log with its state changes, if the writer has seen all events: if it
-- knows the version, the last event, or the time of the last change. Returns the new version or null,
-- whether the same event was there already, and the version before, null if no log is open.
WITH log AS (
    SELECT version FROM threads
    WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s AND session_started_at IS NOT NULL
), known AS (
    SELECT payload::text = %(payload)s AS same FROM events
    WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s AND event_id = %(event_id)s
      AND payload IS NOT NULL
), moved AS (
    UPDATE threads t
    SET last_seq = t.last_seq + 1, version = t.version + 1, state = t.state || %(state)s::jsonb,
        session_updated_at = %(occurred_at)s, last_event_id = %(event_id)s, updated_at = %(now)s
    WHERE t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s
      AND t.session_started_at IS NOT NULL AND NOT EXISTS (SELECT FROM known)
      AND CASE WHEN %(version)s::bigint IS NOT NULL THEN t.version = %(version)s
          ELSE t.session_updated_at <= %(seen_at)s
               OR t.last_event_id IS NOT DISTINCT FROM %(seen_event)s END
    RETURNING t.last_seq, t.version
), logged AS (
    -- A turn that memory knew before the session was logged here takes its place in the log.
    INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text, occurred_at,
                        recorded_at, payload)
    SELECT %(tenant)s, %(thread_id)s, last_seq, %(event_id)s, %(author)s, %(role)s, %(text)s,
           %(occurred_at)s, %(now)s, %(payload)s::json
    FROM moved
    ON CONFLICT (tenant_id, thread_id, event_id) DO UPDATE
    SET payload = excluded.payload, seq = excluded.seq
), shared AS (
    INSERT INTO shared_state AS s (tenant_id, state, updated_at)
    SELECT g.tenant_id, g.state, %(now)s
    FROM moved CROSS JOIN unnest(%(shared_tenants)b::text[], %(shared_states)s::jsonb[])
         AS g(tenant_id, state)
    ON CONFLICT (tenant_id) DO UPDATE
    SET state = s.state || excluded.state, updated_at = excluded.updated_at
)
SELECT (SELECT version FROM moved), (SELECT same FROM known), (SELECT version FROM log)
