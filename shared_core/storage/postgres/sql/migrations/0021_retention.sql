-- How memories fade, as data, and when each leaves the stage it is in. docs/forgetting.md has the
-- formulas; shared_core.core.decay has the same in Python, and agrees to 1e-9.
SELECT set_config('hippocampus.scope', '/', true);

-- How a kind of memory fades. tenant_id: '/' for all, the path of an application, or of one of its
-- users; the nearest counts. fades: false for never. decay_rate: a day. A memory is demoted once its
-- score is below threshold and it is min_age_days old; archived (null: not) and erased (null: never)
-- once it is below those thresholds as well, and so many days in the stage before. with_history: with
-- a fact that is erased go the ended facts of its place.
CREATE TABLE retention_policies (
    tenant_id           text COLLATE "C" NOT NULL,
    kind                text NOT NULL
                        CHECK (kind IN ('episodic', 'semantic', 'summary', 'reflection', 'item')),
    fades               boolean NOT NULL,
    decay_rate          double precision NOT NULL
                        CHECK (decay_rate >= 0 AND decay_rate < 'Infinity'),
    threshold           double precision NOT NULL CHECK (threshold BETWEEN 0 AND 1),
    min_age_days        double precision NOT NULL
                        CHECK (min_age_days >= 0 AND min_age_days < 'Infinity'),
    archive_threshold   double precision CHECK (archive_threshold BETWEEN 0 AND 1),
    archive_after_days  double precision NOT NULL
                        CHECK (archive_after_days >= 0 AND archive_after_days < 'Infinity'),
    erase_threshold     double precision CHECK (erase_threshold BETWEEN 0 AND 1),
    erase_after_days    double precision NOT NULL
                        CHECK (erase_after_days >= 0 AND erase_after_days < 'Infinity'),
    with_history        boolean NOT NULL,
    updated_at          timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, kind)
);
SELECT protect('retention_policies');
CREATE POLICY above_scope ON retention_policies FOR SELECT
    USING (tenant_id IN (SELECT '/' UNION ALL SELECT substring(scope FROM '^/[^/]+/')
                         FROM current_setting('hippocampus.scope', true) AS scope));

-- The nearest policy of a kind of memory in a tenant; where none is stored, turns, summaries and
-- reflections fade by the default one.
CREATE FUNCTION retention_rule(p_tenant text, p_kind text)
RETURNS SETOF retention_policies LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT r.* FROM (
        SELECT s.* FROM retention_policies s
        WHERE s.kind = p_kind
          AND s.tenant_id = ANY (ARRAY['/', substring(p_tenant FROM '^/[^/]+/'), p_tenant])
        UNION ALL
        SELECT '/', p_kind, p_kind IN ('episodic', 'summary', 'reflection'), 0.1::float8,
               0.1::float8, 7::float8, 0.05::float8, 30::float8, NULL::float8, 90::float8, true,
               '-infinity'::timestamptz
    ) r
    ORDER BY length(r.tenant_id) DESC, r.updated_at DESC LIMIT 1
$$;

-- Raises: there is no such retention.
CREATE FUNCTION retention_refused(VARIADIC p_given double precision[])
RETURNS double precision LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '22023',
        MESSAGE = 'no retention can be told of access count, decay rate, initial strength and arousal '
                  || p_given::text,
        HINT = 'counts and decay rates are finite numbers from 0, strength and arousal from 0 to 1';
END $$;

-- The decay rate a day of what excites: full arousal halves it. What is too small or too large to
-- reckon with is as good as nothing, or as at once.
CREATE FUNCTION slowed_decay(p_decay_rate double precision, p_arousal double precision)
RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_decay_rate < 1e-30 THEN 0
           ELSE least(p_decay_rate, 1e290) * (2 - p_arousal) / 2 END
$$;

-- The score of a fresh memory that was never read, by its importance from 1 to 10: 0.4 to 1.
CREATE FUNCTION initial_strength(p_importance double precision)
RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_importance <= 5 THEN 0.4 + 0.3 * (p_importance - 1) / 4
           ELSE 0.7 + 0.3 * (p_importance - 5) / 5 END
