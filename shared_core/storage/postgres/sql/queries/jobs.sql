-- The queue. Times are parameters, so the caller's clock decides and not the server's.

-- name: enqueue_job
-- Enqueues work on a thread, or on a user if thread_id is null.
-- changed_at: if given, only if the thread has unread turns and this is the time of its last change.
-- A waiting job of the same work moves to the new time. But a busy thread waits at most ten times the
-- delay. It does not wait at all with event_count unread turns, or with %(bytes)s unread bytes,
-- unless a worker reads it; after a failure it waits for the next try.
-- A waiting job that embeds items stays as it is until half of its delay is over: a burst of puts
-- then writes no row of the queue each, but locks it, so no worker takes the job before their commit.
-- A new payload replaces the waiting job, and its tries start at zero. Sent again after a lost
-- answer, the statement finds the job that it made.
WITH waiting AS (
    SELECT run_after FROM consolidation_jobs
    WHERE tenant_id = %(tenant)s AND coalesce(thread_id, '') = coalesce(%(thread_id)s::text, '')
      AND job_type = %(job_type)s::text AND performer IS NOT DISTINCT FROM %(performer)s::text
      AND status = 'pending'
), thread AS (
    SELECT unread_bytes, last_memory_seq - consolidated_seq AS unread, updated_at FROM threads
    WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s
), asked AS (
    INSERT INTO consolidation_jobs AS j (tenant_id, job_id, thread_id, job_type, performer, priority,
                                         run_after, created_at, payload)
    SELECT %(tenant)s, %(job_id)s, %(thread_id)s, %(job_type)s, %(performer)s, %(priority)s,
           CASE WHEN EXISTS (SELECT FROM thread WHERE unread >= %(event_count)s::bigint
                                                   OR unread_bytes >= %(bytes)s::bigint)
                     AND NOT EXISTS (SELECT FROM consolidation_jobs
                                     WHERE tenant_id = %(tenant)s AND thread_id = %(thread_id)s
                                       AND status = 'running')
                THEN %(now)s ELSE %(run_after)s::timestamptz END,
           %(now)s, %(payload)s::jsonb
    WHERE NOT EXISTS (SELECT FROM consolidation_jobs
                      WHERE tenant_id = %(tenant)s AND job_id = %(job_id)s)
      AND (%(changed_at)s::timestamptz IS NULL OR EXISTS (
          SELECT FROM thread WHERE unread > 0 AND updated_at = %(changed_at)s))
    ON CONFLICT (tenant_id, thread_id, job_type, performer) WHERE status = 'pending'
    DO UPDATE SET payload = excluded.payload, priority = greatest(j.priority, excluded.priority),
        job_id = CASE WHEN excluded.payload IS NULL THEN j.job_id ELSE excluded.job_id END,
        attempts = CASE WHEN excluded.payload IS NULL THEN j.attempts ELSE 0 END,
        error = CASE WHEN excluded.payload IS NULL THEN j.error END,
        created_at = CASE WHEN {tried_anew} THEN excluded.created_at ELSE j.created_at END,
        run_after = CASE WHEN {tried_anew} THEN excluded.run_after
                    WHEN j.error IS NOT NULL THEN j.run_after
                    ELSE least(excluded.run_after,
                               j.created_at + 10 * (excluded.run_after - excluded.created_at)) END
    WHERE j.job_type <> 'item_vectors'
       OR excluded.run_after - j.run_after NOT BETWEEN interval '0' AND
              (excluded.run_after - excluded.created_at) / 2
    RETURNING run_after
)
SELECT (SELECT count(*) FROM asked), {hint}

-- fragment: tried_anew
(excluded.payload IS NOT NULL AND (j.attempts > 0 OR j.error IS NOT NULL))

-- name: open_thread
-- Creates a thread if it is missing.
INSERT INTO threads (tenant_id, thread_id, last_seq, last_memory_seq, created_at, updated_at)
VALUES (%(tenant)s, %(thread_id)s, 0, 0, %(now)s, %(now)s)
ON CONFLICT (tenant_id, thread_id) DO NOTHING

-- name: take_in_order
-- For claim_job: makes rows come from the index in their order. Under row security the planner
-- expects so few rows that it would fetch and sort all jobs of a tenant.
SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true)

