-- name: mark_write
-- Marks a transaction as committed.
INSERT INTO {marks} (tenant_id, write_id) VALUES (%(tenant)s, %(write_id)b::uuid)

-- name: drop_marks
-- Removes the tenant's outdated marks.
DELETE FROM {marks} WHERE tenant_id = %(tenant)s AND write_id < %(outdated)b::uuid

-- name: marked_write
SELECT write_id FROM {marks} WHERE tenant_id = %(tenant)s AND write_id = %(write_id)b::uuid
