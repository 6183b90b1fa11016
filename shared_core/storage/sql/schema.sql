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

-- A conversation, and its session log if a framework keeps one here. last_seq numbers its events;
-- last_memory_seq what is remembered, in the order it was; consolidated_seq, the watermark of
-- extraction, is a mark on that line. The session columns are null for a thread that only memory
-- knows. version counts the events of the session log: a writer that has not seen them all is told.
-- unread_bytes: of what was remembered since the watermark; a quarter of it estimates tokens.
CREATE TABLE threads (
    tenant_id           text COLLATE "C" NOT NULL,
    thread_id           text COLLATE "C" NOT NULL,
    state               jsonb NOT NULL DEFAULT '{}',
    version             bigint NOT NULL DEFAULT 1,
    last_seq            bigint NOT NULL DEFAULT 0,
    consolidated_seq    bigint NOT NULL DEFAULT 0,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    last_memory_seq     bigint NOT NULL DEFAULT 0,
    session_started_at  timestamptz,
    session_updated_at  timestamptz,
    last_event_id       text COLLATE "C",
    unread_bytes        bigint NOT NULL DEFAULT 0,
    summarised_seq      bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, thread_id)
) WITH (fillfactor = 70);

-- What was said, in order; append-only. (tenant, thread, event_id) makes ingestion idempotent.
-- memory_seq is null for what is logged and not remembered. payload is the whole event of the
-- framework, as it was given, for an event of a session log: never read by SQL, so not parsed.
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
    memory_seq   bigint,
    importance   real NOT NULL DEFAULT 5 CHECK (importance BETWEEN 1 AND 10),
    expires_at   timestamptz,
    payload      json,
    PRIMARY KEY (tenant_id, thread_id, seq),
    UNIQUE (tenant_id, thread_id, event_id),
    FOREIGN KEY (tenant_id, thread_id) REFERENCES threads (tenant_id, thread_id) ON DELETE CASCADE
);

CREATE INDEX events_expiry ON events (tenant_id, expires_at) WHERE expires_at IS NOT NULL;

-- Events that were forgotten: ingesting their thread again must not bring them back.
CREATE TABLE tombstones (
    tenant_id   text COLLATE "C" NOT NULL,
    thread_id   text COLLATE "C" NOT NULL,
    event_id    text COLLATE "C" NOT NULL,
    deleted_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, thread_id, event_id)
);

SELECT protect('threads'), protect('events'), protect('tombstones');

-- What all sessions of an application share, or all sessions of one of its users; tenant_id is the
-- path of either. What works in a scope reads and writes the state of its application as well.
CREATE TABLE shared_state (
    tenant_id   text COLLATE "C" NOT NULL,
    state       jsonb NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id)
);
SELECT protect('shared_state');
CREATE POLICY above_scope ON shared_state
    USING (tenant_id = (SELECT substring(scope FROM '^/[^/]+/')
                        FROM current_setting('hippocampus.scope', true) AS scope));

-- What is remembered, its vectors, where it came from, and how often it was read.

