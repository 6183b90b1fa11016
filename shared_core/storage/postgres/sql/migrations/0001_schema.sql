-- The schema of pg-hippocampus. Runs with search_path set to the project's schema and creates
-- nothing outside it. First: the guard of every table, the models, threads and their events.

-- Puts a table under row security: rows are read and written only inside the scope bound to the
-- transaction, also by the owner of the table. A scope is a whole path and ends in a slash, so half
-- a label is no scope. A setting that was once set locally reads as '' afterwards. The sub-select
-- is evaluated once per statement, not per row; Citus takes none, so a spread table gets the same
-- condition without it (connection/citus.py). labels: how many a tenant of this table has, as a
-- regular expression counts; two are a user's.
CREATE FUNCTION protect(target regclass, labels text DEFAULT '{2}') RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    within CONSTANT text := '(tenant_id ^@ (SELECT scope'
        ' FROM current_setting(''hippocampus.scope'', true) AS scope'
        ' WHERE right(scope, 1) = ''/''))';
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', target);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', target);
    EXECUTE format('CREATE POLICY within_scope ON %1$s USING %2$s WITH CHECK %2$s', target, within);
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT tenant_labels CHECK (tenant_id ~ %L)',
        target, '^(/[^/]+)' || labels || '/$');
END $$;

-- Undoes the transaction unless a condition holds; HC409 becomes a Conflict.
CREATE FUNCTION require(held boolean, reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF held IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'HC409', MESSAGE = reason;
    END IF;
END $$;

-- The models of the stored vectors. At most one is active: recall reads its vectors. One beside it
-- belongs to the items of a store, and stays when another model becomes active.
CREATE TABLE embedding_models (
    model       text COLLATE "C" PRIMARY KEY,
    dimensions  integer NOT NULL CHECK (dimensions > 0),
    active      boolean NOT NULL DEFAULT true,
    created_at  timestamptz NOT NULL,
    beside      boolean NOT NULL DEFAULT false CHECK (NOT (active AND beside))
);
CREATE UNIQUE INDEX embedding_models_one_active ON embedding_models (active) WHERE active;
-- Every scope reads the models. Only a transaction bound to all tenants changes them.
ALTER TABLE embedding_models ENABLE ROW LEVEL SECURITY;
ALTER TABLE embedding_models FORCE ROW LEVEL SECURITY;
CREATE POLICY of_all ON embedding_models USING (current_setting('hippocampus.scope', true) = '/');
CREATE POLICY readable ON embedding_models FOR SELECT USING (true);

-- A thread, with its session log if a framework keeps one here. last_seq numbers its events,
-- last_memory_seq its remembered turns in order; consolidated_seq is the mark of extraction on the
-- latter. The session columns are null for a thread that only memory knows. version counts the
-- events of the session log, so that a writer learns that it has not seen all. unread_bytes: bytes
-- remembered since the mark; a quarter of them estimates tokens.
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

-- Turns, in order; append-only. (tenant, thread, event_id) makes ingestion idempotent. memory_seq
-- is null for a turn that is logged and not remembered. time_zone: a name or an offset in which the
-- turn counts its days; null for UTC. payload is the framework's whole event, in
-- a session log; SQL never reads it, so it is not parsed (decision 5).
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
    time_zone    text,
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
-- Finds an input that is sent again, in any conversation.
CREATE INDEX events_of_conversations ON events (tenant_id, event_id)
    WHERE left(thread_id, 13) = 'conversation:';

-- Forgotten turns: ingesting their thread again does not bring them back.
CREATE TABLE tombstones (
    tenant_id   text COLLATE "C" NOT NULL,
    thread_id   text COLLATE "C" NOT NULL,
    event_id    text COLLATE "C" NOT NULL,
    deleted_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, thread_id, event_id)
);
CREATE INDEX tombstones_of_conversations ON tombstones (tenant_id, event_id)
    WHERE left(thread_id, 13) = 'conversation:';

SELECT protect('threads'), protect('events'), protect('tombstones');

-- State that all sessions of an application, or of one of its users, share; tenant_id is the path
-- of either. A transaction in a scope also reads and writes the state of its application.
CREATE TABLE shared_state (
    tenant_id   text COLLATE "C" NOT NULL,
    state       jsonb NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id)
);
SELECT protect('shared_state', '{1,2}');
CREATE POLICY above_scope ON shared_state
    USING (tenant_id = (SELECT substring(scope FROM '^/[^/]+/')
                        FROM current_setting('hippocampus.scope', true) AS scope));

-- Memories: their vectors, provenance and counters.

