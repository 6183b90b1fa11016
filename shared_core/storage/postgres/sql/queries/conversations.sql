-- Conversations that open and end by themselves, on threads. Writers hold lock_conversation.

-- name: lock_conversation
-- Makes transactions that open, continue or end the conversation of a user wait for each other.
SELECT pg_advisory_xact_lock(hashtextextended(%(tenant)s, 27))

-- fragment: conversation_columns
c.thread_id, c.status, c.event_count, c.created_at, c.last_active_at, c.ends_at, c.ended_at

-- fragment: is_over
(c.ends_at <= %(now)s OR c.event_count >= %(max_events)s)

-- Hearing a turn: require_unheard, go_on, grow_conversation, hear_turn and context_of_turn, in one message.
-- They are several statements for the same reason as those of append_turns. What require_unheard
-- refuses is read by heard_turn.

-- fragment: active_conversation
SELECT c.*, {is_over} AS is_over, EXISTS (
    SELECT FROM events e WHERE e.tenant_id = %(tenant)s AND e.thread_id = c.thread_id
                           AND e.event_id = %(event_id)s
    UNION ALL
    SELECT FROM tombstones t WHERE t.tenant_id = %(tenant)s AND t.thread_id = c.thread_id
                               AND t.event_id = %(event_id)s) AS heard, EXISTS (
    SELECT FROM tombstones t WHERE t.tenant_id = %(tenant)s AND t.thread_id = c.thread_id
                               AND t.event_id = %(event_id)s) AS forgotten
FROM conversations c WHERE c.tenant_id = %(tenant)s AND c.status = 'active'

-- fragment: known_input
-- once: the turn of an earlier conversation with this id and text, or a forgotten one with this id.
SELECT k.thread_id, k.seq, k.seq = 0 AS forgotten FROM (
    SELECT e.thread_id, e.seq FROM events e
    WHERE e.tenant_id = %(tenant)s AND e.event_id = %(event_id)s AND e.text = %(text)s::text
      AND left(e.thread_id, 13) = 'conversation:'
    UNION ALL
    SELECT t.thread_id, 0 FROM tombstones t
    WHERE t.tenant_id = %(tenant)s AND t.event_id = %(event_id)s
      AND left(t.thread_id, 13) = 'conversation:'
) k
WHERE %(once)s
ORDER BY k.seq DESC LIMIT 1

-- name: require_unheard
-- Refuses a turn that is known, and one whose conversation is over.
SELECT require(count(*) = 0, 'heard')
FROM (SELECT a.thread_id FROM ({active_conversation}) a WHERE a.is_over OR a.heard
      UNION ALL
      SELECT n.thread_id FROM ({known_input}) n) refused

-- name: go_on
-- Counts a turn in the active conversation, or in a new one; the last turn that a conversation may
-- hold ends it.
INSERT INTO conversations AS c (tenant_id, thread_id, event_count, created_at, last_active_at,
                                ends_at)
VALUES (%(tenant)s, %(thread_id)s, 1, %(now)s, %(now)s, CASE WHEN %(max_events)s <= 1
        THEN %(now)s::timestamptz
        ELSE %(now)s::timestamptz + least(%(timeout)s::interval, %(max_duration)s::interval) END)
ON CONFLICT (tenant_id) WHERE status = 'active' DO UPDATE
SET event_count = c.event_count + 1,
    last_active_at = greatest(c.last_active_at, excluded.last_active_at),
    ends_at = CASE WHEN c.event_count + 1 >= %(max_events)s THEN %(now)s ELSE
        least(greatest(c.last_active_at, excluded.last_active_at) AT TIME ZONE 'UTC'
                  + %(timeout)s::interval,
              c.created_at AT TIME ZONE 'UTC' + %(max_duration)s::interval)
        AT TIME ZONE 'UTC' END
RETURNING {conversation_columns}

