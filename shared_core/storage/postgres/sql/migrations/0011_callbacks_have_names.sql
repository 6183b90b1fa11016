-- A callback goes to the code it was asked for: whose name the job bears.
SELECT set_config('hippocampus.scope', '/', true);

ALTER TABLE consolidation_jobs ADD COLUMN performer text COLLATE "C";
UPDATE consolidation_jobs SET performer = 'reflector' WHERE job_type = 'callback';
ALTER TABLE consolidation_jobs
    ADD CONSTRAINT consolidation_jobs_performer_check
        CHECK ((performer IS NULL) = (job_type <> 'callback'));

-- One may wait for each of them.
DROP INDEX consolidation_jobs_waiting;
CREATE UNIQUE INDEX consolidation_jobs_waiting
    ON consolidation_jobs (tenant_id, thread_id, job_type, performer)
    NULLS NOT DISTINCT WHERE status = 'pending';
