-- The tables and columns of ../../postgres/sql/migrations/0001_schema.sql, which explains them,
-- in types of OceanBase:
-- * Ids are BINARY(16). Text keys are VARBINARY, so that no two different keys compare equal.
-- * Moments are DATETIME(6) in UTC.
-- * jsonb and arrays of PostgreSQL are JSON in a LONGTEXT, in this project's own spelling.
-- * memories.terms holds the words with a space before and after each.
-- {table} ends every table of tenants: organised by its key, in partitions by tenant on a server.
-- {user}, {namespace} and {path} check the labels of its tenants as well (connection/migrate.py).
-- Vectors stand in tables of their own, one for each number of dimensions (vectors.py).

-- A write to a tenant holds its row, from before the first statement until the commit.
CREATE TABLE IF NOT EXISTS tenants (
    tenant_id VARBINARY(1500) NOT NULL,
    PRIMARY KEY (tenant_id)
) {table};

CREATE TABLE IF NOT EXISTS embedding_models (
    model              VARBINARY(1500) NOT NULL PRIMARY KEY,
    dimensions         INT NOT NULL,
    active             TINYINT(1) NOT NULL DEFAULT 1,
    created_at         DATETIME(6) NOT NULL,
    beside             TINYINT(1) NOT NULL DEFAULT 0,
    KEY embedding_models_one_active (active)
) ORGANIZATION = INDEX;

CREATE TABLE IF NOT EXISTS threads (
    tenant_id          VARBINARY(1500) NOT NULL,
    thread_id          VARBINARY(1500) NOT NULL,
    state              LONGTEXT NOT NULL,
    version            BIGINT NOT NULL DEFAULT 1,
    last_seq           BIGINT NOT NULL DEFAULT 0,
    consolidated_seq   BIGINT NOT NULL DEFAULT 0,
    created_at         DATETIME(6) NOT NULL,
    updated_at         DATETIME(6) NOT NULL,
    last_memory_seq    BIGINT NOT NULL DEFAULT 0,
    session_started_at DATETIME(6),
    session_updated_at DATETIME(6),
    last_event_id      VARBINARY(1500),
    unread_bytes       BIGINT NOT NULL DEFAULT 0,
    summarised_seq     BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, thread_id)
) {user};

CREATE TABLE IF NOT EXISTS events (
    tenant_id          VARBINARY(1500) NOT NULL,
    thread_id          VARBINARY(1500) NOT NULL,
    seq                BIGINT NOT NULL,
    event_id           VARBINARY(1500) NOT NULL,
    author             LONGTEXT NOT NULL,
    role               VARCHAR(32) NOT NULL,
    text               LONGTEXT NOT NULL,
    metadata           LONGTEXT NOT NULL,
    occurred_at        DATETIME(6) NOT NULL,
    time_zone          VARCHAR(128),
    recorded_at        DATETIME(6) NOT NULL,
    memory_seq         BIGINT,
    importance         DOUBLE NOT NULL DEFAULT 5,
    expires_at         DATETIME(6),
    payload            LONGTEXT,
    PRIMARY KEY (tenant_id, thread_id, seq),
    UNIQUE (tenant_id, thread_id, event_id),
    FOREIGN KEY (tenant_id, thread_id) REFERENCES threads (tenant_id, thread_id) ON DELETE CASCADE,
    KEY events_expiry (tenant_id, expires_at),
    KEY events_of_id (tenant_id, event_id)
) {user};

CREATE TABLE IF NOT EXISTS tombstones (
    tenant_id          VARBINARY(1500) NOT NULL,
    thread_id          VARBINARY(1500) NOT NULL,
    event_id           VARBINARY(1500) NOT NULL,
    deleted_at         DATETIME(6) NOT NULL,
    PRIMARY KEY (tenant_id, thread_id, event_id),
    KEY tombstones_of_id (tenant_id, event_id)
) {user};

CREATE TABLE IF NOT EXISTS shared_state (
    tenant_id          VARBINARY(1500) NOT NULL,
    state              LONGTEXT NOT NULL,
    updated_at         DATETIME(6) NOT NULL,
    PRIMARY KEY (tenant_id)
) {namespace};

