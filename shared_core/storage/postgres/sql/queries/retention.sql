-- When memories leave their stages, and their fates then.

-- fragment: due_at
-- When a memory m leaves its stage, by its rule r and its counters a, which may be missing.
CASE WHEN m.superseded_at IS NULL THEN
    next_stage_at(r, coalesce(a.stage, 0), a.staged_at, a.pinned_at, a.strength, m.importance,
                  memory_arousal(m.value), coalesce(a.access_count, 0),
                  greatest(m.updated_at, a.last_accessed_at), m.created_at) END

-- fragment: timed_written
-- Ends a statement whose CTE written holds written memories: puts those that fade in their first
-- stage, and computes when they leave it.
INSERT INTO memory_access AS a (tenant_id, memory_id, strength, forget_at)
SELECT w.tenant_id, w.memory_id, s.strength,
       next_stage_at(r, 0, NULL, c.pinned_at, s.strength, w.importance, w.arousal,
                     coalesce(c.access_count, 0), greatest(w.updated_at, c.last_accessed_at),
                     w.created_at)
FROM written w
CROSS JOIN LATERAL retention_rule(w.tenant_id, w.kind) r
LEFT JOIN memory_access c ON c.tenant_id = w.tenant_id AND c.memory_id = w.memory_id
LEFT JOIN unnest(%(strong_tenants)b::text[], %(strong_namespaces)b::text[],
                 %(strong_keys)b::text[], %(strengths)b::float8[])
          AS s(tenant_id, namespace, key, strength)
       ON s.key = w.key AND s.namespace = w.namespace AND s.tenant_id = w.tenant_id
WHERE w.superseded_at IS NULL AND (r.fades OR c.stage > 0)
ON CONFLICT (tenant_id, memory_id) DO UPDATE
SET stage = 0, staged_at = NULL, strength = excluded.strength, forget_at = excluded.forget_at

-- name: retime_run
-- After a run was applied or undone: recomputes when its changed memories leave their stage.
INSERT INTO memory_access AS x (tenant_id, memory_id, forget_at)
SELECT m.tenant_id, m.memory_id, {due_at}
FROM (SELECT DISTINCT target FROM run_changes
      WHERE tenant_id = %(tenant)s AND run_id = %(run_id)s) c
JOIN memories m ON m.tenant_id = %(tenant)s AND m.memory_id = c.target
CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
WHERE r.fades OR a.forget_at IS NOT NULL
ON CONFLICT (tenant_id, memory_id) DO UPDATE SET forget_at = excluded.forget_at

-- name: hold_policies
-- Keeps the policies of some tenants unchanged until the transaction ends: a writer of policies
-- waits.
SELECT pg_advisory_xact_lock_shared(hashtextextended(path, 1))
FROM (SELECT '/' AS path
      UNION
      SELECT unnest(ARRAY[tenant, substring(tenant FROM '^/[^/]+/')])
      FROM unnest(%(tenants)b::text[]) AS tenant) held

-- name: hold_all_policies
SELECT pg_advisory_xact_lock_shared(hashtextextended('', 1))

-- name: lock_policies
-- Waits for transactions that use the policies of a path; later ones see the policies set here.
SELECT pg_advisory_xact_lock(hashtextextended('', 1)),
       pg_advisory_xact_lock(hashtextextended(%(path)s, 1))

-- name: begin_retiming
INSERT INTO retimings (tenant_id, after_tenant, after_id)
VALUES (%(path)s, '', '00000000-0000-0000-0000-000000000000')
ON CONFLICT (tenant_id) DO UPDATE
SET after_tenant = excluded.after_tenant, after_id = excluded.after_id

-- name: retime
SELECT looked_at, changed FROM retime_memories(%(path)s, %(limit)s)

-- name: ahead_of_server
-- How many seconds a clock is ahead of the server's.
SELECT extract(epoch FROM %(now)s::timestamptz - clock_timestamp())::float8

