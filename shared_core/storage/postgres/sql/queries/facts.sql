-- name: last_run
SELECT coalesce(max(number), 0) FROM runs WHERE tenant_id = %(tenant)s

-- name: require_known
-- Undoes the run if another run changed what this one read: facts and retractions of its slots, edges
-- of its subjects and relations.
WITH later AS (
    SELECT run_id FROM runs WHERE tenant_id = %(tenant)s AND number > %(known_number)s
), written AS (
    SELECT 1 FROM later l JOIN memories m ON m.tenant_id = %(tenant)s AND m.run_id = l.run_id
    JOIN facts f USING (tenant_id, memory_id) WHERE f.slot = ANY(%(slots)b::text[])
    UNION ALL
    SELECT 1 FROM later l JOIN run_changes c ON c.tenant_id = %(tenant)s AND c.run_id = l.run_id
    JOIN facts f ON f.tenant_id = c.tenant_id AND f.memory_id = c.target
    WHERE f.slot = ANY(%(slots)b::text[])
    UNION ALL
    SELECT 1 FROM later l JOIN retractions r ON r.tenant_id = %(tenant)s AND r.run_id = l.run_id
    WHERE r.slot = ANY(%(slots)b::text[])
    UNION ALL
    SELECT 1 FROM later l JOIN edges e ON e.tenant_id = %(tenant)s AND e.run_id = l.run_id
    WHERE (e.subject_key, e.relation) IN ({edges_looked_at})
    UNION ALL
    SELECT 1 FROM later l JOIN run_changes c ON c.tenant_id = %(tenant)s AND c.run_id = l.run_id
    JOIN edges e ON e.tenant_id = c.tenant_id AND e.edge_id = c.target
    WHERE c.change IN ('edge', 'moved') AND (e.subject_key, e.relation) IN ({edges_looked_at})
)
SELECT require(count(*) = 0, 'a fact was changed by another run') FROM written

-- name: add_retractions
INSERT INTO retractions (tenant_id, retraction_id, run_id, fact_type, slot, subject_key, value,
                         said_at, valid_until, thread_id, event_ids)
SELECT %(tenant)s, retraction_id, %(run_id)s, fact_type, slot, subject_key, value, said_at,
       valid_until, %(thread_id)s,
       ARRAY(SELECT jsonb_array_elements_text(event_ids))
FROM unnest(%(retraction_ids)b::uuid[], %(fact_types)b::text[], %(slots)b::text[],
            %(subject_keys)b::text[], %(values)b::text[], %(said_at)b::timestamptz[],
            %(valid_until)b::timestamptz[], %(event_ids)s::jsonb[])
     AS g(retraction_id, fact_type, slot, subject_key, value, said_at, valid_until, event_ids)

-- name: note_bounds
-- Notes what closed the facts that a run wrote. What the run wrote itself goes with the run anyway.
INSERT INTO run_changes (tenant_id, run_id, change, target)
SELECT DISTINCT %(tenant)s, %(run_id)s::uuid, 'bounded', target
FROM unnest(%(bounds)b::uuid[]) AS g(target)

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

-- fragment: ends_later
-- An end is known that has not come yet, and no other value has come first.
f.valid_until > %(now)s AND m.superseded_at IS NULL
AND NOT EXISTS (SELECT FROM facts x
                WHERE x.tenant_id = f.tenant_id AND x.fact_type = f.fact_type AND x.key = f.key
                  AND (x.valid_from, x.recorded_at, x.memory_id)
                      > (f.valid_from, f.recorded_at, f.memory_id)
                  AND x.valid_from <= {soon}
                  AND (x.valid_until IS NULL OR x.valid_until > %(now)s))

-- name: list_facts
-- The current facts, or those of a slot. With history also closed ones, after the current, newest
-- first.
SELECT {fact_columns}
FROM facts f JOIN memories m USING (tenant_id, memory_id)
WHERE f.tenant_id = %(tenant)s AND (m.expires_at IS NULL OR m.expires_at > %(now)s)
  AND m.demoted_at IS NULL AND {of_slot}
  AND (%(history)s OR f.valid_from <= {soon}
       AND (f.valid_until IS NULL AND f.superseded_at IS NULL OR {ends_later}))
ORDER BY f.valid_until DESC NULLS FIRST, f.fact_type, f.slot, f.valid_from DESC, f.memory_id
