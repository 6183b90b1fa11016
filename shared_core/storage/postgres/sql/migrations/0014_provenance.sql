-- What rests on memories goes with them, and expired turns without a memory are found.
SELECT set_config('hippocampus.scope', '/', true);

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
SELECT protect('memory_bases');

INSERT INTO memory_bases (tenant_id, memory_id, basis_id)
SELECT DISTINCT m.tenant_id, m.memory_id, b.memory_id
FROM memories m
CROSS JOIN LATERAL jsonb_array_elements_text(
    CASE WHEN jsonb_typeof(m.value #> '{metadata,memories}') = 'array'
         THEN m.value #> '{metadata,memories}' ELSE '[]' END) AS named(id)
JOIN memories b ON b.tenant_id = m.tenant_id AND b.memory_id::text = named.id
WHERE m.kind = 'reflection' AND m.run_id IS NOT NULL;

CREATE INDEX events_expiry ON events (tenant_id, expires_at) WHERE expires_at IS NOT NULL;
