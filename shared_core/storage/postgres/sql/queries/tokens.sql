-- Bearer tokens of the HTTP server.

-- name: add_token
INSERT INTO api_tokens (tenant_id, token_id, secret_hash, label, users, created_at, expires_at)
VALUES (%(tenant)s, %(token_id)s, %(secret_hash)b, %(label)s, %(users)s::text[], %(now)s, %(expires_at)s)

-- name: token
SELECT tenant_id, users, token_id, label, created_at, expires_at, revoked_at, secret_hash
FROM api_tokens WHERE token_id = %(token_id)s

-- name: tokens
-- Tokens of one application, or of all, newest first.
SELECT tenant_id, users, token_id, label, created_at, expires_at, revoked_at
FROM api_tokens WHERE %(tenant)s::text IS NULL OR tenant_id = %(tenant)s
ORDER BY created_at DESC, token_id

-- name: revoke_token
-- The first moment of revocation stays.
UPDATE api_tokens SET revoked_at = coalesce(revoked_at, %(now)s) WHERE token_id = %(token_id)s
RETURNING true

-- name: any_token
SELECT EXISTS (SELECT FROM api_tokens)
