-- name: current_facts
-- What is believed now of the given keys.
SELECT fact_type, key, memory_id, value, valid_from FROM facts
WHERE tenant_id = %(tenant)s AND slot = ANY(%(slots)s)
  AND valid_until IS NULL AND superseded_at IS NULL

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
