"""Brings a schema up to date, once, however many processes start at the same time."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, LiteralString, TypeAlias

import psycopg
from psycopg import sql

from shared_core.errors import NotFound, PermissionDenied, StorageUnavailable
from shared_core.storage._migrations import Migration, check_applied, migrations_in
from shared_core.storage.postgres.connection.pipeline import Connection

_Row: TypeAlias = tuple[Any, ...]

APP_ROLE = "hippocampus_app"
MIN_SERVER = 15
MIN_EXTENSION = (0, 8)


@dataclass(frozen=True, slots=True)
class PreparedSchema:
    """How to work with a schema. is_spread: its tables lie on the nodes of a Citus cluster."""

    role: str
    search_path: str
    extension_version: str
    schema_version: int
    is_spread: bool = False


async def prepare(connection: Connection, schema: str, *, create: bool = True) -> PreparedSchema:
    """Migrate if needed and return how to work with the schema.

    Raises:
        StorageUnavailable: the server is too old, or has no pgvector.
        PermissionDenied: a right is missing.
        SchemaOutOfDate: a newer release or a development version made the schema.
        NotFound: create is False and there is no schema.
    """
    try:
        return await _prepare(connection, schema, create)
    except psycopg.errors.InsufficientPrivilege as error:
        user = connection.info.user
        role = await _row(connection, "SELECT FROM pg_roles WHERE rolname = %s", APP_ROLE)
        grant = grants(schema, user) if role is None else f"GRANT {APP_ROLE} TO {_quoted(user)}"
        raise permission_denied(error, user, grant) from error


async def _prepare(connection: Connection, schema: str, create: bool) -> PreparedSchema:
    _check_server(connection)
    applied = await _applied(connection, schema)
    check_applied(f"schema {schema!r}", applied, migrations())
    if len(applied) < len(migrations()):
        if not create and not applied:
            raise NotFound(
                f"there is no memory in schema {schema!r} of database {connection.info.dbname!r}:"
                " check the uri and the schema"
            )
        await _migrate(connection, schema)
    extension = await _extension(connection)
    if extension is None:
        raise StorageUnavailable("the extension vector was dropped from the database")
    version, extension_schema = extension
    # Unnamed, pg_temp comes first: another client of a shared connection could hide our tables.
    names = dict.fromkeys((schema, extension_schema, "public", "pg_temp"))
    path = ", ".join(_quoted(name) for name in names)
    spread = await _is_spread(connection, schema)
    role = await _working_role(connection, spread)
    if role == APP_ROLE and not await _may_work(connection, schema):
        await _grant(connection, schema)  # an administrator created the role after the schema
    return PreparedSchema(role, path, version, len(migrations()), spread)


def grants(schema: str, user: str) -> str:
    """Return the statements that give a user, or a role, what it needs to work with a schema."""
    name, to = _quoted(schema), _quoted(user)
    return (
        f"GRANT USAGE ON SCHEMA {name} TO {to}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES"
        f" IN SCHEMA {name} TO {to}"
    )


def permission_denied(
    error: psycopg.errors.InsufficientPrivilege, user: str, grant: str
) -> PermissionDenied:
    """Return the error for a refusal of the server that this GRANT ends."""
    return PermissionDenied(
        f"database user {user!r} lacks a right ({error.diag.message_primary}): as the owner of the"
        f" tables or an administrator, run {grant}"
    )


async def try_migration(connection: Connection, schema: str) -> None:
    """Set a schema up and undo it. Raises what prepare() would raise."""
    async with connection.transaction(force_rollback=True):
        await _migrate(connection, schema)


@cache
def migrations() -> tuple[Migration, ...]:
    """Return all migrations in order."""
    return migrations_in(files("shared_core.storage.postgres") / "sql" / "migrations")


async def _row(connection: Connection, query: LiteralString, *values: str) -> _Row | None:
    cursor = await connection.execute(query, values)
    return await cursor.fetchone()


async def _applied(connection: Connection, schema: str) -> dict[int, str]:
    table = f"{_quoted(schema)}.schema_migrations"
    if await _row(connection, "SELECT to_regclass(%s)", table) == (None,):
        return {}
    cursor = await connection.execute(
        sql.SQL("SELECT version, checksum FROM {}.schema_migrations ORDER BY version").format(
            sql.Identifier(schema)
        )
    )
    return dict(await cursor.fetchall())


async def _migrate(connection: Connection, schema: str) -> None:
    """Apply missing migrations in one transaction; other processes wait for its lock."""
    connection.silence_s = None  # a migration, or that of another process, may take long
    key = int.from_bytes(hashlib.sha256(f"hippocampus {schema}".encode()).digest()[:8], "big") >> 1
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", [key])
            await _ensure_extension(connection)
            await _ensure_role(connection)
            await _ensure_schema(connection, schema)
            done = await _applied(connection, schema)
            check_applied(f"schema {schema!r}", done, migrations())  # another process was first
            for migration in migrations():
                if migration.version not in done:
                    await _apply(connection, schema, migration)
            await _grant(connection, schema)
    except psycopg.errors.InsufficientPrivilege as error:
        user, database = connection.info.user, connection.info.dbname
        raise PermissionDenied(
            f"user {user!r} may not set up schema {schema!r} in database {database!r}"
            f" ({error.diag.message_primary}): run 'hippocampus migrate --uri ...' once as the"
            f" owner of the schema. Only if {user!r} shall be the owner of a new one, run as an"
            f" administrator GRANT CREATE ON DATABASE {_quoted(database)} TO {_quoted(user)}"
        ) from error


async def _apply(connection: Connection, schema: str, migration: Migration) -> None:
    await connection.execute(migration.sql.encode())
    record = "INSERT INTO {}.schema_migrations (version, name, checksum) VALUES (%s, %s, %s)"
    await connection.execute(
        sql.SQL(record).format(sql.Identifier(schema)),
        [migration.version, migration.name, migration.checksum],
    )


async def _ensure_schema(connection: Connection, schema: str) -> None:
    name = sql.Identifier(schema)
    extension = await _extension(connection)
    assert extension is not None
    await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
    await connection.execute(
        sql.SQL("SET LOCAL search_path TO {}, {}, pg_temp").format(
            name, sql.Identifier(extension[1])
        )
    )
    await connection.execute(
        sql.SQL(
            "CREATE TABLE IF NOT EXISTS {}.schema_migrations (version integer PRIMARY KEY,"
            " name text NOT NULL, checksum text NOT NULL,"
            " applied_at timestamptz NOT NULL DEFAULT now())"
        ).format(name)
    )


async def _extension(connection: Connection) -> _Row | None:
    return await _row(
        connection,
        "SELECT e.extversion, n.nspname FROM pg_extension e"
        " JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'",
    )


async def _ensure_extension(connection: Connection) -> None:
    database = connection.info.dbname
    try:
        if await _extension(connection) is None:  # Citus asks for its owner even if it is there
            async with connection.transaction():
                await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
        raise StorageUnavailable(
            f"the server of database {database!r} has no pgvector: install it (package"
            " postgresql-NN-pgvector, or https://github.com/pgvector/pgvector), or use"
            " uri='embedded', which brings its own"
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise PermissionDenied(
            f"user {connection.info.user!r} may not create the extension vector in database"
            f" {database!r}: let an administrator run CREATE EXTENSION vector there once"
        ) from error
    except psycopg.errors.UniqueViolation:
        pass  # the migration of another schema created it at the same moment
    found = await _extension(connection)
    if found and tuple(int(part) for part in found[0].split(".")[:2]) < MIN_EXTENSION:
        raise StorageUnavailable(
            f"database {database!r} has pgvector {found[0]}, at least 0.8 is needed:"
            " install that on the server, then run ALTER EXTENSION vector UPDATE"
        )


async def _ensure_role(connection: Connection) -> None:
    """Create the application role if the user may; without it the user works as itself."""
    try:
        async with connection.transaction():
            if await _row(connection, "SELECT FROM pg_roles WHERE rolname = %s", APP_ROLE) is None:
                await connection.execute(
                    sql.SQL("CREATE ROLE {} NOLOGIN NOBYPASSRLS").format(sql.Identifier(APP_ROLE))
                )
            await connection.execute(
                sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(APP_ROLE))
            )
    except (
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.DuplicateObject,
        psycopg.errors.UniqueViolation,  # two databases of one server at once
        psycopg.errors.InternalError_,  # "tuple concurrently updated": the same race
    ):
        return


async def _may_work(connection: Connection, schema: str) -> bool:
    query = "SELECT has_schema_privilege(%s, %s, 'USAGE') AND has_table_privilege(%s, %s, 'INSERT')"
    table = f"{_quoted(schema)}.erasures"
    return await _row(connection, query, APP_ROLE, schema, APP_ROLE, table) == (True,)


async def _grant(connection: Connection, schema: str) -> None:
    if await _row(connection, "SELECT FROM pg_roles WHERE rolname = %s", APP_ROLE) is None:
        return
    names = {"schema": sql.Identifier(schema), "role": sql.Identifier(APP_ROLE)}
    for grant in (
        "GRANT USAGE ON SCHEMA {schema} TO {role}",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
        "REVOKE INSERT, UPDATE, DELETE ON {schema}.schema_migrations FROM {role}",
    ):
        await connection.execute(sql.SQL(grant).format(**names))


async def _is_spread(connection: Connection, schema: str) -> bool:
    if await _row(connection, "SELECT to_regclass('pg_catalog.pg_dist_partition')") == (None,):
        return False
    query = "SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass(%s)"
    return await _row(connection, query, f"{_quoted(schema)}.memories") is not None


async def _working_role(connection: Connection, spread: bool) -> str:
    """Return the role to work as, which row security must bind; "none" is the user who connected.

    On a Citus cluster the user works as itself: the nodes connect to each other as the working
    role, and the application role may not log in.
    """
    row = await _row(
        connection,
        "SELECT u.rolsuper OR u.rolbypassrls,"
        " (SELECT pg_has_role(current_user, r.oid, 'MEMBER') FROM pg_roles r WHERE r.rolname = %s)"
        " FROM pg_roles u WHERE u.rolname = current_user",
        APP_ROLE,
    )
    assert row is not None
    unbound, member = row
    if member and not spread:
        return APP_ROLE
    if unbound and spread:
        raise StorageUnavailable(
            f"user {connection.info.user!r} bypasses row security: connect to a distributed schema"
            f" as a user who is no superuser, with the rights of {APP_ROLE}"
        )
    if unbound:
        raise StorageUnavailable(
            f"user {connection.info.user!r} bypasses row security and is no member of {APP_ROLE}:"
            f" let an administrator run CREATE ROLE {APP_ROLE} NOLOGIN; GRANT {APP_ROLE} TO"
            f" {_quoted(connection.info.user)}"
        )
    return "none"


def _check_server(connection: Connection) -> None:
    version = connection.info.server_version // 10_000
    if version < MIN_SERVER:
        raise StorageUnavailable(
            f"the server runs PostgreSQL {version}, at least {MIN_SERVER} is needed:"
            " upgrade it, or use uri='embedded'"
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
