"""The documentation as a site: it builds, holds both languages, and asks nobody else."""

import importlib
import importlib.util
import json
import os
import re
import subprocess
import threading
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import expect
from practised import practised  # noqa: F401
from warm_python import warm_python

from shared_core.conversation.settings import VARIABLES
from shared_core.core import environment
from shared_core.ports.tables import tables
from tests.browser import in_browser, running_browser, visitor

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ENGLISH = sorted(
    page
    for page in DOCS.rglob("*.md")
    if not page.stem.endswith(".zh") and not page.is_relative_to(DOCS / "catalogs")
)
PACKAGES = ("adk_memory", "langgraph_store", "shared_core")
WITH_ENTRIES = (*PACKAGES, "shared_core.client")
pytestmark = [pytest.mark.tail, pytest.mark.timeout(600)]

MKDOCS = """
from functools import cache
from mkdocs.__main__ import cli
from mkdocstrings_handlers.python._internal import handler, rendering
if hasattr(rendering, "_get_formatter"):
    formatter = rendering._get_formatter
    rendering._get_formatter = cache(lambda: cache(formatter()))
for collection in ("ModulesCollection", "LinesCollection"):
    if hasattr(handler, collection):
        setattr(handler, collection, cache(getattr(handler, collection)))
cli()
"""
"""mkdocs, which reads the packages and formats each signature once for both languages."""


@pytest.fixture(scope="module")
def site(tmp_path_factory, practised):  # noqa: F811
    """The folder of the built site. A warning of the build is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [*warm_python(), "-c", MKDOCS, "build", "--strict", "--site-dir", folder],
        cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert 0 == done.returncode and "WARNING" not in done.stderr, done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site):
    """The address of a server of the built site."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    with running_browser() as found:
        yield found


def hook(name: str) -> ModuleType:
    """Return a module of docs_site/, as mkdocs loads it."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs_site" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built(page: Path) -> Path:
    """Return the path of a built page below the site."""
    path = page.relative_to(DOCS).with_suffix("")
    return (path.parent if path.name == "index" else path) / "index.html"


@cache
def indexed(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of the search index of a language, with the set of their words."""
    index = json.loads((folder / "search" / "search_index.json").read_text("utf-8"))
    separator = re.compile(index["config"]["separator"])
    texts = [re.sub(r"<[^>]*>", " ", f"{one['title']} {one['text']}") for one in index["docs"]]
    return [
        {**one, "words": set(separator.split(text.lower()))}
        for one, text in zip(index["docs"], texts, strict=True)
    ]


LOADS = ("script", "img", "iframe", "source", "video", "audio", "embed", "use")
LOADING = re.compile(rf"<(?:{'|'.join(LOADS)}|link)\b[^>]*>|<[^>]*\bstyle=[^>]*>")
"""The tags with which a page can load something; to parse all others takes seconds."""


