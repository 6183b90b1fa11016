"""`hippocampus import FILE` of other products: what it prints, and what it refuses."""

import json
import os
import re
import signal
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from commands import run

from shared_core.transfer import record_import
from shared_core.transfer.sources import StatementRecord, open_source

EXPORTS = Path(__file__).parents[1] / "exports"
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
TO_ANA = ("--app", "app", "--user", "ana")


def test_a_dry_run_needs_no_memory():
    ran = run("import", EXPORTS / "chatgpt.json", *TO_ANA, "--dry-run", "--uri", NOWHERE)
    assert 0 == ran.exit_code, ran.output
    assert "chatgpt.json (chatgpt), for 'ana' of 'app', in 2 threads" in ran.stdout
    assert "Skipped: 3 tool, system and reasoning messages." in ran.stdout
    assert "Nothing was written." in ran.stdout


@pytest.mark.parametrize("file", ["chatgpt.json", "claude.json", "letta.af", "zep.json"])
def test_what_is_skipped_is_told_in_chinese(file, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_LANG", "zh")
    told = run("import", EXPORTS / file, *TO_ANA, "--dry-run").stdout
    skipped = [line for line in told.splitlines() if line.startswith("跳过 ")]
    assert skipped
    assert not [line for line in skipped if re.search(r"[A-Za-z]+ [a-z]+", line)]


def test_the_counts_are_shown_as_a_table_and_as_json(dsn, tmp_path):
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(EXPORTS / "claude.json", "conversations.json")
    first = run("import", archive, *TO_ANA, "--uri", dsn, "--json")
    report = json.loads(first.stdout)
    assert {"read": 4, "written": 4, "here": 0, "deleted": 0, "failed": 0} == report["turns"]
    assert ("claude", ["ana"], True) == (report["product"], report["users"], report["complete"])
    again = run("import", archive, *TO_ANA, "--uri", dsn)
    [row] = [line for line in again.stdout.splitlines() if line.startswith("turns")]
    assert ["turns", "4", "0", "4"] == row.split()
    assert max(map(len, again.stdout.splitlines())) <= 80


def test_what_was_forgotten_is_shown_with_the_way_back(dsn):
    at = (EXPORTS / "letta.af", *TO_ANA, "--uri", dsn)
    assert 0 == run("import", *at).exit_code
    records = open_source(EXPORTS / "letta.af").records()
    keys = [one.key for one in records if isinstance(one, StatementRecord)]
    forgot = run("forget", "app", "ana", *keys, "--uri", dsn)
    assert 0 == forgot.exit_code, forgot.output
    again = run("import", *at)
    assert "forgotten here" in again.stdout
    assert "--restore brings back what was forgotten here." in again.stdout
    assert (
        2 == json.loads(run("import", *at, "--restore", "--json").stdout)["statements"]["written"]
    )


def test_a_record_that_fails_is_named_and_the_exit_code_says_so(dsn, tmp_path):
    document = json.loads((EXPORTS / "zep.json").read_text("utf-8"))
    document["edges"][0]["name"] = "!!!"
    file = tmp_path / "zep.json"
    file.write_text(json.dumps(document), "utf-8")
    ran = run("import", file, *TO_ANA, "--uri", dsn)
    assert 1 == ran.exit_code
    assert "✗ 'zep/edge-0': relation must have a letter" in ran.stderr
    assert "failed" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["chatgpt.json"], 2, "memories of chatgpt need --app: name the application"),
        (["chatgpt.json", "--app", "a"], 1, "does not say whose memories it holds"),
        (["chatgpt.json", "--app", "a", "--user", " "], 1, "user_id must not be blank"),
        (["chatgpt.json", "--app", "", "--user", "u"], 1, "app must not be empty"),
        (["claude.json", "--from", "chatgpt", *TO_ANA], 1, "import it with --from claude"),
        (["mem0.sql", *TO_ANA], 1, "mem0.sql is no JSON: give the export"),
        (["absent.json", *TO_ANA], 1, "absent.json' cannot be read"),
        (["zep.json", *TO_ANA, "--reembed"], 2, "--reembed does not go with a source of zep"),
        (["mem0_get_all.json", *TO_ANA], 1, "'ana', 'ben', '小明', and --user would give all"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(arguments, code, told):
    name, *rest = arguments
    ran = run("import", EXPORTS / name, *rest, "--uri", NOWHERE)
    assert (code, "") == (ran.exit_code, ran.stdout), ran.output
    assert told in ran.stderr
    assert 1 == len(ran.stderr.splitlines())


@pytest.mark.parametrize("options", [(), ("--from", "chatgpt"), ("--from", "mem0")])
def test_an_empty_file_is_called_empty(options, tmp_path):
    for text in ("", " \n" * 3_000):
        file = tmp_path / "empty.json"
        file.write_text(text, "utf-8")
        ran = run("import", file, *TO_ANA, *options, "--uri", NOWHERE)
        assert (1, "Error: empty.json is empty: export it again\n") == (ran.exit_code, ran.stderr)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"guilds": [1], "messages": [{"a": 1}]}, "1 messages without text. Check that it is"),
        ({"results": [{"a": 1}, 7]}, "1 memories without text, 1 entries of an unknown form"),
        ([{"mapping": 7}], "1 entries of an unknown form"),
    ],
)
def test_a_file_without_a_single_memory_is_an_error(document, told, tmp_path):
    file = tmp_path / "slack.json"
    file.write_text(json.dumps(document), "utf-8")
    for options in ((), ("--dry-run",)):
        ran = run("import", file, *TO_ANA, "--uri", NOWHERE, *options)
        assert (1, "") == (ran.exit_code, ran.stdout)
        assert f"slack.json holds nothing that can be imported: {told}" in ran.stderr


