-- What has faded leaves recall, is compacted, and is erased, a stage at a time.

-- What archived memories said; their rows in memories hold neither text nor words, and they have no
-- vector. is_shown: value held the text as well, as "content". Small rows are compressed, too.
CREATE TABLE memory_archive (
    tenant_id    text COLLATE "C" NOT NULL,
    memory_id    uuid NOT NULL,
    text         text NOT NULL,
    value        jsonb NOT NULL,
    is_shown     boolean NOT NULL,
    words_key    uuid,
    archived_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE
) WITH (toast_tuple_target = 128);
ALTER TABLE memory_archive ALTER COLUMN text SET STORAGE MAIN, ALTER COLUMN value SET STORAGE MAIN;
SELECT protect('memory_archive');

-- Moves at most p_limit memories below a path on that are due as of p_now, one stage each, and returns
-- how many of each kind met which fate: demoted, archived, erased, or retimed, when a policy has
-- changed meanwhile and it was too early. With an erased turn goes what was said, and a tombstone
-- keeps it from coming back; facts drawn from it stay. What somebody else works on is left alone.
-- Every row is looked up by its key: the planner cannot know how few they are.
CREATE FUNCTION forget_faded(p_scope text, p_now timestamptz, p_limit integer)
RETURNS TABLE (kind text, fate text, memories bigint) LANGUAGE sql
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_seqscan TO off SET jit TO off
AS $$
    WITH ripe AS MATERIALIZED (
        SELECT a.tenant_id, a.memory_id, a.stage, a.staged_at, a.pinned_at, a.strength,
               a.access_count, a.last_accessed_at
        FROM memory_access a
        WHERE a.forget_at <= p_now AND (a.staged_at IS NULL OR a.staged_at < p_now)
          AND a.tenant_id >= p_scope
          AND a.tenant_id < left(p_scope, -1) || '0'  -- after "/"
        ORDER BY a.forget_at LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ), judged AS MATERIALIZED (
        SELECT a.tenant_id, a.memory_id, m.kind, m.thread_id, a.stage, r AS rule,
               coalesce(a.strength, initial_strength(m.importance)) AS initial, m.arousal,
               a.access_count, greatest(m.updated_at, a.last_accessed_at) AS used_at, m.created_at,
               CASE WHEN m.superseded_at IS NULL THEN
                   next_stage_at(r, a.stage, a.staged_at, a.pinned_at, a.strength, m.importance,
                                 m.arousal, a.access_count,
                                 greatest(m.updated_at, a.last_accessed_at), m.created_at) END
                   AS due_at
        FROM ripe a
        CROSS JOIN LATERAL (
            -- A fence: each by the whole key.
            SELECT m.kind, m.thread_id, m.importance, memory_arousal(m.value) AS arousal,
                   m.updated_at, m.created_at, m.superseded_at
            FROM memories m
            WHERE m.tenant_id = a.tenant_id AND m.memory_id = a.memory_id
            OFFSET 0
            FOR UPDATE SKIP LOCKED) m
        CROSS JOIN LATERAL retention_rule(a.tenant_id, m.kind) r
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
                                         archived_at)
        SELECT m.tenant_id, m.memory_id, m.text,
               CASE WHEN m.value ->> 'content' = m.text THEN m.value - 'content' ELSE m.value END,
               coalesce(m.value ->> 'content' = m.text, false), m.words_key, p_now
        FROM fated f JOIN memories m USING (tenant_id, memory_id)
        WHERE f.fate = 'archived'
        ON CONFLICT DO NOTHING
    ), unembedded AS (
        DELETE FROM embeddings e USING fated f
        WHERE f.fate = 'archived' AND e.tenant_id = f.tenant_id AND e.memory_id = f.memory_id
    ), hidden AS (
        UPDATE memories m
        SET demoted_at = coalesce(m.demoted_at, p_now),
            text = CASE f.fate WHEN 'archived' THEN '' ELSE m.text END,
            value = CASE f.fate WHEN 'archived' THEN '{}' ELSE m.value END,
            terms = CASE f.fate WHEN 'archived' THEN '' ELSE m.terms END,
            term_count = CASE f.fate WHEN 'archived' THEN 0 ELSE m.term_count END,
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
    ), gone AS (
        SELECT tenant_id, memory_id FROM fated WHERE fate = 'erased'
        UNION
        SELECT h.tenant_id, h.memory_id
        FROM fated f JOIN facts x USING (tenant_id, memory_id)
        JOIN facts h ON h.tenant_id = x.tenant_id AND h.fact_type = x.fact_type AND h.key = x.key
        WHERE f.fate = 'erased' AND (f.rule).with_history AND h.superseded_at IS NOT NULL
        UNION
        SELECT o.tenant_id, o.memory_id
        FROM fated f
        JOIN memories o ON o.tenant_id = f.tenant_id AND o.thread_id = f.thread_id
                       AND o.kind = 'summary' AND o.superseded_at IS NOT NULL
        WHERE f.fate = 'erased' AND f.kind = 'summary'
    ), unbased AS (
        DELETE FROM memory_bases b USING gone g
        WHERE b.tenant_id = g.tenant_id AND b.basis_id = g.memory_id
    ), erased AS (
        DELETE FROM memories m USING gone g
        WHERE m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
    )
    SELECT f.kind, f.fate, count(*) FROM fated f GROUP BY 1, 2
