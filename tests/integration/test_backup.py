"""pg_dump and pg_restore of a memory, by users who are no superusers."""

import asyncio
import os
import re
import subprocess
import uuid
from pathlib import Path

import psycopg
import pytest
from pages import ROOT, blocks_of
from postgres_admin import column, execute, name_of, new_user, rows
from practised import practised  # noqa: F401
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from warm_python import warm_program
from whole_user import WholeClock, populate

from shared_core import Scope, errors, open_memory, run_sync
from shared_core.storage.postgres.connection.backup import allow_backup
from shared_core.storage.postgres.connection.embedded_server import find_binaries
from shared_core.storage.postgres.connection.migrations import APP_ROLE

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
def restored(server, names):
    """The name of a database that is not there, and is dropped."""
    name = f"restored_{uuid.uuid4().hex}"
    yield name
    execute(server, f"DROP DATABASE IF EXISTS {name}")


def give(dsn: str, owner: str) -> None:
    execute(dsn, f"CREATE EXTENSION vector; GRANT CREATE ON DATABASE {name_of(dsn)} TO {owner}")


def rows_of(dsn: str) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows by table, read by a superuser."""
    admin = make_conninfo(dsn, user="postgres", options="-c search_path=hippocampus,public")
    query = "SELECT relname FROM pg_class WHERE relnamespace = 'hippocampus'::regnamespace"
    return {
        name: sorted(rows(admin, f"SELECT t::text FROM {name} t"))
        for name in column(admin, f"{query} AND relkind = 'r'")
    }


def lines_of(page: str) -> str:
    """Return the commands of a page about a backup, for the user ana of the application app."""
    blocks = [one.text for one in blocks_of(ROOT / "docs" / page) if "sh" == one.language]
    text = "".join(one for one in blocks if "memory_backup" in one or "restored" in one)
    text = re.sub(r"(postgresql://\w+)(:\$\w+)?@[\w.]+/", r"\1@/", text)
    text = re.sub(r"PASSWORD '.*?'", "PASSWORD 'd/e@f'", text)
    return re.sub(r"recall \w+ \w+ \".*?\"", 'recall app ana "Where does Ana live?"', text)


@pytest.mark.parametrize(
    "page", ["how-to/backup.zh.md", "tutorials/production.md", "tutorials/production.zh.md"]
)
def test_each_page_about_backups_has_the_lines_that_are_run_here(page):
    assert lines_of("how-to/backup.md") == lines_of(page)


def shell(commands: str, code: int = 0) -> str:
    """Run commands, check how they end, and return what they print."""
    line = ["bash", "-euo", "pipefail", "-c", commands]
    ran = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert code == ran.returncode, ran.stdout
    return ran.stdout


@pytest.mark.usefixtures("practised")
async def test_the_lines_of_the_page_back_up_and_restore_it_all(
    owned, empty_dsn, names, restored, program, tmp_path, monkeypatch
):
    clock = WholeClock()
    async with open_memory(owned, clock=clock, worker=False, track_access=False) as memory:
        await populate(memory, ANA, clock)
        await memory.remember(BOB, "Bob plays chess.")
        before = [hit.memory for hit in await memory.recall(ANA, "Where does Ana live?")]
    stored, at = rows_of(owned), conninfo_to_dict(owned)
    warm_program(tmp_path / "hippocampus", "-m", "shared_core.cli.main")
    path = f"{tmp_path}:{program}:{os.environ['PATH']}"
    for name, value in {"PGHOST": at["host"], "PGPORT": at["port"], "PATH": path}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    assert "row-level security" in shell(f"pg_dump --schema=hippocampus '{owned}'", code=1)

    lines, words = lines_of("how-to/backup.md"), ("memory_owner", "memory_backup", "restored")
    for word, name in zip((*words, "@/app"), (*names, restored, f"@/{at['dbname']}"), strict=True):
        lines = lines.replace(word, name)
    execute(empty_dsn, f"DROP ROLE {names[1]}")  # the page creates it
    back_up, create, restore = lines.partition("psql --command='CREATE DATABASE")
    assert f"Role '{names[1]}' may read" in await asyncio.to_thread(shell, back_up)
    execute(empty_dsn, "DROP SCHEMA hippocampus CASCADE")
    told = await asyncio.to_thread(shell, create + restore)
    assert "All is well." in told and before[0].text in told
    target = make_conninfo(owned, dbname=restored)
    assert stored == rows_of(target)
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
