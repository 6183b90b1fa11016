-- fragment: put_columns
tenant_id, memory_id, namespace, key, kind, text, value, terms, term_count, author, importance,
occurred_at, created_at, updated_at, expires_at, ttl_s, thread_id, run_id, superseded_at, words_key

-- fragment: put_over
-- An existing key is replaced and keeps its id and creation time; updated_at always rises. An expired
-- row counts as gone, so its key starts a new life. A memory drawn from a turn stays so after a
-- rewrite, because forgetting the turn must still reach it.
-- A sum of a moment and an interval depends on the time zone of the session, unless it is in UTC.
ON CONFLICT (tenant_id, namespace, key) DO UPDATE
SET kind = CASE WHEN m.kind = 'episodic' THEN m.kind ELSE excluded.kind END,
    text = excluded.text, value = excluded.value, terms = excluded.terms,
    term_count = excluded.term_count, author = excluded.author, importance = excluded.importance,
    occurred_at = excluded.occurred_at, expires_at = excluded.expires_at, ttl_s = excluded.ttl_s,
    thread_id = coalesce(excluded.thread_id, m.thread_id), run_id = excluded.run_id,
    superseded_at = excluded.superseded_at, words_key = excluded.words_key, demoted_at = NULL,
    created_at = CASE WHEN m.expires_at <= excluded.updated_at THEN excluded.created_at
                      ELSE m.created_at END,
    updated_at = greatest(excluded.updated_at, (m.updated_at AT TIME ZONE 'UTC'
                                                + interval '1 microsecond') AT TIME ZONE 'UTC')
RETURNING 1

-- name: put_memories
-- Writes memories of a tenant by namespace and key.
INSERT INTO memories AS m ({put_columns})
SELECT %(tenant)s, memory_id, namespace, key, kind, text, value::jsonb, terms::tsvector, term_count,
       author, importance, occurred_at, %(now)s, %(now)s, expires_at, ttl_s, thread_id, run_id,
       superseded_at, words_key
FROM unnest(
    %(memory_id)b::uuid[], %(namespace)b::text[], %(key)b::text[],
    %(kind)s::text[], %(text)b::text[], %(value)b::text[], %(terms)b::text[],
    %(term_count)b::int[], %(author)b::text[], %(importance)b::real[],
    %(occurred_at)b::timestamptz[], %(expires_at)b::timestamptz[], %(ttl_s)b::float8[],
    %(thread_id)b::text[], %(run_id)b::uuid[], %(superseded_at)b::timestamptz[],
    %(words_key)b::uuid[]
) AS g(memory_id, namespace, key, kind, text, value, terms, term_count, author, importance,
       occurred_at, expires_at, ttl_s, thread_id, run_id, superseded_at, words_key)
{put_over}

-- name: put_memory
-- Writes one memory by namespace and key. A Citus cluster sends VALUES to a node as they are; rows of
-- unnest() are first gathered by the coordinator.
INSERT INTO memories AS m ({put_columns})
VALUES (%(tenant)s, %(memory_id)b::uuid, %(namespace)b::text, %(key)b::text, %(kind)s::text,
        %(text)b::text, %(value)b::text::jsonb, %(terms)b::text::tsvector, %(term_count)b::int,
        %(author)b::text, %(importance)b::real, %(occurred_at)b::timestamptz, %(now)s, %(now)s,
        %(expires_at)b::timestamptz, %(ttl_s)b::float8, %(thread_id)b::text, %(run_id)b::uuid,
        %(superseded_at)b::timestamptz, %(words_key)b::uuid)
{put_over}

