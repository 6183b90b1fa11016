"""The search of the site: an index for each language, weights of pages, an entry for a setting."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

BOOSTS = {
    "tutorials": 2,
    "how-to": 2,
    "explanation": 2,
    "reference/api": 1.5,
    "reference/cli": 3,
    "decisions": 0.5,
}
"""How much a hit on a page or in a folder counts; elsewhere 1. In a title it counts 1000 times."""
INDEX_BOOST = 0.3
"""How much a hit on a page that lists other pages counts."""
FALLBACK = 0.5
"""What an English page in the place of a Chinese one keeps of its weight."""
SETTINGS = "reference/settings"
ROW = re.compile(r"^\| `([A-Z_]+)` \| ([^|]*) \|", re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Weigh a page for the search, and give each setting an anchor."""
    page.meta["search"] = {"boost": boost(page.file.src_uri, config.theme["language"])}
    if page.file.src_uri.removesuffix(".md").removesuffix(".zh") != SETTINGS:
        return markdown
    page.meta["settings"] = ROW.findall(markdown)
    return ROW.sub(lambda row: f'| <span id="{row[1].lower()}"></span>{row[0][2:]}', markdown)


def boost(path: str, language: str) -> float:
    """Return how much a hit on a page counts in the index of a language.

    Args:
        path: the page, below docs/.
        language: the language of the site, `en` or `zh`.
    """
    page = path.removesuffix(".md").removesuffix(".zh")
    folder, _, name = page.rpartition("/")
    weight = INDEX_BOOST if name == "index" else BOOSTS.get(page, BOOSTS.get(folder, 1))
    return weight * (FALLBACK if language == "zh" and not path.endswith(".zh.md") else 1)


def on_page_context(
    context: dict[str, Any], page: Page, config: MkDocsConfig, nav: Navigation
) -> dict[str, Any]:
    """Add an entry for each setting, so that its name finds its row."""
    index = config.plugins["material/search"].search_index  # type: ignore[attr-defined]
    for name, meaning in page.meta.get("settings", ()):
        text = LINK.sub(r"\1", meaning).replace("`", "")
        entry = SimpleNamespace(id=name.lower(), title=[f"<code>{name}</code>"], text=[text])
        index.create_entry_for_section(entry, page.toc, page.url, page)
    return context


@event_priority(-200)  # after the plugin for languages has written one index of all
def on_post_build(config: MkDocsConfig) -> None:
    """Write an index for each language, below its pages.

    The theme reads `search/search_index.json` below the base that theme/main.html gives it.
    """
    site = Path(config.site_dir)
    file = site / "search" / "search_index.json"
    index = json.loads(file.read_text("utf-8"))
    is_chinese = [one["location"].startswith("zh/") for one in index["docs"]]
    english = [one for one, zh in zip(index["docs"], is_chinese, strict=True) if not zh]
    chinese = [
        {**one, "location": one["location"].removeprefix("zh/")}
        for one, zh in zip(index["docs"], is_chinese, strict=True)
        if zh
    ]
    for docs, path in ((english, file), (chinese, site / "zh" / "search" / file.name)):
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**index, "docs": docs}, ensure_ascii=False, separators=(",", ":"))
        path.write_text(text, "utf-8")
