-- Forgetting beside others who write, pin, restore and set policies.
SELECT set_config('hippocampus.scope', '/', true);

-- Archived texts of memories that were written anew meanwhile: nobody may bring them back.
DELETE FROM memory_archive x USING memories m
WHERE m.tenant_id = x.tenant_id AND m.memory_id = x.memory_id
  AND (m.demoted_at IS NULL OR m.text <> '');

-- keeps_words: vectors and words stayed with the memory. Those of an item are made of fields that only
-- its store knows.
ALTER TABLE memory_archive ADD COLUMN keeps_words boolean NOT NULL DEFAULT false;

-- Paths whose policies changed: up to which memory those below it were told anew when they leave their
-- stage. The row goes with the last of them.
CREATE TABLE retimings (
    tenant_id     text COLLATE "C" NOT NULL,
    after_tenant  text COLLATE "C" NOT NULL,
    after_id      uuid NOT NULL,
    PRIMARY KEY (tenant_id)
);
SELECT protect('retimings');

-- When a memory leaves the stage it is in (0 kept, 1 demoted, 2 archived), as things stand; null for
-- never, which includes what lies past the calendar of Python. To the first microsecond. p_initial:
-- the strength it was given, or null for that of its importance. p_staged_at: since when it is in its
-- stage; of one that is kept, when it was restored.
CREATE OR REPLACE FUNCTION next_stage_at(
    rule            retention_policies,
    p_stage         integer,
    p_staged_at     timestamptz,
    p_pinned_at     timestamptz,
    p_initial       double precision,
    p_importance    double precision,
    p_arousal       double precision,
    p_access_count  bigint,
    p_used_at       timestamptz,
    p_created_at    timestamptz
) RETURNS timestamptz LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    below    double precision := rule.threshold;
    since    timestamptz := greatest(p_created_at, p_staged_at);
    grace    double precision := rule.min_age_days;
    days     double precision;
    due_at   timestamptz;
BEGIN
    IF p_pinned_at IS NOT NULL OR NOT coalesce(rule.fades, false) THEN
        RETURN NULL;
    END IF;
    IF p_stage > 0 THEN
        since := p_staged_at;
        IF p_stage = 1 AND rule.archive_threshold IS NOT NULL THEN
            below := rule.archive_threshold;
            grace := rule.archive_after_days;
        ELSE
            below := rule.erase_threshold;
            grace := rule.erase_after_days;
        END IF;
    END IF;
    IF below IS NULL THEN
        RETURN NULL;
    END IF;
    days := days_above(below,
        coalesce(p_initial, initial_strength(p_importance)) * (1 + ln(1 + p_access_count::float8)),
        slowed_decay(rule.decay_rate, p_arousal));
    IF days > 4e6 OR grace > 4e6 THEN
        RETURN NULL;
    END IF;
    due_at := greatest(p_used_at + ceil(days * 86400e6) * interval '1 microsecond',
                       since + ceil(grace * 86400e6) * interval '1 microsecond');
    RETURN CASE WHEN due_at < '10000-01-01 00:00+00' THEN due_at END;
END $$;

-- Tells at most p_limit memories anew when they leave their stage, after the policies of a path
-- changed: from where the last call stopped, in the order of their ids. looked_at: 0 when all are told.
-- They are locked first, so that who moves one on is waited for, and what they did is seen.
CREATE FUNCTION retime_memories(p_path text, p_limit integer)
RETURNS TABLE (looked_at bigint, changed bigint) LANGUAGE plpgsql
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_seqscan TO off SET jit TO off
AS $$
DECLARE
    mark    retimings;
    owners  text[];
    ids     uuid[];
