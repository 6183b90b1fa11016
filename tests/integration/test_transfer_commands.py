"""`hippocampus export` and `import FILE`, as commands and as processes."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commands import run
from every_case import every_case
from practised import practised  # noqa: F401
from warm_python import warm_python

from shared_core import Scope, open_memory, run_sync

pytestmark = pytest.mark.usefixtures("practised")

WHO = ("app", "ana")
TEXTS = [f"Ana was in town {number} of {number % 7}." for number in range(70)]


@pytest.fixture(scope="module")
def filled(postgres):
    """The DSN of a memory of Ana that is only read."""
    for dsn in postgres.lend():
        memory = open_memory(dsn, worker=False)
        run_sync(memory.remember(Scope(*WHO), TEXTS))
        run_sync(memory.close())
        yield dsn


def test_a_file_goes_from_one_database_to_another(filled, other_dsn, tmp_path):
    file, back = tmp_path / "ana.jsonl", tmp_path / "back.jsonl"
    written = run("export", *WHO, "--out", file, "--uri", filled, "--json")
    assert 0 == written.exit_code, written.output
    rows = json.loads(written.stdout)["rows"]
    assert rows == len(file.read_text("utf-8").splitlines()) - 2
    looked = run("import", file, "--dry-run", "--json")
    assert ("ana", rows) == (json.loads(looked.stdout)["user"], json.loads(looked.stdout)["rows"])
    assert "application 'app'" in run("import", file, "--dry-run").stdout
    first = run("import", file, "--uri", other_dsn, "--json")
    expected = {"written": rows, "here": 0, "differ": 0, "embedded": 70, "unembedded": 0}
    assert expected == json.loads(first.stdout)
    again = run("import", file, "--uri", other_dsn)
    assert 0 == again.exit_code
    assert f"0 rows written, {rows:,} were here already." in again.stdout
    assert 0 == run("export", *WHO, "--out", back, "--uri", other_dsn).exit_code
    assert file.read_bytes() == back.read_bytes()
    assert not list(tmp_path.glob("*.part"))


def test_a_pipe_takes_the_lines_and_stays_a_pipe(filled, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as readers:
        lines = readers.submit(pipe.read_bytes)
        assert 0 == run("export", *WHO, "--out", pipe, "--uri", filled).exit_code
        assert b'{"end": true' in lines.result().splitlines()[-1]
    assert pipe.is_fifo()


def test_a_link_is_followed_and_a_file_keeps_its_mode(filled, tmp_path):
    real, link, own = tmp_path / "real.jsonl", tmp_path / "link.jsonl", tmp_path / "link.jsonl.part"
    own.write_text("of the user")
    real.touch(mode=0o600)
    link.symlink_to(real)
    assert 0 == run("export", *WHO, "--out", link, "--uri", filled).exit_code
    assert link.is_symlink() and 0o600 == real.stat().st_mode & 0o777
    assert '{"end": true' in real.read_text("utf-8").splitlines()[-1]
    assert "of the user" == own.read_text()
    assert {real, link, own} == {*tmp_path.glob("*.jsonl*")}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device without room")
@pytest.mark.parametrize(
    ("lang", "unbuffered", "asked"),
    [
        ("en", "", ["export", *WHO]), ("zh", "1", ["facts", *WHO]), ("en", None, ["facts", *WHO]),
        ("zh", None, ["export", *WHO]), ("zh", None, ["--help"]),
    ],
)  # fmt: skip
def test_a_full_standard_output_is_told(filled, lang, unbuffered, asked, monkeypatch):
    """Python writes what is left when it ends. unbuffered: None for a fork that ends as it does."""
    monkeypatch.setenv("HIPPOCAMPUS_LANG", lang)
    monkeypatch.setenv("HIPPOCAMPUS_URI", filled)
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered or "")
    python = warm_python(finalizes=True) if unbuffered is None else [sys.executable]
    command = [*python, "-m", "shared_core.cli.main", *asked]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert 1 == done.returncode, done.stderr
    [line] = done.stderr.splitlines()
    told = {"en": "standard output cannot be written: No space", "zh": "无法写入 标准输出"}
    assert told[lang] in line


def test_lines_are_printed_without_out_and_alone_on_a_path_to_standard_output(filled, tmp_path):
    command = ["-m", "shared_core.cli.main", "export", *WHO, "--with-vectors", "--uri", filled]
    done = subprocess.run([*warm_python(), *command], capture_output=True)
    assert (0, b"") == (done.returncode, done.stderr)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert 384 == lines[0]["vectors"]["dimensions"]
    assert len(lines) - 2 == lines[-1]["rows"]
    command = [*warm_python(), "-m", "shared_core.cli.main", "export", *WHO, "--uri", filled]
    with (tmp_path / "all.jsonl").open("wb") as file:
        subprocess.run([*command, "--out", "/dev/stdout"], stdout=file, check=True)
    lines = (tmp_path / "all.jsonl").read_text("utf-8").splitlines()
    assert "hippocampus_export" in lines[0] and '{"end": true' in lines[-1]


def test_an_import_that_was_killed_is_done_by_the_next(filled, other_dsn, tmp_path):
    file = tmp_path / "ana.jsonl"
    assert 0 == run("export", *WHO, "--out", file, "--with-vectors", "--uri", filled).exit_code
    killed = (
        "import os, signal, sys\n"
        "from shared_core.transfer import lines\n"
        "lines.MOST_LINES = 50\n"
        "from shared_core.transfer.service import _LineImport as Import\n"
        "done, write = [], Import._put_rows\n"
        "async def dying(*arguments, **options):\n"
        "    done.append(await write(*arguments, **options))\n"
        "    if len(done) == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return done[-1]\n"
        "Import._put_rows = dying\n"
        "from shared_core.cli.main import app; app()"
    )
    command = [*warm_python(), "-c", killed, "import", file, "--uri", other_dsn]
    assert 128 + signal.SIGKILL == subprocess.run(command, capture_output=True).returncode
    report = json.loads(run("import", file, "--uri", other_dsn, "--json").stdout)
    assert 50 == report["here"] < report["written"]
    back = tmp_path / "back.jsonl"
    run("export", *WHO, "--out", back, "--with-vectors", "--uri", other_dsn)
    assert file.read_bytes() == back.read_bytes()


@every_case(
    (["FILE", "--from", "postgres-store", "--user", "ana"], "--user does not go with"),
    (["FILE", "--from", "langmem"], "memories of langmem need --app"),
    (["FILE", "--from", "mem0"], "memories of mem0 need --app"),
    (["FILE", "--from", "hippocampus", "--app", "a"], "--app does not go with"),
    (["FILE", "--from", "hippocampus", "--reembed"], "--reembed does not go with"),
    (["postgresql://host/db"], "say which with --from, got none"),
    (["postgresql://host/db", "--from", "zep"], "say which with --from, got zep"),
)
def test_options_that_do_not_fit_a_source_are_refused(arguments, told):
    ran = run("import", *arguments)
    assert 2 == ran.exit_code, ran.output
    assert told in ran.stderr


@every_case(
    (["export", "app", "nobody"], "user 'nobody' in application 'app' has nothing"),
    (["export", "no-app"], "application 'no-app' has nothing"),
    (["import", "FILE"], "line 2, column 2: it is no JSON"),
    (["import", "FILE", "--dry-run"], "line 2, column 2: it is no JSON"),
    (["import", "ABSENT"], "absent.jsonl' cannot be read: No such file"),
    (["export", *WHO, "--out", "FOLDER"], "cannot be written"),
)
def test_what_cannot_be_done_is_said_in_one_line(arguments, told, shared_dsn, tmp_path):
    assert 0 == run("remember", *WHO, "Ana sails.", "--uri", shared_dsn).exit_code
    file = tmp_path / "bad.jsonl"
    header = {"hippocampus_export": 1, "schema_version": 1, "of": {"app": "app", "user": None}}
    file.write_text(json.dumps(header) + "\n{,\n")
    out = tmp_path / "absent" / "out.jsonl"
    names = {"FILE": file, "ABSENT": tmp_path / "absent.jsonl", "FOLDER": out}
    ran = run(*(names.get(one, one) for one in arguments), "--uri", shared_dsn)
    assert 1 == ran.exit_code, ran.output
    [line] = ran.stderr.splitlines()
    assert told in line
    assert sorted(tmp_path.iterdir()) == [file, *sorted(tmp_path.glob("home"))]


def test_an_export_of_a_memory_that_is_not_there_makes_none(tmp_path):
    folder, out = tmp_path / "mistyped", tmp_path / "all.jsonl"
    done = run("export", "app", "--out", out, "--uri", f"embedded://{folder}")
    assert done.exit_code == 1
    assert "there is no memory" in done.stderr
    assert not folder.exists()
    assert not out.exists()
