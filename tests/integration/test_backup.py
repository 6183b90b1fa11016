"""pg_dump and pg_restore of a memory, by users who are no superusers."""

import asyncio
import subprocess
import uuid
from pathlib import Path

import psycopg
import pytest
from commands import run
from postgres_admin import column, execute, name_of, new_user, rows
from psycopg.conninfo import make_conninfo
from whole_user import WholeClock, populate

from shared_core import Scope, errors, open_memory, run_sync
from shared_core.storage.postgres.connection.backup import allow_backup
from shared_core.storage.postgres.connection.embedded_server import find_binaries
from shared_core.storage.postgres.connection.migrations import APP_ROLE
from tests.postgres_databases import new_database

ANA, BOB = Scope("app", "ana"), Scope("app", "bob")
COUNT = "SELECT count(*) FROM hippocampus.memories"


@pytest.fixture
def program():
    """The folder of pg_dump and pg_restore of the server's own version."""
    try:
        binaries = find_binaries(Path())
    except errors.StorageUnavailable:
        pytest.skip("the embedded PostgreSQL is not installed")
    if not (binaries / "pg_dump").exists():
        pytest.skip("the embedded PostgreSQL brings no pg_dump, and others may be too old")
    return binaries


@pytest.fixture
def names(server):
    """The names of an owner and of a backup role, both without any attribute."""
    owner, backup = (f"{kind}_{uuid.uuid4().hex}" for kind in ("owner", "backup"))
    execute(server, f"CREATE ROLE {owner} LOGIN; CREATE ROLE {backup} LOGIN")
    yield owner, backup
    execute(server, f"DROP ROLE {owner}; DROP ROLE {backup}")


@pytest.fixture
def owned(empty_dsn, names):
    """The DSN of a memory that the owner made, as the owner."""
    owner, backup = names
    give(empty_dsn, owner)
    dsn = make_conninfo(empty_dsn, user=owner)
    memory = open_memory(dsn)
    run_sync(memory.open())
    run_sync(memory.close())
    yield dsn
    execute(empty_dsn, f"DROP OWNED BY {owner}, {backup} CASCADE")


@pytest.fixture
def target(server, names):
    """The DSN of another database without a schema, as the owner."""
    for dsn in new_database(server):
        give(dsn, names[0])
        yield make_conninfo(dsn, user=names[0])
        execute(dsn, f"DROP OWNED BY {', '.join(names)} CASCADE")


def give(dsn: str, owner: str) -> None:
    execute(dsn, f"CREATE EXTENSION vector; GRANT CREATE ON DATABASE {name_of(dsn)} TO {owner}")


def call(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True)


