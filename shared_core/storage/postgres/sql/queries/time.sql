-- Facts that held at a moment, as believed at a moment; and ends of facts that are undone.

-- fragment: valid
coalesce(%(valid)s::timestamptz, %(now)s)

-- fragment: known
coalesce(%(known)s::timestamptz, 'infinity')

-- fragment: told_facts
-- The facts that were recorded and had begun, each with its end as known then.
SELECT f.tenant_id, f.memory_id, f.fact_type, f.slot, f.key, f.value, f.confidence, f.extractor,
       f.pattern, f.valid_from, f.recorded_at, c.valid_until, c.closed_at
FROM facts f
LEFT JOIN LATERAL (
    SELECT valid_until, closed_at
    FROM (SELECT f.valid_until, f.superseded_at AS closed_at WHERE f.superseded_at <= {known}
          UNION ALL
          SELECT x.valid_until, x.closed_at FROM fact_closures x
          WHERE x.tenant_id = f.tenant_id AND x.memory_id = f.memory_id
            AND x.closed_at <= {known} AND x.restored_at > {known}) ends
    ORDER BY closed_at DESC LIMIT 1) c ON true
WHERE f.tenant_id = %(tenant)s AND f.recorded_at <= {known} AND f.valid_from <= {valid}
  AND NOT EXISTS (SELECT FROM memories x WHERE x.tenant_id = f.tenant_id
                  AND x.memory_id = f.memory_id AND x.expires_at <= %(now)s)

-- fragment: liked_key
regexp_replace(k.key, '^((relation[.][^.]+[.])?)dislike(?=[:@])', '\1like')

-- fragment: held_of_told
-- The fact that held of each key, and of a like and a dislike of the same thing (facts.OPPOSITES): of
-- several that cover the moment, the one that began last.
SELECT DISTINCT ON (t.fact_type, p.place) t.memory_id
FROM told t CROSS JOIN LATERAL (SELECT {liked_key} AS place FROM (SELECT t.key) k) p
WHERE t.valid_until IS NULL OR t.valid_until > {valid}
ORDER BY t.fact_type, p.place, t.valid_from DESC, t.recorded_at DESC, t.memory_id DESC

-- fragment: current
-- Living memories that have begun to hold.
{living} AND {begun}

-- fragment: current_then
-- {current} at another moment. Memories that have expired or faded since are absent at every moment.
(m.expires_at IS NULL OR m.expires_at > %(now)s) AND m.demoted_at IS NULL
AND CASE WHEN m.memory_id IN (SELECT x.memory_id FROM facts x WHERE x.tenant_id = %(tenant)s)
    THEN m.memory_id IN (WITH told AS ({told_facts}) {held_of_told})
    ELSE m.updated_at <= {known} AND (m.superseded_at IS NULL OR m.superseded_at > {known})
         AND (%(valid)s::timestamptz IS NULL OR m.occurred_at <= %(valid)s) END

-- fragment: ended_now
coalesce(f.valid_until <= {soon}, false)

-- fragment: ended_then
coalesce(f.valid_until <= {valid} AND f.superseded_at <= {known}, false)

-- name: facts_as_of
-- The facts that held at a moment, or those of a slot; with history also those that had ended, newest
-- first.
WITH told AS MATERIALIZED ({told_facts})
SELECT f.memory_id, f.fact_type, f.slot, f.value, m.text, f.confidence, f.extractor, f.pattern,
       f.valid_from, f.valid_until, m.thread_id,
       {source_ids},
       f.recorded_at, f.closed_at
FROM told f JOIN memories m USING (tenant_id, memory_id)
WHERE {of_slot} AND (%(history)s OR f.memory_id IN ({held_of_told}))
ORDER BY f.valid_until DESC NULLS FIRST, f.fact_type, f.slot, f.valid_from DESC, f.memory_id

-- fragment: fact_columns
f.memory_id, f.fact_type, f.slot, f.value, m.text, f.confidence, f.extractor, f.pattern,
f.valid_from, f.valid_until, m.thread_id,
{source_ids},
f.recorded_at, f.superseded_at, f.key

