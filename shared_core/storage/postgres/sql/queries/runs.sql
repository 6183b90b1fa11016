-- Runs: what a run reads of a thread and of known facts, what it changes, and how it is undone.

-- fragment: event_columns
e.memory_seq, e.event_id, e.author, e.role, e.text, e.occurred_at, e.metadata, e.importance,
e.expires_at

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

-- fragment: edges_looked_at
SELECT * FROM unnest(%(subjects)b::text[], %(relations)b::text[])

-- name: said_texts
-- The memories with the words of each key.
SELECT g.position::int, m.memory_id, m.text, 1.0
FROM unnest(%(words_keys)b::uuid[]) WITH ORDINALITY AS g(words_key, position)
JOIN memories m ON m.tenant_id = %(tenant)s AND m.words_key = g.words_key
WHERE {below} AND {living} AND m.kind = ANY(%(kinds)b::text[])

-- name: require_unsaid
-- Undoes the run if another run has stored the same words since this one looked.
SELECT require(count(*) = 0, 'a statement was written by another run')
FROM memories m
WHERE {one_tenant} AND m.words_key = ANY(%(words_keys)b::uuid[]) AND m.namespace = %(namespace)s
  AND {living}

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

-- name: add_run
-- Runs of a tenant are numbered behind the lock they share.
INSERT INTO runs (tenant_id, run_id, kind, thread_id, extractor, from_seq, to_seq, summed_from_seq,
                  summed_to_seq, counts, started_at, finished_at, number)
VALUES (%(tenant)s, %(run_id)s, %(kind)s, %(thread_id)s, %(extractor)s, %(from_seq)s, %(to_seq)s,
        %(summed_from)s, %(summed_to)s, %(counts)s::jsonb, %(started_at)s, %(now)s,
        (SELECT coalesce(max(number), 0) + 1 FROM runs WHERE tenant_id = %(tenant)s))

-- name: move_marks
-- Moves the marks of what a run read and summarised, or undoes the run if another one was first.
-- Turns left unread keep their share of the unread bytes.
WITH moved AS (
    UPDATE threads
    SET consolidated_seq = coalesce(%(to_seq)s::bigint, consolidated_seq),
        unread_bytes = CASE WHEN %(to_seq)s::bigint IS NULL THEN unread_bytes
            ELSE unread_bytes * greatest(0, last_memory_seq - %(to_seq)s::bigint)
                 / greatest(1, last_memory_seq - consolidated_seq) END,
        summarised_seq = coalesce(%(summed_to)s::bigint, summarised_seq)
    WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s
      AND consolidated_seq = coalesce(%(from_seq)s::bigint, consolidated_seq)
      AND summarised_seq = coalesce(%(summed_from)s::bigint, summarised_seq)
    RETURNING 1
)
SELECT require(count(*) = 1, 'the thread was consolidated by another run') FROM moved

-- name: require_memories
-- Undoes the run if a memory it draws from was forgotten after the run read it.
SELECT require(count(*) = (SELECT count(DISTINCT d) FROM unnest(%(inherited)b::uuid[]) d),
               'a memory was forgotten meanwhile')
FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY(%(inherited)b::uuid[])

-- name: require_summary
-- Undoes the run if the summary it builds on was forgotten or replaced after the run read it.
SELECT require((SELECT m.run_id FROM memories m WHERE {summary_of_thread} AND {living})
               IS NOT DISTINCT FROM %(summary_run)s::uuid, 'the summary was changed meanwhile')

-- name: note_revived
-- Notes how revived memories had faded, so that they fade again if the run is undone.
INSERT INTO run_changes (tenant_id, run_id, change, target, before)
SELECT m.tenant_id, %(run_id)s, 'revived', m.memory_id,
       jsonb_build_object('demoted_at', m.demoted_at, 'staged_at', a.staged_at,
                          'access_count', a.access_count, 'last_accessed_at', a.last_accessed_at,
                          'revived_at', %(now)s::timestamptz)
FROM memories m JOIN memory_access a USING (tenant_id, memory_id)
WHERE m.tenant_id = %(tenant)s AND m.memory_id = ANY(%(memory_ids)b::uuid[])