CREATE TABLE IF NOT EXISTS memories (
    tenant_id          VARBINARY(1500) NOT NULL,
    memory_id          BINARY(16) NOT NULL,
    namespace          VARBINARY(1500) NOT NULL,
    `key`              VARBINARY(1500) NOT NULL,
    kind               VARCHAR(32) NOT NULL,
    text               LONGTEXT NOT NULL,
    value              LONGTEXT NOT NULL,
    terms              LONGTEXT NOT NULL,
    term_count         INT NOT NULL,
    author             LONGTEXT,
    importance         DOUBLE NOT NULL DEFAULT 5,
    thread_id          VARBINARY(1500),
    run_id             BINARY(16),
    occurred_at        DATETIME(6) NOT NULL,
    created_at         DATETIME(6) NOT NULL,
    updated_at         DATETIME(6) NOT NULL,
    expires_at         DATETIME(6),
    ttl_s              DOUBLE,
    superseded_at      DATETIME(6),
    words_key          BINARY(16),
    demoted_at         DATETIME(6),
    role               VARCHAR(32),
    PRIMARY KEY (tenant_id, memory_id),
    UNIQUE (tenant_id, namespace, `key`),
    KEY summaries_of_thread (tenant_id, thread_id),
    KEY memories_of_run (tenant_id, run_id),
    KEY memories_expiry (tenant_id, expires_at),
    KEY memories_in_time (tenant_id, occurred_at, memory_id),
    KEY memories_of_words (tenant_id, words_key)
) {namespace};

CREATE TABLE IF NOT EXISTS memory_sources (
    tenant_id          VARBINARY(1500) NOT NULL,
    memory_id          BINARY(16) NOT NULL,
    thread_id          VARBINARY(1500) NOT NULL,
    event_id           VARBINARY(1500) NOT NULL,
    basis              INT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, memory_id, basis, thread_id, event_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE,
    KEY memory_sources_of_event (tenant_id, thread_id, event_id)
) {user};

CREATE TABLE IF NOT EXISTS memory_bases (
    tenant_id          VARBINARY(1500) NOT NULL,
    memory_id          BINARY(16) NOT NULL,
    basis_id           BINARY(16) NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, basis_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE,
    KEY memory_bases_of_basis (tenant_id, basis_id)
) {user};

CREATE TABLE IF NOT EXISTS memory_access (
    tenant_id          VARBINARY(1500) NOT NULL,
    memory_id          BINARY(16) NOT NULL,
    access_count       INT NOT NULL DEFAULT 0,
    last_accessed_at   DATETIME(6),
    forget_at          DATETIME(6),
    stage              SMALLINT NOT NULL DEFAULT 0,
    staged_at          DATETIME(6),
    pinned_at          DATETIME(6),
    strength           DOUBLE,
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE,
    KEY memory_access_due (forget_at, tenant_id)
) {namespace};

CREATE TABLE IF NOT EXISTS facts (
    tenant_id          VARBINARY(1500) NOT NULL,
    memory_id          BINARY(16) NOT NULL,
    fact_type          VARCHAR(32) NOT NULL,
    slot               VARBINARY(1500) NOT NULL,
    `key`              VARBINARY(2700) NOT NULL,
    value              LONGTEXT NOT NULL,
    functional         TINYINT(1) NOT NULL,
    confidence         DOUBLE NOT NULL,
    extractor          LONGTEXT NOT NULL,
    pattern            LONGTEXT NOT NULL,
    valid_from         DATETIME(6) NOT NULL,
    valid_until        DATETIME(6),
    recorded_at        DATETIME(6) NOT NULL,
    superseded_at      DATETIME(6),
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE,
    CHECK (valid_until >= valid_from),
    KEY facts_current (tenant_id, fact_type, `key`),
    KEY facts_history (tenant_id, fact_type, `key`, valid_from),
    KEY facts_begin (tenant_id, valid_from),
    KEY facts_of_slot (tenant_id, slot),
    KEY facts_planned_ends (tenant_id, valid_until)
) {user};

CREATE TABLE IF NOT EXISTS fact_closures (
    tenant_id          VARBINARY(1500) NOT NULL,
    memory_id          BINARY(16) NOT NULL,
    closed_at          DATETIME(6) NOT NULL,
    restored_at        DATETIME(6) NOT NULL,
    valid_until        DATETIME(6) NOT NULL,
    run_id             BINARY(16) NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, run_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES facts (tenant_id, memory_id) ON DELETE CASCADE,
    KEY fact_closures_of_run (tenant_id, run_id)
) {user};

