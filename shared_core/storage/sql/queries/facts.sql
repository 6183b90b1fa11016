-- name: current_facts
-- What is believed now of the given keys.
SELECT fact_type, key, memory_id, value, valid_from FROM facts
WHERE tenant_id = %(tenant)s AND slot = ANY(%(slots)s)
  AND valid_until IS NULL AND superseded_at IS NULL

-- name: close_facts
-- Ends facts, or undoes the run if one of them was ended or forgotten since the run read it.
WITH closed AS (
    UPDATE facts f
    SET valid_until = greatest(g.valid_until, f.valid_from), superseded_at = %(now)s
    FROM unnest(%(memory_ids)b::uuid[], %(valid_until)b::timestamptz[])
         AS g(memory_id, valid_until)
    WHERE f.tenant_id = %(tenant)s AND f.memory_id = g.memory_id
      AND f.valid_until IS NULL AND f.superseded_at IS NULL
    RETURNING 1
)
SELECT require(count(*) = cardinality(%(memory_ids)b::uuid[]), 'a fact was changed by another run')
FROM closed

-- name: retire_memories
UPDATE memories SET superseded_at = %(now)s
WHERE tenant_id = %(tenant)s AND memory_id = ANY(%(memory_ids)b::uuid[])

-- name: renew_facts
-- A fact that was said again expires with the last of the turns that say it, or never.
UPDATE memories m SET expires_at = said.expires_at
FROM unnest(%(namespaces)b::text[], %(keys)b::text[]) AS g(namespace, key)
CROSS JOIN LATERAL (
    SELECT CASE WHEN bool_and(e.expires_at IS NOT NULL) THEN max(e.expires_at) END AS expires_at
    FROM memories f
    JOIN memory_sources s ON s.tenant_id = f.tenant_id AND s.memory_id = f.memory_id
    JOIN events e ON e.tenant_id = s.tenant_id AND e.thread_id = s.thread_id
                 AND e.event_id = s.event_id
    WHERE f.tenant_id = %(tenant)s AND f.namespace = g.namespace AND f.key = g.key
) said
WHERE m.tenant_id = %(tenant)s AND m.namespace = g.namespace AND m.key = g.key
  AND m.kind = 'semantic' AND m.expires_at IS NOT NULL

-- name: add_facts
INSERT INTO facts (tenant_id, memory_id, fact_type, slot, key, value, functional, confidence,
                   extractor, pattern, valid_from, valid_until, recorded_at, superseded_at)
SELECT %(tenant)s, memory_id, fact_type, slot, key, value, functional, confidence, %(extractor)s,
       pattern, valid_from, valid_until, %(now)s,
       CASE WHEN valid_until IS NULL THEN NULL ELSE %(now)s END
FROM unnest(%(memory_ids)b::uuid[], %(fact_types)b::text[], %(slots)b::text[], %(keys)b::text[],
            %(values)s::jsonb[], %(functional)b::bool[], %(confidences)b::real[],
            %(patterns)b::text[], %(valid_from)b::timestamptz[], %(valid_until)b::timestamptz[])
     AS g(memory_id, fact_type, slot, key, value, functional, confidence, pattern, valid_from,
          valid_until)

-- name: add_run
INSERT INTO runs (tenant_id, run_id, kind, thread_id, extractor, from_seq, to_seq, counts,
                  started_at, finished_at)
VALUES (%(tenant)s, %(run_id)s, %(kind)s, %(thread_id)s, %(extractor)s, %(from_seq)s, %(to_seq)s,
        %(counts)s::jsonb, %(started_at)s, %(now)s)

-- name: list_facts
-- The facts of a scope, current ones first, then the closed ones, newest first.
SELECT f.memory_id, f.fact_type, f.slot, f.value, m.text, f.confidence, f.extractor, f.pattern,
       f.valid_from, f.valid_until, m.thread_id,
       (SELECT array_agg(s.event_id ORDER BY s.event_id) FROM memory_sources s
        WHERE s.tenant_id = f.tenant_id AND s.memory_id = f.memory_id)
FROM facts f JOIN memories m USING (tenant_id, memory_id)
WHERE f.tenant_id = %(tenant)s AND (m.expires_at IS NULL OR m.expires_at > %(now)s)
  AND (%(history)s OR f.valid_until IS NULL AND f.superseded_at IS NULL)
ORDER BY f.valid_until DESC NULLS FIRST, f.fact_type, f.slot, f.valid_from DESC, f.memory_id
