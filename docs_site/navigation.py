"""Navigation of the site, from the folders of docs/: a new page appears by itself."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

SECTIONS: dict[str, str] = {
    "tutorials": "Tutorials",
    "how-to": "How-to guides",
    "reference": "Reference",
    "explanation": "Explanation",
}
"""Folders of docs/ in the order of the tabs, with their titles."""

ORDER: dict[str, tuple[str, ...]] = {
    "tutorials": ("adk", "langgraph", "one-memory", "from-postgres-store", "production"),
    "how-to": (
        "adk-web", "langgraph-dev", "langmem", "deepagents", "mcp", "http", "background",
        "language-model", "embedding-model", "chinese", "facts", "budget", "inspect", "forget",
        "export", "import-from-another-memory", "containers", "monitor", "backup", "upgrade",
        "rights", "poolers", "citus", "seekdb", "troubleshooting",
    ),
    "reference": (
        "cli", "settings", "http-operations", "sql", "schema", "adk", "langgraph", "core",
        "http", "mcp",
    ),
    "explanation": (
        "consolidation", "recall", "time", "forgetting", "isolation", "privacy", "scaling",
        "comparison",
    ),
}  # fmt: skip
"""Names of pages that come first in their section; the others follow by name."""

ONLY_ENGLISH = "（英文）"
"""Mark of a page in English in a Chinese list."""
MARKED = ("reference/api", "decisions")
"""Folders with English pages alone. Their sections are marked in mkdocs.yml, not each page."""
API = "reference/api"
"""Folder of the pages that mkdocstrings fills."""
API_ORDER = (
    "adk_memory",
    "langgraph_store",
    "memory",
    "services",
    "values",
    "parts",
    "facades",
    "client",
    "errors",
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write the navigation before MkDocs reads it."""
    config.nav = navigation(Path(config.docs_dir))
    return config


def navigation(docs: Path) -> list[dict[str, Any]]:
    """Return the navigation of all pages of a folder.

    Args:
        docs: the folder with the pages.

    Returns:
        Titles with pages, in the form of `nav` in mkdocs.yml.
    """
    nav: list[dict[str, Any]] = [{"Home": "index.md"}]
    for folder, title in SECTIONS.items():
        pages: list[Any] = _pages(docs, folder, ORDER[folder])
        if folder == "reference" and (docs / API).is_dir():
            pages.insert(1, {"Python API": _pages(docs, API, API_ORDER)})
        if folder == "explanation":
            pages += ["architecture.md", "benchmarks.md"]
            pages.append({"Decisions": _pages(docs, "decisions", ())})
        nav.append({title: pages})
    return nav


def _pages(docs: Path, folder: str, order: tuple[str, ...]) -> list[Any]:
    """Return the paths of English pages directly in a folder: index, stated order, then by name."""
    names = {page.stem for page in (docs / folder).glob("*.md") if not page.stem.endswith(".zh")}
    first = [name for name in ("index", *order) if name in names]
    return [f"{folder}/{name}.md" for name in (*first, *sorted(names - set(first)))]


LIST = "<!-- made of: pages -->"
LINK = re.compile(r"\[([^\]]+)\]\(([\w./-]+\.md)\)")
FIRST_SENTENCE = re.compile(r"(.+?(?:[。！？]|[.!?](?=\s|$)))", re.DOTALL)


def on_env(env: Environment, config: MkDocsConfig, files: Files) -> Environment:
    """Mark the English pages in the Chinese navigation, and name them as the index page does."""
    if config.theme["language"] == "zh":
        named = labels(Path(config.docs_dir))
        for file in files.documentation_pages():
            path = file.src_uri
            if file.page and not path.endswith(".zh.md") and path.rpartition("/")[0] not in MARKED:
                file.page.title = f"{named.get(path, file.page.title)}{ONLY_ENGLISH}"
    return env


def labels(docs: Path) -> dict[str, str]:
    """Return how the Chinese indexes of the sections name pages, by path below docs/."""
    return {
        os.path.normpath(f"{folder}/{path}"): label
        for folder in SECTIONS
        for label, path in LINK.findall((docs / folder / "index.zh.md").read_text("utf-8"))
    }


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """List the pages of a section on its index, and widen the first page."""
    if page.file.src_uri in ("index.md", "index.zh.md"):
        page.meta["hide"] = ["navigation", "toc"]
    if LIST not in markdown:
        return markdown
    index = Path(config.docs_dir, page.file.src_uri)
    return markdown.replace(LIST, list_of_pages(index, index.stem.endswith(".zh")))


def list_of_pages(index: Path, in_chinese: bool) -> str:
    """Return a table of the pages beside an index that the index does not link to: title, purpose.

    Args:
        index: the index page of a folder.
        in_chinese: take the Chinese page where there is one.

    Returns:
        Markdown, in the order of the navigation.
    """
    docs = index.parents[1]
    folder = index.parent.name
    linked = set(re.findall(r"\]\(([\w-]+)(?:\.zh)?\.md\)", index.read_text("utf-8")))
    rows = []
    for path in _pages(docs, folder, ORDER.get(folder, ())):
        page = docs / path
        if page.stem in (*linked, "index"):
            continue
        twin = page.with_suffix(".zh.md")
        has_twin = in_chinese and twin.exists()
        title, purpose = title_and_purpose((twin if has_twin else page).read_text("utf-8"))
        note = ONLY_ENGLISH if in_chinese and not has_twin else ""
        rows.append(f"| [{title}]({page.name}){note} | {purpose} |")
    head = "| 页面 | 内容 |" if in_chinese else "| page | about |"
    return "\n".join((head, "|---|---|", *rows)) if rows else ""


def title_and_purpose(markdown: str) -> tuple[str, str]:
    """Return the title of a page, and the first sentence of its first paragraph as plain text."""
    title, _, rest = markdown.partition("\n")
    rest = re.sub(r"(?ms)^```.*?^```|<!--.*?-->", "", rest)
    blocks = (block.strip() for block in rest.split("\n\n"))
    first = next((one for one in blocks if re.match(r"[\w\"“「*`(\[]", one)), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first)
    plain = re.sub(r"^\*\*[^*]+[.。]\*\* ", "", plain).replace("*", "")
    sentence = FIRST_SENTENCE.match(plain)
    purpose = " ".join((sentence[1] if sentence else plain).split())
    return title.removeprefix("# ").strip(), purpose.replace("|", "\\|")


def on_page_context(
    context: dict[str, Any], page: Page, config: MkDocsConfig, nav: Navigation
) -> dict[str, Any]:
    """Let the first page link to its translation by a relative address, as all others do."""
    if page.file.src_uri in ("index.md", "index.zh.md"):
        for language in vars(config.extra)["alternate"]:  # where the plugin for languages puts it
            language["link"] = "" if language["lang"] == "en" else f"{language['lang']}/"
    return context
