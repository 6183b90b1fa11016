-- The knowledge graph: its edges as believed at a moment, walks along them, and aliases of entities.

-- fragment: alias_known
(a.unmerged_at IS NULL OR a.unmerged_at > %(known)s::timestamptz)
AND (%(known)s::timestamptz IS NULL OR a.merged_at <= %(known)s)

-- fragment: edge_known
(%(known)s::timestamptz IS NULL OR e.recorded_at <= %(known)s)

-- fragment: edge_covers
-- superseded_at tells since when the end of an edge is known: before that it was open.
e.valid_from <= coalesce(%(valid)s::timestamptz, %(now)s)
AND (e.superseded_at > %(known)s::timestamptz
     OR e.valid_until > coalesce(%(valid)s::timestamptz, %(now)s)
     OR e.valid_until IS NULL AND e.superseded_at IS NULL)

-- fragment: edge_holds
-- Of several edges of a functional relation that cover a moment, the one that began last holds, as
-- with facts. Current edges need no check: a unique index keeps them apart.
{edge_covers}
AND (%(valid)s::timestamptz IS NULL AND %(known)s::timestamptz IS NULL OR NOT e.functional
     OR NOT EXISTS (
         SELECT FROM (SELECT e.tenant_id, e.subject_key, e.relation, e.valid_from, e.recorded_at,
                             e.edge_id) o
         CROSS JOIN LATERAL (
             SELECT FROM edges e
             WHERE e.tenant_id = %(tenant)s AND e.subject_key = o.subject_key
               AND e.relation = o.relation AND e.functional AND e.valid_from >= o.valid_from
               AND (e.valid_from, e.recorded_at, e.edge_id)
                   > (o.valid_from, o.recorded_at, o.edge_id)
               AND {edge_known} AND {edge_covers} AND {edge_living}) later))

-- fragment: edge_living
-- An edge that repeats a fact fades with it. An edge that rests on a fact or on turns lives while one
-- of its bases has not expired.
NOT EXISTS (SELECT FROM memories m WHERE m.tenant_id = %(tenant)s
            AND m.memory_id = coalesce(e.fact_id, e.memory_id) AND m.demoted_at IS NOT NULL)
AND CASE WHEN e.memory_id IS NOT NULL
          AND NOT EXISTS (SELECT FROM memories m WHERE m.tenant_id = %(tenant)s
                          AND m.memory_id = e.memory_id AND m.expires_at <= %(now)s)
     THEN true
     ELSE coalesce((SELECT bool_or(b.living)
                    FROM (SELECT bool_and(v.expires_at IS NULL OR v.expires_at > %(now)s) AS living
                          FROM edge_sources s
                          LEFT JOIN events v ON v.tenant_id = %(tenant)s
                               AND v.thread_id = s.thread_id AND v.event_id = s.event_id
                          WHERE s.tenant_id = %(tenant)s AND s.edge_id = e.edge_id
                          GROUP BY s.basis) b),
                   e.memory_id IS NULL) END

-- fragment: edge_roots
-- The entities that the names of an edge stand for.
LEFT JOIN LATERAL (SELECT a.entity_key, a.entity FROM entity_aliases a
                   WHERE a.tenant_id = %(tenant)s AND a.alias_key = e.subject_key
                     AND {alias_known}) sa ON true
LEFT JOIN LATERAL (SELECT a.entity_key, a.entity FROM entity_aliases a
                   WHERE a.tenant_id = %(tenant)s AND a.alias_key = e.object_key
                     AND {alias_known}) oa ON true

-- fragment: edge_columns
e.edge_id, e.subject, e.relation, e.object, e.functional, e.confidence, e.valid_from, e.valid_until,
e.recorded_at, e.superseded_at, e.fact_id, e.run_id,
(SELECT array_agg(s.event_id ORDER BY s.event_id)
 FROM (SELECT x.event_id FROM edge_sources x
       WHERE x.tenant_id = %(tenant)s AND x.edge_id = e.edge_id
       UNION
       SELECT x.event_id FROM memory_sources x
       WHERE x.tenant_id = %(tenant)s AND x.memory_id = e.memory_id) s),
({edge_holds}), coalesce(sa.entity_key, e.subject_key), sa.entity,
coalesce(oa.entity_key, e.object_key), oa.entity

-- fragment: key_of_entity
coalesce((SELECT a.entity_key FROM entity_aliases a
          WHERE a.tenant_id = %(tenant)s AND a.alias_key = %(key)s AND {alias_known}), %(key)s)

-- name: read_in_order
-- Until the end of the transaction, read along indexes. The planner expects an average number of
-- edges for each name, far too few for a hub, and would read all its edges to sort them.
SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_seqscan', 'off', true)

