"""What all commands of `hippocampus` have in common: JSON, exit codes, examples, completion."""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
import typer
from click.testing import CliRunner
from commands import run

from shared_core.cli.help import EXAMPLES
from shared_core.cli.main import app

WHO = ("app", "ana")
SERVERS = {
    "mcp": "its standard output is the protocol",
    "serve": "all that it prints are logs, each a line of JSON",
    "ui": "... and the address of the pages",
}


def commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command of a group and of the groups below it, by what one types."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{above}{name} ")
        else:
            yield above + name, command


ALL = dict(commands(typer.main.get_command(app)))


def options_of(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def test_every_command_has_json():
    silent = {name for name, command in ALL.items() if "--json" not in options_of(command)}
    assert silent == set(SERVERS)


@pytest.mark.parametrize("name", ALL)
def test_every_help_shows_an_example_that_can_be_typed(name):
    shown = run(*name.split(), "--help")
    assert 0 == shown.exit_code
    assert f"Example: hippocampus {name}" in " ".join(shown.stdout.split())
    told = shlex.split(EXAMPLES[name].partition("<")[0])
    assert ["hippocampus", *name.split()] == told[: 1 + len(name.split())]
    ALL[name].make_context(name, told[1 + len(name.split()) :])  # refuses what it does not know


@pytest.mark.parametrize(
    ("command", "default"),
    [("recall", "HIPPOCAMPUS_URI"), ("facts", "HIPPOCAMPUS_SCHEMA"), ("jobs", "all applications"),
     ("timeline", "this machine's"), ("policy", "show the policy"), ("token create", "never")],
)  # fmt: skip
def test_the_help_shows_defaults_that_are_no_values(command, default):
    shown = " ".join(re.sub(r"[│\s]+", " ", run(*command.split(), "--help").stdout).split())
    assert f"[default: ({default})]" in shown


def test_no_example_is_of_a_command_that_is_gone():
    assert set(ALL) == set(EXAMPLES)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["no-such-command"], 2),
        (["recall"], 2),
        (["recall", *WHO, "x", "--no-such-option"], 2),
        (["recall", *WHO, "x", "--limit", "0"], 2),
        (["recall", *WHO, "x", "--as-of", "banana"], 2),
        (["state", *WHO, "employer", "Zenith", "--since", "banana"], 2),
        (["token", "create", "--app", "app", "--expires", "banana"], 2),
        (["import"], 2),
        (["recall", "app", "nobody", "x"], 0),
        (["facts", *WHO, "banana"], 0),
        (["graph", *WHO, "Nobody"], 0),
        (["policy", "banana"], 2),
        (["policy", "sensitive", "--never", "banana"], 2),
        (["runs", *WHO, "--undo", "nope"], 2),
        (["recall", *WHO, "x", "--uri", "nonsense://x"], 1),
        (["recall", "", "ana", "x"], 1),
        (["recall", *WHO, "  "], 1),
        (["remember", "app", "  ", "x"], 1),
        (["graph", *WHO, "x", "--depth", "9"], 1),
        (["forget", *WHO, "absent"], 1),
        (["pin", *WHO, "absent"], 1),
        (["retract", *WHO, "0198f2c4"], 1),
        (["token", "revoke", "absent"], 1),
        (["facts", *WHO], 0),
    ],
)
def test_exit_codes_are_zero_one_and_two(arguments, code, shared_dsn):
    opens = arguments[0] in ALL or arguments[0] == "token"
    at = ["--uri", shared_dsn] if opens and "--uri" not in arguments and len(arguments) > 1 else []
    assert code == run(*arguments, *at).exit_code


@pytest.mark.parametrize(
    ("arguments", "shown_by"),
    [
        (["curve", *WHO, "nothing"], "hippocampus timeline app ana --json shows keys"),
        (["retract", *WHO, "nothing"], "hippocampus facts app ana --history shows all facts"),
        (["restore", *WHO, str(UUID(int=7))], "hippocampus facts app ana --history shows"),
        (["runs", *WHO, "--undo", str(UUID(int=7))], "hippocampus runs app ana"),
    ],
)
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


@pytest.mark.parametrize(
    ("shell", "words", "expected"),
    [
        ("bash", {"COMP_WORDS": "hippocampus re", "COMP_CWORD": "1"}, "recall"),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "hippocampus tok"}, "token"),
        ("fish", {"_TYPER_COMPLETE_ARGS": "hippocampus token cr",
                  "_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "create"),
    ],
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
