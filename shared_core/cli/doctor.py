"""The checks of `hippocampus doctor`, for PostgreSQL and for OceanBase or SeekDB.

They only read: the row that tests row security, and a migration that tests rights, are rolled back.
"""

from __future__ import annotations

import asyncio
import platform
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import psycopg
from psycopg import sql

from shared_core.core.uri_validation import is_oceanbase
from shared_core.errors import (
    EmbeddingMismatch,
    InvalidInput,
    MemoryCoreError,
    ModelUnavailable,
    PermissionDenied,
    StorageUnavailable,
)
from shared_core.models.embedders import default_embedder, embedder_of, resolve_embedder
from shared_core.open import open_memory
from shared_core.ports import Embedder
from shared_core.settings import Settings, load_settings, redacted
from shared_core.storage._migrations import WAY_OUT_OF_DEVELOPMENT, Migration, is_of_development
from shared_core.storage.postgres.connection.connecting import client_parameters, connect
from shared_core.storage.postgres.connection.embedded import (
    EmbeddedPostgres,
    EmbeddedStatus,
    describe,
)
from shared_core.storage.postgres.connection.embedded_errors import DISK_NEEDED_BYTES
from shared_core.storage.postgres.connection.embedded_server import find_binaries
from shared_core.storage.postgres.connection.migrations import (
    APP_ROLE,
    MIN_EXTENSION,
    MIN_SERVER,
    grants,
    migrations,
    try_migration,
)
from shared_core.storage.postgres.connection.pipeline import NoAnswer
from shared_core.storage.postgres.connection.pooling import Pooling, probe_pooling

if TYPE_CHECKING:
    from shared_core.storage.oceanbase.connection.connections import Location

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

PACKAGE = "pg-hippocampus"
EXTRAS = {"google-adk": "adk", "langgraph": "langgraph"}
"""The extra that installs each optional package."""
NAME = "hippocampus doctor"
LATER = "at the next use, or now with 'hippocampus migrate'"
LOG_LINES = 8
"""Number of lines from the end of a server's log that a finding shows."""


