"""Hits of a question with few elements: text, source, the parts of the score, matched words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from shared_core.core.domain import SCORE_PARTS, Hit
from shared_core.nlp.text import TERM, search_terms
from shared_core.ports.graph import Edge
from shared_core.recall.ranking import relevance
from shared_core.ui.style import COLOURS, SERIES
from shared_core.ui.view import PageView
from shared_core.ui.widgets import kind_name

DETAILS_STYLE: Final = """
.plain-details summary { cursor: pointer; list-style: none; }
.plain-details summary::before { content: "▸ "; }
.plain-details[open] summary::before { content: "▾ "; }
"""
"""The style of a part that opens by itself."""
HIT_STYLE: Final = """
.hit { gap: .35rem; padding: .7rem .9rem; }
.hit mark, .marked { background: color-mix(in srgb, #E69F00 35%, transparent); color: inherit;
  border-radius: .2rem; padding: 0 .1rem; font-weight: 600; }
.hit summary { cursor: pointer; list-style: none; padding-left: 4.6rem; text-indent: -4.6rem;
  line-height: 1.1rem; font-variant-numeric: tabular-nums;
  background-origin: content-box !important; background-clip: content-box !important; }
.hit summary::-webkit-details-marker { display: none; }
.hit summary::after { content: " ▸"; } .hit details[open] summary::after { content: " ▾"; }
.numbers { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem;
  font-variant-numeric: tabular-nums; padding: .4rem 0 0 .2rem; }
.legend { font-size: .8rem; padding-left: .4rem; border-left: .8rem solid; line-height: 1.1; }
.relations { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; padding-top: .4rem; }
.doubtful { border: 2px dashed #D55E00; border-radius: 1rem; padding: 0 .6rem; font-size: .8rem; }
"""
MOST_CHARACTERS: Final = 800
"""Characters of a text that a row shows; the page of the memory shows all."""
MOST_PIECES: Final = 31
"""Pieces, marked or not, that the text of a row is cut into."""
MOST_TURNS: Final = 8
"""Turns of the provenance that the numbers of a hit name."""
PARTS: Final = ("rerank", *SCORE_PARTS)


def part_names(view: PageView) -> Mapping[str, str]:
    """Return words for each part of a score."""
    return {
        "rerank": view.t("reranker", "重排模型"),
        "meaning": view.t("similar meaning", "意思相近"),
        "words": view.t("same words", "用词相同"),
        "context": view.t("turns around it", "前后对话"),
        "session": view.t("its conversation", "所在会话"),
        "speaker": view.t("who speaks", "说话人"),
        "time": view.t("time", "时间"),
        "form": view.t("form of the text", "文本形式"),
        "kind": view.t("kind of memory", "记忆类型"),
    }


def part_colour(part: str) -> str:
    """Return the colour of a part of a score."""
    return COLOURS["item"] if part == "rerank" else SERIES[SCORE_PARTS.index(part)]


def parts_of(hit: Hit) -> dict[str, float]:
    """Return the parts of a score that are not 0, in the order of the legend."""
    names = ("rerank",) if "rerank" in hit.parts else SCORE_PARTS
    return {name: hit.parts[name] for name in names if hit.parts.get(name)}


def legend(view: PageView, hits: Sequence[Hit]) -> None:
    """Say which colour means which part of a score."""
    found = {name for hit in hits for name in parts_of(hit)}
    names = part_names(view)
    with ui.element("div").classes("row-line"):
        ui.label(view.t("Why they were found:", "为什么找到：")).classes("quiet")
        for part in PARTS:
            if part in found:
                ui.label(names[part]).classes("legend").style(f"border-color: {part_colour(part)}")
        if any(value < 0 for hit in hits for value in parts_of(hit).values()):
            ui.label(view.t("Left of the line: lowers the score.", "竖线左侧：降低得分。")).classes(
                "quiet"
            )


class ScoreScale:
    """The common scale of the bars of some hits: how far they reach below and above zero."""

    def __init__(self, hits: Iterable[Hit]) -> None:
        parts = [parts_of(hit).values() for hit in hits]
        self._below = max((-sum(v for v in one if v < 0) for one in parts), default=0.0)
        above = max((sum(v for v in one if v > 0) for one in parts), default=0.0)
        self._whole = (self._below + above) or 1.0
        self.digits = 2 if self._whole > 0.1 else 4  # scores of "rrf" are small

    def bar(self, hit: Hit) -> str:
        """Return the background of a bar that stacks the parts of a score around zero."""
        parts = parts_of(hit)
        lowering = [(name, -value) for name, value in parts.items() if value < 0]
        raising = [(name, value) for name, value in parts.items() if value > 0]
        at = self._below - sum(value for _, value in lowering)
        pieces = [("transparent", at)]
        pieces += [(part_colour(name), value) for name, value in reversed(lowering)]
        pieces += [(part_colour(name), value) for name, value in raising]
        bar = gradient([(colour, value / self._whole) for colour, value in pieces])
        if not self._below:
            return bar
        zero = 100 * self._below / self._whole
        line = (
            f"linear-gradient(to right, transparent calc({zero:.2f}% - 1.5px), currentColor 0"
            f" calc({zero:.2f}% + 1.5px), transparent 0)"
        )
        return f"{line}, {bar}"


def gradient(pieces: Iterable[tuple[str, float]], rest: str = "transparent") -> str:
    """Return a background of stacked pieces: colours and shares of the width, 0 to 1."""
    stops: list[str] = []
    at = 0.0
    for colour, share in pieces:
        if share > 0:
            stops.append(f"{colour} {100 * at:.2f}% {100 * (at + share):.2f}%")
            at += share
    return f"linear-gradient(to right, {', '.join([*stops, f'{rest} {100 * at:.2f}% 100%'])})"


def hit_row(view: PageView, place: int, hit: Hit, scale: ScoreScale, note: str = "") -> None:
    """Show a hit. note: why it was left out, if it was."""
    memory, score = hit.memory, figure(hit.score, scale.digits)
    with ui.element("section").classes("panel hit"):
        with ui.element("div").classes("row-line"):
            kind = ui.label(kind_name(view, memory.kind)).classes("kind")
            kind.style(f"border-color: {COLOURS.get(memory.kind, '#999999')}")
            ui.label(_source(view, place, hit)).classes("quiet")
            if memory.doubted_at is not None:
                since = view.time(memory.doubted_at, day_only=True)
                ui.label(view.t(f"uncertain since {since}", f"自 {since} 起存疑")).classes(
                    "doubtful"
                )
            if memory.thread_id:
                ui.link(
                    view.t(f"thread {memory.thread_id}", f"会话 {memory.thread_id}"),
                    view.link("/memories", thread=memory.thread_id),
                ).classes("quiet")
            ui.link(view.t("details", "详情"), view.link("/memory", key=memory.key)).classes(
                "quiet"
            )
        marked_text(memory.text, hit.matched, ended=memory.superseded_at is not None)
        if note:
            ui.label(note).classes("quiet")
        with ui.element("details"):
            summary = TextElement(tag="summary", text=score).style(f"background: {scale.bar(hit)}")
            summary.props["aria-label"] = view.t(
                f"Score {score}: the numbers", f"得分 {score}：查看数值"
            )
            ui.label(_numbers(view, hit, scale.digits)).classes("numbers")


def _source(view: PageView, place: int, hit: Hit) -> str:
    memory = hit.memory
    said = [f"{place}."]
    if memory.author:
        said.append(memory.author)
    if hit.valid_from is not None:
        day = view.time(hit.valid_from, day_only=True)
        said.append(view.t(f"holds since {day}", f"自 {day} 起成立"))
    else:
        said.append(view.time(memory.occurred_at))
    if memory.superseded_at is not None:
        day = view.time(memory.superseded_at, day_only=True)
        said.append(view.t(f"ended, known since {day}", f"已结束，{day} 得知"))
    return " · ".join(said)


def _numbers(view: PageView, hit: Hit, digits: int) -> str:
    """Return the numbers of a hit as lines: parts, features, provenance, key."""
    names, parts = part_names(view), hit.parts
    lines = [f"{'+' * (value > 0)}{figure(value, digits)}  {names[name]}"
             for name, value in parts_of(hit).items()]  # fmt: skip
    lines.append(f"= {figure(hit.score, digits)}  " + view.t("score", "得分"))
    raw = [view.t(f"relevance {relevance(hit):.2f}", f"相关度 {relevance(hit):.2f}")]
    if "similarity" in parts:
        raw.append(view.t("cosine", "余弦相似度") + f" {parts['similarity']:.2f}")
    if "bm25" in parts:
        raw.append(f"BM25 {parts['bm25']:.2f}")
    if "coverage" in parts:
        raw.append(view.t("question covered by its words", "问题用词覆盖率")
                   + f" {parts['coverage']:.0%}")  # fmt: skip
    lines.append(" · ".join(raw))
    lines.append(
        view.t("matched words: ", "匹配的词：") + (", ".join(hit.matched) or view.t("none", "无"))
    )
    if parts.get("is_overtaken"):
        lines.append(view.t("A later turn says something newer.", "后来的对话有更新的说法。"))
    if parts.get("overtakes"):
        lines.append(view.t("It is newer than a similar turn.", "它比一条相似的对话更新。"))
    turns = hit.memory.source_event_ids
    if turns:
        more = len(turns) - MOST_TURNS
        lines.append(view.t("from turns: ", "来自对话：") + ", ".join(turns[:MOST_TURNS])
                     + (view.t(f" and {more} more", f" 等 {len(turns)} 条") if more > 0 else "")
        )  # fmt: skip
    lines.append(view.t("key: ", "键：") + hit.memory.key)
    return "\n".join(lines)


def figure(number: float, digits: int = 2) -> str:
    """Return a score or a part of one."""
    return f"{number:.{digits}f}"


def marked_text(text: str, matched: Sequence[str], *, ended: bool = False) -> None:
    """Show a text with the words that match, each piece an element of its own."""
    shown = text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + " …"
    pieces = [*text_pieces(shown, matched)]
    if len(pieces) == 1 and not pieces[0][1]:
        label = ui.label(shown).classes("text")
        if ended:
            label.classes("ended")
        return
    with ui.element("div").classes("text") as whole:
        for piece, is_match in pieces:
            TextElement(tag="mark" if is_match else "span", text=piece)
    if ended:
        whole.classes("ended")


def text_pieces(text: str, matched: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a text in order, and whether each matches words of the question."""
    at = pieces = 0
    for begin, end in _spans(text, matched):
        if pieces >= MOST_PIECES - 2:
            break
        if begin > at:
            yield text[at:begin], False
        yield text[begin:end], True
        pieces += 2
        at = end
    if at < len(text) or not text:
        yield text[at:], False


def _spans(text: str, matched: Sequence[str]) -> list[tuple[int, int]]:
    """Return where words of a text match, neighbours joined."""
    terms = {term for word in matched for term in search_terms(word)}
    runs = [word for word in matched if (found := TERM.fullmatch(word)) and found[1]]
    spans: list[tuple[int, int]] = []
    for found in TERM.finditer(text) if terms else ():
        if found[2]:
            if not terms.isdisjoint(search_terms(found[0])):
                spans.append(found.span())
        else:
            spans += _parts(found[1], found.start(), runs)
    joined: list[tuple[int, int]] = []
    for begin, end in spans:
        if joined and text[joined[-1][1] : begin].strip() == "":
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def _parts(run: str, start: int, wanted: Sequence[str]) -> list[tuple[int, int]]:
    """Return where the wanted parts stand in a run without spaces, sorted, without overlaps."""
    is_held = [False] * len(run)
    for part in wanted:
        at = run.find(part)
        while at >= 0:
            is_held[at : at + len(part)] = [True] * len(part)
            at = run.find(part, at + 1)
    edges = [n for n in range(len(run) + 1)
             if (n > 0 and is_held[n - 1]) != (n < len(run) and is_held[n])]  # fmt: skip
    return [(start + a, start + b) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def relations(view: PageView, edges: Sequence[Edge]) -> None:
    """Show edges of the knowledge graph in one line that opens; each links to the graph."""
    words = [f"{edge.subject} {edge.relation.replace('_', ' ')} {edge.object}" for edge in edges]
    more = len(words) - 1
    with ui.element("details").classes("panel plain-details"):
        rest = view.t(f", and {more} more", f"，另有 {more} 条") if more else ""
        TextElement(tag="summary", text=view.t("In the graph: ", "图谱中：") + words[0] + rest)
        with ui.element("div").classes("relations"):
            for edge, text in zip(edges, words, strict=True):
                target = view.link("/graph", name=edge.subject_entity)
                ui.link(f"{text} · {_spell(view, edge)}", target)


def _spell(view: PageView, edge: Edge) -> str:
    since = view.time(edge.valid_from, day_only=True)
    if edge.valid_until is None:
        return view.t(f"since {since}", f"自 {since} 起")
    until = view.time(edge.valid_until, day_only=True)
    return view.t(f"from {since} to {until}", f"{since} 至 {until}")
