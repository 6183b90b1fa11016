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

-- Appending an event to a session log: hold_log, log_event, require_logged if states are shared,
-- move_log and share_state, in one message. They are several statements for the same reason as those
-- of append_turns.

-- name: hold_log
-- Makes concurrent writers of one log wait; returns its version, and no row if it is not open.
SELECT version FROM threads
WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s AND session_started_at IS NOT NULL
FOR NO KEY UPDATE

-- name: log_event
-- Appends an event, if the writer has seen all events: if it knows the version, the last event, or the
-- time of the last change. The counter of the log does not know it yet. A turn that memory knew
-- before the session was logged here takes its place in the log.
INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text, occurred_at,
                    recorded_at, payload)
SELECT t.tenant_id, t.thread_id, t.last_seq + 1, %(event_id)s, %(author)s, %(role)s, %(text)s,
       %(occurred_at)s, %(now)s, %(payload)s::json
FROM threads t
WHERE t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s AND t.session_started_at IS NOT NULL
  AND CASE WHEN %(version)s::bigint IS NOT NULL THEN t.version = %(version)s
      ELSE t.session_updated_at <= %(seen_at)s
           OR t.last_event_id IS NOT DISTINCT FROM %(seen_event)s END
  AND NOT EXISTS (SELECT FROM events e
                  WHERE e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s
                    AND e.event_id = %(event_id)s AND e.payload IS NOT NULL)
ON CONFLICT (tenant_id, thread_id, event_id) DO UPDATE
SET payload = excluded.payload, seq = excluded.seq

-- name: require_logged
-- Undoes a message that must not share states: log_event appended nothing.
SELECT require(count(*) > 0, 'stale')
FROM threads t
JOIN events e ON e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s
             AND e.event_id = %(event_id)s AND e.seq > t.last_seq
WHERE t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s

-- name: move_log
-- The counter, the version and the state of a log reach the appended event; returns the version.
UPDATE threads t
SET last_seq = t.last_seq + 1, version = t.version + 1, state = t.state || %(state)s::jsonb,
    session_updated_at = %(occurred_at)s, last_event_id = %(event_id)s, updated_at = %(now)s
WHERE t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s
  AND EXISTS (SELECT FROM events e
              WHERE e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s
                AND e.event_id = %(event_id)s AND e.seq > t.last_seq)
RETURNING t.version

-- name: share_state
-- Changes the state that the sessions of a user, or of an application, share.
INSERT INTO shared_state AS s (tenant_id, state, updated_at)
VALUES (%(tenant)s, %(state)s::jsonb, %(now)s)
ON CONFLICT (tenant_id) DO UPDATE
SET state = s.state || excluded.state, updated_at = excluded.updated_at

-- name: logged_event
-- Whether an event of a session log is the same as a given one.
SELECT payload::text = %(payload)s FROM events
WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s AND event_id = %(event_id)s
  AND payload IS NOT NULL
