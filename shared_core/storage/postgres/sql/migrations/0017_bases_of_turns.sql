-- What was drawn from several turns together has alternatives: it stays as long as all turns of one
-- basis are there. Edges have turns of their own.
-- The owner is under row security too: without a scope there would be nothing to update.
SELECT set_config('hippocampus.scope', '/', true);

-- What was needed is one basis; each turn that was not says it alone.
ALTER TABLE memory_sources ADD COLUMN basis integer NOT NULL DEFAULT 0;
UPDATE memory_sources s SET basis = n.basis
FROM (SELECT s.tenant_id, s.memory_id, s.thread_id, s.event_id,
             row_number() OVER (PARTITION BY s.tenant_id, s.memory_id
                                ORDER BY s.thread_id, s.event_id) AS basis
      FROM memory_sources s JOIN facts f USING (tenant_id, memory_id)
      WHERE NOT s.needed) n
WHERE s.tenant_id = n.tenant_id AND s.memory_id = n.memory_id AND s.thread_id = n.thread_id
  AND s.event_id = n.event_id;
ALTER TABLE memory_sources DROP CONSTRAINT memory_sources_pkey;
ALTER TABLE memory_sources ADD PRIMARY KEY (tenant_id, memory_id, basis, thread_id, event_id);
ALTER TABLE memory_sources DROP COLUMN needed;

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
SELECT protect('edge_sources');

-- fact_id: the fact that an edge says again, and ends with. memory_id: the same if the edge rests on
-- it as well, so that it lives while the fact does.
ALTER TABLE edges ADD COLUMN fact_id uuid;
CREATE INDEX edges_of_fact ON edges (tenant_id, fact_id) WHERE fact_id IS NOT NULL;
UPDATE edges e SET fact_id = e.memory_id FROM facts f
WHERE f.tenant_id = e.tenant_id AND f.memory_id = e.memory_id;
INSERT INTO edge_sources (tenant_id, edge_id, thread_id, event_id)
SELECT e.tenant_id, e.edge_id, s.thread_id, s.event_id
FROM edges e JOIN memory_sources s USING (tenant_id, memory_id)
WHERE e.fact_id IS NULL;
UPDATE edges SET memory_id = NULL WHERE fact_id IS NULL;