CREATE TABLE IF NOT EXISTS edges (
    tenant_id          VARBINARY(1500) NOT NULL,
    edge_id            BINARY(16) NOT NULL,
    memory_id          BINARY(16),
    subject            VARBINARY(1500) NOT NULL,
    relation           VARBINARY(1500) NOT NULL,
    object             VARBINARY(1500) NOT NULL,
    functional         TINYINT(1) NOT NULL DEFAULT 0,
    confidence         DOUBLE NOT NULL DEFAULT 1,
    valid_from         DATETIME(6) NOT NULL,
    valid_until        DATETIME(6),
    recorded_at        DATETIME(6) NOT NULL,
    superseded_at      DATETIME(6),
    subject_key        VARBINARY(1500) NOT NULL DEFAULT '',
    object_key         VARBINARY(1500) NOT NULL DEFAULT '',
    run_id             BINARY(16),
    fact_id            BINARY(16),
    PRIMARY KEY (tenant_id, edge_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE,
    CHECK (valid_until >= valid_from),
    KEY edges_of_subject (tenant_id, subject_key, valid_from, edge_id),
    KEY edges_of_object (tenant_id, object_key, valid_from, edge_id),
    KEY edges_of_memory (tenant_id, memory_id),
    KEY edges_current (tenant_id, subject_key, relation, object_key),
    KEY edges_functional (tenant_id, subject_key, relation),
    KEY edges_of_run (tenant_id, run_id),
    KEY edges_of_fact (tenant_id, fact_id)
) {user};

CREATE TABLE IF NOT EXISTS edge_sources (
    tenant_id          VARBINARY(1500) NOT NULL,
    edge_id            BINARY(16) NOT NULL,
    basis              INT NOT NULL DEFAULT 0,
    thread_id          VARBINARY(1500) NOT NULL,
    event_id           VARBINARY(1500) NOT NULL,
    PRIMARY KEY (tenant_id, edge_id, basis, thread_id, event_id),
    FOREIGN KEY (tenant_id, edge_id) REFERENCES edges (tenant_id, edge_id) ON DELETE CASCADE,
    KEY edge_sources_of_event (tenant_id, thread_id, event_id)
) {user};

CREATE TABLE IF NOT EXISTS entity_aliases (
    tenant_id          VARBINARY(1500) NOT NULL,
    alias_id           BINARY(16) NOT NULL,
    alias_key          VARBINARY(1500) NOT NULL,
    alias              VARBINARY(1500) NOT NULL,
    entity_key         VARBINARY(1500) NOT NULL,
    entity             VARBINARY(1500) NOT NULL,
    merged_at          DATETIME(6) NOT NULL,
    unmerged_at        DATETIME(6),
    PRIMARY KEY (tenant_id, alias_id),
    KEY entity_aliases_current (tenant_id, alias_key),
    KEY entity_aliases_of_name (tenant_id, alias_key),
    KEY entity_aliases_of_entity (tenant_id, entity_key)
) {user};

CREATE TABLE IF NOT EXISTS instructions (
    tenant_id          VARBINARY(1500) NOT NULL,
    instruction_key    VARBINARY(1500) NOT NULL,
    version            INT NOT NULL,
    content            LONGTEXT NOT NULL,
    metadata           LONGTEXT NOT NULL,
    created_at         DATETIME(6) NOT NULL,
    PRIMARY KEY (tenant_id, instruction_key, version)
) {user};

CREATE TABLE IF NOT EXISTS profiles (
    tenant_id          VARBINARY(1500) NOT NULL,
    subject_kind       VARCHAR(32) NOT NULL,
    subject_id         VARBINARY(1500) NOT NULL,
    version            INT NOT NULL,
    content_hash       BLOB NOT NULL,
    run_id             BINARY(16),
    created_at         DATETIME(6) NOT NULL,
    memory_id          BINARY(16) NOT NULL,
    entries            LONGTEXT NOT NULL,
    event_limit        INT NOT NULL DEFAULT 50,
    began_at           DATETIME(6) NOT NULL,
    revision           INT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, subject_kind, subject_id, version),
    UNIQUE KEY profiles_of_memory (tenant_id, memory_id, version),
    KEY profiles_of_run (tenant_id, run_id)
) {user};

