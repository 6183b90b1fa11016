-- The work of turning events into knowledge: the queue, its runs, their log, and erasure receipts.

CREATE TABLE consolidation_jobs (
    tenant_id     text COLLATE "C" NOT NULL,
    job_id        uuid NOT NULL,
    thread_id     text COLLATE "C" NOT NULL,
    job_type      text NOT NULL
                  CHECK (job_type IN ('fast_replay', 'deep_reflection', 'full_consolidation')),
    status        text NOT NULL DEFAULT 'pending'
                  CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled')),
    priority      smallint NOT NULL DEFAULT 0,
    attempts      integer NOT NULL DEFAULT 0,
    run_after     timestamptz NOT NULL,
    worker_id     text,
    lease_until   timestamptz,
    result        jsonb NOT NULL DEFAULT '{}',
    error         text,
    created_at    timestamptz NOT NULL,
    started_at    timestamptz,
    completed_at  timestamptz,
    PRIMARY KEY (tenant_id, job_id),
    FOREIGN KEY (tenant_id, thread_id) REFERENCES threads (tenant_id, thread_id) ON DELETE CASCADE
);
-- At most one waiting job per thread and type: the newest request joins it.
CREATE UNIQUE INDEX consolidation_jobs_waiting ON consolidation_jobs (tenant_id, thread_id, job_type)
    WHERE status = 'pending';
CREATE INDEX consolidation_jobs_due ON consolidation_jobs (priority DESC, run_after)
    WHERE status = 'pending';
CREATE INDEX consolidation_jobs_leased ON consolidation_jobs (lease_until)
    WHERE status = 'running';

-- One row per run that derived something; every derived row names its run.
CREATE TABLE runs (
    tenant_id    text COLLATE "C" NOT NULL,
    run_id       uuid NOT NULL,
    kind         text NOT NULL,
    thread_id    text COLLATE "C",
    extractor    text NOT NULL,
    from_seq     bigint,
    to_seq       bigint,
    counts       jsonb NOT NULL DEFAULT '{}',
    started_at   timestamptz NOT NULL,
    finished_at  timestamptz NOT NULL,
    undone_at    timestamptz,
    PRIMARY KEY (tenant_id, run_id)
);
CREATE INDEX runs_of_thread ON runs (tenant_id, thread_id, finished_at);

-- The stages of a run, in order, for whoever must explain it.
CREATE TABLE pipeline_log (
    tenant_id   text COLLATE "C" NOT NULL,
    run_id      uuid NOT NULL,
    step        integer NOT NULL,
    stage       text NOT NULL,
    output      jsonb NOT NULL DEFAULT '{}',
    error       text,
    started_at  timestamptz NOT NULL,
    duration_s  double precision NOT NULL,
    PRIMARY KEY (tenant_id, run_id, step),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, run_id) ON DELETE CASCADE
);

-- Receipts: what an erasure removed, counted and hashed, without what it said.
CREATE TABLE erasures (
    tenant_id     text COLLATE "C" NOT NULL,
    erasure_id    uuid NOT NULL,
    target        jsonb NOT NULL,
    counts        jsonb NOT NULL,
    receipt_hash  bytea NOT NULL,
    requested_at  timestamptz NOT NULL,
    completed_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, erasure_id)
);

SELECT protect('consolidation_jobs'), protect('runs'), protect('pipeline_log'), protect('erasures');