$$;

-- The arousal that the metadata of a memory tell, 0 where they tell none.
CREATE FUNCTION memory_arousal(p_value jsonb)
RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN jsonb_typeof(p_value #> '{metadata,emotion,arousal}') = 'number'
           THEN least(greatest((p_value #>> '{metadata,emotion,arousal}')::numeric, 0), 1)::float8
           ELSE 0 END
$$;

-- How well a memory is kept as of a moment, 0 to 1. p_last_accessed_at: when it was last read, or
-- written; a moment in the future counts as p_as_of. p_initial: 0.2 is the documented function.
CREATE FUNCTION calculate_retention_score(
    p_access_count      bigint,
    p_last_accessed_at  timestamptz,
    p_decay_rate        double precision DEFAULT 0.1,
    p_as_of             timestamptz DEFAULT now(),
    p_initial           double precision DEFAULT 0.2,
    p_arousal           double precision DEFAULT 0
) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN num_nulls(p_access_count, p_last_accessed_at, p_decay_rate, p_as_of, p_initial,
                       p_arousal) > 0 THEN NULL
        WHEN p_access_count >= 0 AND p_decay_rate >= 0 AND p_decay_rate < 'Infinity'
             AND p_initial BETWEEN 0 AND 1 AND p_arousal BETWEEN 0 AND 1
        THEN least(1, CASE WHEN p_initial < 1e-40 THEN 0 ELSE p_initial END
             * (1 + ln(1 + p_access_count::float8))
             * exp(-least(600, slowed_decay(p_decay_rate, p_arousal) * greatest(0,
                   extract(epoch FROM p_as_of - p_last_accessed_at)::float8 / 86400))))
        ELSE retention_refused(p_access_count, p_decay_rate, p_initial, p_arousal) END
$$;

-- For how many days a score is at least the threshold; infinity for ever.
CREATE FUNCTION days_above(
    p_threshold double precision, p_strength double precision, p_slowed double precision
) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_threshold = 0 THEN 'Infinity' WHEN p_strength < p_threshold THEN 0
           WHEN p_slowed = 0 THEN 'Infinity'
           ELSE (ln(p_strength) - ln(p_threshold)) / p_slowed END
$$;

-- When a memory leaves the stage it is in (0 kept, 1 demoted, 2 archived), as things stand; null for
-- never, which includes what lies past the calendar of Python. To the first microsecond. p_initial:
-- the strength it was given, or null for that of its importance.
CREATE FUNCTION next_stage_at(
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
    since    timestamptz := p_created_at;
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

-- strength: the initial strength that a caller's own function gave. forget_at: when the memory leaves
-- its stage, in closed form, set when it is written and when it is read: no row changes by ageing.
ALTER TABLE memory_access
    ADD COLUMN stage      smallint NOT NULL DEFAULT 0 CHECK (stage BETWEEN 0 AND 2),
    ADD COLUMN staged_at  timestamptz,
    ADD COLUMN pinned_at  timestamptz,
    ADD COLUMN strength   double precision CHECK (strength BETWEEN 0 AND 1);
CREATE INDEX memory_access_due ON memory_access (forget_at, tenant_id)
    WHERE forget_at IS NOT NULL;

INSERT INTO memory_access AS a (tenant_id, memory_id, forget_at)
SELECT m.tenant_id, m.memory_id,
       next_stage_at(r, 0, NULL, NULL, NULL, m.importance, memory_arousal(m.value),
                     coalesce(c.access_count, 0),
                     greatest(m.updated_at, c.last_accessed_at), m.created_at)
FROM memories m
CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
LEFT JOIN memory_access c ON c.tenant_id = m.tenant_id AND c.memory_id = m.memory_id
WHERE r.fades AND m.superseded_at IS NULL
ON CONFLICT (tenant_id, memory_id) DO UPDATE SET forget_at = excluded.forget_at;