CREATE TABLE IF NOT EXISTS consolidation_jobs (
    tenant_id          VARBINARY(1500) NOT NULL,
    job_id             BINARY(16) NOT NULL,
    thread_id          VARBINARY(1500),
    job_type           VARCHAR(32) NOT NULL,
    status             VARCHAR(32) NOT NULL DEFAULT 'pending',
    priority           SMALLINT NOT NULL DEFAULT 0,
    attempts           INT NOT NULL DEFAULT 0,
    run_after          DATETIME(6) NOT NULL,
    worker_id          LONGTEXT,
    lease_until        DATETIME(6),
    result             LONGTEXT NOT NULL,
    error              LONGTEXT,
    created_at         DATETIME(6) NOT NULL,
    started_at         DATETIME(6),
    completed_at       DATETIME(6),
    payload            LONGTEXT,
    performer          VARBINARY(1500),
    PRIMARY KEY (tenant_id, job_id),
    FOREIGN KEY (tenant_id, thread_id) REFERENCES threads (tenant_id, thread_id) ON DELETE CASCADE,
    KEY consolidation_jobs_turns (status, priority, tenant_id, run_after),
    KEY consolidation_jobs_due (status, run_after),
    KEY consolidation_jobs_new (status, created_at),
    KEY consolidation_jobs_leased (status, lease_until),
    KEY consolidation_jobs_running (status, tenant_id, thread_id),
    KEY consolidation_jobs_of_thread (tenant_id, thread_id, status)
) {user};

CREATE TABLE IF NOT EXISTS extraction_counts (
    tenant_id          VARBINARY(1500) NOT NULL,
    extractions        BIGINT NOT NULL,
    PRIMARY KEY (tenant_id)
) {user};

CREATE TABLE IF NOT EXISTS runs (
    tenant_id          VARBINARY(1500) NOT NULL,
    run_id             BINARY(16) NOT NULL,
    kind               VARCHAR(32) NOT NULL,
    thread_id          VARBINARY(1500),
    extractor          LONGTEXT NOT NULL,
    from_seq           BIGINT,
    to_seq             BIGINT,
    counts             LONGTEXT NOT NULL,
    started_at         DATETIME(6) NOT NULL,
    finished_at        DATETIME(6) NOT NULL,
    undone_at          DATETIME(6),
    summed_from_seq    BIGINT,
    summed_to_seq      BIGINT,
    number             BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, run_id),
    KEY runs_in_order (tenant_id, number),
    KEY runs_of_thread (tenant_id, thread_id, finished_at)
) {user};

CREATE TABLE IF NOT EXISTS run_changes (
    tenant_id          VARBINARY(1500) NOT NULL,
    run_id             BINARY(16) NOT NULL,
    `change`           VARCHAR(32) NOT NULL,
    target             BINARY(16) NOT NULL,
    event_id           VARBINARY(1500) NOT NULL DEFAULT '',
    `before`           LONGTEXT NOT NULL,
    PRIMARY KEY (tenant_id, run_id, `change`, target, event_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, run_id) ON DELETE CASCADE,
    KEY run_changes_of_target (tenant_id, target)
) {user};

CREATE TABLE IF NOT EXISTS retractions (
    tenant_id          VARBINARY(1500) NOT NULL,
    retraction_id      BINARY(16) NOT NULL,
    run_id             BINARY(16) NOT NULL,
    fact_type          VARCHAR(32) NOT NULL,
    slot               VARBINARY(1500) NOT NULL,
    subject_key        VARBINARY(2700) NOT NULL,
    value              LONGTEXT NOT NULL,
    said_at            DATETIME(6) NOT NULL,
    valid_until        DATETIME(6),
    thread_id          VARBINARY(1500) NOT NULL,
    event_ids          LONGTEXT NOT NULL,
    pattern            VARCHAR(1500) NOT NULL DEFAULT '',
    is_doubt           TINYINT(1) NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, retraction_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, run_id) ON DELETE CASCADE,
    KEY retractions_of_slot (tenant_id, slot),
    KEY retractions_of_thread (tenant_id, thread_id),
    KEY retractions_of_run (tenant_id, run_id)
) {user};

CREATE TABLE IF NOT EXISTS pipeline_log (
    tenant_id          VARBINARY(1500) NOT NULL,
    run_id             BINARY(16) NOT NULL,
    step               INT NOT NULL,
    stage              LONGTEXT NOT NULL,
    output             LONGTEXT NOT NULL,
    error              LONGTEXT,
    started_at         DATETIME(6) NOT NULL,
    duration_s         DOUBLE NOT NULL,
    status             VARCHAR(32) NOT NULL DEFAULT 'success',
    input              LONGTEXT NOT NULL,
    memory_id          BINARY(16),
    thread_id          VARBINARY(1500),
    PRIMARY KEY (tenant_id, run_id, step),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, run_id) ON DELETE CASCADE,
    KEY pipeline_log_of_memory (tenant_id, memory_id, started_at)
) {user};

