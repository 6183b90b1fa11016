-- name: take_turn
-- Claims a task that is due for a while, unless another worker holds it. A task that never ran is
-- due.
INSERT INTO schedules AS s (tenant_id, task, next_at, worker_id, lease_until)
VALUES (%(tenant)s, %(task)s, %(now)s, %(worker_id)s, %(lease_until)s)
ON CONFLICT (tenant_id, task) DO UPDATE
SET worker_id = excluded.worker_id, lease_until = excluded.lease_until
WHERE s.next_at <= %(now)s AND (s.lease_until IS NULL OR s.lease_until <= %(now)s)
RETURNING true

-- name: keep_turn
UPDATE schedules SET lease_until = %(lease_until)s
WHERE tenant_id = %(tenant)s AND task = %(task)s AND worker_id = %(worker_id)s
RETURNING true

-- name: end_turn
UPDATE schedules
SET worker_id = NULL, lease_until = NULL, next_at = %(next_at)s, done_at = %(now)s,
    result = %(result)s::jsonb
WHERE tenant_id = %(tenant)s AND task = %(task)s AND worker_id = %(worker_id)s

-- name: last_turn
SELECT next_at, done_at, result FROM schedules WHERE tenant_id = %(tenant)s AND task = %(task)s

-- name: drop_task
DELETE FROM schedules WHERE tenant_id = %(tenant)s AND task = %(task)s