-- name: walk
-- Breadth first from one entity. Each row is one step: the entities it reached and the edges it met,
-- newest first, up to %(limit)s in all. A step reads at most %(limit)s edges of each name and
-- direction. Every entity is reached once, so cycles end.
WITH RECURSIVE steps AS (
    SELECT 0 AS hops, ARRAY[{key_of_entity}]::text[] AS reached,
           ARRAY[{key_of_entity}]::text[] AS visited, '{}'::uuid[] AS edge_ids, 0 AS found
    UNION ALL
    SELECT s.hops + 1, n.reached, s.visited || n.reached, n.edge_ids,
           s.found + cardinality(n.edge_ids)
    FROM steps s CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(DISTINCT c.root) FILTER (WHERE c.root <> ALL (s.visited)),
                        '{}') AS reached,
               coalesce(array_agg(DISTINCT c.edge_id), '{}') AS edge_ids
        FROM (SELECT d.edge_id, d.root
              FROM (SELECT DISTINCT ON (t.valid_from, t.edge_id) t.edge_id, t.root, t.valid_from
                    FROM unnest(s.reached) AS r(root)
                    CROSS JOIN LATERAL (
                        SELECT r.root AS key
                        UNION ALL
                        SELECT a.alias_key FROM entity_aliases a
                        WHERE a.tenant_id = %(tenant)s AND a.entity_key = r.root AND {alias_known}
                    ) k
                    CROSS JOIN LATERAL (
                        (SELECT e.edge_id, e.valid_from, o.root
                         FROM edges e CROSS JOIN LATERAL (
                              SELECT coalesce((SELECT a.entity_key FROM entity_aliases a
                                               WHERE a.tenant_id = %(tenant)s
                                                 AND a.alias_key = e.object_key
                                                 AND {alias_known}), e.object_key) AS root) o
                         WHERE e.tenant_id = %(tenant)s AND e.subject_key = k.key
                           AND {edge_known} AND {edge_holds} AND {edge_living}
                           AND (o.root <> ALL (s.visited) OR o.root = ANY (s.reached))
                         ORDER BY e.valid_from DESC, e.edge_id LIMIT %(limit)s)
                        UNION ALL
                        (SELECT e.edge_id, e.valid_from, o.root
                         FROM edges e CROSS JOIN LATERAL (
                              SELECT coalesce((SELECT a.entity_key FROM entity_aliases a
                                               WHERE a.tenant_id = %(tenant)s
                                                 AND a.alias_key = e.subject_key
                                                 AND {alias_known}), e.subject_key) AS root) o
                         WHERE e.tenant_id = %(tenant)s AND e.object_key = k.key
                           AND {edge_known} AND {edge_holds} AND {edge_living}
                           AND (o.root <> ALL (s.visited) OR o.root = ANY (s.reached))
                         ORDER BY e.valid_from DESC, e.edge_id LIMIT %(limit)s)
                    ) t
                    ORDER BY t.valid_from DESC, t.edge_id) d
              ORDER BY d.valid_from DESC, d.edge_id LIMIT %(limit)s - s.found) c
    ) n
    WHERE s.hops < %(depth)s AND s.found < %(limit)s AND cardinality(s.reached) > 0
)
SELECT {edge_columns}, s.hops
FROM steps s CROSS JOIN LATERAL unnest(s.edge_ids) AS g(edge_id)
CROSS JOIN LATERAL (SELECT e.* FROM edges e
                    WHERE e.tenant_id = %(tenant)s AND e.edge_id = g.edge_id OFFSET 0) e
{edge_roots}
ORDER BY s.hops, e.valid_from DESC, e.edge_id

-- name: key_of_entity
SELECT {key_of_entity}

-- name: edges_about
-- Edges that hold and touch one of some names, or another name of the same entity.
WITH roots AS MATERIALIZED (
    SELECT DISTINCT coalesce(a.entity_key, k.key) AS root
    FROM unnest(%(keys)b::text[]) AS k(key)
    LEFT JOIN LATERAL (SELECT a.entity_key FROM entity_aliases a
                       WHERE a.tenant_id = %(tenant)s AND a.alias_key = k.key AND {alias_known}
                       LIMIT 1) a ON true
), keys AS MATERIALIZED (
    SELECT root AS key FROM roots
    UNION
    SELECT a.alias_key FROM roots r
    JOIN entity_aliases a ON a.tenant_id = %(tenant)s AND a.entity_key = r.root AND {alias_known}
)
SELECT {edge_columns}, 1
FROM (SELECT DISTINCT t.valid_from, t.edge_id
      FROM keys k
      CROSS JOIN LATERAL (
          (SELECT e.valid_from, e.edge_id FROM edges e
           WHERE e.tenant_id = %(tenant)s AND e.subject_key = k.key
             AND {edge_known} AND {edge_holds} AND {edge_living}
           ORDER BY e.valid_from DESC, e.edge_id LIMIT %(limit)s)
          UNION ALL
          (SELECT e.valid_from, e.edge_id FROM edges e
           WHERE e.tenant_id = %(tenant)s AND e.object_key = k.key
             AND {edge_known} AND {edge_holds} AND {edge_living}
           ORDER BY e.valid_from DESC, e.edge_id LIMIT %(limit)s)
      ) t) g
CROSS JOIN LATERAL (SELECT e.* FROM edges e
                    WHERE e.tenant_id = %(tenant)s AND e.edge_id = g.edge_id OFFSET 0) e
{edge_roots}
