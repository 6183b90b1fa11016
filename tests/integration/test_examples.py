"""The examples run as a user would run them, and their agents answer from memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from warm_python import warm_python

EXAMPLES = Path(__file__).parents[2] / "examples"
BY_FUNCTION = "llm-v2/extract.v2/__main__.my_function"


def run(name: str, *arguments: str, cold: bool = False) -> str:
    """Return what an example prints, offline: no key, and a proxy that is not there.

    cold: in a new interpreter, which has imported and loaded nothing.
    """
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    environment |= {f"{kind}_proxy": "http://127.0.0.1:1" for kind in ("http", "https", "all")}
    ran = subprocess.run(
        [*([sys.executable] if cold else warm_python()), EXAMPLES / f"{name}.py", *arguments],
        capture_output=True, text=True, env=environment, timeout=180,
    )  # fmt: skip
    assert 0 == ran.returncode, ran.stderr
    assert "" == ran.stderr
    return ran.stdout


def answers(output: str) -> dict[str, str]:
    """Return the answer to each message in what an example printed."""
    return dict(re.findall(r"^user: +(.*)\nassistant: (.*)$", output, re.MULTILINE))


@pytest.mark.both_engines
def test_an_adk_agent_answers_from_an_earlier_session(dsn: str) -> None:
    for _ in ("the first time", "with the questions of the first time remembered"):
        answered = answers(run("adk_agent", dsn))
        assert "Noted." == answered["I'm allergic to peanuts."]
        assert "peanuts" in answered["Which food am I allergic to?"]
        assert "Lisbon" in answered["Which city do I live in?"]


@pytest.mark.both_engines
def test_an_adk_app_with_the_plugin_remembers_by_itself(dsn: str) -> None:
    output = run("adk_plugin", dsn)
    assert "  calls remember('my favourite honey is lavender honey.')" in output
    assert "on my roof" in output.split("Where do I keep bees?")[1]
    assert "lavender" in output.split("Which honey is my favourite?")[1]


@pytest.mark.both_engines
def test_a_langgraph_agent_answers_from_another_thread(dsn: str, on_engine: str) -> None:
    output = run("langgraph_agent", dsn)
    assert "cello" in answers(output)["Which instrument do I play?"]
    assert "the checkpointer still has the first thread: 2 messages" in output
    if on_engine == "seekdb":
        return  # its checkpoints went with the process
    with psycopg.connect(dsn) as connection:
        threads = "SELECT count(DISTINCT thread_id) FROM public.checkpoints"
        assert connection.execute(threads).fetchone() == (2,)


@pytest.mark.both_engines
def test_a_graph_improves_its_own_prompt_and_takes_it_back(dsn: str) -> None:
    output = run("langgraph_procedural", dsn)
    answered = answers(output)
    assert "Portuguese" in answered["Which rule counts first?"]
    assert "punctuation" in answered["Which rule counts now?"]
    assert "Portuguese" in answered["And which rule counts in the end?"]
    versions = re.findall(r"^version (\d): (\d) rules", output, re.MULTILINE)
    assert [("3", "1"), ("2", "2"), ("1", "1")] == versions


@pytest.mark.both_engines
def test_each_framework_answers_from_what_the_other_learned(dsn: str) -> None:
    output = run("one_memory_two_frameworks", dsn)
    answered = answers(output)
    assert "shellfish" in answered["Which food am I allergic to?"]
    assert "Kyoto" in answered["Where am I flying in May?"]
    adk, langgraph, adk_again = re.findall(r"process (\d+)", output)
    assert adk == adk_again != langgraph


@pytest.mark.parametrize("name", ["langgraph_agent", "one_memory_two_frameworks"])
def test_without_a_uri_an_example_uses_the_memory_at_home(name: str, tmp_path: Path) -> None:
    assert "I remember" in run(name, cold=True)
    assert (tmp_path / "home" / "postgres-18" / "PG_VERSION").exists()


def test_the_examples_of_the_readme_run_as_they_are_printed() -> None:
    readme = EXAMPLES.parent / "README.md"
    blocks = re.findall(r"^```python\n(.*?)^```", readme.read_text("utf-8"), re.M | re.S)
    assert 2 == len(blocks)
    learned = """
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types
import asyncio
said = types.Content(role="user", parts=[types.Part(text="I live in Lisbon.")])
event = Event(author="user", content=said)
session = Session(id="s", app_name="my_app", user_id="ana", events=[event])
asyncio.run(memory.add_session_to_memory(session))
"""
    ran = subprocess.run(
        [*warm_python(), "-c", blocks[0] + learned + blocks[1]],
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert 0 == ran.returncode, ran.stderr
    assert "User lives in Lisbon." in ran.stdout


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("core", {"3 turns are new, then 0", "employer: Acme", "like: green tea"}),
        ("models", {f"employer: Acme ({BY_FUNCTION})", "Ana told where she works."}),
    ],
)
def test_whole_programs_in_the_docs_run_as_they_are_printed(page: str, printed: set[str]) -> None:
    text = (EXAMPLES.parent / "docs" / "reference" / f"{page}.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    [program] = [block for block in blocks if "asyncio.run(main())" in block]
    ran = subprocess.run(
        [*warm_python(), "-c", program], capture_output=True, text=True, timeout=180
    )
    assert (0, "") == (ran.returncode, ran.stderr)
    assert printed <= set(ran.stdout.splitlines())


def test_the_readme_names_the_two_commands_exactly() -> None:
    lines = (EXAMPLES.parent / "README.md").read_text("utf-8").splitlines()
    assert (
        "python3 -m venv .venv && . .venv/bin/activate && pip install '.[all]' && hippocampus demo"
        in lines
    )
    assert "pip install -e '.[all,dev]' && pytest" in lines
    assert len(lines) <= 150


@pytest.mark.both_engines
def test_a_name_that_is_told_once_is_known_to_every_face(dsn: str) -> None:
    output = run("plug_in_brain", dsn)
    monday, tuesday = output.split("--- Session ending, consolidation started")
    assert "resolved:  How old is Mia?" in monday
    assert "knows" not in monday
    assert 'knows "User\'s name is Ana."' in tuesday
    assert "knows Ana -[daughter]-> Mia" in tuesday
    adk, langgraph = tuesday.split("--- Google ADK knows it")[1].split("--- LangGraph knows it")
    assert "Ana" in answers(adk)["What is my name?"]
    assert "Ana" in answers(langgraph)["What is my name?"]
