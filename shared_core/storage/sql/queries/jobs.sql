-- The queue. Times are given, so a clock decides and not the server.

-- name: enqueue_job
-- Asks for work on a thread. A request that waits already moves to the new time: the newest counts.
-- But a thread that never rests waits ten times the delay at most. Sent again after a lost answer, it
-- finds the job that it made.
INSERT INTO consolidation_jobs AS j (tenant_id, job_id, thread_id, job_type, run_after, created_at,
                                     payload)
SELECT %(tenant)s, %(job_id)s, %(thread_id)s, %(job_type)s, %(run_after)s, %(now)s,
       %(payload)s::jsonb
WHERE NOT EXISTS (SELECT FROM consolidation_jobs
                  WHERE tenant_id = %(tenant)s AND job_id = %(job_id)s)
ON CONFLICT (tenant_id, thread_id, job_type) WHERE status = 'pending'
DO UPDATE SET {newest_time}, payload = excluded.payload

-- name: open_thread
-- Makes sure that a thread is there.
INSERT INTO threads (tenant_id, thread_id, last_seq, last_memory_seq, created_at, updated_at)
VALUES (%(tenant)s, %(thread_id)s, 0, 0, %(now)s, %(now)s)
ON CONFLICT (tenant_id, thread_id) DO NOTHING

-- name: claim_job
-- Takes the most urgent job that is due, or whose worker was silent for its whole lease. A worker
-- does one at a time: one that is its own already was taken by a claim whose answer was lost.
WITH due AS (
    SELECT tenant_id, job_id FROM consolidation_jobs
    WHERE (status = 'pending' AND run_after <= %(now)s
           OR status = 'running' AND (lease_until <= %(now)s OR worker_id = %(worker_id)s))
      AND job_type = ANY(%(job_types)b::text[])
    ORDER BY priority DESC, run_after, job_id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE consolidation_jobs j
SET status = 'running', worker_id = %(worker_id)s, lease_until = %(lease_until)s,
    attempts = j.attempts + 1, started_at = %(now)s
FROM due WHERE j.tenant_id = due.tenant_id AND j.job_id = due.job_id
RETURNING j.tenant_id, j.job_id, j.thread_id, j.job_type, j.attempts, j.payload

-- name: extend_job
-- Leases a job for longer, if its worker still has it.
UPDATE consolidation_jobs SET lease_until = %(lease_until)s
WHERE tenant_id = %(tenant)s AND job_id = %(job_id)s AND status = 'running'
  AND worker_id = %(worker_id)s
RETURNING 1

-- name: complete_job
-- Notes that a job is done. Of each thread the last one is kept: a turn must not cost a row for ever,
-- and what made an earlier one fail is over.
WITH done AS (
    UPDATE consolidation_jobs
    SET status = 'completed', completed_at = %(now)s, result = %(result)s::jsonb, error = NULL,
        lease_until = NULL, payload = NULL
    WHERE tenant_id = %(tenant)s AND job_id = %(job_id)s AND status = 'running'
      AND worker_id = %(worker_id)s
    RETURNING thread_id, job_type
)
DELETE FROM consolidation_jobs j USING done d
WHERE j.tenant_id = %(tenant)s AND j.thread_id = d.thread_id AND j.job_type = d.job_type
  AND j.status IN ('completed', 'failed', 'cancelled') AND j.job_id <> %(job_id)s

-- name: return_job
-- Puts a job back to be tried again, unless a newer request waits for the same work, or gives it up;
-- of those given up the last is kept.
WITH gone AS (
    DELETE FROM consolidation_jobs f USING consolidation_jobs j
    WHERE j.tenant_id = %(tenant)s AND j.job_id = %(job_id)s AND f.tenant_id = j.tenant_id
      AND f.thread_id = j.thread_id AND f.job_type = j.job_type
      AND f.status IN ('failed', 'cancelled')
)
UPDATE consolidation_jobs j
SET status = CASE WHEN %(retry_at)s::timestamptz IS NULL THEN 'failed'
                  WHEN {waits} THEN 'cancelled' ELSE 'pending' END,
    run_after = coalesce(%(retry_at)s, j.run_after), error = %(error)s, lease_until = NULL,
    completed_at = CASE WHEN %(retry_at)s::timestamptz IS NULL THEN %(now)s END
WHERE j.tenant_id = %(tenant)s AND j.job_id = %(job_id)s AND j.status = 'running'
  AND j.worker_id = %(worker_id)s

-- name: release_jobs
-- Puts back what a worker has taken and will not finish.
UPDATE consolidation_jobs j
SET status = CASE WHEN {waits} THEN 'cancelled' ELSE 'pending' END, run_after = %(now)s,
    lease_until = NULL
WHERE j.status = 'running' AND j.worker_id = %(worker_id)s

-- fragment: waits
EXISTS (SELECT FROM consolidation_jobs w
        WHERE w.tenant_id = j.tenant_id AND w.thread_id = j.thread_id
          AND w.job_type = j.job_type AND w.status = 'pending')

-- name: next_job_at
-- When the next job is due, or a lease ends; null when nothing is open. Each half has its index.
SELECT least((SELECT min(run_after) FROM consolidation_jobs
              WHERE status = 'pending' AND job_type = ANY(%(job_types)b::text[])),
             (SELECT min(lease_until) FROM consolidation_jobs
              WHERE status = 'running' AND job_type = ANY(%(job_types)b::text[])))

-- name: hasten_jobs
-- Makes jobs of some threads due now. One that failed keeps its distance to the next try.
UPDATE consolidation_jobs j SET run_after = %(now)s
FROM unnest(%(tenants)b::text[], %(thread_ids)b::text[]) AS g(tenant_id, thread_id)
WHERE j.tenant_id = g.tenant_id AND j.thread_id = g.thread_id AND j.status = 'pending'
  AND j.job_type = ANY(%(job_types)b::text[]) AND j.attempts = 0 AND j.run_after > %(now)s

-- name: open_jobs
-- How many jobs of some threads wait or run.
WITH asked AS (
    SELECT * FROM unnest(%(tenants)b::text[], %(thread_ids)b::text[]) AS g(tenant_id, thread_id)
)
SELECT (SELECT count(*) FROM consolidation_jobs j JOIN asked USING (tenant_id, thread_id)
        WHERE j.status = 'pending' AND j.job_type = ANY(%(job_types)b::text[]))
     + (SELECT count(*) FROM consolidation_jobs j JOIN asked USING (tenant_id, thread_id)
        WHERE j.status = 'running' AND j.job_type = ANY(%(job_types)b::text[]))

-- name: list_jobs
-- Jobs, the newest first: of a thread all, else those that are open or were given up.
SELECT tenant_id, job_id, thread_id, job_type, status, attempts, created_at, run_after, lease_until,
       error, result
FROM consolidation_jobs m
WHERE {tenant_scope}
  AND CASE WHEN %(thread_id)s::text IS NULL THEN status IN ('pending', 'running', 'failed')
           ELSE thread_id = %(thread_id)s END
ORDER BY created_at DESC, job_id DESC
LIMIT %(limit)s
