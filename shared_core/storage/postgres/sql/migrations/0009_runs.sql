-- Runs that can be undone, summaries that roll on, and edges that name their run.
-- The owner is under row security too: without a scope there would be nothing to update.
SELECT set_config('hippocampus.scope', '/', true);

-- needed: without this turn the memory must go, because its text may tell of it; else it goes with
-- the last of its turns.
ALTER TABLE memory_sources ADD COLUMN needed boolean NOT NULL DEFAULT false;
UPDATE memory_sources s SET needed = true FROM memories m
WHERE m.tenant_id = s.tenant_id AND m.memory_id = s.memory_id AND m.kind = 'summary';

-- The summaries of a thread: the current one and, superseded, those before it.
CREATE INDEX summaries_of_thread ON memories (tenant_id, thread_id) WHERE kind = 'summary';
-- What a run wrote.
CREATE INDEX memories_of_run ON memories (tenant_id, run_id) WHERE run_id IS NOT NULL;

-- How far the summary of a thread tells of it; numbers as of consolidated_seq.
ALTER TABLE threads ADD COLUMN summarised_seq bigint NOT NULL DEFAULT 0;
UPDATE threads SET summarised_seq = consolidated_seq;

ALTER TABLE runs ADD COLUMN summed_from_seq bigint;
ALTER TABLE runs ADD COLUMN summed_to_seq bigint;

-- Names as they are compared: without differences of case, width and spacing.
ALTER TABLE edges ADD COLUMN subject_key text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE edges ADD COLUMN object_key text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE edges ADD COLUMN run_id uuid;
CREATE UNIQUE INDEX edges_current ON edges (tenant_id, subject_key, relation, object_key)
    WHERE valid_until IS NULL AND superseded_at IS NULL;
CREATE INDEX edges_of_run ON edges (tenant_id, run_id) WHERE run_id IS NOT NULL;

-- What a run changed of what was there before it, and how that stood: ids, moments and numbers, no
-- text of a user. target: a memory, or an edge.
CREATE TABLE run_changes (
    tenant_id  text COLLATE "C" NOT NULL,
    run_id     uuid NOT NULL,
    change     text COLLATE "C" NOT NULL
               CHECK (change IN ('closed', 'retired', 'sourced', 'renewed', 'rated', 'summary',
                                 'edge')),
    target     uuid NOT NULL,
    event_id   text COLLATE "C" NOT NULL DEFAULT '',
    before     jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, run_id, change, target, event_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, run_id) ON DELETE CASCADE
);
CREATE INDEX run_changes_of_target ON run_changes (tenant_id, target);
SELECT protect('run_changes');
