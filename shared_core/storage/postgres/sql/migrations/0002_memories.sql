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
    PRIMARY KEY (tenant_id, memory_id),
    UNIQUE (tenant_id, namespace, key),
    CHECK (namespace ^@ '/')
);
CREATE INDEX memories_expiry ON memories (tenant_id, expires_at) WHERE expires_at IS NOT NULL;

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

-- The turns a memory was drawn from; an episodic memory has exactly one.
CREATE TABLE memory_sources (
    tenant_id  text COLLATE "C" NOT NULL,
    memory_id  uuid NOT NULL,
    thread_id  text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, thread_id, event_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX memory_sources_of_event ON memory_sources (tenant_id, thread_id, event_id);

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
       protect('memory_access');