-- A memory. tenant_id is the path of the first two labels of its namespace, namespace the path of
-- the rest (decision 1). text is searched and shown; value is what a key-value face shows. terms
-- holds the words (CJK: characters and pairs), made in Python; term_count is its length.
-- demoted_at: since when recall leaves it out; null while recall finds it.
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
    demoted_at     timestamptz,
    role           text,
    PRIMARY KEY (tenant_id, memory_id),
    UNIQUE (tenant_id, namespace, key),
    CHECK (namespace ^@ '/')
);
-- The summaries of a thread: the current one, and superseded ones.
CREATE INDEX summaries_of_thread ON memories (tenant_id, thread_id) WHERE kind = 'summary';
-- Finds what a run wrote.
CREATE INDEX memories_of_run ON memories (tenant_id, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX memories_expiry ON memories (tenant_id, expires_at) WHERE expires_at IS NOT NULL;
-- Memories of a period, in order.
CREATE INDEX memories_in_time ON memories (tenant_id, occurred_at, memory_id);

-- A digest of the words that a run wrote (shared_core.nlp.similarity.words_key): finds the same
-- words within the transaction that writes. No text can be read from it.
CREATE INDEX memories_of_words ON memories (tenant_id, words_key) WHERE words_key IS NOT NULL;

-- Vectors of memories, one for each indexed field and model, in a table of their own: rewriting a
-- memory or counting its reads never touches a vector, and two models can coexist (decision 4).
CREATE TABLE embeddings (
    tenant_id  text COLLATE "C" NOT NULL,
    model      text COLLATE "C" NOT NULL REFERENCES embedding_models (model),
    memory_id  uuid NOT NULL,
    field      text COLLATE "C" NOT NULL,
    embedding  halfvec NOT NULL,
    PRIMARY KEY (tenant_id, model, memory_id, field),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE
);
-- In the row whenever it fits a page: fetching from a side table doubles the time of a scan.
ALTER TABLE embeddings ALTER COLUMN embedding SET STORAGE MAIN;
CREATE INDEX embeddings_of_memory ON embeddings (tenant_id, memory_id);

-- The turns a memory was drawn from; an episodic memory has exactly one. basis: turns that say it
-- together. The memory stays while all turns of one basis exist.
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

-- The memories a reflection was drawn from. It goes with any of them, or is retired with it. A
-- memory that fades takes only these rows along.
CREATE TABLE memory_bases (
    tenant_id  text COLLATE "C" NOT NULL,
    memory_id  uuid NOT NULL,
    basis_id   uuid NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, basis_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX memory_bases_of_basis ON memory_bases (tenant_id, basis_id);

-- Counters that change on every read, apart from the rows that are expensive to rewrite. stage: 0
-- kept, 1 demoted, 2 archived, since staged_at. strength: the initial strength from the caller's
-- own function. forget_at: when the memory leaves its stage, in closed form, set at a write and a
-- read: no row changes by ageing.
CREATE TABLE memory_access (
    tenant_id         text COLLATE "C" NOT NULL,
    memory_id         uuid NOT NULL,
    access_count      integer NOT NULL DEFAULT 0,
    last_accessed_at  timestamptz,
    forget_at         timestamptz,
    stage             smallint NOT NULL DEFAULT 0 CHECK (stage BETWEEN 0 AND 2),
    staged_at         timestamptz,
    pinned_at         timestamptz,
    strength          double precision CHECK (strength BETWEEN 0 AND 1),
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE
) WITH (fillfactor = 50);
CREATE INDEX memory_access_due ON memory_access (forget_at, tenant_id)
    WHERE forget_at IS NOT NULL;

SELECT protect('memories', '{1,2}'), protect('embeddings', '{1,2}'), protect('memory_sources'),
       protect('memory_bases'), protect('memory_access', '{1,2}');

-- Structured knowledge with two time lines: when it held in the world, and when it was believed
-- here.

-- The structured side of a semantic memory, with the same id. valid_from/valid_until: when it was
-- true. recorded_at: since when it is known; superseded_at: since when its end is known (decision
-- 11). key is the slot for a slot with one value, slot and value for a slot with several.
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
-- One current value for each key; closed ones stay as history.
CREATE UNIQUE INDEX facts_current ON facts (tenant_id, fact_type, key)
    WHERE valid_until IS NULL AND superseded_at IS NULL;
CREATE INDEX facts_history ON facts (tenant_id, fact_type, key, valid_from);
CREATE INDEX facts_begin ON facts (tenant_id, valid_from);
-- The values of a slot.
CREATE INDEX facts_of_slot ON facts (tenant_id, slot);
-- Ends of facts that were known before they came; there are few.
CREATE INDEX facts_planned_ends ON facts (tenant_id, valid_until) WHERE superseded_at < valid_until;

-- Ends of facts that were undone: from closed_at until restored_at the fact was believed to have
-- ended at valid_until. run_id: the run that restored it.
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

-- The knowledge graph: subject, relation, object, on the same two time lines. fact_id: the fact
-- that an edge repeats and ends with. memory_id: the same if the edge also lives only while the
-- fact does.
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

-- The turns an edge was drawn from, in bases as for a memory.
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
-- unmerged_at. An entity is never an alias at the same time.
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

SELECT protect('facts'), protect('fact_closures'), protect('edges'), protect('edge_sources'),
       protect('entity_aliases');

-- Procedural memory and profiles, with their versions.

CREATE TABLE instructions (
    tenant_id        text COLLATE "C" NOT NULL,
    instruction_key  text COLLATE "C" NOT NULL,
    version          integer NOT NULL CHECK (version > 0),
    content          text NOT NULL,
    metadata         jsonb NOT NULL DEFAULT '{}',
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, instruction_key, version)
);

-- Versions of the knowledge about a user or an agent. Each names its memories (entries: id and
-- role). Their texts stand in memories alone, so forgetting one, or its turns, removes it from
-- every version. subject_id: the subject of the profile, or the agent that knows the user.
-- revision: how often other turns stated the version again without changing it.
CREATE TABLE profiles (
    tenant_id     text COLLATE "C" NOT NULL,
    subject_kind  text NOT NULL CHECK (subject_kind IN ('user', 'agent')),
    subject_id    text COLLATE "C" NOT NULL,
    version       integer NOT NULL CHECK (version > 0),
    content_hash  bytea NOT NULL,
    run_id        uuid,
    created_at    timestamptz NOT NULL,
    memory_id     uuid NOT NULL,
    entries       jsonb NOT NULL DEFAULT '[]',
    event_limit   integer NOT NULL DEFAULT 50 CHECK (event_limit > 0),
    began_at      timestamptz NOT NULL DEFAULT now(),
    revision      integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, subject_kind, subject_id, version)
);
CREATE UNIQUE INDEX profiles_of_memory ON profiles (tenant_id, memory_id, version);
CREATE INDEX profiles_of_run ON profiles (tenant_id, run_id) WHERE run_id IS NOT NULL;

SELECT protect('instructions'), protect('profiles');

-- The work that turns events into knowledge: the queue, its runs, their log, and erasure receipts.

-- Marks of committed transactions: a writer whose answer was lost looks for its own. A later writer
-- of the tenant removes them after an hour. write_id: UUIDv7.
CREATE TABLE writes (
    tenant_id  text COLLATE "C" NOT NULL,
    write_id   uuid NOT NULL,
    PRIMARY KEY (tenant_id, write_id)
);
SELECT protect('writes', '{0,2}');

-- The same for transactions that write only on the coordinator of a Citus cluster: with their mark
-- on a node, they would fail while that node is down.
CREATE TABLE coordinator_writes (
    tenant_id  text COLLATE "C" NOT NULL,
    write_id   uuid NOT NULL,
    PRIMARY KEY (tenant_id, write_id)
);
SELECT protect('coordinator_writes', '{0,2}');

-- The latest changes to a user's memories, newest first: the transaction write_ids[i] wrote the
-- memory memory_ids[i]. A process that keeps memories of the user compares write_ids[1] with each
-- answer. It reads again what was written since its own write_id, and everything if that has left
-- the list (decision 20). In memory_ids, NULL is any memory, and the zero UUID is the facts and
-- their sources. Stored in the row, with room for the next version on the same page.
CREATE TABLE memory_changes (
    tenant_id   text COLLATE "C" NOT NULL,
    write_ids   uuid[] NOT NULL,
    memory_ids  uuid[] NOT NULL,
    PRIMARY KEY (tenant_id)
) WITH (fillfactor = 40);
ALTER TABLE memory_changes ALTER write_ids SET STORAGE MAIN, ALTER memory_ids SET STORAGE MAIN;
SELECT protect('memory_changes');

-- A job on a thread. A reflection is about a user and has no thread; a callback is a caller's own
-- code.
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
        'fast_replay', 'deep_reflection', 'full_consolidation', 'reflection', 'item_vectors',
        'callback')),
    CONSTRAINT consolidation_jobs_thread_check
        CHECK ((thread_id IS NULL) = (job_type IN ('reflection', 'item_vectors'))),
    CONSTRAINT consolidation_jobs_performer_check
        CHECK ((performer IS NULL) = (job_type <> 'callback'))
);
-- At most one job of a thread and type waits, for callbacks also of a name (performer): the newest
-- request joins it. At most one job of a thread runs. Jobs without a thread count as one thread.
CREATE UNIQUE INDEX consolidation_jobs_waiting
    ON consolidation_jobs (tenant_id, thread_id, job_type, performer)
    NULLS NOT DISTINCT WHERE status = 'pending';
CREATE UNIQUE INDEX consolidation_jobs_running ON consolidation_jobs (tenant_id, thread_id)
    NULLS NOT DISTINCT WHERE status = 'running';
-- For claims: the tenants in turn with each one's oldest job, and the next due job of all.
CREATE INDEX consolidation_jobs_turns ON consolidation_jobs (priority DESC, tenant_id, run_after)
    WHERE status = 'pending';
CREATE INDEX consolidation_jobs_due ON consolidation_jobs (run_after) WHERE status = 'pending';
CREATE INDEX consolidation_jobs_leased ON consolidation_jobs (lease_until)
    WHERE status = 'running';
CREATE INDEX consolidation_jobs_failed ON consolidation_jobs (tenant_id) WHERE status = 'failed';
CREATE INDEX consolidation_jobs_of_thread
    ON consolidation_jobs (tenant_id, coalesce(thread_id, ''));

-- The number of extractions of a user; after every interval of them a reflection is enqueued.
CREATE TABLE extraction_counts (
    tenant_id    text COLLATE "C" NOT NULL,
    extractions  bigint NOT NULL,
    PRIMARY KEY (tenant_id)
);

-- A run that derived something; every derived row names its run (decision 10). number: the order in
-- which the tenant's runs were applied, whatever the clocks of their processes said.
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

