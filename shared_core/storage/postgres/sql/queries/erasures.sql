-- Receipts of erasures, of several users.

-- name: erasures
SELECT tenant_id, erasure_id, target, counts, receipt_hash, requested_at, completed_at
FROM erasures WHERE tenant_id ^@ %(above)s
ORDER BY completed_at DESC, erasure_id DESC