def rows_of(dsn: str) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows by table, read by a superuser."""
    admin = make_conninfo(dsn, user="postgres", options="-c search_path=hippocampus,public")
    query = "SELECT relname FROM pg_class WHERE relnamespace = 'hippocampus'::regnamespace"
    return {
        name: sorted(rows(admin, f"SELECT t::text FROM {name} t"))
        for name in column(admin, f"{query} AND relkind = 'r'")
    }


async def test_a_dump_by_the_backup_role_restores_it_all(owned, target, names, program, tmp_path):
    clock = WholeClock()
    async with open_memory(owned, clock=clock, worker=False, track_access=False) as memory:
        await populate(memory, ANA, clock)
        await memory.remember(BOB, "Bob plays chess.")
        before = [hit.memory for hit in await memory.recall(ANA, "Where does Ana live?")]
    file = str(tmp_path / "memory.dump")
    dump = ("--format=custom", "--schema=hippocampus", f"--file={file}")
    refused = call(program / "pg_dump", owned, *dump)
    assert 1 == refused.returncode and "row-level security" in refused.stderr

    ran = await asyncio.to_thread(run, "migrate", "--uri", owned, "--backup-role", names[1])
    assert 0 == ran.exit_code and f"Role '{names[1]}' may read" in ran.output, ran.output
    as_backup = make_conninfo(owned, user=names[1])
    dumped = call(program / "pg_dump", as_backup, *dump, "--enable-row-security")
    assert 0 == dumped.returncode, dumped.stderr
    restore = ("--no-owner", "--exit-on-error", f"--dbname={target}", file)
    restored = call(program / "pg_restore", *restore)
    assert 0 == restored.returncode, restored.stderr

    assert rows_of(owned) == rows_of(target)
    async with open_memory(target, clock=clock, worker=False, track_access=False) as memory:
        assert before == [hit.memory for hit in await memory.recall(ANA, "Where does Ana live?")]
        assert 1 == len(await memory.recall(BOB, "chess"))
        await memory.remember(BOB, "Bob likes Go.")
        assert 2 == len(await memory.list_memories(BOB))


def test_the_backup_role_reads_and_does_not_write(owned, names):
    run_sync(remembered(owned))
    tables = allow_backup(owned, "hippocampus", names[1])
    assert tables == len(rows_of(owned)) > 30
    assert tables == allow_backup(owned, "hippocampus", names[1])  # as after an upgrade
    with psycopg.connect(make_conninfo(owned, user=names[1]), autocommit=True) as backup:
        assert (1,) == backup.execute(COUNT).fetchone()
        for harm in ("DELETE FROM", "UPDATE", "INSERT INTO"):
            rest = {"UPDATE": " SET text = ''", "INSERT INTO": " DEFAULT VALUES"}.get(harm, "")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                backup.execute(f"{harm} hippocampus.memories{rest}".encode())
    assert [0] == column(owned, COUNT)


async def remembered(dsn: str) -> None:
    async with open_memory(dsn) as memory:
        await memory.remember(BOB, "Bob plays chess.")


def test_a_role_that_would_open_the_memory_to_its_users_is_refused(owned, dsn, names):
    owner, backup = names
    with pytest.raises(errors.InvalidInput, match="must be a role of its own"):
        allow_backup(owned, "hippocampus", owner)
    with pytest.raises(errors.InvalidInput, match="must be a role of its own"):
        allow_backup(dsn, "hippocampus", APP_ROLE)
    execute(dsn, f"GRANT {backup} TO {owner}")
    with pytest.raises(errors.InvalidInput, match=f'REVOKE "{backup}" FROM "{owner}"'):
        allow_backup(owned, "hippocampus", backup)


def test_a_superuser_does_not_open_the_memory_to_those_who_write_to_it(empty_dsn, owned, names):
    """empty_dsn: the database of the owner, as a superuser."""
    owner, backup = names
    with pytest.raises(errors.InvalidInput, match=f"must be a role of its own: '{owner}'"):
        allow_backup(empty_dsn, "hippocampus", owner)
    execute(empty_dsn, f"GRANT {backup} TO {owner}")
    with pytest.raises(errors.InvalidInput, match=f'REVOKE "{backup}" FROM "{owner}"'):
        allow_backup(empty_dsn, "hippocampus", backup)
    execute(
        empty_dsn,
        f"REVOKE {backup} FROM {owner}",
        f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA hippocampus TO {backup}",  # it uses it
    )
    with pytest.raises(errors.InvalidInput, match=f"must be a role of its own: '{backup}'"):
        allow_backup(empty_dsn, "hippocampus", backup)
    policies = "SELECT policyname FROM pg_policies WHERE policyname ^@ 'backup_'"
    assert [] == column(empty_dsn, policies)


@pytest.mark.parametrize("rights", ["SELECT, UPDATE, DELETE", "SELECT", "TRUNCATE"])
def test_a_user_without_insert_is_no_member_of_the_backup_role(empty_dsn, owned, names, rights):
    backup = names[1]
    with new_user(empty_dsn, f"IN ROLE {backup}") as user:
        allow_backup(owned, "hippocampus", backup)  # a member that has only the backup's rights
        execute(owned, f"GRANT {rights} ON ALL TABLES IN SCHEMA hippocampus TO {user}")
        with pytest.raises(errors.InvalidInput, match=f'REVOKE "{backup}" FROM "{user}"'):
            allow_backup(owned, "hippocampus", backup)


@pytest.mark.parametrize("letter", ["r", "é"])
def test_roles_with_long_names_have_a_policy_each(empty_dsn, owned, server, letter):
    head = f"backup{uuid.uuid4().hex[:16]}"
    rest = (62 - len(head)) // len(letter.encode())
    roles = [f"{head}{letter * rest}{end}" for end in "12"]
    execute(server, *(f'CREATE ROLE "{role}" LOGIN' for role in roles))
    try:
        run_sync(remembered(owned))
        for role in roles:
            allow_backup(empty_dsn, "hippocampus", role)
        for role in roles:
            assert [1] == column(make_conninfo(owned, user=role), COUNT)
        with pytest.raises(errors.NotFound):
            allow_backup(empty_dsn, "hippocampus", f"{roles[0]}, cut at 63 bytes")
    finally:
        listed = ", ".join(f'"{role}"' for role in roles)
        execute(empty_dsn, f"DROP OWNED BY {listed}", f"DROP ROLE {listed}")


def test_what_cannot_be_is_named(dsn, owned, names):
    with pytest.raises(errors.NotFound, match='CREATE ROLE "nobody_here" LOGIN'):
        allow_backup(owned, "hippocampus", "nobody_here")
    with pytest.raises(errors.PermissionDenied, match="as the owner of"):
        allow_backup(make_conninfo(dsn, user=names[0]), "hippocampus", names[1])
    with pytest.raises(errors.CapabilityMissing, match="is for PostgreSQL"):
        allow_backup("seekdb:///nowhere", "hippocampus", names[1])