-- name: retimings
-- Paths whose policies changed and whose memories are not all recomputed yet.
SELECT tenant_id FROM retimings
WHERE tenant_id >= %(tenant)s AND tenant_id < %(tenant_end)s
ORDER BY tenant_id

-- fragment: policy_columns
r.fades, r.decay_rate, r.threshold, r.min_age_days, r.archive_threshold, r.archive_after_days,
r.erase_threshold, r.erase_after_days, r.with_history

-- name: retention_rules
-- The policies in effect for a tenant, an application or all: the nearest one for each kind.
SELECT k.kind, {policy_columns}
FROM unnest(%(kinds)s::text[]) AS k(kind)
CROSS JOIN LATERAL retention_rule(%(path)s, k.kind) r

-- name: own_rules
-- The policies set for a path itself.
SELECT r.kind, {policy_columns} FROM retention_policies r WHERE r.tenant_id = %(path)s

-- name: drop_policies
WITH untold AS (
    DELETE FROM retimings WHERE tenant_id = %(path)s
)
DELETE FROM retention_policies WHERE tenant_id = %(path)s

-- name: drop_policies_of
-- Deletes the policies of some kinds.
DELETE FROM retention_policies WHERE tenant_id = %(path)s AND kind = ANY(%(kinds)s::text[])

-- name: add_policies
INSERT INTO retention_policies (tenant_id, kind, fades, decay_rate, threshold, min_age_days,
                                archive_threshold, archive_after_days, erase_threshold,
                                erase_after_days, with_history, updated_at)
SELECT %(path)s, g.*, %(now)s
FROM unnest(%(kinds)s::text[], %(fades)s::bool[], %(decay_rate)s::float8[],
            %(threshold)s::float8[], %(min_age_days)s::float8[], %(archive_threshold)s::float8[],
            %(archive_after_days)s::float8[], %(erase_threshold)s::float8[],
            %(erase_after_days)s::float8[], %(with_history)s::bool[]) AS g

-- fragment: archived_value
coalesce((SELECT CASE WHEN x.is_shown THEN x.value || jsonb_build_object('content', x.text)
                 ELSE x.value END
          FROM memory_archive x
          WHERE x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id), m.value)

-- fragment: kept_columns
m.memory_id, m.tenant_id || substr(m.namespace, 2), m.key, m.kind,
CASE WHEN m.demoted_at IS NULL THEN m.text ELSE
    coalesce((SELECT x.text FROM memory_archive x WHERE x.tenant_id = m.tenant_id
                                                    AND x.memory_id = m.memory_id), m.text) END,
coalesce(a.stage, 0), a.staged_at, a.pinned_at IS NOT NULL,
coalesce(a.strength, initial_strength(m.importance)), m.importance::float8,
memory_arousal(m.value), coalesce(a.access_count, 0), a.last_accessed_at,
greatest(m.updated_at, a.last_accessed_at), m.created_at, a.forget_at, {policy_columns}

-- name: kept
-- The retention state of some memories.
SELECT {kept_columns}
FROM memories m
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
WHERE {one_tenant} AND m.memory_id = ANY(%(memory_ids)b::uuid[])

-- fragment: fate
-- The next stage of a memory that is due.
CASE WHEN coalesce(a.stage, 0) = 0 THEN 'demoted'
     WHEN a.stage = 1 AND r.archive_threshold IS NOT NULL THEN 'archived' ELSE 'erased' END

-- fragment: ripe
-- Memories m of a path, with their counters a, that are due by their counters.
memory_access a
JOIN memories m USING (tenant_id, memory_id)
CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
WHERE a.forget_at <= %(now)s AND (a.staged_at IS NULL OR a.staged_at < %(now)s)
  AND a.tenant_id >= %(tenant)s AND a.tenant_id < %(tenant_end)s

-- name: forget_faded
SELECT kind, fate, memories FROM forget_faded(%(tenant)s, %(now)s, %(limit)s)

