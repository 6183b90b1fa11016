"""`hippocampus demo`, end to end, and on a database that stays."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import psutil
import pytest
from commands import run, succeed
from long_forms import LONG
from practised import practised  # noqa: F401
from rich.cells import cell_len
from rich.console import Console
from warm_python import warm_program, warm_python

from adk_memory import OpenMemoryService
from shared_core import Scope
from shared_core.cli.demo.pages import Learned, show_closing, show_learned
from shared_core.cli.demo.script import load_script
from shared_core.cli.demo.tour import APP, learn, to_session
from shared_core.storage.postgres.connection.embedded import describe

pytestmark = [pytest.mark.tail, pytest.mark.usefixtures("practised")]
COLD = sys.executable


@pytest.fixture(autouse=True)
def warm_reader(tmp_path_factory, monkeypatch):
    """Let a demo that runs in this process start its reader in a fork of warm_python.py."""
    program = warm_program(tmp_path_factory.mktemp("tools") / "python")
    monkeypatch.setattr(sys, "executable", str(program))


@dataclass(frozen=True)
class Played:
    """What a run of the demo left on the screen."""

    output: str
    errors: str
    code: int
    pid: int

    def of_language(self, title: str) -> str:
        return self.output[self.output.index(title) :]

    def answered(self, framework: str) -> list[int]:
        found = re.findall(rf"^{framework}: (\d) of 8 questions", self.output, re.MULTILINE)
        return [int(count) for count in found]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """One run of the whole demo from a cold start, with a home and temporary folder of its own."""
    folder = tmp_path_factory.mktemp("demo")
    folder.chmod(0o711)  # the servers of root run as another user
    (folder / "tmp").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "HIPPOCAMPUS_URI"}
    environment |= {"HIPPOCAMPUS_HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}
    with subprocess.Popen(
        [COLD, "-m", "shared_core.cli.main", "demo"], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as demo:  # fmt: skip
        output, errors = demo.communicate(timeout=180)
    assert not (folder / "home").exists(), "the demo touched the user's own memory"
    assert [] == list((folder / "tmp").iterdir()), "the demo left its temporary folder behind"
    return Played(output, errors, demo.returncode, demo.pid)


def test_it_shows_in_plain_lines_what_was_remembered_where_when_and_of_which_turn(played):
    assert (0, "") == (played.code, played.errors)
    assert "hippocampus-demo-" in played.output.partition("Facts")[0]
    assert "The temporary memory was removed." in played.output
    assert "hippocampus demo --keep" in played.output
    assert "\x1b" not in played.output
    lines = played.output.splitlines()
    rules = [line for line in lines if set(line) == {"─"}]
    assert rules and max(map(cell_len, rules)) <= 100
    assert all(line == line.rstrip() for line in lines)
    for language in ("en", "zh"):
        script = load_script(language)  # type: ignore[arg-type]
        shown = played.of_language(script.title)
        turns = sum(len(conversation.turns) for conversation in script.conversations)
        assert f"5 ADK sessions of user {script.user}: {turns} turns" in shown
        for conversation in script.conversations:
            assert re.search(rf"^{conversation.session_id} +\S", shown, re.MULTILINE)
    line = r"^profile +User {} +2026-03-{} +{}{}$"
    moved = line.format("lives in Leeds.", "02", "2026-03-15 +", "monday-morning-07")
    lives = line.format("lives in Edinburgh.", "15", "", "sunday-afternoon-01")
    assert re.search(moved, played.output, re.MULTILINE)
    assert re.search(lives, played.output, re.MULTILINE)
    pids = set(re.findall(r"LangGraph in process (\d+)", played.output))
    assert 1 == len(pids)
    assert str(played.pid) not in pids


def test_a_text_without_spaces_is_whole_a_hint_has_no_password_and_a_conversation_is_a_session():
    page = StringIO()
    script = load_script("zh")
    long = "".join(turn.text for turn in script.conversations[0].turns)
    learned = Learned(turns=0, facts=(), summaries={script.conversations[0].session_id: long})
    show_learned(Console(file=page, width=100, highlight=False), script, learned)
    assert long in "".join(page.getvalue().split())
    page = StringIO()
    uri = "oceanbase://root@shop:geheim@h:2881/app"
    show_closing(Console(file=page, width=100), APP, [load_script("en")], uri, kept=True)
    assert "HIPPOCAMPUS_URI" in page.getvalue()
    assert "geheim" not in page.getvalue() and "***" not in page.getvalue()
    script = load_script("zh")
    session = to_session(APP, script, script.conversations[0])
    assert (APP, "林晓雨", "tuesday-commute") == (session.app_name, session.user_id, session.id)
    first, second = session.events[:2]
    assert ("user", "助手") == (first.author, second.author)
    assert ("user", "model") == (first.content.role, second.content.role)
    assert script.conversations[0].turns[0].said_at.timestamp() == first.timestamp
    assert 60 == second.timestamp - first.timestamp


@pytest.mark.parametrize(("framework", "least"), [("Google ADK", 6), ("LangGraph", 1)])
def test_of_8_questions_so_many_are_answered_in_each_language(played, framework, least):
    answered = played.answered(framework)
    assert 2 == len(answered) and least <= min(answered), answered
    assert "Both order by the score" in played.output


@pytest.mark.parametrize(
    "begun", [Path.exists, lambda home: describe(home).running], ids=["folder", "server"]
)
def test_an_interrupted_demo_leaves_nothing_behind(begun, tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*warm_python(), "-m", "shared_core.cli.main", "demo"],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as demo:  # fmt: skip
        while not any(map(begun, tmp_path.glob("hippocampus-demo-*"))):
            assert demo.poll() is None
            time.sleep(0.01)
        demo.send_signal(signal.SIGINT)
        demo.wait(timeout=60)
    assert [] == list(tmp_path.iterdir())
    while str(tmp_path) in str([one.info for one in psutil.process_iter(["cmdline"])]):
        time.sleep(0.05)  # the supervisor of its server ends after it


@pytest.mark.parametrize("engine", ["postgres", "seekdb"] if LONG else ["postgres"])
def test_every_hint_at_the_end_works_as_it_is_printed(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_HOME", str(tmp_path / "my home"))
    script = load_script("zh")
    shown = succeed("demo", "--language", "zh", "--engine", engine, "--schema", "mine")
    hints = re.findall(r"^  hippocampus (.*)$", shown, re.MULTILINE)
    assert ["demo", "recall", "doctor", "ui", "adk"] == [hint.partition(" ")[0] for hint in hints]
    demo, recall, doctor = (succeed(*shlex.split(hint)) for hint in hints[:3])
    assert script.title in demo
    assert script.questions[0].expect in recall
    assert ("SeekDB" if engine == "seekdb" else "PostgreSQL") in doctor
    assert hints[1:] == re.findall(r"^  hippocampus (.*)$", demo, re.MULTILINE)
    assert str(tmp_path / "my") in demo.replace("\n", "")
    kept = {"postgres": "my home/postgres-18/PG_VERSION", "seekdb": "my home-seekdb"}[engine]
    assert (tmp_path / kept).exists()


def test_on_a_database_it_stays_is_not_doubled_and_can_be_told_as_json(dsn):
    first = succeed("demo", "--language", "en", "--uri", dsn)
    second = run("demo", "--language", "en", "--json", "--uri", dsn)
    answers = json.loads(second.stdout)
    assert 8 == len(answers)
    assert 6 <= sum(one["adk"]["answered"] for one in answers)
    assert all(one["langgraph"]["found"] for one in answers)
    assert "One memory, two frameworks" in second.stderr
    assert "The memory stays where it is." in first
    assert "晓雨" not in first
    learned = re.findall(r"(\d+) turns", first + second.stderr)
    assert 2 == len(learned)
    assert learned[0] == learned[1]
    asked = ("recall", APP, "maya", "User lives in Edinburgh")
    assert "lives in Edinburgh" in succeed(*asked, "--uri", dsn)


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_fact_that_ended_is_found_no_more_by_any_question(memory, language):
    script = load_script(language)
    await learn(OpenMemoryService(engine=memory), APP, script)
    scope = Scope(APP, script.user)
    facts = await memory.facts(scope, history=True)
    ended = {fact.statement for fact in facts if fact.valid_until}
    assert len(ended) == {"en": 5, "zh": 3}[language]  # one or two are plans that have lapsed
    for question in [*(question.ask for question in script.questions), *ended]:
        hits = await memory.recall(scope, question, limit=1000)
        assert ended.isdisjoint(hit.memory.text for hit in hits)


@pytest.mark.parametrize("missing", ["langgraph.graph", "google.adk"])
def test_without_a_framework_it_says_what_to_install(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    ran = run("demo")
    assert 1 == ran.exit_code
    assert "pip install 'pg-hippocampus[all]'" in ran.stderr
    assert 1 == len(ran.stderr.splitlines())
