"""The checks of `hippocampus doctor`, for PostgreSQL and for OceanBase or SeekDB.

They only read: the row that tests row security, and a migration that tests rights, are rolled back.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import psycopg
from psycopg import sql

from shared_core.conversation.service import check_conversation_variables
from shared_core.core.environment import check_variables, unknown_variables
from shared_core.core.locale import t
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
CHECKS: Final[Mapping[str, str]] = {
    "library": "程序", "settings": "设置", "uri": "地址", "disk": "磁盘", "folder": "文件夹",
    "server": "服务器", "log": "日志", "pooler": "连接池", "rights": "权限", "schema": "模式",
    "role": "角色", "row security": "行级安全", "vectors": "向量", "queue": "队列",
    "embedder": "嵌入模型", "examination": "检查过程",
}  # fmt: skip
"""The names of the checks in Chinese. Names of packages stay."""
LOG_LINES = 8
"""Number of lines from the end of a server's log that a finding shows."""


Status = Literal["ok", "note", "problem"]
UNCLAIMED_S: Final = 60
"""Seconds after which a due job counts as left alone. A worker takes one at once."""


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
            advice = t(
                "name the embedder that made the vectors with --embedder, or give them another"
                " model: hippocampus reembed --embedder e5",
                "用 --embedder 指明生成这些向量的模型，或换用另一个模型："
                "hippocampus reembed --embedder e5",
            )
            return Model(name, None, problem("embedder", str(error), advice))
        except (InvalidInput, ModelUnavailable) as error:
            advice = t(
                "choose another --embedder; until then search works by words alone",
                "请另选 --embedder；在此之前只能按词语检索",
            )
            return Model(name, None, problem("embedder", str(error), advice))
        found = t(f"{name}, {dimensions} dimensions", f"{name}，{dimensions} 维")
        return Model(name, dimensions, _ok("embedder", found))

    def _embedder(self, stored: str | None) -> Embedder:
        if self._chosen is not None:
            return resolve_embedder(self._chosen)
        if stored is None:
            return asyncio.run(default_embedder())
        embedder = embedder_of(stored)
        if embedder is None:
            raise EmbeddingMismatch(
                t(
                    f"the model {stored!r} cannot be loaded by its name",
                    f"无法按名称加载模型 {stored!r}",
                )
            )
        return embedder


def check_name(check: str) -> str:
    """Return the name of a check in the language of the user."""
    return t(check, CHECKS.get(check, check))


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
    findings = [_library(), *_unknown_variables()]
    if wrong := list(_wrong_variables()):
        return [*findings, *wrong]
    try:
        settings = load_settings(uri, schema=schema)
    except InvalidInput as error:
        return [
            *findings,
            problem(
                "uri",
                str(error),
                t("correct HIPPOCAMPUS_URI or --uri", "请改正 HIPPOCAMPUS_URI 或 --uri"),
            ),
        ]
    home = settings.embedded_home
    where = redacted(settings.uri)
    if home:
        where = t(f"embedded PostgreSQL in {home}", f"内嵌的 PostgreSQL，位于 {home}")
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


def _wrong_variables() -> Iterator[CheckResult]:
    try:
        check_variables(os.environ, address_is_given=True)
        check_conversation_variables()
    except InvalidInput as error:
        advice = t(
            "correct or unset it; docs/reference/settings.md says what is allowed",
            "请改正或取消设置；docs/reference/settings.zh.md 写明允许的值",
        )
        yield problem("settings", str(error), advice)


def _unknown_variables() -> Iterator[CheckResult]:
    for name, sentence in unknown_variables(os.environ).items():
        advice = t(
            f"rename or unset {name}; docs/reference/settings.md lists the settings",
            f"请改名或取消设置 {name}；docs/reference/settings.zh.md 列出全部设置",
        )
        yield problem("settings", sentence, advice)


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
            install = f"pip install '{PACKAGE}[{extra}]'"
            advice = t(f"to install it: {install}", f"安装：{install}")
            yield _note(package, t("not installed", "未安装"), advice)