-- name: what_is_due
-- What forget_faded would do, with the inputs of each score, longest overdue first.
SELECT {kept_columns}, {fate}
FROM {ripe} AND {due_at} <= %(now)s
ORDER BY a.forget_at, a.memory_id LIMIT %(limit)s

-- name: count_due
-- The number of memories of each kind by fate, and of those erased along with them.
WITH due AS MATERIALIZED (
    SELECT m.tenant_id, m.memory_id, m.kind, m.thread_id, r.with_history, {fate} AS fate
    FROM {ripe} AND {due_at} <= %(now)s
)
SELECT kind, fate, count(*) FROM due GROUP BY 1, 2
UNION ALL
SELECT g.kind, 'along', count(DISTINCT g.memory_id)
FROM due d
CROSS JOIN LATERAL erased_along(d.tenant_id, d.memory_id, d.kind, d.thread_id, d.with_history) g
WHERE d.fate = 'erased'
GROUP BY 1

-- fragment: score
calculate_retention_score(
    coalesce(a.access_count, 0), greatest(m.updated_at, a.last_accessed_at),
    coalesce(%(decay_rate)s::float8, r.decay_rate), %(now)s::timestamptz,
    coalesce(a.strength, initial_strength(m.importance)), memory_arousal(m.value))

-- fragment: that_fade
-- Memories m that fade, with their counters a.
memories m
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
WHERE {one_tenant} AND m.superseded_at IS NULL AND r.fades
  AND (m.expires_at IS NULL OR m.expires_at > %(now)s)

-- name: average_score
SELECT count(*), coalesce(avg({score}), 0) FROM {that_fade}

-- name: forget_weak
-- Erases those of some memories that are still weak.
SELECT memory_id
FROM forget_weak(array_fill(%(tenant)s::text, ARRAY[cardinality(%(memory_ids)b::uuid[])]),
                 %(memory_ids)b::uuid[], %(threshold)s, %(min_age_days)s, %(decay_rate)s, %(now)s)

-- name: weak
-- The memories that forget_weak would erase.
SELECT m.memory_id
FROM memories m
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
WHERE {one_tenant}
  AND is_weak(m, a, r, %(threshold)s, %(min_age_days)s, %(decay_rate)s, %(now)s)
ORDER BY m.memory_id

-- name: named_ids
-- The ids of memories named by key or by id, with the keys that name them.
SELECT m.memory_id, m.key, m.namespace = %(namespace)s FROM memories m
WHERE {one_tenant} AND (m.namespace = %(namespace)s AND m.key = ANY(%(keys)b::text[])
                        OR m.memory_id = ANY(%(memory_ids)b::uuid[]))
ORDER BY m.memory_id

-- name: pin
-- Pinned memories never fade, whatever their score.
INSERT INTO memory_access AS a (tenant_id, memory_id, pinned_at)
SELECT tenant_id, memory_id, %(now)s
FROM (SELECT m.tenant_id, m.memory_id FROM memories m
      WHERE {one_tenant} AND m.memory_id = ANY(%(memory_ids)b::uuid[])
      ORDER BY m.memory_id FOR KEY SHARE OF m) living
ON CONFLICT (tenant_id, memory_id) DO UPDATE
SET pinned_at = coalesce(a.pinned_at, excluded.pinned_at), forget_at = NULL
RETURNING a.memory_id

-- name: unpin
UPDATE memory_access x
SET pinned_at = NULL,
    forget_at = (
        SELECT {due_at}
        FROM (SELECT x.tenant_id, x.memory_id, x.stage, x.staged_at, NULL::timestamptz AS pinned_at,
                     x.strength, x.access_count, x.last_accessed_at) a
        JOIN memories m USING (tenant_id, memory_id)
        CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r)
WHERE x.tenant_id = %(tenant)s AND x.memory_id = ANY(%(memory_ids)b::uuid[])
  AND x.pinned_at IS NOT NULL
RETURNING x.memory_id

