-- Memories of one user: %(size)s turns of a year, %(per_thread)s in a thread, and a fact in every tenth.
SET session_replication_role = replica;  -- foreign keys of one user are right by construction

CREATE TEMP TABLE said AS
SELECT n, ('t' || (n - 1) / %(per_thread)s) COLLATE "C" AS thread_id, gen_random_uuid() AS memory_id,
       %(newest)s::timestamptz - (%(size)s - n) * (interval '365 days' / %(size)s) AS occurred_at,
       'Turn ' || n || ': ' || (
           SELECT string_agg((%(words)s::text[])[1 + (hashint4(n * 31 + place) & 1048575)
                                                   %% cardinality(%(words)s::text[])], ' ')
           FROM generate_series(1, 12) place) || '.' AS text
FROM generate_series(1, %(size)s) n;

INSERT INTO threads (tenant_id, thread_id, last_seq, last_memory_seq, created_at, updated_at)
SELECT %(tenant)s, thread_id, max(n), max(n), max(occurred_at), max(occurred_at)
FROM said GROUP BY thread_id;

INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text, occurred_at, recorded_at,
                    memory_seq)
SELECT %(tenant)s, thread_id, n, 'e' || n, 'ann', CASE WHEN n %% 2 = 1 THEN 'user' ELSE 'agent' END,
       text, occurred_at, occurred_at, n
FROM said;

INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms, term_count,
                      author, role, thread_id, occurred_at, created_at, updated_at)
SELECT %(tenant)s, memory_id, '/memories/', memory_id::text, 'episodic', text,
       jsonb_build_object('content', text), to_tsvector('english', text), 14, 'ann',
       CASE WHEN n %% 2 = 1 THEN 'user' ELSE 'agent' END, thread_id,
       occurred_at, occurred_at, occurred_at
FROM said;

INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id)
SELECT %(tenant)s, memory_id, thread_id, 'e' || n FROM said;

INSERT INTO embeddings (tenant_id, model, memory_id, field, embedding)
SELECT %(tenant)s, %(model)s, memory_id, 'text',
       (SELECT array_agg(sin(n * 12.9898 + place * 78.233))
        FROM generate_series(1, %(dims)s) place)::real[]::vector::halfvec
FROM said;

DROP TABLE said;
RESET session_replication_role;