def _embedded(home: Path, settings: Settings, model: ModelCheck) -> Iterator[CheckResult]:
    """Check the folder, then the server in it if there is one."""
    yield _disk(home)
    try:
        find_binaries(home)
        seen = describe(home)
    except StorageUnavailable as error:
        yield problem("folder", str(error), t("see above", "见上"))
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
    advice = t("the first use creates it, or now --start", "首次使用时创建，或现在用 --start 创建")
    return _note("folder", t(f"nothing there yet: {folder}", f"还没有内容：{folder}"), advice)


def _log(server: EmbeddedPostgres) -> str:
    log = server.log_tail(LOG_LINES) or t("(empty)", "（空）")
    return t(f"the end of its log:\n{log}", f"日志的末尾：\n{log}")


def _state(seen: EmbeddedStatus) -> str:
    size, folder = f"{seen.size_bytes / 1024**2:.0f} MB", seen.data_directory
    if not seen.running:
        return t(
            f"{folder}, {size}, not running: started for this check",
            f"{folder}，{size}，未运行：为本次检查而启动",
        )
    users = ", ".join(str(pid) for pid in seen.users) or t("none", "无")
    return t(
        f"{folder}, {size}, running as pid {seen.pid}, used by {users}",
        f"{folder}，{size}，运行中（进程 {seen.pid}），使用者：{users}",
    )