-- name: out_of_recall
-- The demoted and archived ones of some memories, with the archived text, the time of archiving, and
-- whether their search terms are missing.
SELECT m.memory_id, m.tenant_id || substr(m.namespace, 2), m.key, x.text, x.archived_at,
       NOT x.keeps_words
FROM memories m
LEFT JOIN memory_archive x ON x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id
WHERE {one_tenant} AND m.memory_id = ANY(%(memory_ids)b::uuid[]) AND m.demoted_at IS NOT NULL

-- name: staged
-- Memories out of recall, by stage and kind, last faded first.
SELECT {kept_columns}
FROM memory_access a
JOIN memories m USING (tenant_id, memory_id)
CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
WHERE {one_tenant} AND a.stage = ANY(%(stages)s::int[]) AND m.demoted_at IS NOT NULL
  AND (%(kinds)s::text[] IS NULL OR m.kind = ANY(%(kinds)s))
ORDER BY a.staged_at DESC, a.memory_id LIMIT %(limit)s OFFSET %(offset)s

-- name: lock_memories
-- Waits for transactions that move these memories on or rewrite them; the next statement sees their
-- changes.
SELECT m.memory_id FROM memories m
WHERE {one_tenant} AND m.memory_id = ANY(%(memory_ids)b::uuid[])
ORDER BY m.memory_id FOR NO KEY UPDATE

-- name: require_faded
-- Undoes the transaction if a memory was moved on, revived or written since it was read.
SELECT require(count(*) = cardinality(%(memory_ids)b::uuid[]), 'a memory was moved on meanwhile')
FROM unnest(%(memory_ids)b::uuid[], %(archived_at)b::timestamptz[]) AS g(memory_id, archived_at)
JOIN memories m ON {one_tenant} AND m.memory_id = g.memory_id
LEFT JOIN memory_archive x ON x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id
WHERE m.demoted_at IS NOT NULL AND x.archived_at IS NOT DISTINCT FROM g.archived_at

-- name: revive_memories
-- Brings memories back into recall as if they were read now: archived ones with their text and with
-- new search terms, unless they kept their own.
WITH given AS (
    SELECT g.memory_id, g.terms, g.term_count, x.text, x.value, x.is_shown, x.words_key,
           x.memory_id IS NOT NULL AS is_archived,
           x.memory_id IS NOT NULL AND NOT x.keeps_words AS is_wordless
    FROM unnest(%(memory_ids)b::uuid[], %(terms)b::text[], %(term_counts)b::int[])
         AS g(memory_id, terms, term_count)
    LEFT JOIN memory_archive x ON x.tenant_id = %(tenant)s AND x.memory_id = g.memory_id
), back AS (
    UPDATE memories m
    SET demoted_at = NULL,
        text = CASE WHEN g.is_archived THEN g.text ELSE m.text END,
        value = CASE WHEN NOT g.is_archived THEN m.value
                     WHEN g.is_shown THEN g.value || jsonb_build_object('content', g.text)
                     ELSE g.value END,
        terms = CASE WHEN g.is_wordless THEN g.terms::tsvector ELSE m.terms END,
        term_count = CASE WHEN g.is_wordless THEN g.term_count ELSE m.term_count END,
        words_key = CASE WHEN g.is_archived THEN g.words_key ELSE m.words_key END
    FROM given g
    WHERE {one_tenant} AND m.memory_id = g.memory_id AND m.demoted_at IS NOT NULL
    RETURNING m.tenant_id, m.memory_id, m.kind, m.importance, m.updated_at, m.created_at,
              m.superseded_at, memory_arousal(m.value) AS arousal
), unpacked AS (
    DELETE FROM memory_archive x USING back b
    WHERE x.tenant_id = b.tenant_id AND x.memory_id = b.memory_id
)
UPDATE memory_access a
SET stage = 0, staged_at = %(now)s,
    access_count = least(a.access_count::bigint + 1, 2147483647)::integer,
    last_accessed_at = greatest(a.last_accessed_at, %(now)s),
    forget_at = CASE WHEN b.superseded_at IS NULL THEN
        next_stage_at(r, 0, %(now)s, a.pinned_at, a.strength, b.importance, b.arousal,
                      a.access_count::bigint + 1,
                      greatest(b.updated_at, a.last_accessed_at, %(now)s), b.created_at) END