-- What a run changed of earlier rows, and their values before: ids, moments and numbers, never text
-- of a user. target: a memory, an edge or a retraction. bounded: the target ended what the run
-- wrote; undoing the run that wrote the target undoes this run first. moved: the end of an edge or
-- a fact was moved or removed, or a memory was retired or restored. doubted: a fact became
-- doubtful, or certain again. edited: the turn event_id became a version, a turn whose id is the
-- target. unsourced: a memory or an edge lost bases.
CREATE TABLE run_changes (
    tenant_id  text COLLATE "C" NOT NULL,
    run_id     uuid NOT NULL,
    change     text COLLATE "C" NOT NULL
               CHECK (change IN ('closed', 'retired', 'sourced', 'renewed', 'rated', 'summary',
                                 'edge', 'bounded', 'moved', 'revived', 'doubted',
                                 'edited', 'unsourced')),
    target     uuid NOT NULL,
    event_id   text COLLATE "C" NOT NULL DEFAULT '',
    before     jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, run_id, change, target, event_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, run_id) ON DELETE CASCADE
);
CREATE INDEX run_changes_of_target ON run_changes (tenant_id, target);

-- Retractions, also of unknown facts: a turn that was said before, and is read later, ends with it.
-- subject_key: of a slot about one subject. value: normalised; empty for any value of the slot.
-- valid_until: the end, if the user named one. pattern: the rule or prompt that read it. is_doubt:
-- the turn only says that the fact may have ended. A retraction goes with any of its turns, and
-- with its run.
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
    pattern        text NOT NULL DEFAULT '',
    is_doubt       boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, retraction_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, run_id) ON DELETE CASCADE
);
CREATE INDEX retractions_of_slot ON retractions (tenant_id, slot);
CREATE INDEX retractions_of_thread ON retractions (tenant_id, thread_id);
CREATE INDEX retractions_of_run ON retractions (tenant_id, run_id);
-- The stages of a run, in order, to explain it: counts and ids, no text of a user. memory_id: its
-- profile; thread_id: its conversation.
CREATE TABLE pipeline_log (
    tenant_id   text COLLATE "C" NOT NULL,
    run_id      uuid NOT NULL,
    step        integer NOT NULL,
    stage       text NOT NULL,
    output      jsonb NOT NULL DEFAULT '{}',
    error       text,
    started_at  timestamptz NOT NULL,
    duration_s  double precision NOT NULL,
    status      text NOT NULL DEFAULT 'success'
                CHECK (status IN ('success', 'warning', 'error')),
    input       jsonb NOT NULL DEFAULT '{}',
    memory_id   uuid,
    thread_id   text COLLATE "C",
    PRIMARY KEY (tenant_id, run_id, step),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, run_id) ON DELETE CASCADE
);
CREATE INDEX pipeline_log_of_memory ON pipeline_log (tenant_id, memory_id, started_at)
    WHERE memory_id IS NOT NULL;

-- Receipts of erasures: what was deleted, counted and hashed, without its text.
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

-- Imported items, so that a later import does not bring back those deleted here since.

-- address_hash: SHA-256 of the item's namespace and key, or empty for all items of the tenant.
-- updated_at: at the source. deleted_at: the last deletion here.
CREATE TABLE import_marks (
    tenant_id     text COLLATE "C" NOT NULL,
    address_hash  bytea NOT NULL,
    updated_at    timestamptz NOT NULL,
    deleted_at    timestamptz,
    PRIMARY KEY (tenant_id, address_hash)
);
SELECT protect('import_marks', '{1,2}');

-- How memories fade, as data, and when each leaves its stage. The formulas are in
-- docs/explanation/forgetting.md; shared_core.core.decay has the same in Python, and agrees to
-- 1e-9.

-- How a kind of memory fades. tenant_id: '/' for all, the path of an application or of one of its
-- users; the nearest applies. fades: false for never. decay_rate: per day. A memory is demoted when
-- its score is below threshold and it is min_age_days old; archived and erased (null: never) when
-- its score is below those thresholds too and it has been that many days in the stage before.
-- with_history: an erased fact takes the ended facts of its place along.
CREATE TABLE retention_policies (
    tenant_id           text COLLATE "C" NOT NULL,
    kind                text NOT NULL
                        CHECK (kind IN ('episodic', 'semantic', 'summary', 'reflection', 'item')),
    fades               boolean NOT NULL,
    decay_rate          double precision NOT NULL
                        CHECK (decay_rate >= 0 AND decay_rate < 'Infinity'),
    threshold           double precision NOT NULL CHECK (threshold BETWEEN 0 AND 1),
    min_age_days        double precision NOT NULL
                        CHECK (min_age_days >= 0 AND min_age_days < 'Infinity'),
    archive_threshold   double precision CHECK (archive_threshold BETWEEN 0 AND 1),
    archive_after_days  double precision NOT NULL
                        CHECK (archive_after_days >= 0 AND archive_after_days < 'Infinity'),
    erase_threshold     double precision CHECK (erase_threshold BETWEEN 0 AND 1),
    erase_after_days    double precision NOT NULL
                        CHECK (erase_after_days >= 0 AND erase_after_days < 'Infinity'),
    with_history        boolean NOT NULL,
    updated_at          timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, kind)
);
SELECT protect('retention_policies', '{0,2}');
CREATE POLICY above_scope ON retention_policies FOR SELECT
    USING (tenant_id IN (SELECT '/' UNION ALL SELECT substring(scope FROM '^/[^/]+/')
                         FROM current_setting('hippocampus.scope', true) AS scope));

-- How the kinds of memories fade without a stored policy: turns, summaries and reflections by the
-- default policy, others never.
CREATE FUNCTION unset_policies()
RETURNS TABLE (
    tenant_id text, kind text, fades boolean, decay_rate double precision,
    threshold double precision, min_age_days double precision, archive_threshold double precision,
    archive_after_days double precision, erase_threshold double precision,
    erase_after_days double precision, with_history boolean, updated_at timestamptz
) LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 5 AS $$
    SELECT '/', k.kind, k.fades, 0.1::float8, 0.1::float8, 7::float8, 0.05::float8, 30::float8,
           NULL::float8, 90::float8, true, '-infinity'::timestamptz
    FROM (VALUES ('episodic', true), ('summary', true), ('reflection', true), ('semantic', false),
                 ('item', false)) AS k(kind, fades)
$$;

-- The nearest policy of a kind of memory in a tenant.
CREATE FUNCTION retention_rule(p_tenant text, p_kind text)
RETURNS SETOF retention_policies LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT r.* FROM (
        SELECT s.* FROM retention_policies s
        WHERE s.kind = p_kind
          AND s.tenant_id = ANY (ARRAY['/', substring(p_tenant FROM '^/[^/]+/'), p_tenant])
        UNION ALL
        SELECT u.* FROM unset_policies() u WHERE u.kind = p_kind
    ) r
    ORDER BY length(r.tenant_id) DESC, r.updated_at DESC LIMIT 1
$$;

-- Raises for arguments without a retention score.
CREATE FUNCTION retention_refused(VARIADIC p_given double precision[])
RETURNS double precision LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '22023',
        MESSAGE = 'no retention can be told of access count, decay rate, initial strength and '
                  'arousal ' || p_given::text,
        HINT = 'counts and decay rates are finite numbers from 0, strength and arousal from 0 to 1';
END $$;

-- The decay rate per day at an arousal: full arousal halves it. A rate too small or too large for
-- the arithmetic counts as none, or as immediate.
CREATE FUNCTION slowed_decay(p_decay_rate double precision, p_arousal double precision)
RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_decay_rate < 1e-30 THEN 0
           ELSE least(p_decay_rate, 1e290) * (2 - p_arousal) / 2 END
$$;

-- The score of a fresh, unread memory by its importance from 1 to 10: 0.4 to 1.
CREATE FUNCTION initial_strength(p_importance double precision)
RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_importance <= 5 THEN 0.4 + 0.3 * (p_importance - 1) / 4
           ELSE 0.7 + 0.3 * (p_importance - 5) / 5 END
$$;