def _disk(home: Path) -> CheckResult:
    existing = next(folder for folder in (home, *home.absolute().parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    space = f"{free / 1024**3:.1f} GB"
    found = t(f"{space} free", f"剩余 {space}")
    if free < DISK_NEEDED_BYTES:
        needed = f"{DISK_NEEDED_BYTES // 1024**2} MB"
        advice = t(
            f"free {needed}, or set HIPPOCAMPUS_HOME to another disk",
            f"请腾出 {needed}，或把 HIPPOCAMPUS_HOME 设到另一个磁盘",
        )
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
        advice = t(
            "check host, port, database, user and password in the uri, and that the server runs",
            "请检查 uri 中的主机、端口、数据库、用户和密码，以及服务器是否在运行",
        )
        if isinstance(error, NoAnswer):
            advice = t(
                "check the network, and whether a pooler before the server has a free session: end"
                " a process that uses it, or give the pooler more",
                "请检查网络，以及服务器前的连接池是否还有空闲会话：结束一个占用它的进程，或增加会话数",
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
            advice = t("fix that, then run the doctor again", "请先解决，再运行 doctor")
            if isinstance(error, psycopg.errors.InsufficientPrivilege):
                advice = grants(settings.db_schema, connection.info.user)
            yield problem("examination", t("cut short: ", "中断：") + redacted(str(error)), advice)


async def _try_migration(conninfo: str, settings: Settings) -> None:
    async with await connect(conninfo, settings, name=NAME) as connection:
        await try_migration(connection, settings.db_schema)


def _pooler(pooling: Pooling, settings: Settings) -> Iterator[CheckResult]:
    """Yield what a transaction pooler before the server cannot do; nothing without one."""
    if not pooling.shares_sessions:
        return
    limits = t(
        "use the server's own address for 'hippocampus index'; a worker polls the queue, because"
        " LISTEN delivers nothing",
        "'hippocampus index' 请使用服务器自身的地址；LISTEN 收不到通知，所以 worker 轮询队列",
    )
    loses = t("a transaction pooler that loses prepared statements", "事务级连接池，丢失预备语句")
    if pooling.keeps_statements:
        keeps = t(
            "a transaction pooler that keeps prepared statements", "事务级连接池，保留预备语句"
        )
        yield _note("pooler", keeps, limits)
    elif not settings.prepare:
        yield _note("pooler", loses + t("; none are prepared", "；未使用预备语句"), limits)
    else:
        advice = t(
            "set HIPPOCAMPUS_PREPARE=off, or max_prepared_statements of PgBouncer 1.21 or newer",
            "请设置 HIPPOCAMPUS_PREPARE=off，或 PgBouncer 1.21 以上的 max_prepared_statements",
        )
        yield _note("pooler", loses, advice + t("; ", "；") + limits)


class _PostgresServer:
    """Checks of a server that answers, and of one schema in it."""

    def __init__(self, connection: Connection, conninfo: str, settings: Settings) -> None:
        self._connection = connection
        self._conninfo = conninfo
        self._settings = settings
        self._schema = settings.db_schema

    def server(self) -> CheckResult:
        version = self._connection.info.server_version
        found = t("reachable", "可连接") + f", PostgreSQL {version // 10_000}.{version % 10_000}"
        if version // 10_000 < MIN_SERVER:
            advice = t(
                f"at least {MIN_SERVER} is needed: upgrade it, or use uri 'embedded'",
                f"至少需要 {MIN_SERVER}：请升级，或使用 uri 'embedded'",
            )
            return problem("server", found, advice)
        return _ok("server", found)

    def extension(self) -> CheckResult:
        version, available = self._row(
            "SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'),"
            " (SELECT default_version FROM pg_available_extensions WHERE name = 'vector')"
        )
        if version is None and available is None:
            advice = t(
                "install the package postgresql-NN-pgvector, or use uri 'embedded'",
                "请安装软件包 postgresql-NN-pgvector，或使用 uri 'embedded'",
            )
            return problem("pgvector", t("the server has none", "服务器没有它"), advice)
        found = version or available + t(
            ", not yet created in this database", "，还未在此数据库中创建"
        )
        if tuple(int(part) for part in (version or available).split(".")[:2]) < MIN_EXTENSION:
            advice = t(
                "at least 0.8 is needed: install it, then run ALTER EXTENSION vector UPDATE",
                "至少需要 0.8：请安装后运行 ALTER EXTENSION vector UPDATE",
            )
            return problem("pgvector", found, advice)
        return _ok("pgvector", found) if version else _note("pgvector", found)

    def rights(self) -> CheckResult:
        """Check that this user may create what is missing. Later no right is needed."""
        user, database = self._row("SELECT current_user, current_database()")
        found = t(f"user {user} in database {database}", f"数据库 {database} 的用户 {user}")
        steps = self.steps()
        if len(steps) >= len(migrations()):
            return _ok("rights", found)
        try:
            if steps:
                self._require_owner()
            else:
                asyncio.run(_try_migration(self._conninfo, self._settings))
        except StorageUnavailable as error:
            grant = (
                "CREATE EXTENSION IF NOT EXISTS vector;"
                f" GRANT CREATE ON DATABASE {database} TO {user};"
            )
            advice = t(
                f"as an administrator of the database: {grant} or migrate as another user",
                f"以数据库管理员身份运行：{grant} 或换一个用户运行 migrate",
            )
            return problem("rights", str(error), advice)
        return _ok("rights", found + t(" may migrate", "可以升级"))

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
            table, count = others[0][0], len(others)
            raise PermissionDenied(
                t(
                    f"this user is no owner of the tables ({table} is one of {count}), so it may"
                    " not upgrade them: migrate as their owner",
                    f"此用户不是数据表的所有者（如 {table}，共 {count} 个），不能升级："
                    "请以所有者身份运行 migrate",
                )
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
            name = repr(self._schema)
            found = t(f"{name} is not in this database yet", f"此数据库中还没有 {name}")
            return _note("schema", found, _later())
        return _versions(repr(self._schema), steps, migrations())

    def role(self) -> CheckResult:
        role, found = self._working_role()
        if role is None:
            user = self._connection.info.user
            create = f"CREATE ROLE {APP_ROLE} NOLOGIN; GRANT {APP_ROLE} TO {user}"
            advice = t(f"as administrator: {create}", f"以管理员身份运行：{create}")
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
            return APP_ROLE, t(
                f"works as {APP_ROLE}, logged in as {user}", f"以 {APP_ROLE} 工作，登录用户 {user}"
            )
        if unbound:
            return None, t(
                f"{user} bypasses row security and is no member of {APP_ROLE}",
                f"{user} 不受行级安全约束，也不是 {APP_ROLE} 的成员",
            )
        return user, t(
            f"works as {user}, which row security binds", f"以 {user} 工作，受行级安全约束"
        )

    def row_security(self) -> CheckResult:
        """Check that a row of one scope is hidden from others: insert one, look, roll back."""
        role, _ = self._working_role()
        advice = t(
            "do not use this schema: create another with 'hippocampus migrate --schema'",
            "请不要使用这个模式：用 'hippocampus migrate --schema' 另建一个",
        )
        if role is None:
            found = t("not checked: there is no role to work as", "未检查：没有可用的角色")
            return problem("row security", found, t("see role", "见“角色”"))
        try:
            open_tables, inside, outside = self._visible_rows(role)
        except psycopg.Error as error:
            found = t("cannot be checked: ", "无法检查：") + redacted(str(error))
            return problem("row security", found, advice)
        if open_tables:
            found = t("not enforced on ", "未生效的数据表：") + ", ".join(open_tables)
            return problem("row security", found, advice)
        if (inside, outside) != (1, 0):
            found = t(
                f"a scope of 1 row shows {inside} inside and {outside} outside",
                f"只有 1 行的用户，在内看到 {inside} 行，在外看到 {outside} 行",
            )
            return problem("row security", found, advice)
        found = t(
            "enforced: a row of one scope was seen inside it and not outside",
            "有效：一个用户的行只有该用户能看到",
        )
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
            " count(*) FILTER (WHERE status = 'failed'),"
            " count(*) FILTER (WHERE status = 'running' AND NOT is_due),"
            " extract(epoch FROM now() - min(due_at) FILTER (WHERE job_type <> 'callback')),"
            " (SELECT count(*) FROM {0}.conversations WHERE status = 'active')"
            " FROM (SELECT status, job_type, due_at, due_at <= now() AS is_due FROM (SELECT status,"
            " job_type, CASE status WHEN 'pending' THEN run_after WHEN 'running' THEN lease_until"
            " END AS due_at FROM {0}.consolidation_jobs) AS moments) AS jobs"
        )
        with self._connection.transaction(force_rollback=True):
            self._row("SELECT set_config('hippocampus.scope', '/', true)")
            [row] = self._rows(count)
        return _queue(*row)

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
    found = t(
        f"{place}, version {max(steps)} of {len(known)}",
        f"{place}，第 {max(steps)} 版，共 {len(known)} 版",
    )
    if is_of_development(steps, known):
        found += t(", but made by a development version", "，但由开发版本创建")
        return problem("schema", found, WAY_OUT_OF_DEVELOPMENT)
    if max(steps) > len(known):
        upgrade = f"pip install -U {PACKAGE}"
        return problem("schema", found, t(f"upgrade with {upgrade}", f"请升级：{upgrade}"))
    if len(steps) < len(known):
        return _note("schema", found, _later(upgrade=True))
    return _ok("schema", found)


def _later(*, upgrade: bool = False) -> str:
    """Return when the schema is created or upgraded."""
    return t(
        f"it is {'upgraded' if upgrade else 'created'} at the next use, or now with 'hippocampus"
        " migrate'",
        f"下次使用时{'升级' if upgrade else '创建'}，或现在运行 'hippocampus migrate'",
    )


def _vectors(rows: Sequence[tuple[Any, ...]], model: ModelCheck) -> CheckResult:
    """Check that the embedder made the stored vectors. rows: the active model, if any."""
    if not rows:
        return _ok("vectors", t("none stored yet", "还没有向量"))
    [(name, dimensions)] = rows
    found = t(f"made by {name}, {dimensions} dimensions", f"由 {name} 生成，{dimensions} 维")
    used = model.model(name)
    if used.dimensions is not None and (name, dimensions) != (used.name, used.dimensions):
        advice = t(
            "choose with --embedder the one that made them, or another --schema",
            "请用 --embedder 选择生成它们的模型，或换用另一个 --schema",
        )
        found += t(f"; the embedder in use is {used.name}", f"；当前使用的模型是 {used.name}")
        return problem("vectors", found, advice)
    return _ok("vectors", found)


def _queue(
    waiting: int, callbacks: int, failed: int, running: int, oldest_s: float | None, talks: int
) -> CheckResult:
    """Report the jobs and callbacks that are due, the dead jobs, and who takes them.

    running: number of leased jobs. oldest_s: seconds since the oldest job was due. talks: number of
    open conversations, which have no job yet.
    """
    open_talks = t(
        f"; {talks} conversations are open: their facts are drawn once they end, after a silence or"
        " by end_session",
        f"；{talks} 个会话还没结束：静默一段时间或调用 end_session 结束后，才会读出事实",
    )
    if not (waiting or callbacks or failed):
        found = t("nothing waits, nothing failed", "没有等待的任务，也没有失败的任务")
        return _ok("queue", found + open_talks * bool(talks))
    found = t(
        f"{waiting} jobs are due and unclaimed, {failed} are dead",
        f"{waiting} 个任务到期而无人运行，{failed} 个失败",
    )
    advice = [t("hippocampus jobs lists them", "hippocampus jobs 可列出")]
    if waiting and not running and oldest_s is not None and oldest_s > UNCLAIMED_S:
        minutes = round(oldest_s / 60)
        found += t(
            f"; the oldest has waited for {minutes} min, so no worker takes them",
            f"；最早的已等 {minutes} 分钟，说明没有 worker 在取",
        )
        advice.append(
            t(
                "start hippocampus worker with this --uri and --schema",
                "请用同样的 --uri 和 --schema 启动 hippocampus worker",
            )
        )
    if waiting:
        advice.append(
            t(
                "hippocampus worker --once runs what is due",
                "hippocampus worker --once 可运行到期的",
            )
        )
    if failed:
        advice.append(
            t(
                "hippocampus jobs --retry all puts the dead jobs back",
                "hippocampus jobs --retry all 可把失败的放回队列",
            )
        )
    if callbacks:
        found += t(
            f", {callbacks} wait for a process that has their code",
            f"，{callbacks} 个等待有其代码的进程",
        )
        advice.append(
            t(
                "callbacks run in a process that has their reflector, not in a worker",
                "回调任务在有其 reflector 的进程中运行，不在 worker 中",
            )
        )
    return _note("queue", found + open_talks * bool(talks), t("; ", "；").join(advice))


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
        advice = t(
            "check the uri, that the server runs, and that this user may read there",
            "请检查 uri、服务器是否在运行，以及此用户是否可读",
        )
        yield problem("server", str(error), advice)


def _oceanbase_server(cursor: Any, location: Location, model: ModelCheck) -> Iterator[CheckResult]:
    from shared_core.storage.oceanbase.connection import migrate

    def rows(query: str) -> list[tuple[Any, ...]]:
        cursor.execute(query)
        return list(cursor.fetchall())

    engine, version = migrate.checked_version(rows("SELECT version()")[0][0])
    yield _ok("server", t("reachable", "可连接") + f", {engine} {'.'.join(map(str, version))}")
    steps, known = migrate.applied(cursor, location.database), migrate.migrations()
    if not steps:
        name = repr(location.database)
        found = t(f"database {name} has no tables yet", f"数据库 {name} 还没有数据表")
        yield _note("schema", found, _later())
        return
    name = repr(location.database)
    yield _versions(t(f"database {name}", f"数据库 {name}"), steps, known)
    if is_of_development(steps, known):
        return
    cursor.execute(f"USE {location.database}")
    yield _vectors(rows("SELECT model, dimensions FROM embedding_models WHERE active = 1"), model)
    [row] = rows(
        "SELECT count(CASE WHEN is_due AND job_type <> 'callback' THEN 1 END),"
        " count(CASE WHEN is_due AND job_type = 'callback' THEN 1 END),"
        " count(CASE WHEN status = 'failed' THEN 1 END),"
        " count(CASE WHEN status = 'running' AND NOT is_due THEN 1 END),"
        " timestampdiff(SECOND, min(CASE WHEN job_type <> 'callback' THEN due_at END),"
        " utc_timestamp(6)), (SELECT count(*) FROM conversations WHERE status = 'active')"
        " FROM (SELECT status, job_type, due_at, due_at <= utc_timestamp(6) AS is_due FROM (SELECT"
        " status, job_type, CASE status WHEN 'pending' THEN run_after WHEN 'running' THEN"
        " lease_until END AS due_at FROM consolidation_jobs) moments) jobs"
    )
    yield _queue(*row)
