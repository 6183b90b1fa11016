"""The examples run as a user would run them, and their agents answer from memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from postgres_admin import column
from practised import practised  # noqa: F401
from warm_python import run_warm

pytestmark = [pytest.mark.tail, pytest.mark.usefixtures("practised")]

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(program: str, dsn: str | None, *messages: str) -> str:
    """Return what an example prints, offline: no key, and a proxy that is not there.

    Without a DSN it runs in a new interpreter, which has imported and loaded nothing.
    """
    file = str(EXAMPLES / program)
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    environment |= {f"{kind}_proxy": "http://127.0.0.1:1" for kind in ("http", "https", "all")}
    environment |= {"HIPPOCAMPUS_URI": dsn} if dsn else {}
    if dsn:
        ran = run_warm([file, *messages], cwd=Path.cwd(), env=environment, timeout=180)
    else:
        command = [sys.executable, file, *messages]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (0, "") == (ran.returncode, ran.stderr)
    return ran.stdout


@pytest.mark.both_engines
def test_an_assistant_on_adk_answers_from_an_earlier_session(dsn):
    run("adk_assistant/assistant.py", dsn, "I'm allergic to peanuts", "we moved to Lisbon in May")
    asked = "which food am I allergic to?", "which city do I live in?"
    for _ in ("the first time", "with the questions of the first time remembered"):
        peanuts, lisbon = run("adk_assistant/assistant.py", dsn, *asked).split(asked[1])
        assert "peanuts" in peanuts.split(asked[0])[1]
        assert "Lisbon" in lisbon


@pytest.mark.both_engines
def test_each_framework_answers_from_what_the_other_learned(dsn):
    run("one_memory/learn.py", dsn, "I'm allergic to shellfish")
    assert "shellfish" in run("one_memory/answer.py", dsn, "Which food am I allergic to?")
    run("one_memory/answer.py", dsn, "we're flying to Kyoto in May")
    assert "Kyoto" in run("one_memory/learn.py", dsn, "Where are we flying to?")


@pytest.mark.both_engines
def test_a_companion_remembers_a_conversation_and_forgets_a_topic(dsn):
    run("chinese_companion/companion.py", dsn, "我女儿叫灿灿", "她特别喜欢画画")
    assert "画画" in run("chinese_companion/companion.py", dsn, "我女儿喜欢什么？")
    forgotten = run("chinese_companion/companion.py", dsn, "把灿灿的事忘了吧", "我女儿喜欢什么？")
    assert "我不再提了" in forgotten
    assert "画画" not in forgotten


def test_the_tickets_of_a_support_desk_are_checkpoints_beside_the_memory(dsn):
    run("langgraph_support/desk.py", dsn, "T-1", "the steam wand leaks")
    assert "steam wand" in run("langgraph_support/desk.py", dsn, "T-2", "what leaks?")
    assert [2] == column(dsn, "SELECT count(DISTINCT thread_id) FROM public.checkpoints")


def test_without_a_uri_an_example_uses_the_memory_at_home(tmp_path):
    run("one_memory/learn.py", None, "I'm allergic to shellfish")
    assert (tmp_path / "home" / "postgres-18" / "PG_VERSION").exists()


def test_the_readme_names_the_two_commands_exactly():
    lines = (EXAMPLES.parent / "README.md").read_text("utf-8").splitlines()
    into = "python3 -m venv .venv && . .venv/bin/activate"
    assert f"{into} && pip install '.[all]' && hippocampus demo" in lines
    assert "pip install -e '.[all,dev]' && pytest" in lines
    assert len(" ".join(lines).split()) <= 900