-- name: close_facts
-- Ends facts, or undoes the run if one of them ended or was forgotten after the run read it. A known
-- end that has not come yet moves forward.
WITH ending AS (
    SELECT f.memory_id, f.valid_until AS was, f.superseded_at,
           greatest(g.valid_until, f.valid_from) AS valid_until
    FROM unnest(%(memory_ids)b::uuid[], %(valid_until)b::timestamptz[])
         AS g(memory_id, valid_until)
    JOIN facts f ON f.tenant_id = %(tenant)s AND f.memory_id = g.memory_id
    WHERE f.valid_until IS NULL AND f.superseded_at IS NULL
       OR f.valid_until > greatest(g.valid_until, f.valid_from, %(now)s)
), closed AS (
    UPDATE facts f SET valid_until = d.valid_until, superseded_at = %(now)s FROM ending d
    WHERE f.tenant_id = %(tenant)s AND f.memory_id = d.memory_id
    RETURNING f.memory_id
), noted AS (
    {note_change} CASE WHEN was IS NULL THEN 'closed' ELSE 'moved' END, memory_id,
           CASE WHEN was IS NULL THEN '{}'::jsonb
           ELSE jsonb_build_object('valid_until', was, 'superseded_at', superseded_at) END
    FROM ending
)
SELECT require(count(*) = cardinality(%(memory_ids)b::uuid[]), 'a fact was changed by another run')
FROM closed

