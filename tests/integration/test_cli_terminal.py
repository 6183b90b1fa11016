"""What all commands have in common: the width and language of what they print, help, JSON, exit
codes and completion."""

import json
import re
import shlex
import sys
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
import typer
from click.testing import CliRunner
from commands import run, succeed
from every_case import every_case
from postgres_admin import execute
from practised import practised  # noqa: F401
from rich.cells import cell_len
from typer.testing import Result
from warm_python import warm_program

from adk_memory import OpenMemoryService
from langgraph_store import PgHippocampusStore, memories_namespace
from shared_core import Scope, open_memory, run_sync
from shared_core.cli import help as shown_help
from shared_core.cli.app import CHINESE
from shared_core.cli.demo.script import load_script
from shared_core.cli.demo.tour import learn
from shared_core.cli.main import app

ANA = Scope("my_app", "ana")
COLUMNS = 80
NOT_RUN = {
    "serve": "it serves until a signal", "mcp": "it serves until a signal",
    "ui": "it serves until a signal", "demo": "it has a test of its own below",
}  # fmt: skip
READING_FLAGS = ("--explain", "--history", "--why", "--dry-run")
"""Flags that show more. Each is tried with every command that takes it."""
HAN = re.compile(r"[\u4e00-\u9fff]")

WHO = ("app", "ana")
SERVERS = {
    "mcp": "its standard output is the protocol",
    "serve": "all that it prints are logs, each a line of JSON",
    "ui": "... and the address of the pages",
}
ROOT = typer.main.get_command(app)
ALL = dict(shown_help.commands_of(ROOT))
LEAVES = {name: command for name, command in ALL.items() if not hasattr(command, "commands")}
LONG_ERROR = "ModelUnavailable: 模型服务没有响应，稍后再试; the model server did not answer in 30 s"


