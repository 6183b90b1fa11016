-- Bearer tokens of all applications.

-- fragment: token_columns
tenant_id, secret_hash, token_id, label, users, created_at, expires_at, revoked_at, opens

-- name: token
SELECT {token_columns} FROM api_tokens WHERE token_id = %(token_id)s

-- name: tokens
SELECT {token_columns} FROM api_tokens LIMIT %(limit)s::bigint
