"""The commands that run a conformance suite against anything, and the reports that they write."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from practised import practised  # noqa: F401
from warm_python import warm_python

import adk_memory.conformance.__main__ as adk
import langgraph_store.conformance.__main__ as langgraph
from shared_core import __version__

pytestmark = [pytest.mark.tail, pytest.mark.usefixtures("practised")]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conformance.md"

FACTORIES = '''
import os
from contextlib import asynccontextmanager, contextmanager
from uuid import uuid4

from google.adk.memory import InMemoryMemoryService
from google.adk.sessions import InMemorySessionService
from langgraph.store.memory import InMemoryStore
from stores import make as memory

@contextmanager
def database():
    import psycopg
    name = f"report_{uuid4().hex}"
    with psycopg.connect(os.environ["SERVER"], autocommit=True) as admin:
        template = f"TEMPLATE {os.environ['TEMPLATE']} STRATEGY FILE_COPY"
        admin.execute(f"CREATE DATABASE {name} {template}")
        yield psycopg.conninfo.make_conninfo(os.environ["SERVER"], dbname=name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")

@contextmanager
def ours(index=None, ttl=None):
    from langgraph_store import PgHippocampusStore
    with database() as dsn, PgHippocampusStore(dsn, index=index, ttl=ttl) as store:
        yield store

@asynccontextmanager
async def ours_of_a_loop(index=None, ttl=None):
    from langgraph_store import PgHippocampusStore
    with database() as dsn:
        async with PgHippocampusStore(dsn, index=index, ttl=ttl) as store:
            yield store

class Odd(InMemoryStore):
    """It lists labels nobody asked for."""

    def batch(self, ops):
        return [self.changed(result) for result in super().batch(ops)]

    async def abatch(self, ops):
        return [self.changed(result) for result in await super().abatch(ops)]

    def changed(self, result):
        return [("<script>alert(1)</script>",)] if isinstance(result, list) else result

@contextmanager
def odd(index=None):
    yield Odd(index=index)

def failing():
    raise RuntimeError("no\\nserver")

def other():
    return 3

@contextmanager
def not_opened(index=None):
    raise OSError("closed")
    yield

@asynccontextmanager
async def our_sessions():
    from adk_memory import PgSessionService
    with database() as dsn:
        async with PgSessionService(dsn) as service:
            yield service

NUMBER = 3
memories = InMemoryMemoryService
sessions = InMemorySessionService
'''

NAMESPACES = ("--area", "Namespaces are")


class Page(HTMLParser):
    """Collects the tags and the text of a page; each must be closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.seen = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {name for name, _ in attributes} & {"src", "href", "onclick", "onload"}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        self.seen += data


def write_factories(folder: Path) -> None:
    """Write a module of factories, and the one that the documentation shows."""
    block = r"<!-- file: stores.py -->\n```python\n(.*?)```"
    shown = re.search(block, PAGE.read_text("utf-8"), re.S)
    assert shown
    (folder / "stores.py").write_text(shown[1], "utf-8")
    (folder / "factories.py").write_text(FACTORIES, "utf-8")


@pytest.fixture
def run(tmp_path):
    write_factories(tmp_path)

    def command(
        *arguments: str, package: str = "langgraph_store", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*warm_python(), "-m", f"{package}.conformance", *arguments], cwd=tmp_path,
            env={**os.environ, **variables}, capture_output=True, text=True,
        )  # fmt: skip

    return command


def counts(printed: str) -> list[int]:
    """Return what passed, failed and was skipped."""
    found = re.search(r"^All +(\d+) +(\d+) +(\d+)$", printed, re.MULTILINE)
    assert found, printed
    return [int(number) for number in found.groups()]


@pytest.mark.parametrize(
    ("factory", "refused"), [("ours", "skipped"), ("ours_of_a_loop", "passed")]
)
def test_our_store_passes(run, server, template, tmp_path, factory, refused):
    done = run(
        "--store", f"factories:{factory}", "--area", "A graph runs", "--html", "report.html",
        SERVER=server, TEMPLATE=template,
    )  # fmt: skip
    assert 0 == done.returncode, done.stdout + done.stderr
    assert 0 == counts(done.stdout)[1]
    page = (tmp_path / "report.html").read_text("utf-8")
    title = "a sync call on the loop of the store is refused"
    assert re.search(rf"{title} \[put\]</td><td>[^/]*{refused}", page)
    assert f"pg-hippocampus {__version__}" in done.stdout