-- One memory. tenant_id is the path of the first two labels of its namespace, namespace the path
-- of the rest. text is what is searched and shown; value is what a key-value face shows.
-- terms holds the words (CJK: characters and pairs), made in Python; term_count is its length.
CREATE TABLE memories (
    tenant_id      text COLLATE "C" NOT NULL,
    memory_id      uuid NOT NULL,
    namespace      text COLLATE "C" NOT NULL,
    key            text COLLATE "C" NOT NULL,
    kind           text NOT NULL
                   CHECK (kind IN ('episodic', 'semantic', 'summary', 'reflection', 'item')),
    text           text NOT NULL,
    value          jsonb NOT NULL,
    terms          tsvector NOT NULL,
    term_count     integer NOT NULL,
    author         text,
    importance     real NOT NULL DEFAULT 5 CHECK (importance BETWEEN 1 AND 10),
    thread_id      text COLLATE "C",
    run_id         uuid,
    occurred_at    timestamptz NOT NULL,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    expires_at     timestamptz,
    ttl_s          double precision CHECK (ttl_s > 0),
    superseded_at  timestamptz,
    words_key      uuid,
    PRIMARY KEY (tenant_id, memory_id),
    UNIQUE (tenant_id, namespace, key),
    CHECK (namespace ^@ '/')
);
-- The summaries of a thread: the current one and, superseded, those before it.
CREATE INDEX summaries_of_thread ON memories (tenant_id, thread_id) WHERE kind = 'summary';
-- What a run wrote.
CREATE INDEX memories_of_run ON memories (tenant_id, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX memories_expiry ON memories (tenant_id, expires_at) WHERE expires_at IS NOT NULL;

-- The words of what a run wrote, as a digest (shared_core.likeness.words_key): what says the same in
-- the same words is found by it within the transaction that writes. No text can be read from it.
CREATE INDEX memories_of_words ON memories (tenant_id, words_key) WHERE words_key IS NOT NULL;

-- The vectors of a memory, one per indexed field and model, in a table of their own: rewriting a
-- memory or counting its reads never touches a vector, and two models can live side by side.
CREATE TABLE embeddings (
    tenant_id  text COLLATE "C" NOT NULL,
    model      text COLLATE "C" NOT NULL REFERENCES embedding_models (model),
    memory_id  uuid NOT NULL,
    field      text COLLATE "C" NOT NULL,
    embedding  halfvec NOT NULL,
    PRIMARY KEY (tenant_id, model, memory_id, field),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE
);
-- Kept in the row whenever it fits a page: fetching from a side table doubles the scan.
ALTER TABLE embeddings ALTER COLUMN embedding SET STORAGE MAIN;
CREATE INDEX embeddings_of_memory ON embeddings (tenant_id, memory_id);

-- The turns a memory was drawn from; an episodic memory has exactly one. basis: turns that say it
-- together; the memory stays as long as all turns of one basis are there.
CREATE TABLE memory_sources (
    tenant_id  text COLLATE "C" NOT NULL,
    memory_id  uuid NOT NULL,
    thread_id  text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    basis      integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, memory_id, basis, thread_id, event_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX memory_sources_of_event ON memory_sources (tenant_id, thread_id, event_id);

-- The memories a reflection was drawn from: without one of them it goes, or is retired with it. A
-- memory that fades takes only these rows along.
CREATE TABLE memory_bases (
    tenant_id  text COLLATE "C" NOT NULL,
    memory_id  uuid NOT NULL,
    basis_id   uuid NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, basis_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX memory_bases_of_basis ON memory_bases (tenant_id, basis_id);

-- Counters that change on every read, apart from the rows that are expensive to rewrite.
CREATE TABLE memory_access (
    tenant_id         text COLLATE "C" NOT NULL,
    memory_id         uuid NOT NULL,
    access_count      integer NOT NULL DEFAULT 0,
    last_accessed_at  timestamptz,
    forget_at         timestamptz,
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE
) WITH (fillfactor = 50);

SELECT protect('memories'), protect('embeddings'), protect('memory_sources'),
       protect('memory_bases'), protect('memory_access');

-- Structured knowledge with two time lines: when it held in the world, when it was believed here.

-- The structured side of a semantic memory; same id, so both live and die together.
-- valid_from/valid_until: when it was true. recorded_at: since when it is known; superseded_at: since
-- when its end is.
-- key is the slot for a slot that holds one value, slot and value for one that holds several.
CREATE TABLE facts (
    tenant_id      text COLLATE "C" NOT NULL,
    memory_id      uuid NOT NULL,
    fact_type      text NOT NULL CHECK (fact_type IN ('preference', 'rule', 'profile', 'custom')),
    slot           text COLLATE "C" NOT NULL,
    key            text COLLATE "C" NOT NULL,
    value          jsonb NOT NULL,
    functional     boolean NOT NULL,
    confidence     real NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    extractor      text NOT NULL,
    pattern        text NOT NULL,
    valid_from     timestamptz NOT NULL,
    valid_until    timestamptz,
    recorded_at    timestamptz NOT NULL,
    superseded_at  timestamptz,
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE,
    CHECK (valid_until >= valid_from)
);
-- One current value per key; the closed ones stay as history.
CREATE UNIQUE INDEX facts_current ON facts (tenant_id, fact_type, key)
    WHERE valid_until IS NULL AND superseded_at IS NULL;
CREATE INDEX facts_history ON facts (tenant_id, fact_type, key, valid_from);
CREATE INDEX facts_begin ON facts (tenant_id, valid_from);
-- The values of a slot.
CREATE INDEX facts_of_slot ON facts (tenant_id, slot);
-- Ends of facts that were known before they came; as a rule, none.
CREATE INDEX facts_planned_ends ON facts (tenant_id, valid_until) WHERE superseded_at < valid_until;

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

-- The knowledge graph: subject, relation, object, on the same two time lines.
-- fact_id: the fact that an edge says again, and ends with. memory_id: the same if the edge rests on
-- it as well, so that it lives while the fact does.
CREATE TABLE edges (
    tenant_id      text COLLATE "C" NOT NULL,
    edge_id        uuid NOT NULL,
    memory_id      uuid,
    subject        text COLLATE "C" NOT NULL,
    relation       text COLLATE "C" NOT NULL,
    object         text COLLATE "C" NOT NULL,
    functional     boolean NOT NULL DEFAULT false,
    confidence     real NOT NULL DEFAULT 1 CHECK (confidence BETWEEN 0 AND 1),
    valid_from     timestamptz NOT NULL,
    valid_until    timestamptz,
    recorded_at    timestamptz NOT NULL,
    superseded_at  timestamptz,
    subject_key    text COLLATE "C" NOT NULL DEFAULT '',
    object_key     text COLLATE "C" NOT NULL DEFAULT '',
    run_id         uuid,
    fact_id        uuid,
    PRIMARY KEY (tenant_id, edge_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE,
    CHECK (valid_until >= valid_from)
);
CREATE INDEX edges_of_subject ON edges (tenant_id, subject_key, valid_from DESC, edge_id);
CREATE INDEX edges_of_object ON edges (tenant_id, object_key, valid_from DESC, edge_id);
CREATE INDEX edges_of_memory ON edges (tenant_id, memory_id);
CREATE UNIQUE INDEX edges_current ON edges (tenant_id, subject_key, relation, object_key)
    WHERE valid_until IS NULL AND superseded_at IS NULL;
-- A functional relation has one current object.
CREATE UNIQUE INDEX edges_functional ON edges (tenant_id, subject_key, relation)
    WHERE functional AND valid_until IS NULL AND superseded_at IS NULL;
CREATE INDEX edges_of_run ON edges (tenant_id, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX edges_of_fact ON edges (tenant_id, fact_id) WHERE fact_id IS NOT NULL;

-- The turns an edge was drawn from, in bases as those of a memory.
CREATE TABLE edge_sources (
    tenant_id  text COLLATE "C" NOT NULL,
    edge_id    uuid NOT NULL,
    basis      integer NOT NULL DEFAULT 0,
    thread_id  text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, edge_id, basis, thread_id, event_id),
    FOREIGN KEY (tenant_id, edge_id) REFERENCES edges (tenant_id, edge_id) ON DELETE CASCADE
);
CREATE INDEX edge_sources_of_event ON edge_sources (tenant_id, thread_id, event_id);

-- Names that stand for an entity, as its user says: alias for entity, from merged_at until
-- unmerged_at. An entity is no alias of another at the same time.
CREATE TABLE entity_aliases (
    tenant_id    text COLLATE "C" NOT NULL,
    alias_id     uuid NOT NULL,
    alias_key    text COLLATE "C" NOT NULL,
    alias        text COLLATE "C" NOT NULL,
    entity_key   text COLLATE "C" NOT NULL CHECK (entity_key <> alias_key),
    entity       text COLLATE "C" NOT NULL,
    merged_at    timestamptz NOT NULL,
    unmerged_at  timestamptz,
    PRIMARY KEY (tenant_id, alias_id)
);
CREATE UNIQUE INDEX entity_aliases_current ON entity_aliases (tenant_id, alias_key)
    WHERE unmerged_at IS NULL;
CREATE INDEX entity_aliases_of_name ON entity_aliases (tenant_id, alias_key);
CREATE INDEX entity_aliases_of_entity ON entity_aliases (tenant_id, entity_key);

SELECT protect('facts'), protect('fact_closures'), protect('edges'), protect('edge_sources'), protect('entity_aliases');

-- Procedural memory and profiles; both keep every version.

CREATE TABLE instructions (
    tenant_id        text COLLATE "C" NOT NULL,
    instruction_key  text COLLATE "C" NOT NULL,
    version          integer NOT NULL CHECK (version > 0),
    content          text NOT NULL,
    metadata         jsonb NOT NULL DEFAULT '{}',
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, instruction_key, version)
);

-- One coherent paragraph about a user or an agent, and a bounded list of events in time order.
CREATE TABLE profiles (
    tenant_id     text COLLATE "C" NOT NULL,
    subject_kind  text NOT NULL CHECK (subject_kind IN ('user', 'agent')),
    subject_id    text COLLATE "C" NOT NULL,
    version       integer NOT NULL CHECK (version > 0),
    paragraph     text NOT NULL,
    events        jsonb NOT NULL DEFAULT '[]',
    content_hash  bytea NOT NULL,
    run_id        uuid,
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, subject_kind, subject_id, version)
);

SELECT protect('instructions'), protect('profiles');

-- The work of turning events into knowledge: the queue, its runs, their log, and erasure receipts.

-- A reflection is about a user, and has no thread; a callback is a caller's own code.
CREATE TABLE consolidation_jobs (
    tenant_id     text COLLATE "C" NOT NULL,
    job_id        uuid NOT NULL,
    thread_id     text COLLATE "C",
    job_type      text NOT NULL,
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
    payload       jsonb,
    performer     text COLLATE "C",
    PRIMARY KEY (tenant_id, job_id),
    FOREIGN KEY (tenant_id, thread_id) REFERENCES threads (tenant_id, thread_id) ON DELETE CASCADE,
    CONSTRAINT consolidation_jobs_job_type_check CHECK (job_type IN (
        'fast_replay', 'deep_reflection', 'full_consolidation', 'reflection', 'callback')),
    CONSTRAINT consolidation_jobs_thread_check
        CHECK ((thread_id IS NULL) = (job_type = 'reflection')),
    CONSTRAINT consolidation_jobs_performer_check
        CHECK ((performer IS NULL) = (job_type <> 'callback'))
);
-- At most one waiting job per thread and type, for callbacks also per name (performer), the newest
-- request joins it; at most one that runs per thread. What has no thread counts as one.
CREATE UNIQUE INDEX consolidation_jobs_waiting
    ON consolidation_jobs (tenant_id, thread_id, job_type, performer)
    NULLS NOT DISTINCT WHERE status = 'pending';
CREATE UNIQUE INDEX consolidation_jobs_running ON consolidation_jobs (tenant_id, thread_id)
    NULLS NOT DISTINCT WHERE status = 'running';
-- The tenants in turn, and each one's oldest job; and what is due next of all.
CREATE INDEX consolidation_jobs_turns ON consolidation_jobs (priority DESC, tenant_id, run_after)
    WHERE status = 'pending';
CREATE INDEX consolidation_jobs_due ON consolidation_jobs (run_after) WHERE status = 'pending';
CREATE INDEX consolidation_jobs_leased ON consolidation_jobs (lease_until)
    WHERE status = 'running';
CREATE INDEX consolidation_jobs_failed ON consolidation_jobs (tenant_id) WHERE status = 'failed';
CREATE INDEX consolidation_jobs_of_thread
    ON consolidation_jobs (tenant_id, coalesce(thread_id, ''));

-- How many extractions the threads of a user had: every so many ask for a reflection.
CREATE TABLE extraction_counts (
    tenant_id    text COLLATE "C" NOT NULL,
    extractions  bigint NOT NULL,
    PRIMARY KEY (tenant_id)
);

-- One row per run that derived something; every derived row names its run. number: in the order in
-- which those of the tenant were applied, whatever the clocks of those who did it say.
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
    summed_from_seq  bigint,
    summed_to_seq    bigint,
    number           bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, run_id)
);
CREATE INDEX runs_in_order ON runs (tenant_id, number);
CREATE INDEX runs_of_thread ON runs (tenant_id, thread_id, finished_at);