-- name: grow_conversation
-- Reserves a place in the thread of the active conversation.
INSERT INTO threads AS t (tenant_id, thread_id, last_seq, last_memory_seq, unread_bytes,
                          created_at, updated_at)
SELECT c.tenant_id, c.thread_id, 1, 1, octet_length(%(text)s::text), %(now)s, %(now)s
FROM conversations c WHERE c.tenant_id = %(tenant)s AND c.status = 'active'
ON CONFLICT (tenant_id, thread_id) DO UPDATE
SET last_seq = t.last_seq + 1, last_memory_seq = t.last_memory_seq + 1,
    unread_bytes = t.unread_bytes + excluded.unread_bytes, updated_at = excluded.updated_at

-- name: hear_turn
-- Appends a turn to the active conversation.
INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text, metadata,
                    occurred_at, time_zone, recorded_at, memory_seq, importance, expires_at)
SELECT t.tenant_id, t.thread_id, t.last_seq, %(event_id)s, %(author)s, %(role)s, %(text)s,
       %(metadata)s::jsonb, %(occurred_at)s, %(time_zone)s, %(now)s, t.last_memory_seq,
       %(importance)s::real, %(expires_at)s::timestamptz
FROM conversations c
JOIN threads t ON t.tenant_id = %(tenant)s AND t.thread_id = c.thread_id
WHERE c.tenant_id = %(tenant)s AND c.status = 'active'
RETURNING 1

-- fragment: before
(SELECT {event_columns} FROM events e
 WHERE e.tenant_id = %(tenant)s AND e.thread_id = c.thread_id AND e.event_id <> %(event_id)s
   AND (c.before_seq IS NULL OR e.seq < c.before_seq) AND {unexpired}
 ORDER BY e.seq DESC LIMIT %(context)s) before

-- name: context_of_turn
-- The turns of the active conversation before this one, newest first.
SELECT before.*
FROM (SELECT thread_id, NULL::bigint AS before_seq FROM conversations
      WHERE tenant_id = %(tenant)s AND status = 'active') c
CROSS JOIN LATERAL {before}

-- name: heard_turn
-- Why a turn was refused: whether it is stored, whether it was forgotten, and its conversation with
-- each of its turns before this one, newest first. A conversation of an earlier turn is returned as an
-- ended one. No row if the turn would not be refused any more.
WITH active AS (
    {active_conversation}
), known AS (
    SELECT n.* FROM ({known_input}) n WHERE NOT EXISTS (SELECT FROM active WHERE heard)
), shown AS (
    SELECT true AS stored, n.forgotten, n.seq AS before_seq, n.thread_id, 'ended' AS status,
           0 AS event_count, %(now)s::timestamptz AS created_at,
           %(now)s::timestamptz AS last_active_at, %(now)s::timestamptz AS ends_at,
           %(now)s::timestamptz AS ended_at
    FROM known n
    UNION ALL
    SELECT heard, forgotten, NULL, {conversation_columns}
    FROM active c WHERE heard OR is_over AND NOT EXISTS (SELECT FROM known)
)
SELECT c.stored, c.forgotten, {conversation_columns}, before.*
FROM shown c LEFT JOIN LATERAL {before} ON true

-- name: kin_of_user
-- The name of the user, and the people in given relations to the user now, newest first.
SELECT e.relation, e.object, e.object_key FROM edges e
WHERE e.tenant_id = %(tenant)s AND e.subject_key = %(user)s
  AND e.relation = ANY(%(relations)b::text[])
  AND e.valid_until IS NULL AND e.superseded_at IS NULL
ORDER BY e.valid_from DESC, e.edge_id LIMIT 20

-- name: conversations_over
-- Users whose conversation is over, across tenants, the longest overdue first.
SELECT c.tenant_id FROM conversations c
WHERE c.status = 'active' AND c.ends_at <= %(now)s
ORDER BY c.ends_at, c.tenant_id LIMIT %(limit)s

-- name: next_end
SELECT min(c.ends_at) FROM conversations c WHERE c.status = 'active'
