"""What happens to the text of each page before it is rendered."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

ONLY_ENGLISH = """<aside markdown="block" data-search-exclude>

!!! note "本页目前只有英文版"

    这一页还没有中文版，以下是英文原文。中文内容请从[中文首页]({home})进入。

</aside>

"""
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#|<)([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```.*?^```[ \t]*$)", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"<code>(-[^<>]{1,24})</code>")
CELL_CODE = re.compile(r"(?<=<code>)[^<>]{12,}(?=</code>(?:(?!<tr>|<table>).)*?</td>)", re.DOTALL)
HEADING = re.compile(r"^#+ (.*?)(?: \{ #([\w-]+) \})?$", re.MULTILINE)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where they belong, and mark what is in English only."""
    docs, source = Path(config.docs_dir), page.file.src_uri
    in_chinese = config.theme["language"] == "zh"

    def lead(link: re.Match[str]) -> str:
        target = Path(os.path.normpath((docs / source).parent / link[2]))
        if in_chinese and link[3] and target.suffix == ".md" and target.is_relative_to(docs):
            return link_to_anchor(link, target, docs, PurePosixPath(page.url))
        return link_to_repository(link, target, docs, config)

    markdown = _outside_fences(markdown, lambda text: LINK.sub(lead, text))
    if in_chinese and not source.endswith(".zh.md"):
        home = os.path.relpath("index.md", Path(source).parent)
        title, _, rest = markdown.partition("\n")
        markdown = f"{title}\n\n{ONLY_ENGLISH.format(home=home)}{rest}"
    return markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let long names in tables break after an underscore or a slash, and options nowhere."""
    html = OPTION.sub(r'<code class="option">\1</code>', html)
    return CELL_CODE.sub(lambda code: re.sub(r"(_|(?<!<)/(?!/))", r"\1<wbr>", code[0]), html)


def link_to_repository(link: re.Match[str], target: Path, docs: Path, config: MkDocsConfig) -> str:
    """Return a link whose target outside docs/ is the file in the public repository.

    Args:
        link: the link, as LINK finds it.
        target: the file or folder that it names.
        docs: the folder of all pages.
        config: `repo_url` and `extra.ref` name the repository and its branch or tag.

    Returns:
        A link inside docs/, or to a file that does not exist, is unchanged.
    """
    is_page = target.is_relative_to(docs) and target.suffix in (".md", ".png", ".svg")
    if is_page or not target.is_relative_to(docs.parent) or not target.exists():
        return link[0]
    kind = "tree" if target.is_dir() else "blob"
    where = f"{config.repo_url}/{kind}/{config.extra['ref']}/{target.relative_to(docs.parent)}"
    return f"[{link[1]}]({where.removesuffix('/.')}{link[3] or ''})"


def link_to_anchor(link: re.Match[str], target: Path, docs: Path, url: PurePosixPath) -> str:
    """Return a link to an anchor of the English page where the Chinese page has no such anchor.

    Args:
        link: the link, as LINK finds it.
        target: the English page that it names.
        docs: the folder of all pages.
        url: the address of the page with the link, below the root of the site.

    Returns:
        HTML for a link that changes the language; any other link is unchanged.
    """
    twin, anchor = target.with_suffix(".zh.md"), link[3].removeprefix("#")
    if not twin.exists() or anchor in anchors(twin):
        return link[0]
    english = target.relative_to(docs).with_suffix("")
    name = english.parent if english.name == "index" else english
    return f'<a href="{os.path.relpath(name, url)}/#{anchor}">{link[1]}</a>'


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of the headings of a page."""
    found = HEADING.findall(page.read_text("utf-8"))
    slugs = (re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title, _ in found)
    return frozenset((*slugs, *(own for _, own in found if own)))


def _outside_fences(markdown: str, change: Callable[[str], str]) -> str:
    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else change(part) for part in parts)
