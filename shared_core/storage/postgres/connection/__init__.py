"""From a URI to a migrated PostgreSQL: pool, pipeline, migrations, the embedded server, Citus."""
