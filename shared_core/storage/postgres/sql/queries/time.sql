-- Facts that held at a moment, as known at a moment: the same as shared_core.policies.facts.

-- fragment: valid
coalesce(%(valid)s::timestamptz, %(now)s)

-- fragment: known
coalesce(%(known)s::timestamptz, 'infinity')

-- fragment: told_facts
-- The facts that were recorded and had begun, each with its end as known then.
SELECT f.memory_id, f.fact_type, f.key, f.valid_from, f.recorded_at, c.valid_until
FROM facts f
LEFT JOIN LATERAL (
    SELECT valid_until, closed_at
    FROM (SELECT f.valid_until, f.superseded_at AS closed_at WHERE f.superseded_at <= {known}
          UNION ALL
          SELECT x.valid_until, x.closed_at FROM fact_closures x
          WHERE x.tenant_id = %(tenant)s AND x.memory_id = f.memory_id
            AND x.closed_at <= {known} AND x.restored_at > {known}) ends
    ORDER BY closed_at DESC LIMIT 1) c ON true
WHERE f.tenant_id = %(tenant)s AND f.recorded_at <= {known} AND f.valid_from <= {valid}
  AND NOT EXISTS (SELECT FROM memories x WHERE x.tenant_id = %(tenant)s
                  AND x.memory_id = f.memory_id AND x.expires_at <= %(now)s)

-- fragment: liked_key
regexp_replace(k.key, '^((relation[.][^.]+[.])?)dislike(?=[:@])', '\1like')

-- fragment: held_of_told
-- The fact that held of each key, and of a like and a dislike of the same thing: of several that
-- cover the moment, the one that began last.
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
coalesce(f.valid_until <= {soon}, false) AND NOT coalesce({lapsed}, false)

-- fragment: ended_then
coalesce(f.valid_until <= {valid} AND f.superseded_at <= {known}, false)
AND NOT coalesce({lapsed}, false)

-- fragment: lapsed
-- A plan whose end was known when it was recorded: it came about, and its turn stays true.
f.superseded_at = f.recorded_at AND (f.slot = 'plan' OR f.slot LIKE '%%.plan')