-- name: retire_memories
-- Takes ended facts out of recall, with the statements of the same turns that hold the ended value
-- and are no facts, unless another turn has told the statement since the end.
WITH told AS (
    SELECT DISTINCT o.memory_id FROM memory_sources s
    JOIN facts f USING (tenant_id, memory_id)
    JOIN memory_sources o ON o.tenant_id = s.tenant_id AND o.thread_id = s.thread_id
                         AND o.event_id = s.event_id
    JOIN memories m ON m.tenant_id = o.tenant_id AND m.memory_id = o.memory_id
    WHERE s.tenant_id = %(tenant)s AND s.memory_id = ANY(%(memory_ids)b::uuid[])
      AND m.kind = 'semantic'
      AND position(lower(f.value #>> '{}') IN lower(m.text)) > 0
      AND NOT EXISTS (SELECT FROM facts x
                      WHERE x.tenant_id = o.tenant_id AND x.memory_id = o.memory_id)
      AND NOT EXISTS (
          SELECT FROM memory_sources x
          JOIN events e ON e.tenant_id = x.tenant_id AND e.thread_id = x.thread_id
                       AND e.event_id = x.event_id
          WHERE x.tenant_id = o.tenant_id AND x.memory_id = o.memory_id
            AND e.occurred_at >= f.valid_until
            AND NOT EXISTS (SELECT FROM memory_sources y
                            WHERE y.tenant_id = f.tenant_id AND y.memory_id = f.memory_id
                              AND y.thread_id = x.thread_id AND y.event_id = x.event_id))
), retired AS (
    UPDATE memories m SET superseded_at = %(now)s
    WHERE m.tenant_id = %(tenant)s AND m.superseded_at IS NULL
      AND (m.memory_id = ANY(%(memory_ids)b::uuid[])
           OR m.kind = 'semantic' AND m.memory_id IN (SELECT memory_id FROM told))
    RETURNING m.memory_id, m.run_id
)
INSERT INTO run_changes (tenant_id, run_id, change, target)
SELECT %(tenant)s, %(run_id)s, 'retired', memory_id FROM retired
WHERE run_id IS DISTINCT FROM %(run_id)s

-- name: close_edges
-- Ends edges, and edges that repeat an ending fact, unless their known end has come.
WITH ending AS (
    SELECT DISTINCT ON (e.edge_id) e.edge_id, e.valid_until AS was, e.superseded_at,
           greatest(g.valid_until, e.valid_from) AS valid_until
    FROM (SELECT NULL::uuid AS memory_id, *
          FROM unnest(%(edge_ids)b::uuid[], %(edges_until)b::timestamptz[])
               AS g(edge_id, valid_until)
          UNION ALL
          SELECT g.memory_id, NULL, g.valid_until
          FROM unnest(%(memory_ids)b::uuid[], %(valid_until)b::timestamptz[])
               AS g(memory_id, valid_until)) g
    JOIN edges e ON e.tenant_id = %(tenant)s
                AND (e.edge_id = g.edge_id OR e.fact_id = g.memory_id)
    WHERE e.valid_until IS NULL AND e.superseded_at IS NULL
       OR e.valid_until > greatest(g.valid_until, e.valid_from, %(now)s)
    ORDER BY e.edge_id, g.valid_until
), closed AS (
    UPDATE edges e SET valid_until = d.valid_until, superseded_at = %(now)s FROM ending d
    WHERE e.tenant_id = %(tenant)s AND e.edge_id = d.edge_id
)
{note_change} CASE WHEN was IS NULL THEN 'edge' ELSE 'moved' END, edge_id,
       CASE WHEN was IS NULL THEN '{}'::jsonb
       ELSE jsonb_build_object('valid_until', was, 'superseded_at', superseded_at) END
FROM ending

-- name: keep_summary
-- Keeps a superseded copy of the summary of a thread, with its vectors, before the summary is
-- replaced; the last ten copies stay. The copy is linked to its thread instead of its sources. A
-- summary that expired after the run began is still kept, because the new one builds on it.
WITH current AS (
    SELECT m.* FROM memories m
    WHERE {summary_of_thread} AND m.superseded_at IS NULL
      AND m.text <> ''  -- it was not archived
      AND (m.expires_at IS NULL OR m.expires_at > %(started_at)s)
), copied AS (
    INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms, term_count,
                          author, importance, thread_id, run_id, occurred_at, created_at, updated_at,
                          expires_at, superseded_at)
    SELECT tenant_id, %(copy_id)s, namespace, key || '/' || %(copy_id)s::text, kind, text, value,
           terms, term_count, author, importance, thread_id, run_id, occurred_at, created_at,
           updated_at, expires_at, %(now)s
    FROM current
), vectors AS (
    INSERT INTO embeddings (tenant_id, model, memory_id, field, embedding)
    SELECT e.tenant_id, e.model, %(copy_id)s, e.field, e.embedding
    FROM embeddings e JOIN current c USING (tenant_id, memory_id)
), dropped AS (
    DELETE FROM memories m
    WHERE m.tenant_id = %(tenant)s AND m.memory_id IN (
        SELECT memory_id FROM memories o
        WHERE o.tenant_id = %(tenant)s AND o.thread_id = %(thread_id)s AND o.kind = 'summary'
          AND o.superseded_at IS NOT NULL
        ORDER BY o.superseded_at DESC, o.memory_id DESC OFFSET 9)
)
{note_change} 'summary', memory_id, jsonb_build_object('copy', %(copy_id)s::uuid)
FROM current

-- name: add_edges
INSERT INTO edges (tenant_id, edge_id, memory_id, fact_id, run_id, subject, relation, object,
                   subject_key, object_key, functional, confidence, valid_from, valid_until,
                   recorded_at, superseded_at)
SELECT %(tenant)s, edge_id, memory_id, fact_id, %(run_id)s, subject, relation, object,
       subject_key, object_key, functional, confidence, valid_from, valid_until,
       %(now)s, CASE WHEN valid_until IS NULL THEN NULL ELSE %(now)s END
FROM unnest(%(edge_ids)b::uuid[], %(memory_ids)b::uuid[], %(fact_ids)b::uuid[],
            %(subjects)b::text[], %(relations)b::text[], %(objects)b::text[],
            %(subject_keys)b::text[], %(object_keys)b::text[], %(functional)b::bool[],
            %(confidences)b::real[], %(valid_from)b::timestamptz[], %(valid_until)b::timestamptz[])
     AS g(edge_id, memory_id, fact_id, subject, relation, object, subject_key, object_key,
          functional, confidence, valid_from, valid_until)

-- fragment: turn_by_key
-- One look-up by the whole key. In a free join the planner walks a thread without statistics once for
-- each turn.
(SELECT e.thread_id, e.event_id, e.memory_seq FROM events e
 WHERE e.tenant_id = %(tenant)s AND e.thread_id = g.thread_id AND e.event_id = g.event_id
 OFFSET 0) e

-- fragment: with_new_bases
-- Begins a sub-select of the bases in the CTE given that are unknown; after it come the known bases.
SELECT g.target, g.run_id, g.thread_ids, g.event_ids, coalesce(k.last, 0)
       + row_number() OVER (PARTITION BY g.target ORDER BY g.basis) AS basis
FROM given g
CROSS JOIN LATERAL (
    SELECT max(b.basis) AS last, coalesce(bool_or(b.is_same), false) AS is_known
    FROM (SELECT s.basis,
                 count(*) = cardinality(g.event_ids)
                 AND bool_and((s.thread_id, s.event_id) IN (
                     SELECT * FROM unnest(g.thread_ids, g.event_ids))) AS is_same

-- fragment: note_bases
-- Ends a statement whose CTE fresh holds new bases: notes those of memories that existed before the
-- run.
INSERT INTO run_changes (tenant_id, run_id, change, target, event_id, before)
SELECT %(tenant)s, %(run_id)s, 'sourced', f.target, e.event_id,
       jsonb_build_object('bases', jsonb_agg(f.basis))
FROM fresh f CROSS JOIN LATERAL (SELECT DISTINCT unnest(f.event_ids)) AS e(event_id)
WHERE f.run_id IS DISTINCT FROM %(run_id)s
GROUP BY f.target, e.event_id

-- name: add_sources
-- Adds the turns that memories, named by namespace and key, were drawn from; turns of one basis say
-- it together. A basis that contains another one adds nothing to its survival, and tells when it was
-- said again. Memories that only runs wrote get more than their first basis; a memory that a user
-- wrote does not go with a turn.
WITH given AS (
    SELECT m.memory_id AS target, m.run_id, g.basis,
           array_agg(e.thread_id ORDER BY e.thread_id, e.event_id) AS thread_ids,
           array_agg(e.event_id ORDER BY e.thread_id, e.event_id) AS event_ids
    FROM unnest(%(namespaces)b::text[], %(keys)b::text[], %(thread_ids)b::text[],
                %(event_ids)b::text[], %(bases)b::int[])
         AS g(namespace, key, thread_id, event_id, basis)
    CROSS JOIN LATERAL (
        SELECT m.memory_id, m.run_id FROM memories m
        WHERE m.tenant_id = %(tenant)s AND m.namespace = g.namespace AND m.key = g.key
          AND m.run_id IS NOT NULL AND m.thread_id IS NOT NULL
        OFFSET 0) m
    CROSS JOIN LATERAL {turn_by_key}
    GROUP BY 1, 2, 3
), fresh AS (
    {with_new_bases}
              FROM memory_sources s
              WHERE s.tenant_id = %(tenant)s AND s.memory_id = g.target
              GROUP BY s.basis) b) k
    WHERE NOT k.is_known
), added AS (
    INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id, basis)
    SELECT %(tenant)s, target, unnest(thread_ids), unnest(event_ids), basis FROM fresh
)
{note_bases}

