-- The graph is read by its names as they are compared, entities have aliases, and a functional
-- relation has one current object.
-- The owner is under row security too: without a scope there would be nothing to update.
SELECT set_config('hippocampus.scope', '/', true);

DROP INDEX edges_from_subject;
DROP INDEX edges_to_object;
CREATE INDEX edges_of_subject ON edges (tenant_id, subject_key, valid_from DESC, edge_id);
CREATE INDEX edges_of_object ON edges (tenant_id, object_key, valid_from DESC, edge_id);

-- Of several current objects of a functional relation the one that began last stays.
UPDATE edges e SET valid_until = greatest(n.begins, e.valid_from), superseded_at = now()
FROM (SELECT tenant_id, edge_id,
             row_number() OVER newest AS place, first_value(valid_from) OVER newest AS begins
      FROM edges WHERE functional AND valid_until IS NULL AND superseded_at IS NULL
      WINDOW newest AS (PARTITION BY tenant_id, subject_key, relation
                        ORDER BY valid_from DESC, recorded_at DESC, edge_id DESC)) n
WHERE e.tenant_id = n.tenant_id AND e.edge_id = n.edge_id AND n.place > 1;
CREATE UNIQUE INDEX edges_functional ON edges (tenant_id, subject_key, relation)
    WHERE functional AND valid_until IS NULL AND superseded_at IS NULL;

-- The values of a slot.
CREATE INDEX facts_of_slot ON facts (tenant_id, slot);

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
SELECT protect('entity_aliases');

-- moved: the end of an edge or a fact, to another moment or away; before says what it was.
ALTER TABLE run_changes DROP CONSTRAINT run_changes_change_check;
ALTER TABLE run_changes ADD CONSTRAINT run_changes_change_check
    CHECK (change IN ('closed', 'retired', 'sourced', 'renewed', 'rated', 'summary', 'edge',
                      'bounded', 'moved'));
