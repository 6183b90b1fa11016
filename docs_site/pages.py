"""What happens to the text of each page before it is rendered."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

ONLY_ENGLISH = """!!! note "本页目前只有英文版"

    这一页还没有中文版，以下内容为英文。可以先看[中文首页]({home})，或用顶部的搜索。

"""
LINK = re.compile(r"(\]\()(?!\w+:|#|<)([^)#\s]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^(```.*?^```[ \t]*$)", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link to the repository what lies outside docs/, and mark what is in English only."""
    file = Path(config.docs_dir, page.file.src_uri)
    markdown = _outside_fences(
        markdown, lambda text: links_to_repository(text, file, Path(config.docs_dir), config)
    )
    if config.theme["language"] == "zh" and not page.file.src_uri.endswith(".zh.md"):
        home = os.path.relpath("index.zh.md", Path(page.file.src_uri).parent)
        title, _, rest = markdown.partition("\n")
        markdown = f"{title}\n\n{ONLY_ENGLISH.format(home=home)}{rest}"
    return markdown


def links_to_repository(markdown: str, page: Path, docs: Path, config: MkDocsConfig) -> str:
    """Return Markdown whose links to files outside docs/ lead to the public repository.

    Args:
        markdown: the text of a page.
        page: the file of the page.
        docs: the folder of all pages.
        config: `repo_url` and `extra.ref` name the repository and its branch or tag.

    Returns:
        The text; a link inside docs/, or to a file that does not exist, is unchanged.
    """
    root = docs.parent

    def target(link: re.Match[str]) -> str:
        path = (page.parent / link[2]).resolve()
        if path.is_relative_to(docs) and path.suffix in (".md", ".png", ".svg"):
            return link[0]
        if not path.is_relative_to(root) or not path.exists():
            return link[0]
        kind = "tree" if path.is_dir() else "blob"
        where = f"{config.repo_url}/{kind}/{config.extra['ref']}/{path.relative_to(root)}"
        return f"{link[1]}{where.removesuffix('/.')}{link[3] or ''}{link[4]}"

    return LINK.sub(target, markdown)


def _outside_fences(markdown: str, change: Callable[[str], str]) -> str:
    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else change(part) for part in parts)