-- name: add_edge_sources
-- As add_sources, for edges.
WITH given AS (
    SELECT d.edge_id AS target, d.run_id, g.basis,
           array_agg(e.thread_id ORDER BY e.thread_id, e.event_id) AS thread_ids,
           array_agg(e.event_id ORDER BY e.thread_id, e.event_id) AS event_ids
    FROM unnest(%(edge_ids)b::uuid[], %(thread_ids)b::text[], %(event_ids)b::text[],
                %(bases)b::int[]) AS g(edge_id, thread_id, event_id, basis)
    CROSS JOIN LATERAL (
        SELECT d.edge_id, d.run_id FROM edges d
        WHERE d.tenant_id = %(tenant)s AND d.edge_id = g.edge_id
        OFFSET 0) d
    CROSS JOIN LATERAL {turn_by_key}
    GROUP BY 1, 2, 3
), fresh AS (
    {with_new_bases}
              FROM edge_sources s
              WHERE s.tenant_id = %(tenant)s AND s.edge_id = g.target
              GROUP BY s.basis) b) k
    WHERE NOT k.is_known
), added AS (
    INSERT INTO edge_sources (tenant_id, edge_id, thread_id, event_id, basis)
    SELECT %(tenant)s, target, unnest(thread_ids), unnest(event_ids), basis FROM fresh
)
{note_bases}

-- name: inherit_sources
-- A memory drawn from others rests on all of their turns.
INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id)
SELECT DISTINCT m.tenant_id, m.memory_id, s.thread_id, s.event_id
FROM unnest(%(tenants)b::text[], %(namespaces)b::text[], %(keys)b::text[], %(inherited)b::uuid[])
     AS g(tenant_id, namespace, key, source)
JOIN memories m USING (tenant_id, namespace, key)
JOIN memory_sources s ON s.tenant_id = m.tenant_id AND s.memory_id = g.source
ON CONFLICT DO NOTHING

-- name: add_bases
-- Notes the memories that a memory was drawn from. Undoes the run if one of them was forgotten or
-- ended meanwhile.
WITH added AS (
    INSERT INTO memory_bases (tenant_id, memory_id, basis_id)
    SELECT m.tenant_id, m.memory_id, b.memory_id
    FROM unnest(%(tenants)b::text[], %(namespaces)b::text[], %(keys)b::text[],
                %(inherited)b::uuid[]) AS g(tenant_id, namespace, key, basis_id)
    JOIN memories m USING (tenant_id, namespace, key)
    JOIN memories b ON b.tenant_id = m.tenant_id AND b.memory_id = g.basis_id
    WHERE b.superseded_at IS NULL
    RETURNING 1
)
SELECT require(count(*) = cardinality(%(inherited)b::uuid[]), 'a memory was ended meanwhile')
FROM added

