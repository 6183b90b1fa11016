-- Procedural memory and profiles; both keep every version.

CREATE TABLE instructions (
    tenant_id        text COLLATE "C" NOT NULL,
    instruction_key  text COLLATE "C" NOT NULL,
    version          integer NOT NULL CHECK (version > 0),
    content          text NOT NULL,
    metadata         jsonb NOT NULL DEFAULT '{}',
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, instruction_key, version)
);

-- One coherent paragraph about a user or an agent, and a bounded list of events in time order.
CREATE TABLE profiles (
    tenant_id     text COLLATE "C" NOT NULL,
    subject_kind  text NOT NULL CHECK (subject_kind IN ('user', 'agent')),
    subject_id    text COLLATE "C" NOT NULL,
    version       integer NOT NULL CHECK (version > 0),
    paragraph     text NOT NULL,
    events        jsonb NOT NULL DEFAULT '[]',
    content_hash  bytea NOT NULL,
    run_id        uuid,
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, subject_kind, subject_id, version)
);

SELECT protect('instructions'), protect('profiles');
