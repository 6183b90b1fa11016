-- The window of get_context_window: facts whose planned end has come are not shown, and the estimate of
-- tokens is nearer to what a tokenizer counts.

-- At most how many tokens o200k makes of a text, without its vocabulary: two of three bytes of small
-- letters, spaces, Han and Chinese punctuation, each other byte one. So many only random letters and
-- rare Han come near; English and Chinese have a third to half of it.
CREATE FUNCTION tokens_at_most(p_text text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ceil((2 * octet_length(p_text) + octet_length(
        regexp_replace(p_text, '[a-z]{2,}|[ 一-鿿，。！？、；：]', '', 'g'))) / 3.0)::integer
$$;

-- Facts, memories and turns that fit p_max_tokens together, facts and memories best first, turns
-- oldest first, the newest kept. p_query_embedding: of the active model; without it words alone find.
-- p_thread_id: whose turns; without it the newest of all. The ratios are the least that memories and
-- history may take, the rest is the facts'; what one does not need goes to the others.
-- p_tokens_per_byte: instead of tokens_at_most(); 1 is never too little for a tokenizer of bytes.
CREATE OR REPLACE FUNCTION get_context_window(
    p_user_id text,
    p_app_name text,
    p_query text,
    p_query_embedding halfvec DEFAULT NULL,
    p_max_tokens integer DEFAULT 4000,
    p_memory_ratio double precision DEFAULT 0.3,
    p_history_ratio double precision DEFAULT 0.5,
    p_thread_id text DEFAULT NULL,
    p_tokens_per_byte double precision DEFAULT NULL
) RETURNS TABLE (
    context_type text, content text, relevance_score double precision, token_estimate integer,
    source_id text, occurred_at timestamptz
) LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    tenant CONSTANT text := '/' || replace(replace(p_app_name, '%', '%25'), '/', '%2F')
                         || '/' || replace(replace(p_user_id, '%', '%25'), '/', '%2F') || '/';
    scope CONSTANT text := coalesce(current_setting('hippocampus.scope', true), '');
    words CONSTANT text[] := query_words(coalesce(p_query, ''));
    per_byte CONSTANT double precision := coalesce(p_tokens_per_byte, 2.0 / 3);  -- at least
    section text;
    sections CONSTANT text[] := ARRAY['history', 'fact', 'memory'];
    given jsonb := '{}';  -- of each section its items in order: id, text, relevance, tokens, time
    needed jsonb := '{}'; -- of each section what all its items take, at most its share
    chosen jsonb[] := '{}';
    item jsonb;
    used integer := 0;
    room integer;
BEGIN
    IF tenant IS NULL OR p_user_id = '' OR p_app_name = '' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'p_user_id and p_app_name must not be empty';
    END IF;
    IF p_max_tokens IS NULL OR p_max_tokens < 1 OR NOT p_tokens_per_byte BETWEEN 0.01 AND 100 THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'p_max_tokens must be at least 1, and p_tokens_per_byte from 0.01 to 100';
    END IF;
    IF p_memory_ratio IS NULL OR p_history_ratio IS NULL OR p_memory_ratio < 0
       OR p_history_ratio < 0 OR NOT p_memory_ratio + p_history_ratio <= 1 THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'p_memory_ratio and p_history_ratio must be 0 to 1, and together at most 1';
    END IF;
    IF row_security_active('memories') AND NOT (right(scope, 1) = '/' AND tenant ^@ scope) THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'this transaction is not bound to the memory of that user',
            HINT = format('SELECT set_config(''hippocampus.scope'', %L, true)', tenant);
    END IF;
    SELECT jsonb_object_agg(s.name, coalesce(f.items, '[]')) INTO given
    FROM unnest(sections) s(name) LEFT JOIN LATERAL (
        SELECT jsonb_agg(jsonb_build_object(
                   'section', s.name, 'id', id, 'text', text, 'score', score, 'at', at, 'place', place,
                   'cost', coalesce(ceil(octet_length(text) * p_tokens_per_byte), tokens_at_most(text)))
               ORDER BY place) AS items
        FROM (
            SELECT memory_id::text AS id, text, score, at,
                   row_number() OVER (ORDER BY score DESC, at DESC, memory_id) AS place
            FROM (
                SELECT m.memory_id, m.text, m.occurred_at AS at,
                       greatest(words_held(words, m.text),
                                (SELECT 1 - min(e.embedding <=> p_query_embedding) FROM embeddings e
                                 WHERE e.tenant_id = tenant AND e.memory_id = m.memory_id
                                   AND e.model = (SELECT model FROM embedding_models WHERE active)
                                )) AS score
                FROM memories m LEFT JOIN facts f USING (tenant_id, memory_id)
                WHERE m.tenant_id = tenant AND m.namespace ^@ '/memories/'
                  AND m.superseded_at IS NULL AND m.demoted_at IS NULL
                  AND (m.expires_at IS NULL OR m.expires_at > now())
                  AND (f.memory_id IS NOT NULL) = (s.name = 'fact')
                  AND (f.valid_from IS NULL OR f.valid_from <= now() + interval '1 hour')
                  AND (f.valid_until IS NULL OR f.valid_until > now())
                  AND s.name <> 'history'
            ) scored WHERE score > 0 OR s.name = 'fact'
            UNION ALL
            SELECT event_id, text, 1, at, place
            FROM (SELECT event_id, text, at, row_number() OVER newest AS place,
                         sum(octet_length(text)) FILTER (WHERE octet_length(text) * per_byte
                                                               <= p_max_tokens) OVER newest AS bytes
            FROM (SELECT e.event_id, e.text, e.occurred_at AS at, e.seq FROM events e
                  WHERE s.name = 'history' AND e.tenant_id = tenant
                    AND (p_thread_id IS NULL OR e.thread_id = p_thread_id)
                    AND e.text <> '' AND (e.expires_at IS NULL OR e.expires_at > now())
                    AND e.memory_seq IS NOT NULL  -- a session log holds the rest, unredacted
                  ORDER BY CASE WHEN p_thread_id IS NULL THEN e.occurred_at END DESC, e.seq DESC
                  LIMIT p_max_tokens) said WINDOW newest AS (ORDER BY at DESC, seq DESC)) counted
            WHERE coalesce(bytes, 0) * per_byte <= 2 * p_max_tokens  -- the rest has no room
        ) ranked WHERE place <= CASE s.name WHEN 'history' THEN p_max_tokens ELSE 50 END
    ) f ON true;
    SELECT jsonb_object_agg(s.name, least(
               (SELECT coalesce(sum((i ->> 'cost')::int), 0) FROM jsonb_array_elements(given -> s.name) i),
               p_max_tokens * CASE s.name WHEN 'memory' THEN p_memory_ratio
                                          WHEN 'history' THEN p_history_ratio
                                          ELSE 1 - p_memory_ratio - p_history_ratio END))
    INTO needed FROM unnest(sections) s(name);
    -- What the sections that come later need of their shares is theirs, in the first round.
    FOREACH section IN ARRAY sections || sections LOOP
        needed := needed - section;
        room := p_max_tokens - used
              - ceil((SELECT coalesce(sum(value::float8), 0) FROM jsonb_each_text(needed)));
        FOR item IN SELECT * FROM jsonb_array_elements(given -> section) LOOP
            CONTINUE WHEN (item ->> 'cost')::int > room OR item = ANY (chosen)
                OR section = 'memory' AND EXISTS (
                    SELECT FROM unnest(chosen) c WHERE lower(c ->> 'text') = lower(item ->> 'text'));
            chosen := chosen || item;
            room := room - (item ->> 'cost')::int;
            used := used + (item ->> 'cost')::int;
        END LOOP;
    END LOOP;
    RETURN QUERY
    SELECT c ->> 'section', c ->> 'text', (c ->> 'score')::float8, (c ->> 'cost')::int, c ->> 'id',
           (c ->> 'at')::timestamptz
    FROM unnest(chosen) c
    ORDER BY array_position(ARRAY['fact', 'memory', 'history'], c ->> 'section'),
             (c ->> 'place')::int * CASE c ->> 'section' WHEN 'history' THEN -1 ELSE 1 END;
END $$;
