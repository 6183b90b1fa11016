-- name: mark_write
-- Marks a transaction as committed.
INSERT INTO {marks} (tenant_id, write_id) VALUES (%(tenant)s, %(write_id)b::uuid)

-- name: drop_marks
-- Removes the tenant's outdated marks.
DELETE FROM {marks} WHERE tenant_id = %(tenant)s AND write_id < %(outdated)b::uuid

-- name: marked_write
SELECT write_id FROM {marks} WHERE tenant_id = %(tenant)s AND write_id = %(write_id)b::uuid

-- name: note_changes
-- Notes which memories of a user a transaction wrote, by id and by address, as its last statement:
-- the row stays locked until the transaction ends. Others that write for the user then wait for the
-- commit alone, and no two of them wait for each other.
INSERT INTO memory_changes AS c (tenant_id, write_ids, memory_ids)
SELECT %(tenant)s, array_fill(%(write_id)b::uuid, ARRAY[cardinality(n.ids)]), n.ids
FROM (SELECT %(memory_ids)b::uuid[] || ARRAY(SELECT m.memory_id FROM {addressed}) AS ids) n
WHERE cardinality(n.ids) > 0
ON CONFLICT (tenant_id) DO UPDATE
SET write_ids = (excluded.write_ids || c.write_ids)[:%(most)s],
    memory_ids = (excluded.memory_ids || c.memory_ids)[:%(most)s]