-- What a run changed of what was there before it, and how that stood: ids, moments and numbers, no
-- text of a user. target: a memory, an edge or a retraction. bounded: what the run wrote had ended
-- already, by the target; who undoes that undoes this run first. moved: the end of an edge or a
-- fact, to another moment or away, or the retirement of a memory; before says what it was.
CREATE TABLE run_changes (
    tenant_id  text COLLATE "C" NOT NULL,
    run_id     uuid NOT NULL,
    change     text COLLATE "C" NOT NULL
               CHECK (change IN ('closed', 'retired', 'sourced', 'renewed', 'rated', 'summary',
                                 'edge', 'bounded', 'moved')),
    target     uuid NOT NULL,
    event_id   text COLLATE "C" NOT NULL DEFAULT '',
    before     jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, run_id, change, target, event_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, run_id) ON DELETE CASCADE
);
CREATE INDEX run_changes_of_target ON run_changes (tenant_id, target);

-- What was retracted, known or not: a turn that is read later and was said before ends with it.
-- subject_key: of the slot for one subject; value: normalised, empty for whatever the slot held.
-- valid_until: as of when, if that was said. It goes with any of its turns, and with its run.
CREATE TABLE retractions (
    tenant_id      text COLLATE "C" NOT NULL,
    retraction_id  uuid NOT NULL,
    run_id         uuid NOT NULL,
    fact_type      text COLLATE "C" NOT NULL,
    slot           text COLLATE "C" NOT NULL,
    subject_key    text COLLATE "C" NOT NULL,
    value          text COLLATE "C" NOT NULL,
    said_at        timestamptz NOT NULL,
    valid_until    timestamptz,
    thread_id      text COLLATE "C" NOT NULL,
    event_ids      text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, retraction_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, run_id) ON DELETE CASCADE
);
CREATE INDEX retractions_of_slot ON retractions (tenant_id, slot);
CREATE INDEX retractions_of_thread ON retractions (tenant_id, thread_id);
CREATE INDEX retractions_of_run ON retractions (tenant_id, run_id);
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

SELECT protect('consolidation_jobs'), protect('extraction_counts'), protect('runs'),
       protect('run_changes'), protect('retractions'), protect('pipeline_log'), protect('erasures');

-- What was imported, so that a later import does not bring back what was deleted here since.

-- address_hash: SHA-256 of the item's namespace and key, or empty for all of the tenant.
-- updated_at: as of its source. deleted_at: when it was deleted here, the last time.
CREATE TABLE import_marks (
    tenant_id     text COLLATE "C" NOT NULL,
    address_hash  bytea NOT NULL,
    updated_at    timestamptz NOT NULL,
    deleted_at    timestamptz,
    PRIMARY KEY (tenant_id, address_hash)
);
SELECT protect('import_marks');
