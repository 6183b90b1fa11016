-- What is done now and then for a whole path, by one worker at a time: when it is due next, who is at
-- it and until when that counts, and what came of it last.
CREATE TABLE schedules (
    tenant_id    text COLLATE "C" NOT NULL,
    task         text COLLATE "C" NOT NULL,
    next_at      timestamptz NOT NULL,
    worker_id    text,
    lease_until  timestamptz,
    done_at      timestamptz,
    result       jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, task)
);
SELECT protect('schedules');
