-- name: last_run
SELECT coalesce(max(number), 0) FROM runs WHERE tenant_id = %(tenant)s