-- name: claim_job
-- Claims a job whose lease expired, or else the most urgent due one. A worker runs one job at a time:
-- a job it already holds was claimed by a call whose answer was lost.
-- At equal priority the tenants take turns. turns steps from one tenant with waiting jobs to the
-- next, with one index probe each: lap 0 visits the tenants after the one served last, lap 1 the
-- rest, and a row that is never due starts the next priority. Nothing is sorted, so the statement
-- stops at the first job it can lock. Jobs of a thread with a running job are skipped.
WITH RECURSIVE turns(priority, lap, tenant_id, run_after) AS (
    SELECT 32767::smallint, 0, %(after_tenant)s::text COLLATE "C", 'infinity'::timestamptz
    UNION ALL
    SELECT next.* FROM turns t CROSS JOIN LATERAL (
        (SELECT j.priority, t.lap, j.tenant_id, j.run_after FROM consolidation_jobs j
         WHERE j.status = 'pending' AND j.priority = t.priority AND j.tenant_id > t.tenant_id
           AND (t.lap = 0 OR j.tenant_id <= %(after_tenant)s)
         ORDER BY j.tenant_id, j.run_after LIMIT 1)
        UNION ALL
        (SELECT j.priority, 1, j.tenant_id, j.run_after FROM consolidation_jobs j
         WHERE t.lap = 0 AND j.status = 'pending' AND j.priority = t.priority
           AND j.tenant_id <= %(after_tenant)s
         ORDER BY j.tenant_id, j.run_after LIMIT 1)
        UNION ALL
        (SELECT j.priority, 0, %(after_tenant)s::text COLLATE "C", 'infinity'::timestamptz
         FROM consolidation_jobs j
         WHERE j.status = 'pending' AND j.priority < t.priority
         ORDER BY j.priority DESC LIMIT 1)
        LIMIT 1
    ) next
), silent AS (
    SELECT j.tenant_id, j.job_id FROM consolidation_jobs j
    WHERE j.status = 'running' AND (j.lease_until <= %(now)s OR j.worker_id = %(worker_id)s)
      AND {doable}
    ORDER BY j.lease_until
    LIMIT 1
    FOR UPDATE SKIP LOCKED
), due AS (
    SELECT oldest.* FROM turns t CROSS JOIN LATERAL (
        SELECT j.tenant_id, j.job_id FROM consolidation_jobs j
        WHERE j.status = 'pending' AND j.priority = t.priority AND j.tenant_id = t.tenant_id
          AND j.run_after <= %(now)s AND {doable} AND NOT {thread_busy}
        ORDER BY j.run_after
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) oldest
    WHERE t.run_after <= %(now)s
    LIMIT 1
), taken AS (
    SELECT * FROM silent UNION ALL SELECT * FROM due LIMIT 1
)
UPDATE consolidation_jobs j
SET status = 'running', worker_id = %(worker_id)s, lease_until = %(lease_until)s,
    attempts = j.attempts
               + (j.status = 'pending' OR j.worker_id IS DISTINCT FROM %(worker_id)s)::int,
    started_at = %(now)s
FROM taken WHERE j.tenant_id = taken.tenant_id AND j.job_id = taken.job_id
RETURNING j.tenant_id, j.job_id, j.thread_id, j.job_type, j.performer, j.attempts, j.payload::text

-- fragment: doable
-- Jobs that a worker can run: types of jobs, and callbacks whose name it knows within the application
-- that the name belongs to.
(j.job_type = ANY(%(job_types)b::text[])
 AND (j.performer IS NULL OR EXISTS (
     SELECT FROM unnest(%(names)b::text[], %(applications)b::text[]) AS k(name, application)
     WHERE k.name = j.performer AND starts_with(j.tenant_id, k.application))))

-- name: bury_job
-- Marks a claimed job as dead whose row cannot be read.
UPDATE consolidation_jobs
SET status = 'failed', error = %(error)s, lease_until = NULL, completed_at = %(now)s
WHERE tenant_id = %(tenant)s AND job_id = %(job_id)s AND status = 'running'
  AND worker_id = %(worker_id)s

-- name: release_jobs
-- Puts back jobs that a worker has claimed and will not finish.
UPDATE consolidation_jobs j
SET status = CASE WHEN {waits} THEN 'cancelled' ELSE 'pending' END, run_after = %(now)s,
    lease_until = NULL