CREATE TABLE IF NOT EXISTS erasures (
    tenant_id          VARBINARY(1500) NOT NULL,
    erasure_id         BINARY(16) NOT NULL,
    target             LONGTEXT NOT NULL,
    counts             LONGTEXT NOT NULL,
    receipt_hash       BLOB NOT NULL,
    requested_at       DATETIME(6) NOT NULL,
    completed_at       DATETIME(6) NOT NULL,
    PRIMARY KEY (tenant_id, erasure_id)
) {user};

CREATE TABLE IF NOT EXISTS import_marks (
    tenant_id          VARBINARY(1500) NOT NULL,
    address_hash       BINARY(32) NOT NULL,
    updated_at         DATETIME(6) NOT NULL,
    deleted_at         DATETIME(6),
    PRIMARY KEY (tenant_id, address_hash)
) {namespace};

CREATE TABLE IF NOT EXISTS retention_policies (
    tenant_id          VARBINARY(1500) NOT NULL,
    kind               VARCHAR(32) NOT NULL,
    fades              TINYINT(1) NOT NULL,
    decay_rate         DOUBLE NOT NULL,
    threshold          DOUBLE NOT NULL,
    min_age_days       DOUBLE NOT NULL,
    archive_threshold  DOUBLE,
    archive_after_days DOUBLE NOT NULL,
    erase_threshold    DOUBLE,
    erase_after_days   DOUBLE NOT NULL,
    with_history       TINYINT(1) NOT NULL,
    updated_at         DATETIME(6) NOT NULL,
    PRIMARY KEY (tenant_id, kind)
) {path};

CREATE TABLE IF NOT EXISTS memory_archive (
    tenant_id          VARBINARY(1500) NOT NULL,
    memory_id          BINARY(16) NOT NULL,
    text               LONGTEXT NOT NULL,
    value              LONGTEXT NOT NULL,
    is_shown           TINYINT(1) NOT NULL,
    words_key          BINARY(16),
    archived_at        DATETIME(6) NOT NULL,
    keeps_words        TINYINT(1) NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE
) {namespace};

CREATE TABLE IF NOT EXISTS retimings (
    tenant_id          VARBINARY(1500) NOT NULL,
    after_tenant       VARBINARY(1500) NOT NULL,
    after_id           BINARY(16) NOT NULL,
    PRIMARY KEY (tenant_id)
) {path};

CREATE TABLE IF NOT EXISTS schedules (
    tenant_id          VARBINARY(1500) NOT NULL,
    task               VARBINARY(1500) NOT NULL,
    next_at            DATETIME(6) NOT NULL,
    worker_id          LONGTEXT,
    lease_until        DATETIME(6),
    done_at            DATETIME(6),
    result             LONGTEXT NOT NULL,
    PRIMARY KEY (tenant_id, task)
) {path};

CREATE TABLE IF NOT EXISTS conversations (
    tenant_id          VARBINARY(1500) NOT NULL,
    thread_id          VARBINARY(1500) NOT NULL,
    status             VARCHAR(32) NOT NULL DEFAULT 'active',
    event_count        INT NOT NULL DEFAULT 0,
    created_at         DATETIME(6) NOT NULL,
    last_active_at     DATETIME(6) NOT NULL,
    ends_at            DATETIME(6) NOT NULL,
    ended_at           DATETIME(6),
    PRIMARY KEY (tenant_id, thread_id),
    KEY conversations_one_active (tenant_id),
    KEY conversations_ending (ends_at)
) {user};

CREATE TABLE IF NOT EXISTS api_tokens (
    tenant_id          VARBINARY(1500) NOT NULL,
    token_id           VARBINARY(1500) NOT NULL,
    secret_hash        BLOB NOT NULL,
    label              LONGTEXT NOT NULL,
    users              LONGTEXT,
    opens              VARCHAR(32) NOT NULL DEFAULT 'memory',
    created_at         DATETIME(6) NOT NULL,
    expires_at         DATETIME(6),
    revoked_at         DATETIME(6),
    PRIMARY KEY (tenant_id, token_id),
    KEY api_tokens_by_id (token_id)
) {namespace};

-- The last transaction that each connection wrote: tells whether a commit whose answer was lost
-- took place (connection/attempts.py).
CREATE TABLE IF NOT EXISTS writes (
    writer_id          BINARY(16) NOT NULL PRIMARY KEY,
    write_id           BINARY(16) NOT NULL,
    written_at         DATETIME(6) NOT NULL
) ORGANIZATION = INDEX;
