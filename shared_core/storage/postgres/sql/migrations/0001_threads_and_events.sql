-- Threads and their events, the way every table is guarded, and the models that made the vectors.
-- Runs with search_path set to the schema of the project and creates nothing outside it.

-- Puts a table under the rules every table of this schema follows: rows are seen and written only
-- inside the scope bound to the transaction, by the owner of the table too. A scope is a whole path,
-- so it ends in a slash: half a label is no scope, and a setting that was once set locally reads as
-- '' afterwards. As a sub-select it is looked up once per statement, not per row.
CREATE FUNCTION protect(target regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    within CONSTANT text := '(tenant_id ^@ (SELECT scope'
        ' FROM current_setting(''hippocampus.scope'', true) AS scope WHERE right(scope, 1) = ''/''))';
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', target);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', target);
    EXECUTE format('CREATE POLICY within_scope ON %s USING %s WITH CHECK %s', target, within, within);
END $$;

-- Undoes the transaction when what it relies on no longer holds; HC409 is read as a conflict.
CREATE FUNCTION require(held boolean, reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF held IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'HC409', MESSAGE = reason;
    END IF;
END $$;

-- One row per model that made stored vectors. At most one is active: the one recall reads.
CREATE TABLE embedding_models (
    model       text COLLATE "C" PRIMARY KEY,
    dimensions  integer NOT NULL CHECK (dimensions > 0),
    active      boolean NOT NULL DEFAULT true,
    created_at  timestamptz NOT NULL
);
CREATE UNIQUE INDEX embedding_models_one_active ON embedding_models (active) WHERE active;

-- A conversation. last_seq numbers its events; consolidated_seq is the watermark of extraction.
CREATE TABLE threads (
    tenant_id         text COLLATE "C" NOT NULL,
    thread_id         text COLLATE "C" NOT NULL,
    state             jsonb NOT NULL DEFAULT '{}',
    version           bigint NOT NULL DEFAULT 1,
    last_seq          bigint NOT NULL DEFAULT 0,
    consolidated_seq  bigint NOT NULL DEFAULT 0,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, thread_id)
) WITH (fillfactor = 70);

-- What was said, in order; append-only. (tenant, thread, event_id) makes ingestion idempotent.
CREATE TABLE events (
    tenant_id    text COLLATE "C" NOT NULL,
    thread_id    text COLLATE "C" NOT NULL,
    seq          bigint NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    author       text NOT NULL,
    role         text NOT NULL CHECK (role IN ('user', 'agent', 'tool', 'system')),
    text         text NOT NULL,
    metadata     jsonb NOT NULL DEFAULT '{}',
    occurred_at  timestamptz NOT NULL,
    recorded_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, thread_id, seq),
    UNIQUE (tenant_id, thread_id, event_id),
    FOREIGN KEY (tenant_id, thread_id) REFERENCES threads (tenant_id, thread_id) ON DELETE CASCADE
);

-- Events that were forgotten: ingesting their thread again must not bring them back.
CREATE TABLE tombstones (
    tenant_id   text COLLATE "C" NOT NULL,
    thread_id   text COLLATE "C" NOT NULL,
    event_id    text COLLATE "C" NOT NULL,
    deleted_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, thread_id, event_id)
);

SELECT protect('threads'), protect('events'), protect('tombstones');
