-- Run by psql as an administrator, once, in the database of the memory. OWNER_PASSWORD and
-- SERVER_PASSWORD are environment variables.
\set ON_ERROR_STOP on
\getenv owner_password OWNER_PASSWORD
\getenv server_password SERVER_PASSWORD
CREATE EXTENSION IF NOT EXISTS vector;
CREATE ROLE hippocampus_app NOLOGIN;
CREATE ROLE memory_owner LOGIN PASSWORD :'owner_password' IN ROLE hippocampus_app;
CREATE ROLE memory_server LOGIN PASSWORD :'server_password' IN ROLE hippocampus_app;
GRANT CREATE ON DATABASE :"DBNAME" TO memory_owner;