-- name: clear_derived
-- Deletes what belonged to the replaced memories: vectors, facts, sources, archived text and stage.
-- Their writers wait for each other by the rows of put_memories.
WITH named AS (
    SELECT m.memory_id, m.kind
    FROM {addressed}
), vectors AS (
    DELETE FROM embeddings e
    WHERE e.tenant_id = %(tenant)s AND e.memory_id = ANY(ARRAY(SELECT memory_id FROM named))
), structure AS (
    DELETE FROM facts f
    WHERE f.tenant_id = %(tenant)s AND f.memory_id = ANY(ARRAY(SELECT memory_id FROM named))
), unarchived AS (
    DELETE FROM memory_archive x
    WHERE x.tenant_id = %(tenant)s AND x.memory_id = ANY(ARRAY(SELECT memory_id FROM named))
), unstaged AS (
    UPDATE memory_access a SET stage = 0, staged_at = NULL
    WHERE a.tenant_id = %(tenant)s AND a.memory_id = ANY(ARRAY(SELECT memory_id FROM named))
      AND a.stage > 0
)
DELETE FROM memory_sources s
WHERE s.tenant_id = %(tenant)s
  AND s.memory_id = ANY(ARRAY(SELECT memory_id FROM named
                              WHERE kind NOT IN ('episodic', 'summary')))

-- name: add_embeddings
-- Writes vectors of memories of a tenant by namespace and key; vectors of missing keys are dropped.
INSERT INTO embeddings (tenant_id, model, memory_id, field, embedding)
SELECT m.tenant_id, %(model)s, m.memory_id, g.field, g.embedding
FROM unnest(%(namespaces)b::text[], %(keys)b::text[], %(fields)b::text[],
            %(embeddings)b::halfvec[]) AS g(namespace, key, field, embedding)
CROSS JOIN LATERAL (SELECT * FROM memories m
                    WHERE m.tenant_id = %(tenant)s AND m.namespace = g.namespace AND m.key = g.key
                    OFFSET 0) m
ON CONFLICT DO NOTHING

-- name: lock_tenants
-- Makes transactions that derive knowledge, and those that forget its sources, wait for each other.
SELECT pg_advisory_xact_lock(hashtextextended(tenant, 0))
FROM (SELECT DISTINCT unnest(%(tenants)b::text[]) AS tenant ORDER BY 1) t

-- name: try_lock_tenants
-- As lock_tenants, but refuses to wait.
SELECT require(bool_and(pg_try_advisory_xact_lock(hashtextextended(tenant, 0))), 'busy')
FROM (SELECT DISTINCT unnest(%(tenants)b::text[]) AS tenant ORDER BY 1) t

-- fragment: bm25
-- BM25 with k1 = 1.2 and b = 0.75 (Robertson and Zaragoza, 2009, equation 3.15) and term frequency 1:
-- turns are short, and counting words in a tsvector costs ten times as much as testing for one.
w.idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * l.term_count / c.mean_length))

-- fragment: similarity
(SELECT 1 - min(e.embedding <=> %(embedding)s::halfvec) FROM embeddings e
 WHERE e.tenant_id = %(tenant)s AND e.model = %(model)s AND e.memory_id = m.memory_id)

-- fragment: turns_of
-- The ids of the turns of a memory; an episodic one has one.
CASE WHEN m.kind = 'episodic' THEN ARRAY(
    SELECT s.event_id FROM memory_sources s
    WHERE s.tenant_id = %(tenant)s AND s.memory_id = m.memory_id)
ELSE {source_ids} END