Status = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check. advice: how to fix a problem, or what a note means."""

    check: str
    status: Status
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """The embedder in use. dimensions is None if it failed."""

    name: str
    dimensions: int | None
    finding: CheckResult


class ModelCheck:
    """Tries the embedder that a memory uses. chosen: by the caller; None takes the stored one."""

    def __init__(self, chosen: str | None) -> None:
        self._chosen = chosen
        self._found: Model | None = None

    def model(self, stored: str | None = None) -> Model:
        """Return the embedder. stored: the name of the model in the database, if any."""
        if self._found is None:
            self._found = self._tried(stored)
        return self._found

    def _tried(self, stored: str | None) -> Model:
        name = self._chosen or stored or "e5"
        try:
            embedder = self._embedder(stored)
            name = embedder.model
            dimensions = int(asyncio.run(embedder.embed_query("memory")).shape[1])
        except EmbeddingMismatch as error:
            advice = "name the embedder that made the vectors with --embedder, or give them another"
            advice += " model: hippocampus reembed --embedder e5"
            return Model(name, None, problem("embedder", str(error), advice))
        except (InvalidInput, ModelUnavailable) as error:
            advice = "choose another --embedder; until then search works by words alone"
            return Model(name, None, problem("embedder", str(error), advice))
        found = f"{name}, {dimensions} dimensions"
        return Model(name, dimensions, _ok("embedder", found))

    def _embedder(self, stored: str | None) -> Embedder:
        if self._chosen is not None:
            return resolve_embedder(self._chosen)
        if stored is None:
            return asyncio.run(default_embedder())
        embedder = embedder_of(stored)
        if embedder is None:
            raise EmbeddingMismatch(f"the model {stored!r} cannot be loaded by its name")
        return embedder


def problem(check: str, found: str, advice: str) -> CheckResult:
    """Return a problem with its text on one line."""
    return CheckResult(check=check, status="problem", found=" ".join(found.split()), advice=advice)


def _ok(check: str, found: str) -> CheckResult:
    return CheckResult(check=check, status="ok", found=found)


def _note(check: str, found: str, advice: str = "") -> CheckResult:
    return CheckResult(check=check, status="note", found=found, advice=advice)


def examine(
    uri: str | None = None, *, schema: str | None = None, embedder: str | None = None,
    start: bool = False,
) -> list[CheckResult]:  # fmt: skip
    """Return the findings about a memory, in the order in which to fix problems.

    Creates and migrates nothing unless start is True. An embedded server that exists is started
    for the time of the checks.
    """
    findings = [_library()]
    try:
        settings = load_settings(uri, schema=schema)
    except InvalidInput as error:
        return [*findings, problem("uri", str(error), "correct HIPPOCAMPUS_URI or --uri")]
    home = settings.embedded_home
    where = f"embedded PostgreSQL in {home}" if home else redacted(settings.uri)
    findings.append(_ok("uri", where))
    if start:
        with suppress(MemoryCoreError):  # the checks below report why
            asyncio.run(_set_up(settings))
    model = ModelCheck(embedder)
    if is_oceanbase(settings.uri):
        findings += _oceanbase(settings, model)
    elif home:
        findings += _embedded(home, settings, model)
    else:
        findings += _server(settings.uri, settings, model)
    return [*findings, model.model().finding, *_extras()]


async def _set_up(settings: Settings) -> None:
    async with open_memory(settings.uri, schema=settings.db_schema):
        pass


def _library() -> CheckResult:
    found = f"Python {platform.python_version()}, {PACKAGE} {metadata.version(PACKAGE)}"
    return _ok("library", found)


def _extras() -> Iterator[CheckResult]:
    for package, extra in EXTRAS.items():
        try:
            yield _ok(package, metadata.version(package))
        except metadata.PackageNotFoundError:
            yield _note(
                package, "not installed", f"to install it: pip install '{PACKAGE}[{extra}]'"
            )


def _embedded(home: Path, settings: Settings, model: ModelCheck) -> Iterator[CheckResult]:
    """Check the folder, then the server in it if there is one."""
    yield _disk(home)
    try:
        find_binaries(home)
        seen = describe(home)
    except StorageUnavailable as error:
        yield problem("folder", str(error), "see above")
        return
    # acquire() below reports a folder that holds something else.
    if not any(home.glob("postgres-[0-9][0-9]/*")):
        yield _no_folder(seen.data_directory)
        return
    yield _ok("folder", _state(seen))
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
                yield _note("log", _log(server))
    finally:
        server.release()


def _no_folder(folder: Path) -> CheckResult:
    advice = "the first use creates it, or now --start"
    return _note("folder", f"nothing there yet: {folder}", advice)


def _log(server: EmbeddedPostgres) -> str:
    return f"the end of its log:\n{server.log_tail(LOG_LINES) or '(empty)'}"


def _state(seen: EmbeddedStatus) -> str:
    size = f"{seen.size_bytes / 1024**2:.0f} MB"
    if not seen.running:
        return f"{seen.data_directory}, {size}, not running: started for this check"
    users = ", ".join(str(pid) for pid in seen.users) or "none"
    return f"{seen.data_directory}, {size}, running as pid {seen.pid}, used by {users}"


def _disk(home: Path) -> CheckResult:
    existing = next(folder for folder in (home, *home.absolute().parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    found = f"{free / 1024**3:.1f} GB free"
    if free < DISK_NEEDED_BYTES:
        advice = f"free {DISK_NEEDED_BYTES // 1024**2} MB, or set HIPPOCAMPUS_HOME to another disk"
        return problem("disk", found, advice)
    return _ok("disk", found)


def _server(conninfo: str, settings: Settings, model: ModelCheck) -> Iterator[CheckResult]:
    """Check a server: version, pgvector, rights, schema, row security, vectors, queue."""
    try:
        # First: a pooler of whole sessions may have none left for the probe later.
        pooling = asyncio.run(probe_pooling(lambda: connect(conninfo, settings, name=NAME)))
        parameters = client_parameters(conninfo, settings.connect_timeout_s, NAME)
        connection = psycopg.connect(conninfo, autocommit=True, **parameters)
    except psycopg.Error as error:
        advice = (
            "check host, port, database, user and password in the uri, and that the server runs"
        )
        if isinstance(error, NoAnswer):
            advice = (
                "check the network, and whether a pooler before the server has a free session: end"
                " a process that uses it, or give the pooler more"
            )
        yield problem("server", redacted(str(error)), advice)
        return
    with connection:
        server = _PostgresServer(connection, conninfo, settings)
        try:
            yield server.server()
            yield from _pooler(pooling, settings)
            yield server.extension()
            yield server.rights()
            yield server.version()
            if server.steps():
                yield server.role()
                yield server.row_security()
                yield server.vectors(model)
                yield server.queue()
        except psycopg.Error as error:
            advice = "fix that, then run the doctor again"
            if isinstance(error, psycopg.errors.InsufficientPrivilege):
                advice = grants(settings.db_schema, connection.info.user)
            yield problem("examination", f"cut short: {redacted(str(error))}", advice)


async def _try_migration(conninfo: str, settings: Settings) -> None:
    async with await connect(conninfo, settings, name=NAME) as connection:
        await try_migration(connection, settings.db_schema)


def _pooler(pooling: Pooling, settings: Settings) -> Iterator[CheckResult]:
    """Yield what a transaction pooler before the server cannot do; nothing without one."""
    if not pooling.shares_sessions:
        return
    limits = (
        "use the server's own address for 'hippocampus index'; a worker polls the queue, because"
        " LISTEN delivers nothing"
    )
    if pooling.keeps_statements:
        yield _note("pooler", "a transaction pooler that keeps prepared statements", limits)
    elif not settings.prepare:
        found = "a transaction pooler that loses prepared statements; none are prepared"
        yield _note("pooler", found, limits)
    else:
        advice = (
            "set HIPPOCAMPUS_PREPARE=off, or max_prepared_statements of PgBouncer 1.21 or newer;"
            f" {limits}"
        )
        yield _note("pooler", "a transaction pooler that loses prepared statements", advice)


class _PostgresServer:
    """Checks of a server that answers, and of one schema in it."""

    def __init__(self, connection: Connection, conninfo: str, settings: Settings) -> None:
        self._connection = connection
        self._conninfo = conninfo
        self._settings = settings
        self._schema = settings.db_schema

    def server(self) -> CheckResult:
        version = self._connection.info.server_version
        found = f"reachable, PostgreSQL {version // 10_000}.{version % 10_000}"
        if version // 10_000 < MIN_SERVER:
            advice = f"at least {MIN_SERVER} is needed: upgrade it, or use uri 'embedded'"
            return problem("server", found, advice)
        return _ok("server", found)

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
        return _ok("pgvector", found) if version else _note("pgvector", found)

    def rights(self) -> CheckResult:
        """Check that this user may create what is missing. Later no right is needed."""
        user, database = self._row("SELECT current_user, current_database()")
        found = f"user {user} in database {database}"
        steps = self.steps()
        if len(steps) >= len(migrations()):
            return _ok("rights", found)
        try:
            if steps:
                self._require_owner()
            else:
                asyncio.run(_try_migration(self._conninfo, self._settings))
        except StorageUnavailable as error:
            advice = (
                "as an administrator of the database: CREATE EXTENSION IF NOT EXISTS vector;"
                f" GRANT CREATE ON DATABASE {database} TO {user}; or migrate as another user"
            )
            return problem("rights", str(error), advice)
        return _ok("rights", f"{found} may migrate")

    def _require_owner(self) -> None:
        """Check without trying: the locks of an upgrade would stop those who use the tables."""
        others = self._rows(
            sql.SQL(
                "SELECT c.relname FROM pg_class c WHERE c.relnamespace = {}::regnamespace"
                " AND c.relkind = 'r' AND NOT pg_has_role(c.relowner, 'USAGE') ORDER BY 1"
            ),
            literal=True,
        )
        if others:
            raise PermissionDenied(
                f"this user is no owner of the tables ({others[0][0]} is one of {len(others)}), so"
                " it may not upgrade them: migrate as their owner"
            )

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
        steps = self.steps()
        if not steps:
            found = f"{self._schema!r} is not in this database yet"
            return _note("schema", found, f"it is created {LATER}")
        return _versions(repr(self._schema), steps, migrations())

    def role(self) -> CheckResult:
        role, found = self._working_role()
        if role is None:
            user = self._connection.info.user
            advice = f"as administrator: CREATE ROLE {APP_ROLE} NOLOGIN; GRANT {APP_ROLE} TO {user}"
            return problem("role", found, advice)
        return _ok("role", found)

    def _working_role(self) -> tuple[str | None, str]:
        """Return the role the library works as (None if row security binds none), and why."""
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
        """Check that a row of one scope is hidden from others: insert one, look, roll back."""
        role, _ = self._working_role()
        advice = "do not use this schema: create another with 'hippocampus migrate --schema'"
        if role is None:
            return problem("row security", "not checked: there is no role to work as", "see role")
        try:
            open_tables, inside, outside = self._visible_rows(role)
        except psycopg.Error as error:
            return problem("row security", f"cannot be checked: {redacted(str(error))}", advice)
        if open_tables:
            found = f"not enforced on {', '.join(open_tables)}"
            return problem("row security", found, advice)
        if (inside, outside) != (1, 0):
            found = f"a scope of 1 row shows {inside} inside and {outside} outside"
            return problem("row security", found, advice)
        found = "enforced: a row of one scope was seen inside it and not outside"
        return _ok("row security", found)

    def _visible_rows(self, role: str) -> tuple[list[str], int, int]:
        """Return the unguarded tables, and the rows of a new scope seen inside and outside it."""
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
        bind = sql.SQL("SET LOCAL hippocampus.scope TO {}")  # a cluster propagates no set_config()
        count = sql.SQL("SELECT count(*) FROM {}.threads")
        with self._connection.transaction(force_rollback=True):
            self._row("SELECT set_config('role', %s, true)", [role])
            self._connection.execute(bind.format(sql.Literal(scope)))
            self._connection.execute(
                sql.SQL(
                    "INSERT INTO {}.threads (tenant_id, thread_id, created_at, updated_at)"
                    " VALUES (%s, 'try', now(), now())"
                ).format(sql.Identifier(self._schema)),
                [scope],
            )
            [(inside,)] = self._rows(count)
            self._connection.execute(bind.format(sql.Literal("")))
            [(outside,)] = self._rows(count)
        return [row[0] for row in open_tables], inside, outside

    def vectors(self, model: ModelCheck) -> CheckResult:
        query = sql.SQL("SELECT model, dimensions FROM {}.embedding_models WHERE active")
        return _vectors(self._rows(query), model)

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
        return _queue(waiting, callbacks, failed)

    def _row(self, query: str, values: list[object] | None = None) -> tuple[Any, ...]:
        row = self._connection.execute(query.encode(), values).fetchone()
        assert row is not None
        return row

    def _rows(self, query: sql.SQL, *, literal: bool = False) -> list[tuple[Any, ...]]:
        """Return the rows of a query. {} in it is the schema, as a name or as a literal."""
        schema = sql.Literal(self._schema) if literal else sql.Identifier(self._schema)
        return self._connection.execute(query.format(schema)).fetchall()


def _versions(place: str, steps: Mapping[int, str], known: Sequence[Migration]) -> CheckResult:
    """Compare the applied migrations of a schema or database with those of this library."""
    found = f"{place}, version {max(steps)} of {len(known)}"
    if is_of_development(steps, known):
        found = f"{found}, but made by a development version"
        return problem("schema", found, WAY_OUT_OF_DEVELOPMENT)
    if max(steps) > len(known):
        return problem("schema", found, f"upgrade with pip install -U {PACKAGE}")
    if len(steps) < len(known):
        return _note("schema", found, f"it is upgraded {LATER}")
    return _ok("schema", found)


def _vectors(rows: Sequence[tuple[Any, ...]], model: ModelCheck) -> CheckResult:
    """Check that the embedder made the stored vectors. rows: the active model, if any."""
    if not rows:
        return _ok("vectors", "none stored yet")
    [(name, dimensions)] = rows
    found = f"made by {name}, {dimensions} dimensions"
    used = model.model(name)
    if used.dimensions is not None and (name, dimensions) != (used.name, used.dimensions):
        advice = "choose with --embedder the one that made them, or another --schema"
        return problem("vectors", f"{found}; the embedder in use is {used.name}", advice)
    return _ok("vectors", found)


def _queue(waiting: int, callbacks: int, failed: int) -> CheckResult:
    """Report the jobs and callbacks that are due, and the dead jobs."""
    if not (waiting or callbacks or failed):
        return _ok("queue", "nothing waits, nothing failed")
    found = f"{waiting} jobs are due and unclaimed, {failed} are dead"
    advice = ["hippocampus jobs lists them"]
    if waiting:
        advice.append("hippocampus worker --once runs what is due")
    if failed:
        advice.append("hippocampus jobs --retry all puts the dead jobs back")
    if callbacks:
        found += f", {callbacks} wait for a process that has their code"
        advice.append("callbacks run in a process that has their reflector, not in a worker")
    return _note("queue", found, "; ".join(advice))


def _oceanbase(settings: Settings, model: ModelCheck) -> Iterator[CheckResult]:
    """Check an OceanBase server, or a SeekDB folder and the server in it.

    Creates nothing. An embedded server that exists is started for the time of the checks.
    """
    from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase

    database = OceanBaseDatabase(settings)
    folder = database.location.folder
    if folder is not None and not (folder.is_dir() and any(folder.iterdir())):
        yield _no_folder(folder)
        return
    try:
        with database.inspected() as cursor:
            yield from list(_oceanbase_server(cursor, database.location, model))
    except (StorageUnavailable, InvalidInput) as error:
        advice = "check the uri, that the server runs, and that this user may read there"
        yield problem("server", str(error), advice)


def _oceanbase_server(cursor: Any, location: Location, model: ModelCheck) -> Iterator[CheckResult]:
    from shared_core.storage.oceanbase.connection import migrate

    def rows(query: str) -> list[tuple[Any, ...]]:
        cursor.execute(query)
        return list(cursor.fetchall())

    engine, version = migrate.checked_version(rows("SELECT version()")[0][0])
    yield _ok("server", f"reachable, {engine} {'.'.join(map(str, version))}")
    steps, known = migrate.applied(cursor, location.database), migrate.migrations()
    if not steps:
        found = f"database {location.database!r} has no tables yet"
        yield _note("schema", found, f"they are created {LATER}")
        return
    yield _versions(f"database {location.database!r}", steps, known)
    if is_of_development(steps, known):
        return
    cursor.execute(f"USE {location.database}")
    yield _vectors(rows("SELECT model, dimensions FROM embedding_models WHERE active = 1"), model)
    [(waiting, callbacks, failed)] = rows(
        "SELECT count(CASE WHEN is_due AND job_type <> 'callback' THEN 1 END),"
        " count(CASE WHEN is_due AND job_type = 'callback' THEN 1 END),"
        " count(CASE WHEN status = 'failed' THEN 1 END) FROM (SELECT status, job_type,"
        " status = 'pending' AND run_after <= utc_timestamp(6) OR status = 'running' AND"
        " lease_until <= utc_timestamp(6) AS is_due FROM consolidation_jobs) jobs"
    )
    yield _queue(waiting, callbacks, failed)
