-- Structured knowledge with two time lines: when it held in the world, when it was believed here.

-- The structured side of a semantic memory; same id, so both live and die together.
-- valid_from/valid_until: when it was true. recorded_at/superseded_at: when it was known.
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

-- The knowledge graph: subject, relation, object, on the same two time lines.
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
    PRIMARY KEY (tenant_id, edge_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE,
    CHECK (valid_until >= valid_from)
);
CREATE INDEX edges_from_subject ON edges (tenant_id, subject, relation);
CREATE INDEX edges_to_object ON edges (tenant_id, object, relation);
CREATE INDEX edges_of_memory ON edges (tenant_id, memory_id);

SELECT protect('facts'), protect('edges');