WHERE j.status = 'running' AND j.worker_id = %(worker_id)s

-- fragment: waits
EXISTS (SELECT FROM consolidation_jobs w
        WHERE w.tenant_id = j.tenant_id AND coalesce(w.thread_id, '') = coalesce(j.thread_id, '')
          AND w.job_type = j.job_type AND w.performer IS NOT DISTINCT FROM j.performer
          AND w.status = 'pending')

-- fragment: thread_busy
EXISTS (SELECT FROM consolidation_jobs r
        WHERE r.tenant_id = j.tenant_id AND coalesce(r.thread_id, '') = coalesce(j.thread_id, '')
          AND r.status = 'running')

-- name: next_job_at
-- When the next job is due or a lease expires; null if no job is open. Each half has its index.
SELECT least((SELECT j.run_after FROM consolidation_jobs j
              WHERE j.status = 'pending' AND {doable} AND NOT {thread_busy}
              ORDER BY j.run_after LIMIT 1),
             (SELECT min(j.lease_until) FROM consolidation_jobs j
              WHERE j.status = 'running' AND {doable}))

-- name: hasten_jobs
-- Makes jobs of some threads due now; an empty thread stands for jobs without one. A failed job keeps its back-off.
UPDATE consolidation_jobs j SET run_after = %(now)s
FROM unnest(%(tenants)b::text[], %(thread_ids)b::text[]) AS g(tenant_id, thread_id)
WHERE j.tenant_id = g.tenant_id AND coalesce(j.thread_id, '') = g.thread_id
  AND j.status = 'pending' AND {doable} AND j.error IS NULL AND j.run_after > %(now)s

-- name: open_jobs
-- The number of jobs of some threads that wait or run.
WITH asked AS (
    SELECT * FROM unnest(%(tenants)b::text[], %(thread_ids)b::text[]) AS g(tenant_id, thread_id)
)
SELECT (SELECT count(*) FROM consolidation_jobs j JOIN asked a
            ON j.tenant_id = a.tenant_id AND coalesce(j.thread_id, '') = a.thread_id
        WHERE j.status = 'pending' AND {doable})
     + (SELECT count(*) FROM consolidation_jobs j JOIN asked a
            ON j.tenant_id = a.tenant_id AND coalesce(j.thread_id, '') = a.thread_id
        WHERE j.status = 'running' AND {doable})

-- fragment: hint
-- Notifies listeners when a job is due that is new, or due earlier than before.
(SELECT count(pg_notify('hippocampus',
                        current_schema() || ' ' || extract(epoch FROM a.run_after))::text)
 FROM asked a LEFT JOIN waiting w ON true
 WHERE w.run_after IS NULL OR a.run_after < w.run_after)

-- fragment: job_columns
m.tenant_id, m.job_type, m.status, m.job_id, m.thread_id, m.priority, m.attempts, m.created_at,
m.run_after, m.lease_until, m.started_at, m.completed_at, m.error, m.result::text, m.performer

-- name: list_jobs
-- Jobs by their properties, newest first; a null matches all.
SELECT {job_columns}
FROM consolidation_jobs m
WHERE {tenant_scope} AND status = ANY(%(statuses)b::text[])
  AND (%(thread_id)s::text IS NULL OR coalesce(thread_id, '') = %(thread_id)s)
  AND (%(job_ids)b::uuid[] IS NULL OR job_id = ANY(%(job_ids)b::uuid[]))
ORDER BY created_at DESC, job_id DESC
LIMIT %(limit)s

-- name: hint_worker
-- Notifies one worker, to prove that notifications arrive.
SELECT pg_notify('hippocampus', %(worker)s)

-- name: job_stats
-- The size of the queue. Each part has its index.
SELECT (SELECT count(*) FROM consolidation_jobs WHERE status = 'pending'),
       (SELECT count(*) FROM consolidation_jobs WHERE status = 'pending' AND run_after <= %(now)s),
       (SELECT count(*) FROM consolidation_jobs WHERE status = 'running'),
       (SELECT count(*) FROM consolidation_jobs WHERE status = 'failed'),
       (SELECT min(run_after) FROM consolidation_jobs
        WHERE status = 'pending' AND run_after <= %(now)s),
       (SELECT count(*) FROM consolidation_jobs
        WHERE status = 'pending' AND run_after <= %(now)s AND job_type = 'callback')
