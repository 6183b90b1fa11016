"""Navigation of the site, from the folders of docs/: a new page appears by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig

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
        "adk-web", "langgraph-dev", "langmem", "mcp", "http", "chinese", "language-model",
        "embedding-model", "import-from-another-memory", "export", "forget", "operations",
        "backup", "poolers", "citus", "seekdb",
    ),
    "reference": (
        "cli", "settings", "http", "http-operations", "sql", "schema", "adk", "langgraph", "core",
        "mcp",
    ),
    "explanation": (
        "consolidation", "recall", "time", "forgetting", "isolation", "privacy", "scaling",
    ),
}  # fmt: skip
"""Names of pages that come first in their section; the others follow by name."""

API = "reference/api"
"""Folder of the pages that mkdocstrings fills."""
API_ORDER = ("adk_memory", "langgraph_store", "shared_core")


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
