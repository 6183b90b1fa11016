-- Bearer tokens of the HTTP server. tenant_id: the path of the application one is for. secret_hash:
-- SHA-256 of a random secret of 256 bits, which nobody stores. users: whose memories it opens, null
-- for all of the application. A revoked one stays, so that its id is never another's.
CREATE TABLE api_tokens (
    tenant_id    text COLLATE "C" NOT NULL,
    token_id     text COLLATE "C" NOT NULL,
    secret_hash  bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    label        text NOT NULL DEFAULT '',
    users        text[],
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    PRIMARY KEY (tenant_id, token_id)
);
CREATE INDEX api_tokens_by_id ON api_tokens (token_id);
SELECT protect('api_tokens');