def options_of(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def printed(arguments: list[str], language: str, width: int | None = COLUMNS) -> Result:
    """Run a command on a terminal of some columns, or into a pipe without any."""
    environment = {"HIPPOCAMPUS_LANG": language, "TERM": "xterm", "COLUMNS": str(width or 40)}
    environment |= {"FORCE_COLOR": "1"} if width else {}
    return run(*arguments, env=environment, input="我搬到了里斯本。\nI sail.\n")


def plain(text: str) -> list[str]:
    """Return the lines of an output as they stand on the screen in the end."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    return [line.rpartition("\r")[2] for line in text.split("\n")]


def too_wide(text: str, width: int = COLUMNS) -> list[str]:
    return [line for line in plain(text) if cell_len(line) > width]


@pytest.fixture(scope="module")
def filled(postgres):
    """A memory of both conversations of the demo, with everything that a command can list."""
    for dsn in postgres.lend():
        run_sync(_fill(dsn))
        yield dsn


async def _fill(dsn: str) -> None:
    async with open_memory(dsn) as memory:
        for language in ("en", "zh"):
            script = replace(load_script(language), user=ANA.user)  # type: ignore[arg-type]
            await learn(OpenMemoryService(engine=memory), ANA.app, script)
        await memory.flush()
        profile = memory.profiles.of(ANA, None, "user")
        for told in (
            "I am a nurse in Lisbon and I love sailing on Sundays.",
            "我在一家小出版社做翻译，周末拉大提琴。",
        ):
            await profile.update([{"role": "user", "content": told}])
        await memory.state_fact(ANA, "employer", "Zenith, the company for sailing boats in Porto")
        await memory.remember(Scope("my_app", "leaving"), "This will be erased.")
        await memory.erase(Scope("my_app", "leaving"))
        await memory.remember(Scope("my_app", "bo"), "Bo sails from Lisbon to Porto every year.")
        await memory.tokens.create("my_app", users=["ana", "林晓雨"], label="the phone of Ana")
        async with PgHippocampusStore(engine=memory) as store:
            where = memories_namespace(ANA.app, ANA.user)
            await store.aput(where, "cello", {"content": "Ana plays the cello. 安娜拉大提琴。"})
        await memory.retention.forget_faded()
    execute(
        dsn, "SET search_path TO hippocampus;"
        " INSERT INTO threads (tenant_id, thread_id, created_at, updated_at)"
        " VALUES ('/my_app/ana/', 'a-thread', now(), now());"
        " INSERT INTO consolidation_jobs (tenant_id, job_id, thread_id, job_type, run_after,"
        " created_at, status, error, attempts) VALUES ('/my_app/ana/', gen_random_uuid(),"
        " 'a-thread', 'fast_replay', now(), now() - interval '3 days', 'failed',"
        f" '{LONG_ERROR}', 7)",
    )  # fmt: skip


@pytest.fixture(scope="module")
def ids(filled):
    """The id of a run and the key of a fact, in place of the id in an example."""

    async def find() -> dict[str, str]:
        async with open_memory(filled, worker=False) as memory:
            [fact] = [one for one in await memory.facts(ANA, "employer") if one.value[0] == "Z"]
            return {"runs": str((await memory.runs(ANA, limit=1))[0].run_id), "facts": fact.key}

    return run_sync(find())


@pytest.fixture
def typed(filled, ids, tmp_path, request):
    """Return the example of a command, with names of the filled memory where it has others."""
    request.getfixturevalue("monkeypatch").chdir(tmp_path)

    def words(name: str) -> list[str]:
        named = {"0198f2c4": ids.get(name, ids["facts"])}
        _, *words = shlex.split(shown_help.EXAMPLES[name].partition("<")[0])
        arguments = [named.get(word, word) for word in words if word != "--json"]
        if name == "copy":
            other = request.getfixturevalue("dsn")
            return ["copy", "--from", filled, "--to", other, "--app", "my_app"]
        if name == "import":
            succeed("export", "my_app", "bo", "--out", "ana.jsonl", "--uri", filled)
            return ["import", "ana.jsonl", "--uri", request.getfixturevalue("dsn")]
        if name == "erase":
            arguments = ["erase", "my_app", "leaving", "--yes"]
        if name == "migrate":
            arguments = ["migrate"]
        return [*arguments, "--uri", filled] if "--uri" in options_of(LEAVES[name]) else arguments

    return words


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", [name for name in LEAVES if name not in NOT_RUN])
def test_no_line_of_a_command_is_wider_than_the_terminal(name, language, typed):
    words = typed(name)
    flags = options_of(LEAVES[name])
    more = [flag for flag in READING_FLAGS if flag in flags and flag not in words]
    for form in (words, *([*words, flag] for flag in more)):
        ran = printed(form, language)
        assert ran.exit_code in (0, 1), ran.output
        assert ran.output or name == "worker", "what it tells is logged"
        assert isinstance(ran.exception, SystemExit | None), ran.exception
        assert [] == too_wide(ran.stdout + ran.stderr), form


@pytest.mark.usefixtures("practised")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_demo_fits_a_terminal_and_ends_with_what_to_type(language, dsn, tmp_path, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_URI", dsn)
    monkeypatch.setattr(sys, "executable", str(warm_program(tmp_path / "python")))
    ran = printed(["demo", "--language", language, "--keep"], language)
    assert 0 == ran.exit_code, ran.output
    assert [] == too_wide(ran.stdout)
    end = " ".join(plain(ran.stdout)[-12:])
    assert "hippocampus ui" in end and "hippocampus adk init my_agents" in end
    assert ("/zh/" in end) == (language == "zh") == bool(HAN.search(end.replace("林晓雨", "")))


@every_case(
    "facts my_app ana --history", "timeline my_app ana 2026 --by month", "runs my_app ana",
    "recall my_app ana cello --explain", "jobs", "doctor",
)  # fmt: skip
def test_a_pipe_gets_what_no_terminal_has_wrapped(words, filled):
    ran = printed([*words.split(), "--uri", filled], "en", width=None)
    assert 0 == ran.exit_code, ran.output
    assert "\x1b" not in ran.output
    assert max(map(cell_len, ran.stdout.splitlines())) > 40
    assert all(line == line.rstrip() for line in ran.stdout.splitlines())


@pytest.mark.parametrize("language", ["en", "zh"])
def test_json_is_the_same_in_every_language(language, filled, tmp_path):
    commands = [
        "facts my_app ana --json", "recall my_app ana cello --json", "policy --json",
        "cleanup --dry-run --json", "erasures --json", "runs my_app ana --json",
        f"adk init {tmp_path}/agents --json", "doctor --json",
    ]  # fmt: skip
    for command in commands:
        at = [] if "adk init" in command else ["--uri", filled]
        shown = printed([*command.split(), *at], language, width=None).stdout
        english = printed([*command.split(), *at], "en", width=None).stdout
        volatile = r'"(duration_s|found|written)": [^\n]*'
        assert re.sub(volatile, "", english) == re.sub(volatile, "", shown), command
        assert "doctor" not in command or not HAN.search(shown)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_list_of_commands_has_one_line_for_each_in_six_groups(language):
    lines = plain(printed(["--help"], language).stdout)
    titles = [title if language == "en" else CHINESE[title] for title in shown_help.GROUPS]
    assert 6 == len(titles)
    assert [lines.index(title) for title in titles] == sorted(lines.index(one) for one in titles)
    first = next(line for line in lines if "hippocampus demo" in line)
    assert lines.index(first) < lines.index(titles[0])
    for title, names in zip(titles, shown_help.GROUPS.values(), strict=True):
        begin = lines.index(title) + 1
        block = lines[begin : lines.index("", begin)]
        assert [name for name in names if " " not in name] == [line.split()[0] for line in block]


@every_case(*["", *ALL])
def test_every_command_has_help_in_both_languages_that_fits_80_columns(name):
    for language in ("en", "zh"):
        ran = printed([*name.split(), "--help"], language)
        assert (0, []) == (ran.exit_code, too_wide(ran.stdout))
    command = ALL[name] if name else ROOT
    path = f"{shown_help.COMMAND} {name}".strip()
    english, chinese = (shown_help.described(command, path, one) for one in ("en", "zh"))
    assert command.help in CHINESE, "add @cli.chinese(...) or both(...)"
    for parameter in command.params:
        known = parameter.name in shown_help.OF_TYPER or parameter.help in CHINESE
        assert known, f"{name} {parameter.name}: give the help as both(english, chinese)"
    assert all(HAN.search(text) for text in chinese.paragraphs)
    for section in chinese.sections:
        assert HAN.search(section.title)
        assert all(HAN.search(text) for _, text in section.rows), section
    for section in english.sections:
        assert not any(HAN.match(text) for _, text in section.rows), "it begins with an example"


def test_the_reference_lists_every_command_in_both_languages_and_each_has_json_and_an_example():
    for language, heading in (("en", "## Start here"), ("zh", "## 从这里开始")):
        page = shown_help.reference_page(language)
        assert page.startswith(heading)
        names = [name for group in shown_help.GROUPS.values() for name in group]
        found = re.findall(r"^### (.*)$", page, re.MULTILINE)
        assert [f"`{shown_help.COMMAND} {name}`" for name in names] == found
        assert all(example in page for example in shown_help.EXAMPLES.values())
        assert "| `--limit LIMIT` |" in page
        assert ("最多" in page) == (language == "zh")
    paragraphs = re.findall(r"^[^|`#\n].*$", shown_help.reference_page("zh"), re.MULTILINE)
    assert 40 < len(paragraphs)
    assert [] == [one for one in paragraphs if re.search(r"[，。；：一-龥] [，。；：一-龥]", one)]
    assert set(LEAVES) == set(shown_help.EXAMPLES)
    silent = {name for name, command in LEAVES.items() if "--json" not in options_of(command)}
    assert silent == set(SERVERS)


@every_case(
    ("recal", "No such command 'recal'. Did you mean 'recall'?",
     "没有命令 'recal'。你要的是不是 'recall'？"),
    ("search", "Did you mean 'recall'?", "你要的是不是 'recall'？"),
    ("token crate", "Did you mean 'create'?", "你要的是不是 'create'？"),
    ("facts a b --histroy", "No such option: --histroy. Did you mean '--history'?",
     "没有选项 --histroy。你要的是不是 '--history'？"),
    ("demo --nosuch", "No such option: --nosuch.\nTry: ", "没有选项 --nosuch。\n查看帮助："),
    ("timeline a b --when x", "WHEN is an argument: write it without --when.",
     "WHEN 是参数：直接写出来，前面不加 --when。"),
    ("recall a b", "QUERY is missing.", "缺少 QUERY。"),
    ("recall a b c d", "Got unexpected extra argument", "多出的参数：d。"),
    ("recall a b c --limit", "requires an argument", "选项 '--limit' 需要一个值。"),
    ("recall a b c --limit 0", "--limit has a wrong value:", "--limit 的值不对："),
    ("recall a b c --limit x", "--limit has a wrong value:", "--limit 的值不对："),
    ("jobs --status x", "--status has a wrong value:", "--status 的值不对："),
    ("context a b c --system nowhere", "--system has a wrong value:", "--system 的值不对："),
    ("erase a b", "add --yes", "请加上 --yes"),
)  # fmt: skip
def test_an_error_of_usage_speaks_the_language_and_names_the_nearest(words, english, chinese):
    for language, expected in (("en", english), ("zh", chinese)):
        ran = printed(words.split(), language, width=None)
        assert 2 == ran.exit_code
        assert expected in ran.stderr, ran.stderr
        assert ("Error: " in ran.stderr) == (language == "en")
        if language == "zh":
            rest = ran.stderr.split("错误：")[1].splitlines()[0]
            assert not re.search(r"[a-z]+ [a-z]+ [a-z]+", rest), rest


@every_case(*LEAVES)
def test_every_help_shows_an_example_that_can_be_typed(name):
    shown = run(*name.split(), "--help")
    assert 0 == shown.exit_code
    assert f"Example: hippocampus {name}" in " ".join(shown.stdout.split())
    told = shlex.split(shown_help.EXAMPLES[name].partition("<")[0])
    assert ["hippocampus", *name.split()] == told[: 1 + len(name.split())]
    LEAVES[name].make_context(name, told[1 + len(name.split()) :])  # refuses what it does not know


@every_case(
    ("recall", "HIPPOCAMPUS_URI"), ("facts", "HIPPOCAMPUS_SCHEMA"), ("jobs", "all applications"),
    ("timeline", "this machine's"), ("policy", "show the policy"), ("token create", "never"),
)  # fmt: skip
def test_the_help_shows_defaults_that_are_no_values(command, default):
    shown = " ".join(re.sub(r"[│\s]+", " ", run(*command.split(), "--help").stdout).split())
    assert f"[default: ({default})]" in shown


@every_case(
    (["--help"], 0), (["--version"], 0), (["no-such-command"], 2), (["recall"], 2),
    (["recall", *WHO, "x", "--no-such-option"], 2), (["recall", *WHO, "x", "--limit", "0"], 2),
    (["recall", *WHO, "x", "--as-of", "banana"], 2),
    (["state", *WHO, "employer", "Zenith", "--since", "banana"], 2),
    (["token", "create", "--app", "app", "--expires", "banana"], 2), (["import"], 2),
    (["recall", "app", "nobody", "x"], 0), (["facts", "app", "nobody", "banana"], 1),
    (["graph", *WHO, "Nobody"], 0), (["policy", "banana"], 2),
    (["policy", "sensitive", "--never", "banana"], 2), (["runs", *WHO, "--undo", "nope"], 2),
    (["recall", *WHO, "x", "--uri", "nonsense://x"], 1), (["recall", "", "ana", "x"], 1),
    (["recall", *WHO, "  "], 1), (["remember", "app", "  ", "x"], 1),
    (["graph", *WHO, "x", "--depth", "9"], 1), (["forget", *WHO, "absent"], 1),
    (["pin", *WHO, "absent"], 1), (["retract", *WHO, "0198f2c4"], 1),
    (["token", "revoke", "absent"], 1), (["facts", *WHO], 0),
)  # fmt: skip
def test_exit_codes_are_zero_one_and_two(arguments, code, shared_dsn):
    opens = arguments[0] in LEAVES or arguments[0] == "token"
    at = ["--uri", shared_dsn] if opens and "--uri" not in arguments and len(arguments) > 1 else []
    assert code == run(*arguments, *at).exit_code


@every_case(
    (["curve", *WHO, "nothing"], "hippocampus timeline app ana --json shows keys"),
    (["retract", *WHO, "nothing"], "hippocampus facts app ana --history shows all facts"),
    (["restore", *WHO, str(UUID(int=7))], "hippocampus facts app ana --history shows"),
    (["runs", *WHO, "--undo", str(UUID(int=7))], "hippocampus runs app ana"),
)  # fmt: skip
def test_what_is_not_there_is_told_in_words_of_the_command(arguments, shown_by, shared_dsn):
    ran = run(*arguments, "--uri", shared_dsn)
    told = " ".join(ran.stderr.split())
    assert 1 == ran.exit_code and shown_by in told, told
    assert "of user 'ana' of application 'app'" in told
    assert not re.search(r"Scope\(|list_memories|history=True|engine\.", told)


def test_a_token_that_ends_never_is_one_without_the_option(shared_dsn):
    ran = run("token", "create", "--app", "app", "--expires", "never", "--uri", shared_dsn)
    told = " ".join(ran.stderr.split())
    assert 2 == ran.exit_code and "30d" in told and "leave it out" in told, told


def test_what_is_changed_is_told_as_json(dsn, tmp_path):
    def told(*arguments: object, code: int = 0) -> Any:
        ran = run(*arguments, "--json", "--uri", dsn)
        assert code == ran.exit_code, ran.output
        return json.loads(ran.stdout)

    assert told("migrate")["schema"] == "hippocampus"
    key = told("remember", *WHO, "安娜拉大提琴。")["key"]
    done: dict[str, Any] = {"memories": 1, "unknown": []}
    assert done | {"done": "pinned"} == told("pin", *WHO, key)
    assert done | {"done": "no longer pinned"} == told("unpin", *WHO, key)
    assert 0 == told("recover", *WHO, key, code=1)["memories"]
    assert done | {"done": "forgotten"} == told("forget", *WHO, key)
    gone = {"memories": 0, "done": "forgotten", "unknown": [key]}
    assert gone == told("forget", *WHO, key, code=1)
    fact = told("state", *WHO, "employer", "Zenith")
    assert ("employer", "Zenith", None) == (fact["slot"], fact["value"], fact["valid_until"])
    assert told("retract", *WHO, fact["key"])["valid_until"]
    assert told("restore", *WHO, fact["key"])["valid_until"] is None
    run_id = told("runs", *WHO)[0]["run_id"]
    assert {"undone": run_id} == told("runs", *WHO, "--undo", run_id)
    assert {"done": 0, "failed": 0} == told("worker", "--once")
    assert [] == told("index", "--dry-run") == told("index")
    assert {"done"} == set(told("jobs", "--retry", "all"))
    token = told("token", "create", "--app", "app")["token_id"]
    assert {"revoked": token} == told("token", "revoke", token)


@every_case(
    ("bash", {"COMP_WORDS": "hippocampus re", "COMP_CWORD": "1"}, "recall"),
    ("zsh", {"_TYPER_COMPLETE_ARGS": "hippocampus tok"}, "token"),
    ("fish", {"_TYPER_COMPLETE_ARGS": "hippocampus token cr",
              "_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "create"),
)  # fmt: skip
def test_the_shell_completes_commands(shell, words, expected):
    asked = words | {"_HIPPOCAMPUS_COMPLETE": f"complete_{shell}"}
    done = run(env=asked, prog_name="hippocampus")
    assert expected in done.stdout, done.output


def test_the_completion_can_be_shown(monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    command = typer.main.get_command(app)  # it reads the variable; that of run() is built once
    done = CliRunner().invoke(command, ["--show-completion", "bash"], prog_name="hippocampus")
    assert 0 == done.exit_code, done.output
    assert "COMPLETE" in done.stdout
