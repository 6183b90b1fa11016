-- name: last_run
SELECT coalesce(max(number), 0) FROM runs WHERE tenant_id = %(tenant)s

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