-- The arousal in the metadata of a memory, or 0.
CREATE FUNCTION memory_arousal(p_value jsonb)
RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN jsonb_typeof(p_value #> '{metadata,emotion,arousal}') = 'number'
           THEN least(greatest((p_value #>> '{metadata,emotion,arousal}')::numeric, 0), 1)::float8
           ELSE 0 END
$$;

-- The retention score of a memory at a moment, 0 to 1. p_last_accessed_at: when it was last read or
-- written; a moment in the future counts as p_as_of. p_initial: 0.2 is the documented function.
CREATE FUNCTION calculate_retention_score(
    p_access_count      bigint,
    p_last_accessed_at  timestamptz,
    p_decay_rate        double precision DEFAULT 0.1,
    p_as_of             timestamptz DEFAULT now(),
    p_initial           double precision DEFAULT 0.2,
    p_arousal           double precision DEFAULT 0
) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN num_nulls(p_access_count, p_last_accessed_at, p_decay_rate, p_as_of, p_initial,
                       p_arousal) > 0 THEN NULL
        WHEN p_access_count >= 0 AND p_decay_rate >= 0 AND p_decay_rate < 'Infinity'
             AND p_initial BETWEEN 0 AND 1 AND p_arousal BETWEEN 0 AND 1
        THEN least(1, CASE WHEN p_initial < 1e-40 THEN 0 ELSE p_initial END
             * (1 + ln(1 + p_access_count::float8))
             * exp(-least(600, slowed_decay(p_decay_rate, p_arousal) * greatest(0,
                   extract(epoch FROM p_as_of - p_last_accessed_at)::float8 / 86400))))
        ELSE retention_refused(p_access_count, p_decay_rate, p_initial, p_arousal) END
$$;

-- The number of days for which a score is at least the threshold, or infinity.
CREATE FUNCTION days_above(
    p_threshold double precision, p_strength double precision, p_slowed double precision
) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_threshold = 0 THEN 'Infinity' WHEN p_strength < p_threshold THEN 0
           WHEN p_slowed = 0 THEN 'Infinity'
           ELSE (ln(p_strength) - ln(p_threshold)) / p_slowed END
$$;

-- When a memory leaves its stage (0 kept, 1 demoted, 2 archived) if nothing changes, to the
-- microsecond; null for never, which includes moments past Python's calendar. p_initial: its given
-- strength, or null for that of its importance. p_staged_at: since when it is in its stage; for a
-- kept one, when it was revived. No table's row: the nodes of a Citus cluster do not know its type.
CREATE FUNCTION next_stage_at(
    p_fades               boolean,
    p_decay_rate          double precision,
    p_threshold           double precision,
    p_min_age_days        double precision,
    p_archive_threshold   double precision,
    p_archive_after_days  double precision,
    p_erase_threshold     double precision,
    p_erase_after_days    double precision,
    p_stage         integer,
    p_staged_at     timestamptz,
    p_pinned_at     timestamptz,
    p_initial       double precision,
    p_importance    double precision,
    p_arousal       double precision,
    p_access_count  bigint,
    p_used_at       timestamptz,
    p_created_at    timestamptz
) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    below    double precision := p_threshold;
    since    timestamptz := greatest(p_created_at, p_staged_at);
    grace    double precision := p_min_age_days;
    days     double precision;
    due_at   timestamptz;
BEGIN
    IF p_pinned_at IS NOT NULL OR NOT coalesce(p_fades, false) THEN
        RETURN NULL;
    END IF;
    IF p_stage > 0 THEN
        since := p_staged_at;
        IF p_stage = 1 AND p_archive_threshold IS NOT NULL THEN
            below := p_archive_threshold;
            grace := p_archive_after_days;
        ELSE
            below := p_erase_threshold;
            grace := p_erase_after_days;
        END IF;
    END IF;
    IF below IS NULL THEN
        RETURN NULL;
    END IF;
    days := days_above(below,
        coalesce(p_initial, initial_strength(p_importance)) * (1 + ln(1 + p_access_count::float8)),
        slowed_decay(p_decay_rate, p_arousal));
    IF days > 4e6 OR grace > 4e6 THEN
        RETURN NULL;
    END IF;
    due_at := greatest(p_used_at + ceil(days * 86400e6) * interval '1 microsecond',
                       since + ceil(grace * 86400e6) * interval '1 microsecond');
    RETURN CASE WHEN due_at < '10000-01-01 00:00+00' THEN due_at END;
END $$;

CREATE FUNCTION next_stage_at(
    rule            retention_policies,
    p_stage         integer,
    p_staged_at     timestamptz,
    p_pinned_at     timestamptz,
    p_initial       double precision,
    p_importance    double precision,
    p_arousal       double precision,
    p_access_count  bigint,
    p_used_at       timestamptz,
    p_created_at    timestamptz
) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT next_stage_at(
        rule.fades, rule.decay_rate, rule.threshold, rule.min_age_days, rule.archive_threshold,
        rule.archive_after_days, rule.erase_threshold, rule.erase_after_days, p_stage, p_staged_at,
        p_pinned_at, p_initial, p_importance, p_arousal, p_access_count, p_used_at, p_created_at)
$$;

-- The texts of archived memories: their rows in memories hold neither text nor words, and they have
-- no vector. is_shown: value held the text as well, as "content". keeps_words: vectors and words
-- stayed with the memory, because only its store knows the fields of an item. Small rows are
-- compressed, too.
CREATE TABLE memory_archive (
    tenant_id    text COLLATE "C" NOT NULL,
    memory_id    uuid NOT NULL,
    text         text NOT NULL,
    value        jsonb NOT NULL,
    is_shown     boolean NOT NULL,
    words_key    uuid,
    archived_at  timestamptz NOT NULL,
    keeps_words  boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE
) WITH (toast_tuple_target = 128);
ALTER TABLE memory_archive ALTER COLUMN text SET STORAGE MAIN, ALTER COLUMN value SET STORAGE MAIN;
SELECT protect('memory_archive', '{1,2}');

-- Paths whose policies changed, with the last memory below them whose moment was recomputed. The
-- row is deleted after the last of them.
CREATE TABLE retimings (
    tenant_id     text COLLATE "C" NOT NULL,
    after_tenant  text COLLATE "C" NOT NULL,
    after_id      uuid NOT NULL,
    PRIMARY KEY (tenant_id)
);
SELECT protect('retimings', '{0,2}');

-- Recomputes when at most p_limit memories leave their stage, after the policies of a path changed:
-- in the order of their ids, from where the last call stopped. looked_at: 0 when all are done.
-- Locks them first: it waits for transactions that move one on, and sees what they did.
CREATE FUNCTION retime_memories(p_path text, p_limit integer)
RETURNS TABLE (looked_at bigint, changed bigint) LANGUAGE plpgsql
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_seqscan TO off SET jit TO off
AS $$
DECLARE
    mark    retimings;
    owners  text[];
    ids     uuid[];
BEGIN
    SELECT t.* INTO mark FROM retimings t WHERE t.tenant_id = p_path FOR UPDATE;
    IF mark.tenant_id IS NOT NULL THEN
        SELECT array_agg(page.tenant_id), array_agg(page.memory_id) INTO owners, ids
        FROM (SELECT m.tenant_id, m.memory_id FROM memories m
              WHERE m.tenant_id >= p_path AND m.tenant_id < left(p_path, -1) || '0'
                AND (m.tenant_id, m.memory_id) > (mark.after_tenant, mark.after_id)
              ORDER BY m.tenant_id, m.memory_id LIMIT p_limit
              FOR KEY SHARE OF m) page;
    END IF;
    looked_at := coalesce(cardinality(ids), 0);
    changed := 0;
    IF looked_at = 0 THEN
        DELETE FROM retimings t WHERE t.tenant_id = p_path;
        RETURN NEXT;
        RETURN;
    END IF;
    WITH timed AS (
        INSERT INTO memory_access AS x (tenant_id, memory_id, forget_at)
        SELECT m.tenant_id, m.memory_id,
               CASE WHEN m.superseded_at IS NULL THEN
                   next_stage_at(r, coalesce(a.stage, 0), a.staged_at, a.pinned_at, a.strength,
                                 m.importance, memory_arousal(m.value), coalesce(a.access_count, 0),
                                 greatest(m.updated_at, a.last_accessed_at), m.created_at) END
        FROM unnest(owners, ids) AS page(tenant_id, memory_id)
        JOIN memories m ON m.tenant_id = page.tenant_id AND m.memory_id = page.memory_id
        CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
        LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
        WHERE r.fades OR a.forget_at IS NOT NULL
        ON CONFLICT (tenant_id, memory_id) DO UPDATE SET forget_at = excluded.forget_at
        WHERE x.forget_at IS DISTINCT FROM excluded.forget_at
        RETURNING 1
    )
    SELECT count(*) INTO changed FROM timed;
    UPDATE retimings t SET after_tenant = owners[looked_at], after_id = ids[looked_at]
    WHERE t.tenant_id = p_path;
    RETURN NEXT;
END $$;

-- What goes along with an erased memory: the ended facts of a fact's place, if its policy says so;
-- the replaced summaries of a summary. Pinned ones stay.
CREATE FUNCTION erased_along(
    p_tenant text, p_memory_id uuid, p_kind text, p_thread_id text, p_with_history boolean
) RETURNS TABLE (tenant_id text, memory_id uuid, kind text) LANGUAGE sql STABLE AS $$
    SELECT m.tenant_id, m.memory_id, m.kind
    FROM (SELECT h.tenant_id, h.memory_id
          FROM facts x
          JOIN facts h ON h.tenant_id = x.tenant_id AND h.fact_type = x.fact_type AND h.key = x.key
          WHERE x.tenant_id = p_tenant AND x.memory_id = p_memory_id AND p_with_history
            AND h.superseded_at IS NOT NULL AND h.memory_id <> x.memory_id
          UNION ALL
          SELECT o.tenant_id, o.memory_id
          FROM memories o
          WHERE p_kind = 'summary' AND o.tenant_id = p_tenant AND o.thread_id = p_thread_id
            AND o.kind = 'summary' AND o.superseded_at IS NOT NULL) g
    JOIN memories m ON m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
    LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
    WHERE a.pinned_at IS NULL
$$;

-- Moves at most p_limit memories below a path that are due at p_now one stage on. Returns the
-- number of each kind by fate: demoted, archived, erased; retimed, if a policy changed meanwhile
-- and it was too early; along, for what was erased with them. An erased turn loses its text, and a
-- tombstone keeps it from coming back; facts drawn from it stay. Rows that another transaction
-- holds are skipped and not counted. Due rows are read in index order up to p_limit, and each row
-- is looked up by key: the planner cannot know how few they are.
CREATE FUNCTION forget_faded(p_scope text, p_now timestamptz, p_limit integer)
RETURNS TABLE (kind text, fate text, memories bigint) LANGUAGE sql
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_seqscan TO off SET jit TO off
SET enable_bitmapscan TO off SET enable_sort TO off
AS $$
    WITH ripe AS MATERIALIZED (
        SELECT a.tenant_id, a.memory_id, a.stage, a.staged_at, a.pinned_at, a.strength,
               a.access_count, a.last_accessed_at, m.kind, m.thread_id, m.importance, m.arousal,
               m.updated_at, m.created_at, m.superseded_at
        FROM (
            SELECT a.*
            FROM memory_access a
            WHERE a.forget_at <= p_now AND (a.staged_at IS NULL OR a.staged_at < p_now)
              AND a.tenant_id >= p_scope
              AND a.tenant_id < left(p_scope, -1) || '0'  -- after "/"
            ORDER BY a.forget_at
            FOR UPDATE SKIP LOCKED) a
        CROSS JOIN LATERAL (
            -- An optimisation fence: each is looked up by its whole key.
            SELECT m.kind, m.thread_id, m.importance, memory_arousal(m.value) AS arousal,
                   m.updated_at, m.created_at, m.superseded_at
            FROM memories m
            WHERE m.tenant_id = a.tenant_id AND m.memory_id = a.memory_id
            OFFSET 0
            FOR UPDATE SKIP LOCKED) m
        LIMIT p_limit
    ), judged AS MATERIALIZED (
        SELECT a.tenant_id, a.memory_id, a.kind, a.thread_id, a.stage, r AS rule,
               coalesce(a.strength, initial_strength(a.importance)) AS initial, a.arousal,
               a.access_count, greatest(a.updated_at, a.last_accessed_at) AS used_at, a.created_at,
               CASE WHEN a.superseded_at IS NULL THEN
                   next_stage_at(r, a.stage, a.staged_at, a.pinned_at, a.strength, a.importance,
                                 a.arousal, a.access_count,
                                 greatest(a.updated_at, a.last_accessed_at), a.created_at) END
                   AS due_at
        FROM ripe a CROSS JOIN LATERAL retention_rule(a.tenant_id, a.kind) r
    ), fated AS MATERIALIZED (
        SELECT j.*,
               CASE WHEN j.due_at IS NULL OR j.due_at > p_now THEN 'retimed'
                    WHEN j.stage = 0 THEN 'demoted'
                    WHEN j.stage = 1 AND (j.rule).archive_threshold IS NOT NULL THEN 'archived'
                    ELSE 'erased' END AS fate
        FROM judged j
    ), moved AS (
        UPDATE memory_access a
        SET stage = CASE f.fate WHEN 'demoted' THEN 1 WHEN 'archived' THEN 2 ELSE a.stage END,
            staged_at = CASE f.fate WHEN 'retimed' THEN a.staged_at ELSE p_now END,
            forget_at = CASE f.fate WHEN 'retimed' THEN f.due_at ELSE
                next_stage_at(f.rule, CASE f.fate WHEN 'demoted' THEN 1 ELSE 2 END, p_now, NULL,
                              f.initial, NULL, f.arousal, f.access_count, f.used_at,
                              f.created_at) END
        FROM fated f
        WHERE f.fate <> 'erased' AND a.tenant_id = f.tenant_id AND a.memory_id = f.memory_id
    ), packed AS (
        INSERT INTO memory_archive AS x (tenant_id, memory_id, text, value, is_shown, words_key,
                                         archived_at, keeps_words)
        SELECT m.tenant_id, m.memory_id, m.text,
               CASE WHEN m.value ->> 'content' = m.text THEN m.value - 'content' ELSE m.value END,
               coalesce(m.value ->> 'content' = m.text, false), m.words_key, p_now,
               m.kind = 'item'
        FROM fated f JOIN memories m USING (tenant_id, memory_id)
        WHERE f.fate = 'archived'
        ON CONFLICT (tenant_id, memory_id) DO UPDATE
        SET text = excluded.text, value = excluded.value, is_shown = excluded.is_shown,
            words_key = excluded.words_key, archived_at = excluded.archived_at,
            keeps_words = excluded.keeps_words
    ), unembedded AS (
        DELETE FROM embeddings e USING fated f
        WHERE f.fate = 'archived' AND f.kind <> 'item'
          AND e.tenant_id = f.tenant_id AND e.memory_id = f.memory_id
    ), hidden AS (
        UPDATE memories m
        SET demoted_at = coalesce(m.demoted_at, p_now),
            text = CASE f.fate WHEN 'archived' THEN '' ELSE m.text END,
            value = CASE f.fate WHEN 'archived' THEN '{}' ELSE m.value END,
            terms = CASE WHEN f.fate = 'archived' AND f.kind <> 'item' THEN '' ELSE m.terms END,
            term_count = CASE WHEN f.fate = 'archived' AND f.kind <> 'item' THEN 0
                         ELSE m.term_count END,
            words_key = CASE f.fate WHEN 'archived' THEN NULL ELSE m.words_key END
        FROM fated f
        WHERE f.fate IN ('demoted', 'archived')
          AND m.tenant_id = f.tenant_id AND m.memory_id = f.memory_id
    ), said AS (
        SELECT s.tenant_id, s.thread_id, s.event_id
        FROM fated f JOIN memory_sources s USING (tenant_id, memory_id)
        WHERE f.fate = 'erased' AND f.kind = 'episodic'
    ), buried AS (
        INSERT INTO tombstones (tenant_id, thread_id, event_id, deleted_at)
        SELECT tenant_id, thread_id, event_id, p_now FROM said
        ON CONFLICT DO NOTHING
    ), unsaid AS (
        DELETE FROM events e USING said s
        WHERE e.tenant_id = s.tenant_id AND e.thread_id = s.thread_id AND e.event_id = s.event_id
          AND e.payload IS NULL
    ), unremembered AS (
        UPDATE events e SET memory_seq = NULL FROM said s
        WHERE e.tenant_id = s.tenant_id AND e.thread_id = s.thread_id AND e.event_id = s.event_id
          AND e.payload IS NOT NULL
    ), along AS MATERIALIZED (
        -- A transaction that pins a memory holds it, so it is skipped; an earlier pin is seen here.
        SELECT g.tenant_id, g.memory_id, g.kind
        FROM (SELECT DISTINCT g.* FROM fated f
              CROSS JOIN LATERAL erased_along(f.tenant_id, f.memory_id, f.kind, f.thread_id,
                                              (f.rule).with_history) g
              WHERE f.fate = 'erased') g
        CROSS JOIN LATERAL (
            SELECT FROM memories m
            WHERE m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
            OFFSET 0
            FOR UPDATE SKIP LOCKED) m
        LEFT JOIN LATERAL (
            SELECT a.pinned_at FROM memory_access a
            WHERE a.tenant_id = g.tenant_id AND a.memory_id = g.memory_id
            OFFSET 0
            FOR UPDATE) a ON true
        WHERE a.pinned_at IS NULL
    ), gone AS (
        SELECT tenant_id, memory_id FROM fated WHERE fate = 'erased'
        UNION
        SELECT tenant_id, memory_id FROM along
    ), unbased AS (
        DELETE FROM memory_bases b USING gone g
        WHERE b.tenant_id = g.tenant_id AND b.basis_id = g.memory_id
    ), erased AS (
        DELETE FROM memories m USING gone g
        WHERE m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
    ), noted AS (
        INSERT INTO memory_changes (tenant_id, write_ids, memory_ids)
        SELECT f.tenant_id, ARRAY[gen_random_uuid()], ARRAY[NULL::uuid]
        FROM fated f WHERE f.fate <> 'retimed' AND f.tenant_id ~ '^(/[^/]+){2}/$'
        GROUP BY f.tenant_id ORDER BY f.tenant_id
        ON CONFLICT ON CONSTRAINT memory_changes_pkey DO UPDATE
        SET write_ids = excluded.write_ids, memory_ids = excluded.memory_ids
    )
    SELECT f.kind, f.fate, count(*) FROM fated f GROUP BY 1, 2
    UNION ALL
    SELECT a.kind, 'along', count(*) FROM along a GROUP BY 1
$$;

-- Whether a memory fades, by its rule and its counters, which may be missing, is not pinned, is old
-- enough, and scores below a threshold. p_decay_rate: null for that of its policy.
CREATE FUNCTION is_weak(
    m               memories,
    a               memory_access,
    r               retention_policies,
    p_threshold     double precision,
    p_min_age_days  double precision,
    p_decay_rate    double precision,
    p_now           timestamptz
) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT m.superseded_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > p_now) AND r.fades
       AND a.pinned_at IS NULL
       AND extract(epoch FROM p_now - m.created_at) >= p_min_age_days * 86400
       AND calculate_retention_score(
               coalesce(a.access_count, 0), greatest(m.updated_at, a.last_accessed_at),
               coalesce(p_decay_rate, r.decay_rate), p_now,
               coalesce(a.strength, initial_strength(m.importance)), memory_arousal(m.value)
           ) < p_threshold
$$;

-- Erases the weak ones of some memories at once and returns their ids. Memories drawn from them and
-- their logged turns stay: adding the turns again brings nothing back. They are locked before they
-- are judged: memories pinned or read meanwhile stay, and so do those that another transaction
-- holds.
CREATE FUNCTION forget_weak(
    p_tenants       text[],
    p_memory_ids    uuid[],
    p_threshold     double precision,
    p_min_age_days  double precision,
    p_decay_rate    double precision,
    p_now           timestamptz
) RETURNS TABLE (tenant_id text, memory_id uuid) LANGUAGE plpgsql
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_seqscan TO off SET jit TO off
AS $$
#variable_conflict use_column
DECLARE
    owners  text[];
    ids     uuid[];
BEGIN
    SELECT array_agg(m.tenant_id), array_agg(m.memory_id) INTO owners, ids
    FROM unnest(p_tenants, p_memory_ids) AS g(tenant_id, memory_id)
    CROSS JOIN LATERAL (
        SELECT m.tenant_id, m.memory_id FROM memories m
        WHERE m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
        OFFSET 0
        FOR UPDATE SKIP LOCKED) m;
    RETURN QUERY
    WITH weak AS MATERIALIZED (
        SELECT m.tenant_id, m.memory_id, m.kind, m.thread_id, r.with_history
        FROM unnest(owners, ids) AS g(tenant_id, memory_id)
        JOIN memories m ON m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
        LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
        CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
        WHERE is_weak(m, a, r, p_threshold, p_min_age_days, p_decay_rate, p_now)
    ), along AS MATERIALIZED (
        SELECT g.tenant_id, g.memory_id
        FROM (SELECT DISTINCT g.tenant_id, g.memory_id FROM weak w
              CROSS JOIN LATERAL erased_along(w.tenant_id, w.memory_id, w.kind, w.thread_id,
                                              false) g) g
        CROSS JOIN LATERAL (
            SELECT FROM memories m
            WHERE m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
            OFFSET 0
            FOR UPDATE SKIP LOCKED) m
        LEFT JOIN LATERAL (
            SELECT a.pinned_at FROM memory_access a
            WHERE a.tenant_id = g.tenant_id AND a.memory_id = g.memory_id
            OFFSET 0
            FOR UPDATE) a ON true
        WHERE a.pinned_at IS NULL
    ), gone AS (
        SELECT w.tenant_id, w.memory_id FROM weak w
        UNION SELECT g.tenant_id, g.memory_id FROM along g
    ), unbased AS (
        DELETE FROM memory_bases b USING gone g
        WHERE b.tenant_id = g.tenant_id AND b.basis_id = g.memory_id
    ), erased AS (
        DELETE FROM memories m USING gone g
        WHERE m.tenant_id = g.tenant_id AND m.memory_id = g.memory_id
    ), noted AS (
        INSERT INTO memory_changes (tenant_id, write_ids, memory_ids)
        SELECT w.tenant_id, ARRAY[gen_random_uuid()], ARRAY[NULL::uuid]
        FROM weak w WHERE w.tenant_id ~ '^(/[^/]+){2}/$'
        GROUP BY w.tenant_id ORDER BY w.tenant_id
        ON CONFLICT ON CONSTRAINT memory_changes_pkey DO UPDATE
        SET write_ids = excluded.write_ids, memory_ids = excluded.memory_ids
    )
    SELECT w.tenant_id, w.memory_id FROM weak w;
END $$;

-- As forget_weak, for at most p_limit memories below a path. Reads every memory below the path.
CREATE FUNCTION forget_below(
    p_scope         text,
    p_threshold     double precision,
    p_min_age_days  double precision,
    p_decay_rate    double precision,
    p_now           timestamptz,
    p_limit         integer
) RETURNS TABLE (tenant_id text, memory_id uuid) LANGUAGE sql AS $$
    SELECT g.tenant_id, g.memory_id
    FROM (SELECT array_agg(w.tenant_id) AS owners, array_agg(w.memory_id) AS ids
          FROM (SELECT m.tenant_id, m.memory_id
                FROM memories m
                LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.memory_id
                CROSS JOIN LATERAL retention_rule(m.tenant_id, m.kind) r
                WHERE m.tenant_id >= p_scope AND m.tenant_id < left(p_scope, -1) || '0'
                  AND is_weak(m, a, r, p_threshold, p_min_age_days, p_decay_rate, p_now)
                ORDER BY m.tenant_id, m.memory_id LIMIT p_limit) w) w
    CROSS JOIN LATERAL forget_weak(w.owners, w.ids, p_threshold, p_min_age_days, p_decay_rate,
                                   p_now) g
$$;

-- For SQL alone, e.g. pg_cron. Without a threshold and an age it moves at most p_limit memories on
-- by their policies, as the worker does. With one of them it erases at once at most p_limit
-- memories with a score below the threshold (default 0.1) and of at least the age in days (default
-- 7). Returns how many. p_scope: '/' for all, '/app/' or '/app/user/', with %25 for % and %2F for /
-- in names.
CREATE FUNCTION cleanup_low_value_memories(
    p_threshold     double precision DEFAULT NULL,
    p_min_age_days  double precision DEFAULT NULL,
    p_limit         integer DEFAULT 10000,
    p_scope         text DEFAULT '/',
    p_as_of         timestamptz DEFAULT now()
) RETURNS integer LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    is_bound CONSTANT boolean := coalesce(current_setting('hippocampus.scope', true), '') <> '';
    moved integer;
BEGIN
    IF p_threshold NOT BETWEEN 0 AND 1 OR NOT (p_min_age_days >= 0 AND p_min_age_days < 'Infinity')
       OR p_limit < 0 OR right(p_scope, 1) <> '/' OR left(p_scope, 1) <> '/' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'nothing can be cleaned up so',
            HINT = 'p_threshold is from 0 to 1, p_min_age_days and p_limit are numbers from 0, '
                   'p_scope begins and ends with /';
    END IF;
    IF NOT is_bound THEN
        PERFORM set_config('hippocampus.scope', p_scope, true);
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('', 1));  -- policies stay as they are
    IF p_threshold IS NULL AND p_min_age_days IS NULL THEN
        PERFORM retime_memories(t.tenant_id, p_limit) FROM retimings t
        WHERE t.tenant_id >= p_scope AND t.tenant_id < left(p_scope, -1) || '0';
        SELECT coalesce(sum(f.memories) FILTER (WHERE f.fate NOT IN ('retimed', 'along')), 0)
        INTO moved FROM forget_faded(p_scope, p_as_of, p_limit) f;
    ELSE
        SELECT count(*) INTO moved
        FROM forget_below(p_scope, coalesce(p_threshold, 0.1), coalesce(p_min_age_days, 7), NULL,
                          p_as_of, p_limit);
    END IF;
    IF NOT is_bound THEN
        PERFORM set_config('hippocampus.scope', '', true);
    END IF;
    RETURN moved;
END $$;

-- Periodic tasks for a whole path, each run by one worker at a time: when a task is due next, which
-- worker holds it until when, and its last result.
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
SELECT protect('schedules', '{0,2}');
-- For callers in SQL: the context of a model within a budget. Row security applies: first run
-- SELECT set_config('hippocampus.scope', '/my_app/ana/', true). See
-- docs/reference/context.md.

-- The words of a query that are searched for: for Han every pair of neighbours.
CREATE FUNCTION query_words(p_query text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(DISTINCT word), '{}')
    FROM regexp_matches(lower(p_query), '[^[:space:][:punct:]，。！？、；：（）“”《》]+', 'g') run(found)
    CROSS JOIN LATERAL (
        SELECT found[1] AS word WHERE found[1] !~ '[一-鿿]' AND length(found[1]) > 2
        UNION ALL
        SELECT substr(found[1], place, 2) FROM generate_series(1, length(found[1]) - 1) place
        WHERE found[1] ~ '[一-鿿]') w
$$;

-- The share, 0 to 1, of those words that a text holds.
CREATE FUNCTION words_held(p_words text[], p_text text) RETURNS double precision
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(avg((position(word IN lower(p_text)) > 0)::int), 0)::float8
    FROM unnest(p_words) word
$$;

-- An upper bound of the tokens that o200k makes of a text, without its vocabulary: two for every
-- three bytes of small letters, spaces, Han and Chinese punctuation, one for every other byte. Only
-- random letters and rare Han come near; English and Chinese have a third to half of it.
CREATE FUNCTION tokens_at_most(p_text text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ceil((2 * octet_length(p_text) + octet_length(
        regexp_replace(p_text, '[a-z]{2,}|[ 一-鿿，。！？、；：]', '', 'g'))) / 3.0)::integer
$$;

-- Facts, memories and turns that fit p_max_tokens together: facts and memories best first, turns
-- oldest first with the newest kept. p_query_embedding: of the active model; without it words alone
-- find. p_thread_id: the thread of the turns; without it the newest of all. The ratios are the
-- least that memories and history may take, and facts get the rest; an unused share goes to the
-- others. p_tokens_per_byte: replaces tokens_at_most(); 1 is always enough for a tokenizer of
-- bytes.
CREATE FUNCTION get_context_window(
    p_user_id text,
    p_app_name text,
    p_query text,
    p_query_embedding halfvec DEFAULT NULL,
    p_max_tokens integer DEFAULT 4000,
    p_memory_ratio double precision DEFAULT 0.3,
    p_history_ratio double precision DEFAULT 0.5,
    p_thread_id text DEFAULT NULL,
    p_tokens_per_byte double precision DEFAULT NULL
) RETURNS TABLE (
    context_type text, content text, relevance_score double precision, token_estimate integer,
    source_id text, occurred_at timestamptz
) LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    tenant CONSTANT text := '/' || replace(replace(p_app_name, '%', '%25'), '/', '%2F')
                         || '/' || replace(replace(p_user_id, '%', '%25'), '/', '%2F') || '/';
    scope CONSTANT text := coalesce(current_setting('hippocampus.scope', true), '');
    words CONSTANT text[] := query_words(coalesce(p_query, ''));
    per_byte CONSTANT double precision := coalesce(p_tokens_per_byte, 2.0 / 3);  -- at least
    section text;
    sections CONSTANT text[] := ARRAY['history', 'fact', 'memory'];
    given jsonb := '{}';  -- of each section its items in order: id, text, relevance, tokens, time
    needed jsonb := '{}'; -- of each section what all its items take, at most its share
    chosen jsonb[] := '{}';
    item jsonb;
    used integer := 0;
    room integer;
BEGIN
    IF tenant IS NULL OR p_user_id = '' OR p_app_name = '' THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'p_user_id and p_app_name must not be empty';
    END IF;
    IF p_max_tokens IS NULL OR p_max_tokens < 1 OR NOT p_tokens_per_byte BETWEEN 0.01 AND 100 THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'p_max_tokens must be at least 1, and p_tokens_per_byte from 0.01 to 100';
    END IF;
    IF p_memory_ratio IS NULL OR p_history_ratio IS NULL OR p_memory_ratio < 0
       OR p_history_ratio < 0 OR NOT p_memory_ratio + p_history_ratio <= 1 THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'p_memory_ratio and p_history_ratio must be 0 to 1, and together at most 1';
    END IF;
    IF row_security_active('memories') AND NOT (right(scope, 1) = '/' AND tenant ^@ scope) THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'this transaction is not bound to the memory of that user',
            HINT = format('SELECT set_config(''hippocampus.scope'', %L, true)', tenant);
    END IF;
    SELECT jsonb_object_agg(s.name, coalesce(f.items, '[]')) INTO given
    FROM unnest(sections) s(name) LEFT JOIN LATERAL (
        SELECT jsonb_agg(jsonb_build_object(
                   'section', s.name, 'id', id, 'text', text, 'score', score, 'at', at,
                   'place', place, 'cost', coalesce(ceil(octet_length(text) * p_tokens_per_byte),
                                                    tokens_at_most(text)))
               ORDER BY place) AS items
        FROM (
            SELECT memory_id::text AS id, text, score, at,
                   row_number() OVER (ORDER BY score DESC, at DESC, memory_id) AS place
            FROM (
                SELECT m.memory_id, m.occurred_at AS at,
                       m.text || CASE  -- the mark of a doubtful fact
                           WHEN f.memory_id IS NULL OR m.value #> '{metadata,doubted_at}' IS NULL
                           THEN '' WHEN m.text ~ '[一-鿿]' THEN '（可能已不再如此）'
                           ELSE ' (perhaps no longer)'
                       END AS text,
                       greatest(words_held(words, m.text),
                                (SELECT 1 - min(e.embedding <=> p_query_embedding) FROM embeddings e
                                 WHERE e.tenant_id = tenant AND e.memory_id = m.memory_id
                                   AND e.model = (SELECT model FROM embedding_models WHERE active)
                                )) AS score
                FROM memories m LEFT JOIN facts f USING (tenant_id, memory_id)
                WHERE m.tenant_id = tenant AND m.namespace ^@ '/memories/'
                  AND m.superseded_at IS NULL AND m.demoted_at IS NULL
                  AND (m.expires_at IS NULL OR m.expires_at > now())
                  AND (f.memory_id IS NOT NULL) = (s.name = 'fact')
                  AND (f.valid_from IS NULL OR f.valid_from <= now() + interval '1 hour')
                  AND (f.valid_until IS NULL OR f.valid_until > now())
                  AND s.name <> 'history'
            ) scored WHERE score > 0 OR s.name = 'fact'
            UNION ALL
            SELECT event_id, text, 1, at, place
            FROM (SELECT event_id, text, at, row_number() OVER newest AS place,
                         sum(octet_length(text)) FILTER (WHERE octet_length(text) * per_byte
                                                               <= p_max_tokens) OVER newest AS bytes
            FROM (SELECT e.event_id, e.text, e.occurred_at AS at, e.seq FROM events e
                  WHERE s.name = 'history' AND e.tenant_id = tenant
                    AND (p_thread_id IS NULL OR e.thread_id = p_thread_id)
                    AND e.text <> '' AND (e.expires_at IS NULL OR e.expires_at > now())
                    AND e.memory_seq IS NOT NULL  -- a session log holds the rest, unredacted
                  ORDER BY CASE WHEN p_thread_id IS NULL THEN e.occurred_at END DESC, e.seq DESC
                  LIMIT p_max_tokens) said WINDOW newest AS (ORDER BY at DESC, seq DESC)) counted
            WHERE coalesce(bytes, 0) * per_byte <= 2 * p_max_tokens  -- the rest has no room
        ) ranked WHERE place <= CASE s.name WHEN 'history' THEN p_max_tokens ELSE 50 END
    ) f ON true;
    SELECT jsonb_object_agg(s.name, least(
               (SELECT coalesce(sum((i ->> 'cost')::int), 0)
                FROM jsonb_array_elements(given -> s.name) i),
               p_max_tokens * CASE s.name WHEN 'memory' THEN p_memory_ratio
                                          WHEN 'history' THEN p_history_ratio
                                          ELSE 1 - p_memory_ratio - p_history_ratio END))
    INTO needed FROM unnest(sections) s(name);
    -- In the first round, later sections keep what they need of their shares.
    FOREACH section IN ARRAY sections || sections LOOP
        needed := needed - section;
        room := p_max_tokens - used
              - ceil((SELECT coalesce(sum(value::float8), 0) FROM jsonb_each_text(needed)));
        FOR item IN SELECT * FROM jsonb_array_elements(given -> section) LOOP
            CONTINUE WHEN (item ->> 'cost')::int > room OR item = ANY (chosen)
                OR section = 'memory' AND EXISTS (
                    SELECT FROM unnest(chosen) c
                    WHERE lower(c ->> 'text') = lower(item ->> 'text'));
            chosen := chosen || item;
            room := room - (item ->> 'cost')::int;
            used := used + (item ->> 'cost')::int;
        END LOOP;
    END LOOP;
    RETURN QUERY
    SELECT c ->> 'section', c ->> 'text', (c ->> 'score')::float8, (c ->> 'cost')::int, c ->> 'id',
           (c ->> 'at')::timestamptz
    FROM unnest(chosen) c
    ORDER BY array_position(ARRAY['fact', 'memory', 'history'], c ->> 'section'),
             (c ->> 'place')::int * CASE c ->> 'section' WHEN 'history' THEN -1 ELSE 1 END;
END $$;

-- Conversations that open and end by themselves: one active at a time for a user, each on a thread
-- of its own. ends_at: when it ends by its idle time or duration, unless another turn comes.
CREATE TABLE conversations (
    tenant_id       text COLLATE "C" NOT NULL,
    thread_id       text COLLATE "C" NOT NULL,
    status          text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'ending', 'ended')),
    event_count     integer NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL,
    last_active_at  timestamptz NOT NULL,
    ends_at         timestamptz NOT NULL,
    ended_at        timestamptz,
    PRIMARY KEY (tenant_id, thread_id)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX conversations_one_active ON conversations (tenant_id) WHERE status = 'active';
-- Finds expired conversations, across tenants.
CREATE INDEX conversations_ending ON conversations (ends_at) WHERE status = 'active';
SELECT protect('conversations');

-- Bearer tokens of the HTTP server. tenant_id: the path of the token's application. secret_hash:
-- SHA-256 of a random secret of 256 bits, which is never stored. users: whose memories it opens,
-- null for all of the application. opens: the memory of these users, or the metrics of the server
-- and nothing else. A revoked token stays, so that its id is never used again.
CREATE TABLE api_tokens (
    tenant_id    text COLLATE "C" NOT NULL,
    token_id     text COLLATE "C" NOT NULL,
    secret_hash  bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    label        text NOT NULL DEFAULT '',
    users        text[],
    opens        text NOT NULL DEFAULT 'memory' CHECK (opens IN ('memory', 'metrics')),
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    PRIMARY KEY (tenant_id, token_id)
);
CREATE INDEX api_tokens_by_id ON api_tokens (token_id);
SELECT protect('api_tokens', '{1,2}');

-- After the last table. The planner's statistics are samples of values, and outlive the rows:
-- ANALYZE of an emptied table keeps the old ones. So no column that can hold words, names, vectors
-- or hashes of them has any. This list names the columns of text that keep theirs: plans need the
-- number of rows of a tenant, which receipts name anyway, and the rest are fixed words of this
-- schema.
DO $$
DECLARE
    kept CONSTANT name[] := ARRAY['tenant_id', 'kind', 'role', 'status', 'job_type', 'fact_type',
                                  'change', 'model'];
    harmless CONSTANT regtype[] := ARRAY['boolean', 'smallint', 'integer', 'bigint', 'real',
                                         'double precision', 'timestamptz'];
    target record;
BEGIN
    FOR target IN
        SELECT c.oid::regclass AS relation, c.relkind, a.attnum, a.attname
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE c.relnamespace = current_schema()::regnamespace AND a.atttypid <> ALL (harmless)
          AND (c.relkind = 'r' AND a.attname <> ALL (kept)
               AND (a.atttypid <> 'uuid'::regtype OR a.attname = 'words_key')
               OR c.relkind = 'i' AND (SELECT i.indkey[a.attnum - 1] = 0  -- an expression
                                       FROM pg_index i WHERE i.indexrelid = c.oid))
    LOOP
        IF target.relkind = 'i' THEN
            EXECUTE format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS 0',
                           target.relation, target.attnum);
        ELSE
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0',
                           target.relation, target.attname);
        END IF;
    END LOOP;
END $$;
