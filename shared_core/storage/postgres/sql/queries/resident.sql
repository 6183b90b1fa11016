-- The memories of one user for an index in the process (decision 20): columns packed into bytes, one
-- row for each kind, thread, author, role and slot of facts. Numbers stand high byte first.

-- fragment: changed_ids
-- What was written since a write_id, which is null where everything is read.
SELECT unnest(c.memory_ids[:array_position(c.write_ids, %(seen)b::uuid) - 1])
FROM memory_changes c WHERE c.tenant_id = %(tenant)s

-- fragment: may_differ
(%(seen)b::uuid IS NULL OR '00000000-0000-0000-0000-000000000000' = ANY(ARRAY({changed_ids})))

-- name: changes_since
-- The write_id of the last change, and all changes if it is not the given one.
SELECT write_ids[1], CASE WHEN write_ids[1] IS DISTINCT FROM %(seen)b::uuid THEN write_ids END,
       CASE WHEN write_ids[1] IS DISTINCT FROM %(seen)b::uuid THEN memory_ids END
FROM memory_changes WHERE tenant_id = %(tenant)s

-- name: resident_size
-- The number of memories of a user, the bytes of their texts as they are stored, the number of
-- vectors, and of the numbers in each.
SELECT count(*), coalesce(sum(pg_column_size(m.text)), 0),
       (SELECT count(*) FROM embeddings WHERE tenant_id = %(tenant)s AND model = %(model)s),
       (SELECT dimensions FROM embedding_models WHERE model = %(model)s)
FROM memories m
WHERE {one_tenant} AND {below} AND m.superseded_at IS NULL AND m.demoted_at IS NULL

-- name: resident_memories
-- Words are joined by the unit separator, those of two memories by the record separator.
SELECT m.kind, m.thread_id, m.author, CASE WHEN m.kind = 'episodic' THEN m.role END,
       CASE WHEN m.kind = 'semantic' THEN m.value #>> '{metadata,slot}' END,
       string_agg(uuid_send(m.memory_id), ''),
       string_agg(timestamptz_send(m.occurred_at), ''),
       string_agg(timestamptz_send(coalesce(m.expires_at, 'infinity')), ''),
       string_agg(timestamptz_send(m.updated_at), ''),
       string_agg(int4send(m.term_count), ''),
       string_agg(float4send(m.importance), ''),
       string_agg(int4send(octet_length(m.text)), ''),
       string_agg(convert_to(m.text, 'UTF8'), ''),
       string_agg(array_to_string(tsvector_to_array(m.terms), E'\x1f'), E'\x1e'),
       jsonb_object_agg(m.memory_id, m.value)
           FILTER (WHERE m.value #> '{metadata,doubted_at}' IS NOT NULL)
FROM memories m
WHERE {one_tenant} AND {below} AND m.superseded_at IS NULL AND m.demoted_at IS NULL AND {filter}
GROUP BY m.kind, m.thread_id, m.author, CASE WHEN m.kind = 'episodic' THEN m.role END,
         CASE WHEN m.kind = 'semantic' THEN m.value #>> '{metadata,slot}' END

-- name: resident_vectors
SELECT string_agg(uuid_send(m.memory_id), ''), string_agg(halfvec_send(m.embedding), '')
FROM embeddings m
WHERE {one_tenant} AND m.model = %(model)s AND {filter}

-- name: resident_facts
-- Facts that begin later, or whose planned end may come.
SELECT f.memory_id, f.valid_from, CASE WHEN f.superseded_at < f.valid_until THEN f.valid_until END
FROM facts f
WHERE {may_differ} AND f.tenant_id = %(tenant)s
  AND (f.valid_from > %(now)s OR f.superseded_at < f.valid_until)

-- fragment: turns_of_fact
-- OFFSET 0 keeps this a look-up by key for each fact.
CROSS JOIN LATERAL (SELECT * FROM memory_sources s
                    WHERE s.tenant_id = %(tenant)s AND s.memory_id = f.memory_id OFFSET 0) s

-- name: resident_fact_turns
-- The turns of all facts, where one of the facts has an end. A lapsed plan ends nothing.
SELECT s.thread_id, s.event_id, f.memory_id,
       CASE WHEN {lapsed} THEN 'infinity' ELSE coalesce(f.valid_until, 'infinity') END
FROM facts f {turns_of_fact}
WHERE {may_differ} AND f.tenant_id = %(tenant)s
  AND EXISTS (SELECT FROM facts e WHERE e.tenant_id = %(tenant)s AND e.valid_until IS NOT NULL)

-- name: resident_ended_turns
-- The memories of turns with a fact that has an end, and of summaries with all their turns.
WITH ended AS MATERIALIZED (
    SELECT DISTINCT s.thread_id, s.event_id
    FROM facts f {turns_of_fact}
    WHERE {may_differ} AND f.tenant_id = %(tenant)s AND f.valid_until IS NOT NULL
)
SELECT m.memory_id, t.thread_id, t.event_id
FROM ended t
CROSS JOIN LATERAL (SELECT * FROM memory_sources s
                    WHERE s.tenant_id = %(tenant)s AND s.thread_id = t.thread_id
                      AND s.event_id = t.event_id OFFSET 0) s
CROSS JOIN LATERAL (SELECT * FROM memories m
                    WHERE m.tenant_id = %(tenant)s AND m.memory_id = s.memory_id OFFSET 0) m
WHERE m.kind = 'episodic'
UNION ALL
SELECT f.memory_id, s.thread_id, s.event_id
FROM (SELECT * FROM memories m
      WHERE m.tenant_id = %(tenant)s AND m.kind = 'summary' AND m.superseded_at IS NULL
        AND EXISTS (SELECT FROM ended) OFFSET 0) f
{turns_of_fact}

-- name: resident_names
-- The keys of all entities of the graph, and of their other names. Superseded ones stay: a name too
-- many costs a look-up.
SELECT string_agg(key, E'\x1f') FROM (
    SELECT e.subject_key FROM edges e WHERE {may_differ} AND e.tenant_id = %(tenant)s
    UNION SELECT e.object_key FROM edges e WHERE {may_differ} AND e.tenant_id = %(tenant)s
    UNION SELECT a.alias_key FROM entity_aliases a
    WHERE {may_differ} AND a.tenant_id = %(tenant)s
    UNION SELECT a.entity_key FROM entity_aliases a
    WHERE {may_differ} AND a.tenant_id = %(tenant)s
) AS names(key)

-- name: recall_hits
-- Whole memories, for the hits of an index in the process.
SELECT {own_columns}, {turns_of}
FROM memories m
WHERE m.tenant_id = %(tenant)s AND m.memory_id = ANY(%(memory_ids)b::uuid[])