FROM back b CROSS JOIN LATERAL retention_rule(b.tenant_id, b.kind) r
WHERE a.tenant_id = b.tenant_id AND a.memory_id = b.memory_id
RETURNING a.memory_id

-- name: take_time
-- Until the end of the transaction: gives a statement that reads everything more time and memory, and
-- a plan for what it reads. Row security makes the planner expect few rows, so it would look up each
-- counter by itself.
SELECT set_config('statement_timeout', '600000', true), set_config('work_mem', '64MB', true),
       set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('enable_nestloop', 'off', true)

-- name: retention_stats
-- The retention of the memories below a path, in one pass: by kind, stage and tenth of the score the
-- number of memories, the sum of their scores, and the pinned ones.
-- Rows are split by the next fate and the first horizon within which it is met: 0 for the first
-- horizon, the number of horizons for none of them or NULL. Then the same for the two stages after
-- that; what is due already counts as due slightly later.
-- Memories that never fade score as new. OFFSET 0 keeps strength, score and moments from being
-- computed wherever they are named.
SELECT kind, fades, stage, least(floor(score * 10), 9)::integer, width_bucket(forget_at, ends), fate,
       count(*), sum(score), count(pinned_at), width_bucket(second_at, ends), second_fate,
       width_bucket(third_at, ends)
FROM (
    SELECT c.*, calculate_retention_score(c.access_count, c.used_at,
               CASE WHEN c.fades THEN (c.rule).decay_rate ELSE 0 END, %(now)s::timestamptz,
               c.strength, c.arousal) AS score,
           CASE WHEN c.second_fate = 'archived' AND c.second_at < c.latest THEN
               next_stage_at(c.rule, 2, c.second_at, NULL, c.strength, NULL, c.arousal,
                             c.access_count, c.used_at, c.created_at) END AS third_at
    FROM (
        SELECT c.*, CASE WHEN c.fate = 'demoted' AND (c.rule).archive_threshold IS NOT NULL
                    THEN 'archived' ELSE 'erased' END AS second_fate,
               CASE WHEN c.fate <> 'erased' AND c.forget_at < c.latest THEN
                   next_stage_at(c.rule, c.stage + 1,
                                 greatest(c.forget_at, %(now)s::timestamptz + interval '1 microsecond'),
                                 NULL, c.strength, NULL, c.arousal, c.access_count, c.used_at,
                                 c.created_at) END AS second_at
        FROM (
            SELECT m.kind, r.fades, r AS rule, coalesce(a.stage, 0) AS stage, a.pinned_at,
                   coalesce(a.strength, initial_strength(m.importance)) AS strength,
                   coalesce(a.access_count, 0) AS access_count,
                   greatest(m.updated_at, a.last_accessed_at) AS used_at, m.created_at,
                   memory_arousal(m.value) AS arousal, {fate} AS fate, a.forget_at, h.ends,
                   h.ends[cardinality(h.ends)] AS latest
            FROM (SELECT coalesce(array_agg(%(now)s::timestamptz + days * interval '1 day'
                                            + interval '1 microsecond' ORDER BY days), '{}') AS ends
                  FROM unnest(%(days)s::float8[]) AS days) h
            CROSS JOIN memories m
            CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
            LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
                                         AND a.tenant_id >= %(tenant)s AND a.tenant_id < %(tenant_end)s
            WHERE {tenant_range} AND m.superseded_at IS NULL
              AND (m.expires_at IS NULL OR m.expires_at > %(now)s)
            OFFSET 0) c
        OFFSET 0) c
    OFFSET 0) scored
GROUP BY 1, 2, 3, 4, 5, 6, 10, 11, 12