-- name: named_memory
-- The memory with a key, or else with an id, and its fact if it is one.
SELECT m.kind, {fact_columns}
FROM memories m LEFT JOIN facts f USING (tenant_id, memory_id)
WHERE {one_tenant} AND (m.namespace = %(namespace)s AND m.key = %(key)s
                        OR m.memory_id = %(memory_id)s::uuid)
  AND (m.expires_at IS NULL OR m.expires_at > %(now)s)
ORDER BY m.namespace = %(namespace)s AND m.key = %(key)s DESC LIMIT 1

-- name: facts_in_place
-- The current facts of some keys.
SELECT {fact_columns}
FROM facts f JOIN memories m USING (tenant_id, memory_id)
WHERE f.tenant_id = %(tenant)s AND f.fact_type = %(fact_type)s AND f.key = ANY(%(keys)b::text[])
  AND (f.valid_until IS NULL AND f.superseded_at IS NULL OR {ends_later})
  AND (m.expires_at IS NULL OR m.expires_at > %(now)s)

-- fragment: reopened
-- Reopens the facts in the CTE ended: keeps and notes their ends as ends that were believed.
kept AS (
    INSERT INTO fact_closures (tenant_id, memory_id, closed_at, restored_at, valid_until, run_id)
    SELECT %(tenant)s, memory_id, superseded_at, %(now)s, valid_until, %(run_id)s::uuid FROM ended
), noted AS (
    {note_change} 'moved', memory_id,
           jsonb_build_object('valid_until', valid_until, 'superseded_at', superseded_at,
                              'retired_at', retired_at)
    FROM ended
), opened AS (
    UPDATE facts f SET valid_until = NULL, superseded_at = NULL FROM ended e
    WHERE f.tenant_id = %(tenant)s AND f.memory_id = e.memory_id
), recalled AS (
    UPDATE memories m SET superseded_at = NULL FROM ended e
    WHERE m.tenant_id = %(tenant)s AND m.memory_id = e.memory_id
)

-- name: reopen_fact
-- Reopens a fact and keeps its end as one that was believed. Undoes the run if the fact was changed
-- since, or if a fact that excludes it is current.
WITH ended AS (
    SELECT f.memory_id, f.valid_until, f.superseded_at, m.superseded_at AS retired_at
    FROM facts f JOIN memories m USING (tenant_id, memory_id)
    WHERE f.tenant_id = %(tenant)s AND f.memory_id = %(memory_id)s
      AND f.superseded_at = %(closed_at)s
      AND NOT EXISTS (SELECT FROM facts x
                      WHERE x.tenant_id = f.tenant_id AND x.fact_type = f.fact_type
                        AND x.key = ANY(%(keys)b::text[])
                        AND x.valid_until IS NULL AND x.superseded_at IS NULL)
), {reopened}
SELECT require(count(*) = 1, 'the fact was changed meanwhile') FROM ended

-- name: require_no_opposite
-- Undoes the run if a reopened fact and its opposite both hold.
SELECT require(count(*) = 0, 'the opposite holds now: retract that first')
FROM facts r
JOIN facts o ON o.tenant_id = r.tenant_id AND o.fact_type = r.fact_type AND o.key <> r.key
            AND o.valid_until IS NULL AND o.superseded_at IS NULL
WHERE r.tenant_id = %(tenant)s AND r.memory_id = %(memory_id)s
  AND r.valid_until IS NULL AND r.superseded_at IS NULL
  AND (SELECT {liked_key} FROM (SELECT r.key) k) = (SELECT {liked_key} FROM (SELECT o.key) k)

