"""Lets a role read every row of a schema, so that pg_dump works without a superuser.

Row security is forced on the owner too, so its pg_dump is refused. A policy for one role needs no
attribute BYPASSRLS, which managed services grant to nobody.
"""

from __future__ import annotations

from typing import TypeAlias

import psycopg
from psycopg import sql

from shared_core.core.uri_validation import is_oceanbase
from shared_core.errors import (
    CapabilityMissing,
    InvalidInput,
    NotFound,
    PermissionDenied,
    StorageUnavailable,
)
from shared_core.settings import redacted
from shared_core.storage.postgres.connection.migrations import APP_ROLE

_Connection: TypeAlias = psycopg.Connection[tuple[object, ...]]

_TABLES = """
    SELECT c.relname, c.relrowsecurity FROM pg_class c
    WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p') ORDER BY 1
"""


def allow_backup(dsn: str, schema: str, role: str) -> int:
    """Let an existing role read every row of a migrated schema; return the number of tables.

    Call it again after an upgrade that adds tables: until then the role may not read those, and
    pg_dump fails.

    Raises:
        InvalidInput: the users of the memory have the rights of this role.
        NotFound: there is no such role.
        PermissionDenied: the user of the DSN is not the owner of the tables.
        CapabilityMissing: the DSN names OceanBase or SeekDB.
    """
    if is_oceanbase(dsn):
        raise CapabilityMissing("--backup-role is for PostgreSQL: OceanBase has no row security")
    try:
        with psycopg.connect(dsn) as connection:
            _check_role(connection, role)
            return _allow(connection, schema, role)
    except psycopg.errors.InsufficientPrivilege as error:
        raise PermissionDenied(
            f"role {role!r} was not let in ({error.diag.message_primary}): run this as the owner of"
            f" the tables of schema {schema!r}"
        ) from error
    except psycopg.Error as error:
        raise StorageUnavailable(
            f"role {role!r} was not let in, nothing was changed: {redacted(str(error).strip())}"
        ) from error


def _check_role(connection: _Connection, role: str) -> None:
    """Refuse a role whose policy would also lift row security for those who use the memory."""
    if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [role]).fetchone() is None:
        raise NotFound(
            f"there is no role {role!r}: run CREATE ROLE {_quoted(role)} LOGIN PASSWORD '...' as a"
            " user who may create roles"
        )
    users = connection.execute(
        "SELECT rolname FROM pg_roles WHERE (rolname = current_user AND NOT rolsuper"
        " OR rolname = %s) AND pg_has_role(rolname, %s, 'USAGE')",
        [APP_ROLE, role],
    ).fetchall()
    if users:
        name = str(users[0][0])
        way_out = f"; or run REVOKE {_quoted(role)} FROM {_quoted(name)}" if name != role else ""
        raise InvalidInput(
            f"a backup role must be a role of its own: {name!r}, which uses the memory, has the"
            f" rights of {role!r} and would read every user's rows. Name another role{way_out}"
        )


def _allow(connection: _Connection, schema: str, role: str) -> int:
    names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
    policy = sql.Identifier(f"backup_{role}"[:63])
    connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {schema} TO {role}").format(**names))
    tables = connection.execute(_TABLES, [_quoted(schema)]).fetchall()
    for table, is_guarded in tables:
        names["table"] = sql.Identifier(schema, str(table))
        connection.execute(sql.SQL("GRANT SELECT ON {table} TO {role}").format(**names))
        if is_guarded:
            for command in (
                "DROP POLICY IF EXISTS {policy} ON {table}",
                "CREATE POLICY {policy} ON {table} FOR SELECT TO {role} USING (true)",
            ):
                connection.execute(sql.SQL(command).format(policy=policy, **names))
    return len(tables)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