$$;

-- Erases at once at most p_limit memories below a path whose score is below a threshold and which are
-- so old, of the kinds that fade; p_decay_rate: null for that of their policies. Returns their ids.
-- What was drawn from them stays, and so do their turns, as said: adding them again brings nothing
-- back. Reads every memory below the path.
CREATE FUNCTION forget_below(
    p_scope         text,
    p_threshold     double precision,
    p_min_age_days  double precision,
    p_decay_rate    double precision,
    p_now           timestamptz,
    p_limit         integer
) RETURNS TABLE (tenant_id text, memory_id uuid) LANGUAGE sql AS $$
    WITH weak AS MATERIALIZED (
        SELECT m.tenant_id, m.memory_id, m.kind, m.thread_id
        FROM memories m
        LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
        CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
        WHERE m.tenant_id >= p_scope AND m.tenant_id < left(p_scope, -1) || '0'
          AND m.superseded_at IS NULL AND r.fades AND a.pinned_at IS NULL
          AND extract(epoch FROM p_now - m.created_at) >= p_min_age_days * 86400
          AND calculate_retention_score(
                  coalesce(a.access_count, 0), greatest(m.updated_at, a.last_accessed_at),
                  coalesce(p_decay_rate, r.decay_rate), p_now,
                  coalesce(a.strength, initial_strength(m.importance)), memory_arousal(m.value)
              ) < p_threshold
        ORDER BY m.tenant_id, m.memory_id LIMIT p_limit
        FOR UPDATE OF m SKIP LOCKED
    ), gone AS (
        SELECT w.tenant_id, w.memory_id FROM weak w
        UNION
        SELECT o.tenant_id, o.memory_id
        FROM weak w
        JOIN memories o ON o.tenant_id = w.tenant_id AND o.thread_id = w.thread_id
                       AND o.kind = 'summary' AND o.superseded_at IS NOT NULL
        WHERE w.kind = 'summary'
    ), unbased AS (
        DELETE FROM memory_bases b USING gone g
        WHERE b.tenant_id = g.tenant_id AND b.basis_id = g.memory_id
    ), erased AS (
        DELETE FROM memories m USING gone g
        WHERE m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
    )
    SELECT w.tenant_id, w.memory_id FROM weak w
$$;

-- For SQL alone, e.g. pg_cron. Without a threshold and an age: moves at most p_limit memories on by
-- their policies, as the worker does. With one of them: erases at once at most p_limit whose score is
-- below it (left out: 0.1) and which are so many days old (left out: 7). Returns how many.
-- p_scope: '/' for all, '/app/' or '/app/user/', with %25 for % and %2F for / in names.
CREATE FUNCTION cleanup_low_value_memories(
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
    IF p_threshold IS NULL AND p_min_age_days IS NULL THEN
        SELECT coalesce(sum(f.memories) FILTER (WHERE f.fate <> 'retimed'), 0) INTO moved
        FROM forget_faded(p_scope, p_as_of, p_limit) f;
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
