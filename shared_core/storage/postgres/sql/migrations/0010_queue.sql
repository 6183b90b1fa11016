-- The queue: kinds of work, fair turns, one job per thread at a time, and what makes one due at once.
SELECT set_config('hippocampus.scope', '/', true);

-- What was remembered of a thread since the watermark, in bytes: a quarter of it estimates tokens.
ALTER TABLE threads ADD COLUMN unread_bytes bigint NOT NULL DEFAULT 0;

-- A reflection is about a user, not a thread. A caller's own code was called deep_reflection.
ALTER TABLE consolidation_jobs
    DROP CONSTRAINT consolidation_jobs_job_type_check,
    ALTER COLUMN thread_id DROP NOT NULL;
UPDATE consolidation_jobs SET job_type = 'callback' WHERE job_type = 'deep_reflection';
-- Of the jobs of one thread that run, the one taken last goes on.
UPDATE consolidation_jobs j SET status = 'cancelled', lease_until = NULL, payload = NULL
WHERE status = 'running' AND EXISTS (
    SELECT FROM consolidation_jobs o
    WHERE o.tenant_id = j.tenant_id AND o.thread_id = j.thread_id AND o.status = 'running'
      AND (o.started_at, o.job_id) > (j.started_at, j.job_id));
ALTER TABLE consolidation_jobs
    ADD CONSTRAINT consolidation_jobs_job_type_check CHECK (job_type IN (
        'fast_replay', 'deep_reflection', 'full_consolidation', 'reflection', 'callback')),
    ADD CONSTRAINT consolidation_jobs_thread_check
        CHECK ((thread_id IS NULL) = (job_type = 'reflection'));

-- At most one waiting job per thread and type, the newest request joins it; at most one that runs
-- per thread. What has no thread counts as one.
DROP INDEX consolidation_jobs_waiting;
CREATE UNIQUE INDEX consolidation_jobs_waiting ON consolidation_jobs (tenant_id, thread_id, job_type)
    NULLS NOT DISTINCT WHERE status = 'pending';
CREATE UNIQUE INDEX consolidation_jobs_running ON consolidation_jobs (tenant_id, thread_id)
    NULLS NOT DISTINCT WHERE status = 'running';
-- The tenants in turn, and each one's oldest job; and what is due next of all.
DROP INDEX consolidation_jobs_due;
CREATE INDEX consolidation_jobs_turns ON consolidation_jobs (priority DESC, tenant_id, run_after)
    WHERE status = 'pending';
CREATE INDEX consolidation_jobs_due ON consolidation_jobs (run_after) WHERE status = 'pending';
CREATE INDEX consolidation_jobs_failed ON consolidation_jobs (tenant_id) WHERE status = 'failed';
CREATE INDEX consolidation_jobs_of_thread
    ON consolidation_jobs (tenant_id, coalesce(thread_id, ''));

-- How many extractions the threads of a user had: every so many ask for a reflection.
CREATE TABLE extraction_counts (
    tenant_id    text COLLATE "C" NOT NULL,
    extractions  bigint NOT NULL,
    PRIMARY KEY (tenant_id)
);
SELECT protect('extraction_counts');