-- name: recall
-- Candidates of a scope by meaning, by words, and by both of a turn and its neighbours. The first row
-- carries the corpus of the scope: for every living memory, in order of occurrence, its similarity,
-- its length and the query words it holds. The ranking needs it to compare and to look around
-- (decision 7). Turns of a thread without a pause of six hours are one session.
-- The planner expects one row of any tenant. So no two sets of a tenant's size are joined here: they
-- are appended and grouped, which is linear whatever the planner expects.
WITH living AS MATERIALIZED (
    -- Keeps words only of memories that hold a query word: copying costs as much as reading.
    SELECT m.memory_id, m.updated_at, m.term_count,
           CASE WHEN m.terms @@ %(any_term)s::tsquery THEN m.terms END AS terms,
           row_number() OVER said AS number,
           m.kind <> 'episodic' OR m.thread_id IS DISTINCT FROM lag(m.thread_id) OVER said
               OR m.occurred_at - lag(m.occurred_at) OVER said > interval '6 hours' AS opens
    FROM memories m
    WHERE {one_tenant} AND {below} AND {current} AND {filter}
      AND (%(kinds)s::text[] IS NULL OR m.kind = ANY(%(kinds)s))
    WINDOW said AS (ORDER BY m.kind <> 'episodic', m.thread_id, m.memory_id)
), corpus AS MATERIALIZED (
    SELECT count(*)::float8 AS size, greatest(avg(term_count), 1)::float8 AS mean_length
    FROM living
), held AS MATERIALIZED (
    -- The words of each memory, as places in the query.
    SELECT l.memory_id, l.updated_at, l.term_count, l.number, q.place
    FROM unnest(%(term_queries)s::tsquery[]) WITH ORDINALITY AS q(query, place)
    JOIN (SELECT * FROM living WHERE terms IS NOT NULL) l ON l.terms @@ q.query
), rarity AS MATERIALIZED (
    -- The weight (inverse document frequency) of each word of the query.
    SELECT array_agg(ln(1 + (c.size - h.holders + 0.5) / (h.holders + 0.5)) ORDER BY q.place) AS idfs
    FROM unnest(%(term_queries)s::tsquery[]) WITH ORDINALITY AS q(query, place)
    CROSS JOIN corpus c
    LEFT JOIN (SELECT place, count(*) AS holders FROM held GROUP BY place) n USING (place)
    CROSS JOIN LATERAL (SELECT coalesce(n.holders, 0) AS holders) h
), by_words AS MATERIALIZED (
    SELECT l.memory_id, l.updated_at, l.number, {bm25} AS bm25
    FROM (SELECT memory_id, updated_at, term_count, number,
                 sum((SELECT idfs FROM rarity)[place]) AS idf
          FROM held GROUP BY memory_id, updated_at, term_count, number) l
    CROSS JOIN LATERAL (SELECT l.idf) w
    CROSS JOIN corpus c
), reach AS MATERIALIZED (
    -- Whether to read all vectors of the tenant in one scan: three in a scan cost one look-up by id.
    SELECT (SELECT count(*) FROM (
                SELECT FROM embeddings e WHERE e.tenant_id = %(tenant)s AND e.model = %(model)s
                LIMIT (SELECT (3 * size)::bigint FROM corpus)) n) < 3 * size AS is_wide
    FROM corpus
), by_meaning AS MATERIALIZED (
    -- A vector without a number belongs to a memory outside the query's filter.
    SELECT * FROM (
        SELECT memory_id, max(updated_at) AS updated_at, max(similarity) AS similarity,
               max(number) AS number, bool_or(opens) AS opens, max(term_count) AS term_count
        FROM (
            SELECT m.memory_id, m.updated_at, m.number, m.opens, m.term_count,
                   CASE WHEN NOT (SELECT is_wide FROM reach) THEN {similarity} END AS similarity
            FROM living m
            UNION ALL
            SELECT e.memory_id, NULL, NULL, NULL, NULL,
                   1 - (e.embedding <=> %(embedding)s::halfvec)
            FROM embeddings e
            WHERE e.tenant_id = %(tenant)s AND e.model = %(model)s AND (SELECT is_wide FROM reach)
        ) either
        GROUP BY memory_id
    ) every WHERE number IS NOT NULL
), spread AS MATERIALIZED (
    -- A memory without a word of the query scores 0 and is in no list of words, but counts here.
    SELECT coalesce(s.mean, 0) AS similarity_mean, nullif(s.sd, 0) AS similarity_sd,
           b.total / c.size AS bm25_mean,
           nullif(sqrt(greatest(b.squares / c.size - (b.total / c.size) ^ 2, 0)), 0) AS bm25_sd
    FROM (SELECT avg(similarity) AS mean, stddev_pop(similarity) AS sd FROM by_meaning) s
    CROSS JOIN (SELECT coalesce(sum(bm25), 0) AS total, coalesce(sum(bm25 ^ 2), 0) AS squares
                FROM by_words) b
    CROSS JOIN corpus c
    WHERE c.size > 0
), scored AS (
    SELECT either.memory_id, updated_at, number, opens,
           similarity IS NOT NULL OR bm25 IS NOT NULL AS is_found,
           coalesce((similarity - d.similarity_mean) / d.similarity_sd, 0)
               + coalesce((coalesce(bm25, 0) - d.bm25_mean) / d.bm25_sd, 0) AS score
    FROM (SELECT memory_id, max(updated_at) AS updated_at, max(number) AS number,
                 bool_or(opens) AS opens, max(similarity) AS similarity, max(bm25) AS bm25
          FROM (SELECT memory_id, updated_at, number, opens, similarity, NULL AS bm25
                FROM by_meaning
                UNION ALL
                SELECT memory_id, NULL, NULL, NULL, NULL, bm25 FROM by_words) both_channels
          GROUP BY memory_id) either
    CROSS JOIN spread d
), in_context AS (
    -- Half the score of the turns before and after: an answer seldom repeats its question.
    SELECT memory_id, updated_at, number, is_found,
           score + 0.5 * CASE WHEN opens THEN 0 ELSE lag(score) OVER said END
                 + 0.5 * CASE WHEN lead(opens) OVER said THEN 0
                              ELSE coalesce(lead(score) OVER said, 0) END AS score
    FROM scored
    WINDOW said AS (ORDER BY number)
), picked AS MATERIALIZED (
    SELECT memory_id, max(number) AS number
    FROM (
        (SELECT memory_id, number FROM by_meaning
         WHERE similarity IS NOT NULL
         ORDER BY similarity DESC, updated_at DESC, memory_id LIMIT %(candidates)s)
        UNION ALL
        (SELECT memory_id, number FROM by_words
         ORDER BY bm25 DESC, updated_at DESC, memory_id LIMIT %(candidates)s)
        UNION ALL
        (SELECT memory_id, number FROM in_context
         WHERE is_found
         ORDER BY score DESC, updated_at DESC, memory_id LIMIT %(candidates)s)
    ) either
    GROUP BY memory_id
), ends AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM facts f WHERE f.tenant_id = %(tenant)s AND {ended}) AS any_ended
), whole AS MATERIALIZED (
    SELECT *
    FROM (SELECT array_agg(similarity ORDER BY number) AS similarities,
                 array_agg(term_count ORDER BY number) AS lengths,
                 array_agg(opens ORDER BY number) AS opens FROM by_meaning) l
    CROSS JOIN (SELECT array_agg(number) AS numbers, array_agg(place) AS places FROM held) h
)
SELECT {own_columns},
       {turns_of},
       CASE WHEN m.kind = 'episodic' THEN m.role END,
       -- The share of ended facts among those drawn from a turn, or from the turns of a summary.
       CASE WHEN (SELECT any_ended FROM ends) AND m.kind IN ('episodic', 'summary') THEN (
           SELECT avg(({ended})::int)::float8
           FROM (SELECT DISTINCT d.memory_id
                 FROM memory_sources s
                 JOIN memory_sources d ON d.tenant_id = s.tenant_id AND d.thread_id = s.thread_id
                                      AND d.event_id = s.event_id
                 WHERE s.tenant_id = %(tenant)s AND s.memory_id = m.memory_id) drawn
           JOIN facts f ON f.tenant_id = %(tenant)s AND f.memory_id = drawn.memory_id) END,
       p.number, w.similarities, w.lengths, w.opens, w.numbers, w.places
FROM (SELECT *, row_number() OVER () = 1 AS is_first FROM picked) p
JOIN memories m ON m.tenant_id = %(tenant)s AND m.memory_id = p.memory_id
LEFT JOIN whole w ON p.is_first
