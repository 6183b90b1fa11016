-- Run by psql as an administrator, in each database of a memory. OWNER_PASSWORD and SERVER_PASSWORD
-- are environment variables. Roles that the server has already are left as they are.
\set ON_ERROR_STOP on
\getenv owner_password OWNER_PASSWORD
\getenv server_password SERVER_PASSWORD
\if :{?owner_password}
\else
    DO $$ BEGIN RAISE EXCEPTION 'OWNER_PASSWORD is not set: export it'; END $$;
\endif
\if :{?server_password}
\else
    DO $$ BEGIN RAISE EXCEPTION 'SERVER_PASSWORD is not set: export it'; END $$;
\endif
BEGIN;
CREATE EXTENSION IF NOT EXISTS vector;
SELECT 'CREATE ROLE hippocampus_app NOLOGIN'
WHERE to_regrole('hippocampus_app') IS NULL \gexec
SELECT format('CREATE ROLE memory_owner LOGIN PASSWORD %L IN ROLE hippocampus_app', :'owner_password')
WHERE to_regrole('memory_owner') IS NULL \gexec
SELECT format('CREATE ROLE memory_server LOGIN PASSWORD %L IN ROLE hippocampus_app', :'server_password')
WHERE to_regrole('memory_server') IS NULL \gexec
GRANT CREATE ON DATABASE :"DBNAME" TO memory_owner;
COMMIT;