BEGIN
    SELECT t.* INTO mark FROM retimings t WHERE t.tenant_id = p_path FOR UPDATE;
    IF mark.tenant_id IS NOT NULL THEN
        SELECT array_agg(page.tenant_id), array_agg(page.memory_id) INTO owners, ids
        FROM (SELECT m.tenant_id, m.memory_id FROM memories m
              WHERE m.tenant_id >= p_path AND m.tenant_id < left(p_path, -1) || '0'
                AND (m.tenant_id, m.memory_id) > (mark.after_tenant, mark.after_id)
              ORDER BY m.tenant_id, m.memory_id LIMIT p_limit
              FOR KEY SHARE OF m) page;
    END IF;
    looked_at := coalesce(cardinality(ids), 0);
    changed := 0;
    IF looked_at = 0 THEN
        DELETE FROM retimings t WHERE t.tenant_id = p_path;
        RETURN NEXT;
        RETURN;
    END IF;
    WITH timed AS (
        INSERT INTO memory_access AS x (tenant_id, memory_id, forget_at)
        SELECT m.tenant_id, m.memory_id,
               CASE WHEN m.superseded_at IS NULL THEN
                   next_stage_at(r, coalesce(a.stage, 0), a.staged_at, a.pinned_at, a.strength,
                                 m.importance, memory_arousal(m.value), coalesce(a.access_count, 0),
                                 greatest(m.updated_at, a.last_accessed_at), m.created_at) END
        FROM unnest(owners, ids) AS page(tenant_id, memory_id)
        JOIN memories m ON m.tenant_id = page.tenant_id AND m.memory_id = page.memory_id
        CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
        LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
        WHERE r.fades OR a.forget_at IS NOT NULL
        ON CONFLICT (tenant_id, memory_id) DO UPDATE SET forget_at = excluded.forget_at
        WHERE x.forget_at IS DISTINCT FROM excluded.forget_at
        RETURNING 1
    )
    SELECT count(*) INTO changed FROM timed;
    UPDATE retimings t SET after_tenant = owners[looked_at], after_id = ids[looked_at]
    WHERE t.tenant_id = p_path;
    RETURN NEXT;
END $$;

-- What goes along when a memory is erased: of a fact the ended facts of its place, if its policy says
-- so; of a summary those it replaced. What is pinned stays.
CREATE FUNCTION erased_along(
    p_tenant text, p_memory_id uuid, p_kind text, p_thread_id text, p_with_history boolean
) RETURNS TABLE (tenant_id text, memory_id uuid, kind text) LANGUAGE sql STABLE AS $$
    SELECT m.tenant_id, m.memory_id, m.kind
    FROM (SELECT h.tenant_id, h.memory_id
          FROM facts x
          JOIN facts h ON h.tenant_id = x.tenant_id AND h.fact_type = x.fact_type AND h.key = x.key
          WHERE x.tenant_id = p_tenant AND x.memory_id = p_memory_id AND p_with_history
            AND h.superseded_at IS NOT NULL AND h.memory_id <> x.memory_id
          UNION ALL
          SELECT o.tenant_id, o.memory_id
          FROM memories o
          WHERE p_kind = 'summary' AND o.tenant_id = p_tenant AND o.thread_id = p_thread_id
            AND o.kind = 'summary' AND o.superseded_at IS NOT NULL) g
    JOIN memories m ON m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
    LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
    WHERE a.pinned_at IS NULL
$$;