def test_a_report_says_what_a_store_does_not_do_and_a_broken_store_fails(run, tmp_path):
    done = run(
        "--store", "stores:make", "--html", "report.html", "--name", "Lists & <dicts>",
        "--unsupported", "operators=BaseStore's six only", "--unsupported", "distances",
    )  # fmt: skip
    assert 1 == done.returncode, done.stderr
    failed = "failed: an update keeps the birth and moves the time (2 of 2): assert 3 == 1"
    assert failed in done.stdout
    page = Page((tmp_path / "report.html").read_text("utf-8"))
    assert not page.open and not {"script", "link", "img", "iframe"} & set(page.tags)
    for told in (
        "Lists & <dicts>", "langgraph-checkpoint", "no ttl: supports_ttl is false",
        "no operators: BaseStore's six only", "an update keeps the birth and moves the time [sync]",
    ):  # fmt: skip
        assert told in page.seen
    assert min(counts(done.stdout)) > 10
    areas, facts = page.tags.count("h2"), 6  # date, Python, system, and three packages
    no_tests = facts + (areas + 2) + areas  # with the heads of tables
    assert sum(counts(done.stdout)) == page.tags.count("tr") - no_tests
    done = run("--store", "factories:odd", *NAMESPACES, "--html", "report.html")
    assert 1 == done.returncode, done.stderr
    assert 8 == sum(counts(done.stdout)) and 0 < counts(done.stdout)[1]
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "Namespaces are" in done.stdout and "areas with 'Namespaces are' only" in done.stdout
    done = run("--store", "factories:memory", "--area", "Sailing")
    assert (2, "") == (done.returncode, done.stdout)
    assert "error: --area must be in the title of an area, got 'Sailing'\n" == done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--store", "nonsense"), "--store must be module:factory, got 'nonsense'"),
        (("--store", "missing_module:make"), "'missing_module:make'.*No module named"),
        (("--store", "factories:missing"), "'factories:missing'.*no attribute 'missing'"),
        (("--store", "factories:NUMBER"), "must be callable, got int"),
        (("--store", "factories:failing"), "its factory failed: RuntimeError: no server"),
        (("--store", "factories:other"), "must return a BaseStore.*got int"),
        (("--store", "factories:not_opened"), "its factory failed: OSError: closed"),
        ((), "required: --store"),
        (("--store", "factories:memory", "--unsupported", "x"), "must name one of.*ttl.*got 'x'"),
        (("--store", "factories:memory", "--html", "no/where.html"), "folder 'no' does not exist"),
        (("--memory", "nonsense"), "--memory must be module:factory, got 'nonsense'"),
        (("--sessions", "factories:memories"), "must return a BaseSessionService"),
        (("--memory", "factories:memories", "--sessions", "factories:sessions"), "not allowed"),
        (("--memory", "factories:memories", "--unsupported", "ttl"), "add_memory.*got 'ttl'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, arguments, said):
    write_factories(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("factories", "stores"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    command = langgraph if "--store" in arguments or not arguments else adk
    assert 2 == command.main(arguments)
    printed, error = capsys.readouterr()
    assert "" == printed
    assert re.fullmatch(f"error: .*(?:{said}).*\n", error), error


@pytest.mark.parametrize(
    ("option", "factory", "passes", "area"),
    [("--memory", "memories", False, ""), ("--sessions", "our_sessions", True, "Written state")],
)
def test_services_of_adk_have_reports(
    run, server, template, tmp_path, option, factory, passes, area
):
    done = run(
        option, f"factories:{factory}", "--area", area, "--html", "report.html",
        package="adk_memory", SERVER=server, TEMPLATE=template,
    )  # fmt: skip
    assert (0 if passes else 1) == done.returncode, done.stdout + done.stderr
    passed, failed, _ = counts(done.stdout)
    assert passed > 10 and (failed == 0) is passes
    assert "google-adk 2." in done.stdout
    assert not Page((tmp_path / "report.html").read_text("utf-8")).open
