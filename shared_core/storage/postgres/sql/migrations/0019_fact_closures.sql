-- Ends of facts that were taken back: from closed_at until restored_at it was believed that the fact
-- had ended at valid_until. run_id: of the run that restored it.
CREATE TABLE fact_closures (
    tenant_id    text COLLATE "C" NOT NULL,
    memory_id    uuid NOT NULL,
    closed_at    timestamptz NOT NULL,
    restored_at  timestamptz NOT NULL,
    valid_until  timestamptz NOT NULL,
    run_id       uuid NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, run_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES facts (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX fact_closures_of_run ON fact_closures (tenant_id, run_id);
SELECT protect('fact_closures');

-- What has not begun yet.
CREATE INDEX facts_begin ON facts (tenant_id, valid_from);