def test_a_user_without_memories_is_no_error(tmp_path):
    file = tmp_path / "mem0.json"
    file.write_text('{"results": []}', "utf-8")
    ran = run("import", file, *TO_ANA, "--uri", NOWHERE, "--dry-run")
    assert 0 == ran.exit_code, ran.output


def press_ctrl_c(monkeypatch: pytest.MonkeyPatch, *, at_batch: int) -> None:
    """Send this process the signal of Ctrl-C before a batch is written."""
    written: list[int] = []
    write = record_import._RecordRun._write

    async def interrupted(self: record_import._RecordRun, batch: Sequence[object]) -> None:
        written.append(len(batch))
        if len(written) == at_batch:
            os.kill(os.getpid(), signal.SIGINT)
        await write(self, batch)  # type: ignore[arg-type] # the batch of _write()

    monkeypatch.setattr(record_import._RecordRun, "_write", interrupted)


@pytest.mark.parametrize(
    ("language", "told"),
    [
        ("en", "Interrupted: 64 of 100 statements are here; the same command goes on from there."),
        ("zh", "已中断：陈述 64/100 条已导入；再次运行同一命令即可继续。"),
    ],
)
def test_ctrl_c_tells_what_is_here_and_the_same_command_goes_on(
    language, told, dsn, tmp_path, monkeypatch
):
    file = tmp_path / "mem0.json"
    entries = [{"id": str(n), "memory": f"Ana saw film {n}.", "user_id": "ana"} for n in range(100)]
    file.write_text(json.dumps(entries), "utf-8")
    monkeypatch.setenv("HIPPOCAMPUS_LANG", language)
    with monkeypatch.context() as patched:
        press_ctrl_c(patched, at_batch=3)
        ran = run("import", file, *TO_ANA, "--uri", dsn)
    assert (130, "", told) == (ran.exit_code, ran.stdout, " ".join(ran.stderr.split()))
    report = json.loads(run("import", file, *TO_ANA, "--uri", dsn, "--json").stdout)["statements"]
    assert (36, 64) == (report["written"], report["here"])
