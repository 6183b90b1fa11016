"""Lets a role read every row of a schema, so that pg_dump works without a superuser.

Row security is forced on the owner too, so its pg_dump is refused. A policy for one role needs no
attribute BYPASSRLS, which managed services grant to nobody.
"""

from __future__ import annotations

import hashlib
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

_Connection: TypeAlias = psycopg.Connection[tuple[object, ...]]

_TABLES = """
    SELECT c.relname, c.relrowsecurity FROM pg_class c
    WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p') ORDER BY 1
"""
_USERS = """
    SELECT u.rolname FROM pg_roles u JOIN pg_roles b ON b.rolname = %s
    WHERE NOT u.rolsuper AND pg_has_role(u.oid, b.oid, 'USAGE') AND EXISTS (
        SELECT FROM pg_class c WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p')
        AND (c.relowner = u.oid
            OR has_table_privilege(u.oid, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
            OR EXISTS (SELECT FROM aclexplode(c.relacl) granted
                WHERE granted.privilege_type = 'SELECT'
                AND pg_has_role(u.oid, granted.grantee, 'USAGE')
                AND NOT pg_has_role(b.oid, granted.grantee, 'USAGE'))))
    ORDER BY u.oid <> b.oid, u.oid NOT IN (SELECT member FROM pg_auth_members WHERE roleid = b.oid)
"""
"""The roles that have the rights of one role and may use a table: write to it, or read it by a
grant that the one role does not have. First that role itself, then its direct members, whose
membership can be revoked."""
_NAME_BYTES = 63
"""Maximum length of a name in PostgreSQL, which cuts longer ones."""


def allow_backup(dsn: str, schema: str, role: str) -> int:
    """Let an existing role read every row of a migrated schema; return the number of tables.

    Call it again after an upgrade that adds tables: until then the role may not read those, and
    pg_dump fails.

    Raises:
        InvalidInput: the role may write to the memory, or a user of the memory has its rights.
        NotFound: there is no such role.
        PermissionDenied: the user of the DSN is not the owner of the tables.
        CapabilityMissing: the DSN names OceanBase or SeekDB.
    """
    if is_oceanbase(dsn):
        raise CapabilityMissing("--backup-role is for PostgreSQL: OceanBase has no row security")
    try:
        with psycopg.connect(dsn) as connection:
            _check_role(connection, schema, role)
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


def _check_role(connection: _Connection, schema: str, role: str) -> None:
    """Refuse a role whose policy would also lift row security for those who use the memory."""
    query = "SELECT FROM pg_roles WHERE rolname = %s::text"  # a cast to name would cut a long one
    if connection.execute(query, [role]).fetchone() is None:
        raise NotFound(
            f"there is no role {role!r}: run CREATE ROLE {_quoted(role)} LOGIN PASSWORD '...' as a"
            " user who may create roles"
        )
    users = connection.execute(_USERS, [role, _quoted(schema)]).fetchall()
    if users:
        name = str(users[0][0])
        way_out = f"; or run REVOKE {_quoted(role)} FROM {_quoted(name)}" if name != role else ""
        raise InvalidInput(
            f"a backup role must be a role of its own: {name!r}, which uses the memory, has the"
            f" rights of {role!r} and would read every user's rows. Name another role{way_out}"
        )


def _allow(connection: _Connection, schema: str, role: str) -> int:
    names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
    policy = sql.Identifier(_policy(role))
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


def _policy(role: str) -> str:
    """Return the name of a role's policy, which no other role has."""
    name = f"backup_{role}"
    if len(name.encode()) <= _NAME_BYTES:
        return name
    return f"backup_{hashlib.sha256(role.encode()).hexdigest()[:32]}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