-- Moves at most p_limit memories below a path on that are due as of p_now, one stage each, and returns
-- how many of each kind met which fate: demoted, archived, erased, or retimed, when a policy has
-- changed meanwhile and it was too early; and along: what was erased with them. With an erased turn
-- goes what was said, and a tombstone keeps it from coming back; facts drawn from it stay. What
-- somebody else works on is left alone, and does not count. What is due is read in the order of its
-- index, no further than p_limit, and every row is looked up by its key: the planner cannot know how
-- few they are.
CREATE OR REPLACE FUNCTION forget_faded(p_scope text, p_now timestamptz, p_limit integer)
RETURNS TABLE (kind text, fate text, memories bigint) LANGUAGE sql
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_seqscan TO off SET jit TO off
SET enable_bitmapscan TO off SET enable_sort TO off
AS $$
    WITH ripe AS MATERIALIZED (
        SELECT a.tenant_id, a.memory_id, a.stage, a.staged_at, a.pinned_at, a.strength,
               a.access_count, a.last_accessed_at, m.kind, m.thread_id, m.importance, m.arousal,
               m.updated_at, m.created_at, m.superseded_at
        FROM (
            SELECT a.*
            FROM memory_access a
            WHERE a.forget_at <= p_now AND (a.staged_at IS NULL OR a.staged_at < p_now)
              AND a.tenant_id >= p_scope
              AND a.tenant_id < left(p_scope, -1) || '0'  -- after "/"
            ORDER BY a.forget_at
            FOR UPDATE SKIP LOCKED) a
        CROSS JOIN LATERAL (
            -- A fence: each by the whole key.
            SELECT m.kind, m.thread_id, m.importance, memory_arousal(m.value) AS arousal,
                   m.updated_at, m.created_at, m.superseded_at
            FROM memories m
            WHERE m.tenant_id = a.tenant_id AND m.memory_id = a.memory_id
            OFFSET 0
            FOR UPDATE SKIP LOCKED) m
        LIMIT p_limit
    ), judged AS MATERIALIZED (
        SELECT a.tenant_id, a.memory_id, a.kind, a.thread_id, a.stage, r AS rule,
               coalesce(a.strength, initial_strength(a.importance)) AS initial, a.arousal,
               a.access_count, greatest(a.updated_at, a.last_accessed_at) AS used_at, a.created_at,
               CASE WHEN a.superseded_at IS NULL THEN
                   next_stage_at(r, a.stage, a.staged_at, a.pinned_at, a.strength, a.importance,
                                 a.arousal, a.access_count,
                                 greatest(a.updated_at, a.last_accessed_at), a.created_at) END
                   AS due_at
        FROM ripe a CROSS JOIN LATERAL retention_rule(a.tenant_id, a.kind) r
    ), fated AS MATERIALIZED (
        SELECT j.*,
               CASE WHEN j.due_at IS NULL OR j.due_at > p_now THEN 'retimed'
                    WHEN j.stage = 0 THEN 'demoted'
                    WHEN j.stage = 1 AND (j.rule).archive_threshold IS NOT NULL THEN 'archived'
                    ELSE 'erased' END AS fate
        FROM judged j
    ), moved AS (
        UPDATE memory_access a
        SET stage = CASE f.fate WHEN 'demoted' THEN 1 WHEN 'archived' THEN 2 ELSE a.stage END,
            staged_at = CASE f.fate WHEN 'retimed' THEN a.staged_at ELSE p_now END,
            forget_at = CASE f.fate WHEN 'retimed' THEN f.due_at ELSE
                next_stage_at(f.rule, CASE f.fate WHEN 'demoted' THEN 1 ELSE 2 END, p_now, NULL,
                              f.initial, NULL, f.arousal, f.access_count, f.used_at,
                              f.created_at) END
        FROM fated f
        WHERE f.fate <> 'erased' AND a.tenant_id = f.tenant_id AND a.memory_id = f.memory_id
    ), packed AS (
        INSERT INTO memory_archive AS x (tenant_id, memory_id, text, value, is_shown, words_key,
                                         archived_at, keeps_words)
        SELECT m.tenant_id, m.memory_id, m.text,
               CASE WHEN m.value ->> 'content' = m.text THEN m.value - 'content' ELSE m.value END,
               coalesce(m.value ->> 'content' = m.text, false), m.words_key, p_now,
               m.kind = 'item'
        FROM fated f JOIN memories m USING (tenant_id, memory_id)
        WHERE f.fate = 'archived'
        ON CONFLICT (tenant_id, memory_id) DO UPDATE
        SET text = excluded.text, value = excluded.value, is_shown = excluded.is_shown,
            words_key = excluded.words_key, archived_at = excluded.archived_at,
            keeps_words = excluded.keeps_words
    ), unembedded AS (
        DELETE FROM embeddings e USING fated f
        WHERE f.fate = 'archived' AND f.kind <> 'item'
          AND e.tenant_id = f.tenant_id AND e.memory_id = f.memory_id
    ), hidden AS (
        UPDATE memories m
        SET demoted_at = coalesce(m.demoted_at, p_now),
            text = CASE f.fate WHEN 'archived' THEN '' ELSE m.text END,
            value = CASE f.fate WHEN 'archived' THEN '{}' ELSE m.value END,
            terms = CASE WHEN f.fate = 'archived' AND f.kind <> 'item' THEN '' ELSE m.terms END,
            term_count = CASE WHEN f.fate = 'archived' AND f.kind <> 'item' THEN 0
                         ELSE m.term_count END,
            words_key = CASE f.fate WHEN 'archived' THEN NULL ELSE m.words_key END
        FROM fated f
        WHERE f.fate IN ('demoted', 'archived')
          AND m.tenant_id = f.tenant_id AND m.memory_id = f.memory_id
    ), said AS (
        SELECT s.tenant_id, s.thread_id, s.event_id
        FROM fated f JOIN memory_sources s USING (tenant_id, memory_id)
        WHERE f.fate = 'erased' AND f.kind = 'episodic'
    ), buried AS (
        INSERT INTO tombstones (tenant_id, thread_id, event_id, deleted_at)
        SELECT tenant_id, thread_id, event_id, p_now FROM said
        ON CONFLICT DO NOTHING
    ), unsaid AS (
        DELETE FROM events e USING said s
        WHERE e.tenant_id = s.tenant_id AND e.thread_id = s.thread_id AND e.event_id = s.event_id
          AND e.payload IS NULL
    ), unremembered AS (
        UPDATE events e SET memory_seq = NULL FROM said s
        WHERE e.tenant_id = s.tenant_id AND e.thread_id = s.thread_id AND e.event_id = s.event_id
          AND e.payload IS NOT NULL
    ), along AS MATERIALIZED (
        -- Who pins one holds it: those are left alone; who did just before is seen here.
        SELECT g.tenant_id, g.memory_id, g.kind
        FROM (SELECT DISTINCT g.* FROM fated f
              CROSS JOIN LATERAL erased_along(f.tenant_id, f.memory_id, f.kind, f.thread_id,
                                              (f.rule).with_history) g
              WHERE f.fate = 'erased') g
        CROSS JOIN LATERAL (
            SELECT FROM memories m
            WHERE m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
            OFFSET 0
            FOR UPDATE SKIP LOCKED) m
        LEFT JOIN LATERAL (
            SELECT a.pinned_at FROM memory_access a
            WHERE a.tenant_id = g.tenant_id AND a.memory_id = g.memory_id
            OFFSET 0
            FOR UPDATE) a ON true
        WHERE a.pinned_at IS NULL
    ), gone AS (
        SELECT tenant_id, memory_id FROM fated WHERE fate = 'erased'
        UNION
        SELECT tenant_id, memory_id FROM along
    ), unbased AS (
        DELETE FROM memory_bases b USING gone g
        WHERE b.tenant_id = g.tenant_id AND b.basis_id = g.memory_id
    ), erased AS (
        DELETE FROM memories m USING gone g
        WHERE m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
    )
    SELECT f.kind, f.fate, count(*) FROM fated f GROUP BY 1, 2
    UNION ALL
    SELECT a.kind, 'along', count(*) FROM along a GROUP BY 1
