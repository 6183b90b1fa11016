-- Runs: what a run reads of a thread, and the known texts like its drafts.

-- fragment: event_columns
e.memory_seq, e.event_id, e.author, e.role, e.text, e.occurred_at, e.time_zone, e.metadata,
e.importance, e.expires_at

-- fragment: unexpired
(e.expires_at IS NULL OR e.expires_at > %(now)s)

-- fragment: summary_of_thread
m.tenant_id = %(tenant)s AND m.namespace = %(namespace)s AND m.key = %(summary_key)s
AND m.kind = 'summary'

-- fragment: summed
-- The number of the last summarised turn of a thread; 0 without a summary.
(SELECT CASE WHEN EXISTS (SELECT FROM memories m WHERE {summary_of_thread} AND {living})
        THEN t.summarised_seq ELSE 0 END
 FROM threads t WHERE t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s)

-- name: read_marks
SELECT t.consolidated_seq, t.summarised_seq, {summed},
       (SELECT m.text FROM memories m WHERE {summary_of_thread} AND {living}),
       (SELECT m.run_id FROM memories m WHERE {summary_of_thread} AND {living})
FROM threads t WHERE t.tenant_id = %(tenant)s AND t.thread_id = %(thread_id)s

-- name: unread_turns
-- The first remembered turns of a thread after the last extraction.
SELECT {event_columns} FROM events e
WHERE e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s AND {unexpired}
  AND e.memory_seq > (SELECT consolidated_seq FROM threads
                      WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s)
ORDER BY e.memory_seq LIMIT %(turns)s

-- name: turns_before
-- The last turns that were extracted already, newest first.
SELECT {event_columns} FROM events e
WHERE e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s AND {unexpired}
  AND e.memory_seq <= (SELECT consolidated_seq FROM threads
                       WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s)
ORDER BY e.memory_seq DESC LIMIT %(context)s

-- name: turns_to_sum_up
SELECT {event_columns} FROM events e
WHERE e.tenant_id = %(tenant)s AND e.thread_id = %(thread_id)s AND {unexpired}
  AND e.memory_seq > {summed} - %(reread)s
ORDER BY e.memory_seq LIMIT %(replay)s

-- name: known_people
-- The people the user has named, newest first, with the turns of the first basis and their other
-- names.
SELECT p.memory_id, substr(p.slot, length('relation.') + 1), p.name, m.text, t.thread_ids,
       t.event_ids, t.told_at, t.expires_at, a.names
FROM (SELECT f.memory_id, f.slot, f.value #>> '{}' AS name, f.recorded_at,
             substr(f.key, length(f.slot) + 2) AS name_key
      FROM facts f
      WHERE f.tenant_id = %(tenant)s AND f.fact_type = 'profile'
        AND f.key >= 'relation.' AND f.key < 'relation/'
        AND f.valid_until IS NULL AND f.superseded_at IS NULL
        AND strpos(substr(f.slot, length('relation.') + 1), '.') = 0
        AND starts_with(f.key, f.slot || ':')
      ORDER BY f.recorded_at DESC, f.memory_id DESC LIMIT %(people)s) p
JOIN memories m ON m.tenant_id = %(tenant)s AND m.memory_id = p.memory_id
CROSS JOIN LATERAL (
    SELECT array_agg(s.thread_id ORDER BY s.thread_id, s.event_id) AS thread_ids,
           array_agg(s.event_id ORDER BY s.thread_id, s.event_id) AS event_ids,
           max(e.occurred_at) AS told_at, min(e.expires_at) AS expires_at
    FROM memory_sources s
    JOIN events e USING (tenant_id, thread_id, event_id)
    WHERE s.tenant_id = %(tenant)s AND s.memory_id = p.memory_id
    GROUP BY s.basis
    HAVING bool_or(e.role = 'user')
       AND bool_and(e.memory_seq IS NOT NULL)
       AND (min(e.expires_at) IS NULL OR min(e.expires_at) > %(now)s)
    ORDER BY max(e.occurred_at), s.basis LIMIT 1) t
CROSS JOIN LATERAL (
    SELECT array_agg(DISTINCT n.name ORDER BY n.name) AS names
    FROM (SELECT coalesce((SELECT a.entity_key FROM entity_aliases a
                           WHERE a.tenant_id = %(tenant)s AND a.alias_key = p.name_key
                             AND a.unmerged_at IS NULL), p.name_key) AS key) r
    JOIN entity_aliases a ON a.tenant_id = %(tenant)s AND a.entity_key = r.key
                         AND a.unmerged_at IS NULL
    CROSS JOIN LATERAL (VALUES (a.alias), (a.entity)) AS n(name)) a
WHERE (m.expires_at IS NULL OR m.expires_at > %(now)s)
ORDER BY p.recorded_at DESC, p.memory_id DESC

-- name: said_texts
-- The memories with the words of each key.
SELECT g.position::int, m.memory_id, m.text, 1.0
FROM unnest(%(words_keys)b::uuid[]) WITH ORDINALITY AS g(words_key, position)
JOIN memories m ON m.tenant_id = %(tenant)s AND m.words_key = g.words_key
WHERE {below} AND {living} AND m.kind = ANY(%(kinds)b::text[])

-- name: like_texts
-- The memories of some kinds that are nearest to each of some vectors.
WITH known AS MATERIALIZED (
    SELECT m.memory_id, m.text, e.embedding
    FROM (SELECT m.memory_id, m.text FROM memories m
          WHERE {one_tenant} AND {below} AND {living} AND m.kind = ANY(%(kinds)b::text[])
          OFFSET 0) m
    CROSS JOIN LATERAL (
        SELECT e.embedding FROM embeddings e
        WHERE e.tenant_id = %(tenant)s AND e.model = %(model)s AND e.memory_id = m.memory_id
        LIMIT 1) e
)
SELECT g.position::int, k.memory_id, k.text, k.similarity
FROM unnest(%(embeddings)b::halfvec[]) WITH ORDINALITY AS g(embedding, position)
CROSS JOIN LATERAL (
    SELECT k.memory_id, k.text, 1 - (k.embedding <=> g.embedding) AS similarity FROM known k
    ORDER BY k.embedding <=> g.embedding LIMIT 3) k