-- name: reopen_told
-- Restores the statements of a fact's turns that were retired with it, unless they hold the value of
-- another ended fact; and reflections that rest on what was restored.
WITH fact AS (
    SELECT memory_id, value FROM facts
    WHERE tenant_id = %(tenant)s AND memory_id = %(memory_id)s
), told AS (
    SELECT DISTINCT m.memory_id
    FROM fact f
    JOIN memory_sources s ON s.tenant_id = %(tenant)s AND s.memory_id = f.memory_id
    JOIN memory_sources o ON o.tenant_id = s.tenant_id AND o.thread_id = s.thread_id
                         AND o.event_id = s.event_id
    JOIN memories m ON m.tenant_id = o.tenant_id AND m.memory_id = o.memory_id
    WHERE m.kind = 'semantic' AND m.superseded_at = %(closed_at)s
      AND position(lower(f.value #>> '{}') IN lower(m.text)) > 0
      AND NOT EXISTS (SELECT FROM facts x WHERE x.tenant_id = m.tenant_id
                      AND x.memory_id = m.memory_id)
      AND NOT EXISTS (
          SELECT FROM memory_sources y
          JOIN memory_sources z USING (tenant_id, thread_id, event_id)
          JOIN facts x ON x.tenant_id = z.tenant_id AND x.memory_id = z.memory_id
          WHERE y.tenant_id = m.tenant_id AND y.memory_id = m.memory_id
            AND x.superseded_at IS NOT NULL
            AND position(lower(x.value #>> '{}') IN lower(m.text)) > 0)
), drawn AS (
    SELECT m.memory_id FROM memories m
    WHERE m.tenant_id = %(tenant)s AND m.superseded_at = %(closed_at)s
      AND EXISTS (SELECT FROM memory_bases d
                  WHERE d.tenant_id = m.tenant_id AND d.memory_id = m.memory_id)
      AND NOT EXISTS (SELECT FROM memory_bases d
                      LEFT JOIN memories b ON b.tenant_id = d.tenant_id AND b.memory_id = d.basis_id
                      WHERE d.tenant_id = m.tenant_id AND d.memory_id = m.memory_id
                        AND b.superseded_at IS NOT NULL
                        AND b.memory_id NOT IN (SELECT memory_id FROM told))
), recalled AS (
    UPDATE memories m SET superseded_at = NULL
    WHERE m.tenant_id = %(tenant)s
      AND m.memory_id IN (SELECT memory_id FROM told UNION SELECT memory_id FROM drawn)
    RETURNING m.memory_id
)
{note_change} 'moved', memory_id, jsonb_build_object('retired_at', %(closed_at)s::timestamptz)
FROM recalled

-- fragment: rivals_of_edges
-- Current edges in the place of those that ended with a fact, of relations with one object.
FROM edges o JOIN edges e ON e.tenant_id = o.tenant_id AND e.subject_key = o.subject_key
                         AND e.relation = o.relation AND e.object_key <> o.object_key
JOIN facts f ON f.tenant_id = o.tenant_id AND f.memory_id = o.fact_id
{edge_roots}
WHERE o.tenant_id = %(tenant)s AND o.fact_id = %(memory_id)s AND o.functional AND e.functional
  AND o.superseded_at = f.superseded_at AND e.valid_from <= {soon}
  AND (e.valid_until IS NULL AND e.superseded_at IS NULL OR e.valid_until > %(now)s)

-- name: edges_in_place
SELECT {edge_columns}, 0
{rivals_of_edges}

-- name: require_free_edges
SELECT require(count(*) = 0, 'an edge has taken the place')
{rivals_of_edges}

-- name: reopen_edges
-- Reopens the edges that ended with a fact, unless another edge has taken their place.
WITH ended AS (
    SELECT e.edge_id, e.valid_until, e.superseded_at FROM edges e
    WHERE e.tenant_id = %(tenant)s AND e.fact_id = %(memory_id)s
      AND e.superseded_at = %(closed_at)s
      AND NOT EXISTS (SELECT FROM edges x
                      WHERE x.tenant_id = e.tenant_id AND x.subject_key = e.subject_key
                        AND x.relation = e.relation
                        AND (x.object_key = e.object_key OR e.functional AND x.functional)
                        AND x.valid_until IS NULL AND x.superseded_at IS NULL)
), opened AS (
    UPDATE edges e SET valid_until = NULL, superseded_at = NULL FROM ended x
    WHERE e.tenant_id = %(tenant)s AND e.edge_id = x.edge_id
)
{note_change} 'moved', edge_id,
       jsonb_build_object('valid_until', valid_until, 'superseded_at', superseded_at)
FROM ended