-- name: retire_drawn
-- Takes memories out of recall that were drawn from a memory out of recall.
WITH retired AS (
    UPDATE memories m SET superseded_at = %(now)s
    FROM memory_bases d JOIN memories b ON b.tenant_id = d.tenant_id AND b.memory_id = d.basis_id
    WHERE d.tenant_id = %(tenant)s AND b.superseded_at IS NOT NULL
      AND m.tenant_id = d.tenant_id AND m.memory_id = d.memory_id AND m.superseded_at IS NULL
    RETURNING m.memory_id
)
INSERT INTO run_changes (tenant_id, run_id, change, target)
SELECT %(tenant)s, %(run_id)s, 'retired', memory_id FROM retired
ON CONFLICT DO NOTHING

-- name: add_summary_sources
-- A summary rests on every turn it covers.
INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id)
SELECT m.tenant_id, m.memory_id, e.thread_id, e.event_id
FROM memories m CROSS JOIN LATERAL (
    SELECT e.thread_id, e.event_id FROM events e
    WHERE e.tenant_id = m.tenant_id AND e.thread_id = %(thread_id)s
      AND e.memory_seq <= %(summed_to)s
      AND e.memory_seq > coalesce((SELECT %(summed_from)s::bigint FROM run_changes c
                                   WHERE c.tenant_id = %(tenant)s AND c.run_id = %(run_id)s
                                     AND c.change = 'summary'), 0)
    OFFSET 0) e
WHERE {summary_of_thread}
ON CONFLICT DO NOTHING

-- name: bound_summary
-- A summary expires no later than the summary it replaced.
UPDATE memories m SET expires_at = least(m.expires_at, c.expires_at)
FROM memories c
WHERE {summary_of_thread} AND c.tenant_id = m.tenant_id AND c.memory_id = %(copy_id)s

-- name: renew_facts
-- A fact said again expires with its last basis, or never. A basis expires with its first turn.
WITH renewed AS (
    UPDATE memories m SET expires_at = said.expires_at
    FROM (SELECT m.memory_id, m.expires_at AS old
          FROM unnest(%(namespaces)b::text[], %(keys)b::text[]) AS g(namespace, key)
          JOIN memories m ON m.tenant_id = %(tenant)s AND m.namespace = g.namespace AND m.key = g.key
          WHERE m.expires_at IS NOT NULL
          GROUP BY 1, 2) g
    CROSS JOIN LATERAL (
        SELECT CASE WHEN bool_and(b.expires_at IS NOT NULL) THEN max(b.expires_at) END AS expires_at
        FROM (SELECT min(e.expires_at) AS expires_at
              FROM memory_sources s
              JOIN events e USING (tenant_id, thread_id, event_id)
              WHERE s.tenant_id = %(tenant)s AND s.memory_id = g.memory_id
              GROUP BY s.basis) b
        HAVING count(*) > 0
    ) said
    WHERE m.tenant_id = %(tenant)s AND m.memory_id = g.memory_id
      AND m.expires_at IS DISTINCT FROM said.expires_at
    RETURNING m.memory_id, m.run_id, g.old
)
{note_change} 'renewed', memory_id, jsonb_build_object('expires_at', old)
FROM renewed WHERE run_id IS DISTINCT FROM %(run_id)s

-- name: rate_turns
-- Stores what a run found out about turns: importance unless the caller gave one, emotion unless one
-- was noted.
WITH given AS (
    SELECT m.memory_id, m.importance AS old, g.importance, g.emotion
    FROM unnest(%(event_ids)b::text[], %(importances)b::real[], %(emotions)s::jsonb[])
         AS g(event_id, importance, emotion)
    CROSS JOIN LATERAL (
        SELECT m.memory_id, m.importance, m.value FROM memory_sources s
        JOIN memories m USING (tenant_id, memory_id)
        WHERE s.tenant_id = %(tenant)s AND s.thread_id = %(thread_id)s AND s.event_id = g.event_id
          AND m.kind = 'episodic' AND m.value #> '{metadata,emotion}' IS NULL
        LIMIT 1) m
), rated AS (
    UPDATE memories m
    SET importance = CASE WHEN m.importance = 5 THEN coalesce(g.importance, 5) ELSE m.importance END,
        value = CASE WHEN g.emotion IS NULL THEN m.value
                ELSE m.value || jsonb_build_object('metadata',
                     coalesce(m.value -> 'metadata', '{}') || jsonb_build_object('emotion', g.emotion))
                END
    FROM given g
    WHERE m.tenant_id = %(tenant)s AND m.memory_id = g.memory_id
    RETURNING m.memory_id, g.old, g.emotion IS NOT NULL AS has_emotion
)
{note_change} 'rated', memory_id, jsonb_build_object('importance', old, 'emotion', has_emotion)
FROM rated