$$;

-- Whether a memory fades, by its rule and its counters, which may be missing, is not pinned, so old,
-- and scores below a threshold. p_decay_rate: null for that of its policy.
CREATE FUNCTION is_weak(
    m               memories,
    a               memory_access,
    r               retention_policies,
    p_threshold     double precision,
    p_min_age_days  double precision,
    p_decay_rate    double precision,
    p_now           timestamptz
) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT m.superseded_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > p_now) AND r.fades
       AND a.pinned_at IS NULL
       AND extract(epoch FROM p_now - m.created_at) >= p_min_age_days * 86400
       AND calculate_retention_score(
               coalesce(a.access_count, 0), greatest(m.updated_at, a.last_accessed_at),
               coalesce(p_decay_rate, r.decay_rate), p_now,
               coalesce(a.strength, initial_strength(m.importance)), memory_arousal(m.value)
           ) < p_threshold
$$;

-- Erases at once those of some memories that are weak, and returns their ids. What was drawn from them
-- stays, and so do their turns, as said: adding them again brings nothing back. They are locked, and
-- judged after that: what was pinned or read meanwhile stays, and so does what somebody works on.
CREATE FUNCTION forget_weak(
    p_tenants       text[],
    p_memory_ids    uuid[],
    p_threshold     double precision,
    p_min_age_days  double precision,
    p_decay_rate    double precision,
    p_now           timestamptz
) RETURNS TABLE (tenant_id text, memory_id uuid) LANGUAGE plpgsql
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_seqscan TO off SET jit TO off
AS $$
#variable_conflict use_column
DECLARE
    owners  text[];
    ids     uuid[];
BEGIN
    SELECT array_agg(m.tenant_id), array_agg(m.memory_id) INTO owners, ids
    FROM unnest(p_tenants, p_memory_ids) AS g(tenant_id, memory_id)
    CROSS JOIN LATERAL (
        SELECT m.tenant_id, m.memory_id FROM memories m
        WHERE m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
        OFFSET 0
        FOR UPDATE SKIP LOCKED) m;
    RETURN QUERY
    WITH weak AS MATERIALIZED (
        SELECT m.tenant_id, m.memory_id, m.kind, m.thread_id, r.with_history
        FROM unnest(owners, ids) AS g(tenant_id, memory_id)
        JOIN memories m ON m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
        LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
        CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
        WHERE is_weak(m, a, r, p_threshold, p_min_age_days, p_decay_rate, p_now)
    ), along AS MATERIALIZED (
        SELECT g.tenant_id, g.memory_id
        FROM (SELECT DISTINCT g.tenant_id, g.memory_id FROM weak w
              CROSS JOIN LATERAL erased_along(w.tenant_id, w.memory_id, w.kind, w.thread_id,
                                              false) g) g
        CROSS JOIN LATERAL (
            SELECT FROM memories m
            WHERE m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
            OFFSET 0
            FOR UPDATE SKIP LOCKED) m
        LEFT JOIN LATERAL (
            SELECT a.pinned_at FROM memory_access a
            WHERE a.tenant_id = g.tenant_id AND a.memory_id = g.memory_id
            OFFSET 0
            FOR UPDATE) a ON true
        WHERE a.pinned_at IS NULL
    ), gone AS (
        SELECT w.tenant_id, w.memory_id FROM weak w UNION SELECT g.tenant_id, g.memory_id FROM along g
    ), unbased AS (
        DELETE FROM memory_bases b USING gone g
        WHERE b.tenant_id = g.tenant_id AND b.basis_id = g.memory_id
    ), erased AS (
        DELETE FROM memories m USING gone g
        WHERE m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
    )
    SELECT w.tenant_id, w.memory_id FROM weak w;