class Assets(HTMLParser):
    """Collects what a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in LOADS:
            self.addresses += [given.get("src") or "", given.get("href") or ""]
        passive = {"canonical", "alternate", "next", "prev"}
        if tag == "link" and given.get("rel") not in passive:
            self.addresses.append(given.get("href") or "")
        self.addresses += re.findall(r"url\(([^)]*)\)", given.get("style") or "")


def test_the_site_holds_every_page_in_both_languages_and_loads_nothing_from_elsewhere(site):
    for page in ENGLISH:
        assert '<html lang="en"' in (site / built(page)).read_text("utf-8"), page
        chinese = (site / "zh" / built(page)).read_text("utf-8")
        assert '<html lang="zh"' in chinese, page
        is_marked = "本页目前只有英文版" in chinese
        assert is_marked != page.with_suffix(".zh.md").exists(), page
    text = (site / "zh" / "reference" / "cli" / "index.html").read_text("utf-8")
    links = re.findall(r'<a href="([^"]*)" class="md-nav__link[^>]*>(.*?)</a>', text, re.DOTALL)
    shown = {link: re.sub(r"<[^>]*>|\s+", " ", title).strip() for link, title in links}
    for page in (DOCS / "reference").glob("*.md"):
        if page.stem not in ("index", "cli") and not page.stem.endswith(".zh"):
            is_marked = shown[f"../{page.stem}/"].endswith("（英文）")
            assert is_marked != page.with_suffix(".zh.md").exists(), page
    assert "HTTP 接口（英文）" == shown["../http-operations/"]
    assert [] == [one["location"] for one in indexed(site / "zh") if "英文版" in one["words"]]
    loaded = []
    for page in site.rglob("*.html"):
        assets = Assets()
        assets.feed("".join(LOADING.findall(page.read_text("utf-8"))))
        loaded += [(page.name, one) for one in assets.addresses]
    for sheet in site.rglob("*.css"):
        found = re.findall(r"url\([\"']?([^)\"']+)|@import", sheet.read_text("utf-8"))
        loaded += [(sheet.name, one) for one in found]
    assert 1000 < len(loaded)
    assert [] == [one for one in loaded if re.match(r"(https?:)?//", one[1])]


@pytest.mark.parametrize(("language", "word"), [("", "decay"), ("zh", "遗忘")])
def test_each_language_has_an_index_of_its_own_pages(site, language, word):
    entries = indexed(site / language)
    where = [one["location"] for one in entries]
    assert len(set(where)) == len(where)
    pages = {built(page).parent.as_posix() for page in ENGLISH}
    assert pages == {place.partition("#")[0].rstrip("/") or "." for place in where}
    of_forgetting = [e for e in entries if e["location"].startswith("explanation/forgetting/")]
    assert any(word in one["words"] for one in of_forgetting)


def test_every_page_is_in_the_navigation():
    def paths(nav: object) -> list[str]:
        if isinstance(nav, dict):
            return [path for one in nav.values() for path in paths(one)]
        return [path for one in nav for path in paths(one)] if isinstance(nav, list) else [str(nav)]

    listed = paths(hook("navigation").navigation(DOCS))
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in ENGLISH)


def test_every_section_public_name_operation_and_column_has_its_entry(site):
    for folder in ("tutorials", "how-to", "reference", "explanation", "decisions"):
        index = (site / folder / "index.html").read_text("utf-8")
        for page in DOCS.glob(f"{folder}/*.md"):
            if page.stem != "index" and not page.stem.endswith(".zh"):
                assert f'href="{page.stem}/"' in index, page
    text = "".join(page.read_text("utf-8") for page in (site / "reference" / "api").rglob("*.html"))
    entries = set(re.findall(r'id="([\w.]+)"', text))
    for package in WITH_ENTRIES:
        names = {f"{package}.{name}" for name in importlib.import_module(package).__all__}
        assert set() == names - entries
    from shared_core import open_memory
    from shared_core.http.app import create_app

    text = (site / "reference" / "http-operations" / "index.html").read_text("utf-8")
    for methods in create_app(open_memory()).openapi()["paths"].values():
        for operation in methods.values():
            assert f'id="{operation["operationId"].replace("_", "-")}"' in text
    text = (site / "reference" / "schema" / "index.html").read_text("utf-8")
    home = "https://github.com/pg-hippocampus/pg-hippocampus/blob/main/"
    assert f'href="{home}shared_core/storage/postgres/sql/migrations/0001_schema.sql"' in text
    parts = re.split(r'<h2 id="([a-z-]+)">', text)
    shown = {
        name.replace("-", "_"): re.findall(r"<tr>\s*<td><code>([^<]*)", part.replace("<wbr>", ""))
        for name, part in zip(parts[1::2], parts[2::2], strict=True)
    }
    assert {name: list(shape.columns) for name, shape in tables().items()} == shown


VARIABLE = re.compile(r"\bHIPPOCAMPUS_[A-Z_]+[A-Z]\b")
PREFIXED = re.compile(r'(?:named|number)\("([A-Z_]+)"\)')
"""How langgraph_store/server.py reads a variable without its prefix."""


def read_variables() -> set[str]:
    """Return the environment variables that the packages read."""
    names = {f"HIPPOCAMPUS_{name}" for name in VARIABLES.values()}
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            text = file.read_text("utf-8")
            names |= set(VARIABLE.findall(text))
            if file.name == "server.py" and package == "langgraph_store":
                names |= {f"HIPPOCAMPUS_{name}" for name in PREFIXED.findall(text)}
    return names


def test_a_variable_that_is_read_counts_as_a_setting():
    assert read_variables() == environment.VARIABLES


@pytest.mark.parametrize("page", ["settings.md", "settings.zh.md"])
def test_the_page_of_settings_lists_every_variable_that_is_read(page):
    text = (DOCS / "reference" / page).read_text("utf-8")
    listed = re.findall(r"^\| `([A-Z_]+)` \|", text, re.MULTILINE)
    assert sorted(listed) == sorted(set(listed))
    fields = {field: name for field, name in VARIABLES.items() if field != "app"}
    also_plain = {f"HIPPOCAMPUS_{name}": name for name in fields.values()}
    assert {also_plain.get(name, name) for name in environment.VARIABLES} == set(listed)


def test_the_page_of_settings_names_the_defaults_of_the_code(monkeypatch):
    from shared_core.conversation import ConversationSettings
    from shared_core.settings import load_settings

    rows = {}
    for line in (DOCS / "reference" / "settings.md").read_text("utf-8").splitlines():
        if line.startswith("| `"):
            name, _, default, _ = (cell.strip() for cell in line[1:-1].split("|", 3))
            rows[name.strip("`")] = default.strip("`")
    for name in rows:
        monkeypatch.delenv(name, raising=False)
    settings, switches = load_settings(), {True: "on", False: "off"}
    expected = {"HIPPOCAMPUS_SCHEMA": settings.db_schema, "HIPPOCAMPUS_PRIVACY": settings.privacy,
        "HIPPOCAMPUS_GRAPH": switches[settings.graph],
        "HIPPOCAMPUS_PROFILES": switches[settings.profiles],
        "HIPPOCAMPUS_FORGET_REQUESTS": switches[settings.forget_requests],
        "HIPPOCAMPUS_PREPARE": switches[settings.prepare],
        "HIPPOCAMPUS_RESIDENT_MB": str(settings.resident_mb),
        "HIPPOCAMPUS_POOL_SIZE": str(settings.pool_size),
        "HIPPOCAMPUS_CLEANUP_HOURS": "off" if settings.cleanup_hours is None else "",
        "HIPPOCAMPUS_APP": ConversationSettings().app}  # fmt: skip
    for field, variable in VARIABLES.items():
        if field != "app":
            value = getattr(ConversationSettings(), field)
            expected[variable] = ",".join(value) if field == "strategies" else f"{value:g}"
    assert expected == {name: rows[name] for name in expected}
    assert rows["HIPPOCAMPUS_ANN_THRESHOLD"].startswith(f"{settings.ann_threshold};")


API = "reference/api/memory/"
SEARCHES = (
    (API, "decay", "explanation/forgetting/", "decay"),
    (API, "PgHippocampusStore", "reference/api/langgraph_store/#", "PgHippocampusStore"),
    (API, "open_memory", "reference/api/memory/", "open_memory"),
    (API, "MemoryPlugin", "reference/api/adk_memory/#", "MemoryPlugin"),
    (API, "HIPPOCAMPUS_URI", "reference/settings/#hippocampus_uri", "HIPPOCAMPUS_URI"),
    (API, "hippocampus extract", "reference/cli/#hippocampus-extract", "extract"),
    (API, "import chatgpt", "how-to/import-from-another-memory/", "ChatGPT"),
    (API, "--dry-run", "", "dry"), (API, "how do I forget a user", "how-to/forget/", "Forget"),
    ("zh/", "遗忘", "zh/explanation/forgetting/", "遗忘"), ("zh/", "过敏", "zh/", "过敏"),
    ("zh/", "腰果过敏", "zh/tutorials/from-postgres-store/", "过敏"),
    ("zh/", "备份", "zh/how-to/backup/", "备份"),
    ("zh/", "迁移PostgresStore", "zh/tutorials/from-postgres-store/", "迁移"),
    ("zh/", "HIPPOCAMPUS_URI", "zh/reference/settings/#hippocampus_uri", "HIPPOCAMPUS_URI"),
)  # fmt: skip
"""A path of the site, what is typed there, and where the best hit leads, with what it marks."""


@in_browser
def test_a_reader_finds_the_page_first_that_is_meant_and_asks_no_other_host(address, browser):
    page = visitor(browser)
    with page.context:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        box, best = page.locator(".md-search__input"), page.locator(".md-search-result__item").first
        for path, searches in groupby(SEARCHES, lambda search: search[0]):
            page.goto(f"{address}{path}", wait_until="networkidle")
            box.click()
            for _, typed, found, marked in searches:
                box.fill(typed)
                box.press("End")
                shown = best.locator("a:visible:has(mark)").first
                where, _, place = found.partition("#")
                leads = re.escape(f"{address}{where}") + r"[^#]*" + ("#" + place) * ("#" in found)
                expect(shown).to_have_attribute("href", re.compile(f"^{leads}"))
                words = shown.locator("mark", has_text=re.compile(f"^{re.escape(marked)}$"))
                expect(words.first).to_be_visible()
        ours = (address, "data:", "blob:")
        assert asked and [] == [one for one in asked if not one.startswith(ours)]


@pytest.fixture
def page(browser):
    """A page of a window that does not search: to read the index takes a second of each load."""
    page = visitor(browser)
    with page.context:
        page.route("**/search_index.json", lambda route: route.abort())
        yield page


@in_browser
def test_a_reader_changes_the_language_has_it_dark_and_reads_it_on_a_telephone(address, page):
    for path in ("reference/settings/", ""):
        page.goto(f"{address}{path}")
        for language, place in (("zh", "zh/"), ("en", "")):
            page.locator(".md-header .md-select").hover()
            page.locator(f'.md-header .md-select a[hreflang="{language}"]').click()
            page.wait_for_url(f"{address}{place}{path}")
    brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(address)
        assert (page.evaluate(brightness) < 128) is (scheme == "dark")
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(address)
    title = page.locator(".md-header__topic .md-ellipsis").first
    assert title.evaluate("it => it.scrollWidth <= it.clientWidth")
    page.goto(f"{address}reference/settings/")
    table = page.locator(".md-typeset__scrollwrap").first
    assert table.evaluate("it => it.scrollWidth > it.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
