-- A version of a profile names the memories it is made of; their texts stand in memories alone, so
-- forgetting one, or its turns, takes it out of every version. Nothing was written here before.

ALTER TABLE profiles DROP COLUMN paragraph;
ALTER TABLE profiles DROP COLUMN events;
ALTER TABLE profiles
    ADD COLUMN memory_id uuid NOT NULL,
    ADD COLUMN entries jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN event_limit integer NOT NULL DEFAULT 50 CHECK (event_limit > 0),
    ADD COLUMN began_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN revision integer NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX profiles_of_memory ON profiles (tenant_id, memory_id, version);
CREATE INDEX profiles_of_run ON profiles (tenant_id, run_id) WHERE run_id IS NOT NULL;

ALTER TABLE pipeline_log
    ADD COLUMN status text NOT NULL DEFAULT 'success'
        CHECK (status IN ('success', 'warning', 'error')),
    ADD COLUMN input jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN memory_id uuid,
    ADD COLUMN thread_id text COLLATE "C";
CREATE INDEX pipeline_log_of_memory ON pipeline_log (tenant_id, memory_id, started_at)
    WHERE memory_id IS NOT NULL;