END $$;

-- As forget_weak, of at most p_limit below a path. Reads every memory below the path.
CREATE OR REPLACE FUNCTION forget_below(
    p_scope         text,
    p_threshold     double precision,
    p_min_age_days  double precision,
    p_decay_rate    double precision,
    p_now           timestamptz,
    p_limit         integer
) RETURNS TABLE (tenant_id text, memory_id uuid) LANGUAGE sql AS $$
    SELECT g.tenant_id, g.memory_id
    FROM (SELECT array_agg(w.tenant_id) AS owners, array_agg(w.memory_id) AS ids
          FROM (SELECT m.tenant_id, m.memory_id
                FROM memories m
                LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
                CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
                WHERE m.tenant_id >= p_scope AND m.tenant_id < left(p_scope, -1) || '0'
                  AND is_weak(m, a, r, p_threshold, p_min_age_days, p_decay_rate, p_now)
                ORDER BY m.tenant_id, m.memory_id LIMIT p_limit) w) w
    CROSS JOIN LATERAL forget_weak(w.owners, w.ids, p_threshold, p_min_age_days, p_decay_rate,
                                   p_now) g
$$;

-- For SQL alone, e.g. pg_cron. Without a threshold and an age: moves at most p_limit memories on by
-- their policies, as the worker does. With one of them: erases at once at most p_limit whose score is
-- below it (left out: 0.1) and which are so many days old (left out: 7). Returns how many.
-- p_scope: '/' for all, '/app/' or '/app/user/', with %25 for % and %2F for / in names.
CREATE OR REPLACE FUNCTION cleanup_low_value_memories(
    p_threshold     double precision DEFAULT NULL,
    p_min_age_days  double precision DEFAULT NULL,
    p_limit         integer DEFAULT 10000,
    p_scope         text DEFAULT '/',
    p_as_of         timestamptz DEFAULT now()
) RETURNS integer LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    is_bound CONSTANT boolean := coalesce(current_setting('hippocampus.scope', true), '') <> '';
    moved integer;
BEGIN
    IF p_threshold NOT BETWEEN 0 AND 1 OR NOT (p_min_age_days >= 0 AND p_min_age_days < 'Infinity')
       OR p_limit < 0 OR right(p_scope, 1) <> '/' OR left(p_scope, 1) <> '/' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'nothing can be cleaned up so',
            HINT = 'p_threshold is from 0 to 1, p_min_age_days and p_limit are numbers from 0, p_scope '
                   'begins and ends with /';
    END IF;
    IF NOT is_bound THEN
        PERFORM set_config('hippocampus.scope', p_scope, true);
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('', 1));  -- policies stay as they are
    IF p_threshold IS NULL AND p_min_age_days IS NULL THEN
        PERFORM retime_memories(t.tenant_id, p_limit) FROM retimings t
        WHERE t.tenant_id >= p_scope AND t.tenant_id < left(p_scope, -1) || '0';
        SELECT coalesce(sum(f.memories) FILTER (WHERE f.fate NOT IN ('retimed', 'along')), 0)
        INTO moved FROM forget_faded(p_scope, p_as_of, p_limit) f;
    ELSE
        SELECT count(*) INTO moved
        FROM forget_below(p_scope, coalesce(p_threshold, 0.1), coalesce(p_min_age_days, 7), NULL,
                          p_as_of, p_limit);
    END IF;
    IF NOT is_bound THEN
        PERFORM set_config('hippocampus.scope', '', true);
    END IF;
    RETURN moved;
END $$;
