-- The runs of a tenant in the order in which they were applied, whatever the clocks of those who did
-- it say.
-- The owner is under row security too: without a scope there would be nothing to update.
SELECT set_config('hippocampus.scope', '/', true);

ALTER TABLE runs ADD COLUMN number bigint NOT NULL DEFAULT 0;
UPDATE runs r SET number = o.number
FROM (SELECT tenant_id, run_id,
             row_number() OVER (PARTITION BY tenant_id ORDER BY finished_at, run_id) AS number
      FROM runs) o
WHERE r.tenant_id = o.tenant_id AND r.run_id = o.run_id;
CREATE INDEX runs_in_order ON runs (tenant_id, number);
