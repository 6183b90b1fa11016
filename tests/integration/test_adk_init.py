"""`hippocampus adk init`, and ADK's commands on what it wrote: they remember."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from adk_processes import ADK, environment, new_session, remembered, say, server
from browser import in_browser, running_browser, visitor
from commands import run
from google.adk.apps import App
from google.adk.cli.utils.agent_loader import AgentLoader
from playwright.sync_api import Page, expect
from practised import practised  # noqa: F401
from typer.testing import Result
from warm_python import warm_python

from adk_memory import MemoryPlugin
from shared_core.cli import adk as command

MEMORY = "--memory_service_uri=hippocampus://"
SESSIONS = "--session_service_uri=hippocampus://"
TALKS = {
    "en": (["My parrot is called Rio.", "I moved to Lisbon in March."], "Noted.",
           "Which city do I live in?", "Lisbon"),
    "zh": (["我的鹦鹉叫里奥。", "我三月份搬到了里斯本。"], "好的，记住了。",
           "我现在住在哪个城市？", "里斯本"),
}  # fmt: skip
"""Two facts, the answer to each, a question, and a word of its answer."""


def init(*arguments: str | Path) -> Result:
    return run("adk", "init", *arguments)


@pytest.fixture
def agents(tmp_path):
    folder = tmp_path / "agents"
    assert 0 == init(folder).exit_code
    return folder


def test_an_empty_folder_gets_an_agent_and_the_commands_are_printed(tmp_path):
    folder = tmp_path / "new"
    done = init(folder)
    assert 0 == done.exit_code, done.output
    files = {str(path.relative_to(folder)) for path in folder.rglob("*.py")}
    of_agent = {f"assistant/{name}.py" for name in ("agent", "__init__", "services")}
    assert {"services.py"} | of_agent == files
    assert f"adk web {folder} {MEMORY}" in done.output
    assert f"adk run {folder / 'assistant'} {MEMORY}" in done.output
    again = init(folder)
    assert (0, False) == (again.exit_code, "wrote" in again.output)


def test_an_agent_of_adk_create_becomes_an_app_after_a_yes(tmp_path, monkeypatch):
    (agent := tmp_path / "agents" / "helper").mkdir(parents=True)
    (agent / "__init__.py").write_text("from . import agent\n")
    (agent / "agent.py").write_text("root_agent = None\n")
    refused = init(tmp_path / "agents")
    assert 2 == refused.exit_code and "--yes" in refused.output
    assert [] == [*(tmp_path / "agents").rglob("services.py")]  # nothing is half done
    monkeypatch.setattr(command, "_can_ask", lambda: True)
    no = run("adk", "init", agent.parent, input="n\n")
    assert 0 == no.exit_code and "stays as it is" in no.output
    assert "from . import agent\n" == (agent / "__init__.py").read_text()
    assert 0 == run("adk", "init", agent.parent, input="y\n").exit_code
    assert 'App(name="helper"' in (agent / "__init__.py").read_text()
    assert "root_agent = None\n" == (agent / "agent.py").read_text()


def test_folder_names_are_quoted_in_the_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("two words; $(touch x)", "-x"):
        assert 0 == init("--", name).exit_code
        commands = json.loads(init("--json", "--", name).stdout)["commands"]
        folders = [shlex.split(one)[2] for one in commands]
        own = name if name[0] != "-" else f"./{name}"
        assert [own, own, f"{own}/assistant"] == folders
        assert all(4 == len(shlex.split(one)) for one in commands)


@pytest.mark.parametrize("linked", ["assistant", "assistant/__init__.py", "services.py"])
@pytest.mark.parametrize("exists", [True, False])
def test_nothing_is_written_through_a_symbolic_link(tmp_path, linked, exists):
    target, link = tmp_path / "elsewhere", tmp_path / "agents" / linked
    link.parent.mkdir(parents=True)
    if linked == "assistant/__init__.py":
        (link.parent / "agent.py").write_text("root_agent = None\n")
    if exists and link.suffix:
        target.write_text("mine\n")
    elif exists:
        target.mkdir()
        (target / "agent.py").write_text("root_agent = None\n")
    link.symlink_to(target)
    before = sorted(tmp_path.rglob("*"))
    done = init("--yes", tmp_path / "agents")
    assert 1 == done.exit_code and "is a symbolic link" in done.stderr, done.output
    assert before == sorted(tmp_path.rglob("*"))
    assert not (exists and link.suffix) or "mine\n" == target.read_text()


def test_a_folder_that_is_an_agent_gets_the_files_itself(tmp_path):
    (tmp_path / "agent.py").write_text("root_agent = None\n")
    done = init(tmp_path, "--json")
    assert 0 == done.exit_code, done.output
    written = [str(tmp_path / name) for name in ("__init__.py", "services.py")]
    assert written == json.loads(done.stdout)["written"]


@pytest.mark.filterwarnings("ignore:.*LlmAgentConfig is deprecated:DeprecationWarning")
@pytest.mark.parametrize("kind", ["python", "yaml"])
def test_adk_loads_the_app_with_the_plugin(kind, tmp_path):
    (agent := tmp_path / f"of_{kind}").mkdir()
    if kind == "python":
        code = 'from google.adk.agents import LlmAgent\nroot_agent = LlmAgent(name="one")\n'
        (agent / "agent.py").write_text(code)
    else:
        (agent / "root_agent.yaml").write_text("name: one\nmodel: none\ninstruction: Answer.\n")
    assert 0 == init(tmp_path).exit_code
    loaded = AgentLoader(str(tmp_path)).load_agent(agent.name)
    assert isinstance(loaded, App)
    assert (agent.name, "one") == (loaded.name, loaded.root_agent.name)
    assert [MemoryPlugin] == [type(plugin) for plugin in loaded.plugins]


def test_an_app_of_the_users_own_is_left_alone(tmp_path):
    (agent := tmp_path / "mine").mkdir()
    (agent / "agent.py").write_text("app = App(name='mine', root_agent=root_agent)\n")
    (agent / "services.py").write_text("import adk_memory\n")
    done = init(tmp_path)
    assert 0 == done.exit_code and "add MemoryPlugin()" in done.output
    assert not (agent / "__init__.py").exists()
    assert "import adk_memory\n" == (agent / "services.py").read_text()


def test_what_is_no_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    done = init(tmp_path / "file")
    assert 1 == done.exit_code and "is no folder" in done.output


@pytest.fixture(scope="module", params=["web", "api_server"])
def served(request, postgres, tmp_path_factory):
    """A client of `adk web` or `adk api_server` on what the command made in an empty folder."""
    request.getfixturevalue("practised")
    folder = tmp_path_factory.mktemp("served") / "agents"
    assert 0 == init(folder).exit_code
    for dsn in postgres.lend():
        env = environment(dsn, folder.parent)
        with server(request.param, folder, MEMORY, SESSIONS, env=env) as client:
            yield client


@pytest.mark.tail
@pytest.mark.parametrize("language", TALKS)
def test_servers_remember_over_http(served, language):
    facts, noted, question, answer = TALKS[language]
    assert ["assistant"] == served.get("/list-apps").json()
    told = new_session(served, language)
    for fact in facts:
        assert noted == say(served, told, fact, language)
    assert answer in remembered(served, question, answer, language)


@pytest.mark.tail
@pytest.mark.usefixtures("practised")
@pytest.mark.parametrize("language", TALKS)
def test_adk_run_remembers_from_one_process_to_the_next(language, agents, dsn, tmp_path):
    facts, noted, question, answer = TALKS[language]
    outputs = []
    for said in (facts, [question]):
        ran = subprocess.run(
            [*warm_python(), ADK, "run", agents / "assistant", MEMORY, SESSIONS],
            input="\n".join([*said, "exit\n"]), capture_output=True, text=True, timeout=120,
            env=environment(dsn, tmp_path) | {"PYTHONIOENCODING": "utf-8"},
        )  # fmt: skip
        assert 0 == ran.returncode, ran.stderr
        outputs.append(ran.stdout)
    assert 2 == outputs[0].count(f"[assistant]: {noted}")
    assert answer in outputs[1]


BOX = "textarea.chat-input-box"


def ask_the_page(page: Page, text: str, answer: str) -> None:
    """Type a text into the page, and wait until it shows one more answer that begins so."""
    answers = page.get_by_text(re.compile("^" + re.escape(answer)))
    before = answers.count()
    page.fill(BOX, text)
    page.press(BOX, "Enter")
    expect(answers).not_to_have_count(before)
    expect(page.locator(BOX)).to_be_enabled()  # the page disables it during a run


def open_page(page: Page, url: str) -> None:
    """Open a new session in the page, and close its question about usage data."""
    page.goto("about:blank")
    page.goto(url)
    expect(page.locator(BOX)).to_be_visible()
    no_thanks = page.get_by_role("button", name="No Thanks")
    if no_thanks.count():
        no_thanks.click()
    expect(no_thanks).to_have_count(0)
    expect(page.locator(BOX)).to_be_enabled()


@pytest.mark.tail
@pytest.mark.timeout(300)
@in_browser
@pytest.mark.parametrize("served", ["web"], indirect=True)
def test_the_page_of_adk_web_remembers_in_a_real_browser(served):
    english, chinese = TALKS["en"], TALKS["zh"]
    talks = (
        (english[0][1], english[1], english[2], "I remember", english[3]),
        (chinese[0][0], chinese[1], "我的鹦鹉叫什么名字？", "我记得", "里奥"),
    )
    with running_browser() as browser:
        page = visitor(browser)
        url = f"{served.base_url}/dev-ui/?app=assistant"
        for fact, noted, question, begins, answer in talks:
            open_page(page, url)
            ask_the_page(page, fact, noted)
            while True:  # facts and vectors follow the answer
                open_page(page, url)
                assert 0 == page.get_by_text(noted, exact=True).count()  # a new session
                ask_the_page(page, question, begins)
                if page.get_by_text(answer).count():
                    break
            expect(page.get_by_text(answer).first).to_be_visible()
