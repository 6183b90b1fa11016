"""The command that shows what the rules extract from a text."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.core.domain import Event, FactDraft, JsonValue
from shared_core.core.locale import t
from shared_core.errors import InvalidInput

if TYPE_CHECKING:
    from shared_core.extraction.rule_based import RuleExtractor

LINE_BREAKS: Final = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
"""Characters that JSON leaves as they are, and some readers take for the end of a line."""
UTF_16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MAX_CONTEXT: Final = 20
"""Number of earlier turns that help to understand a turn with --conversation."""


@cli.app.command()
@cli.chinese(
    """显示规则从标准输入的每行文字中提取到什么。

    不打开记忆，也不保存任何内容。needs_llm 标出需要语言模型的行。
    """
)
def extract(
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help=both("Print JSON, one object per line.", "以 JSON 输出，每行一个对象。")
        ),
    ] = False,
    conversation: Annotated[
        bool,
        typer.Option(
            "--conversation",
            help=both("Read the lines as turns of one conversation.", "把各行当作同一段对话。"),
        ),
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help=both("Id of a rule to switch off; repeatable.", "要关闭的规则的编号；可重复。"),
        ),
    ] = None,
    said_at: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help=both(
                "Time of the lines, e.g. 2024-05-01 or yesterday.",
                "这些话的时间，如 2024-05-01 或 昨天。",
            ),
            show_default=both("now", "现在"),
        ),
    ] = None,
) -> None:
    """Show what the rules extract from each line of standard input.

    Opens no memory and stores nothing. needs_llm marks a line that needs a language model.
    """
    from shared_core.extraction.rule_based import RuleExtractor

    extractor = RuleExtractor(without=without or ())
    if sys.stdin is None:
        raise InvalidInput(
            t(
                "standard input is closed: send lines of text, e.g. with < FILE",
                "标准输入已关闭：请逐行送入文字，如 < FILE",
            )
        )
    source = typer.get_binary_stream("stdin")
    at = cli.date_option(said_at, "--said-at") or datetime.now(UTC)
    for line in read_lines(source, extractor, at, conversation=conversation):
        if as_json:
            typer.echo(line.as_json())
        else:
            cli.say(line.as_text())


@dataclass(frozen=True, slots=True, kw_only=True)
class LineDrafts:
    """The drafts of facts from one line."""

    text: str
    drafts: Sequence[FactDraft]
    needs_llm: bool

    def as_json(self) -> str:
        """Return a JSON object on one line."""
        values = {
            "text": self.text,
            "drafts": [_draft_json(draft) for draft in self.drafts],
            "needs_llm": self.needs_llm,
        }
        return json.dumps(values, ensure_ascii=False).translate(LINE_BREAKS)

    def as_text(self) -> str:
        """Return the text, and below it one line for each draft."""
        shown = [self.text, *(f"  {_draft_line(draft)}" for draft in self.drafts)]
        if self.needs_llm:
            shown.append(t("  (needs a language model)", "  （需要语言模型）"))
        elif not self.drafts:
            shown.append(t("  nothing", "  没有提取到内容"))
        return "\n".join(shown)


def read_lines(
    source: BinaryIO, extractor: RuleExtractor, said_at: datetime, *, conversation: bool = False
) -> Iterator[LineDrafts]:
    """Yield what the rules extract from each line of a UTF-8 stream, empty lines included.

    said_at: the time of every line, for relative dates. conversation: lines are turns of one user,
    so a pronoun may refer to a person in an earlier line, and a line may end what an earlier one
    states.
    Raises InvalidInput with the line's number for bytes that are not UTF-8.
    """
    from shared_core.knowledge.fact_planning import without_moot
    from shared_core.knowledge.revision import Revision

    before: list[Event] = []
    revision = Revision(reader=extractor.reader)
    for number, raw in enumerate(source, start=1):
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            encoding = "UTF-16" if number == 1 and raw.startswith(UTF_16_MARKS) else "GB18030"
            convert = f"iconv -f {encoding} -t UTF-8"
            raise InvalidInput(
                t(
                    f"line {number} is not UTF-8 (byte {error.start + 1}): convert the text first,"
                    f" e.g. with {convert}",
                    f"第 {number} 行不是 UTF-8（第 {error.start + 1} 个字节）：请先转换编码，如"
                    f" {convert}",
                )
            ) from None
        turn = Event(
            event_id=str(number), author="user", role="user", text=text, occurred_at=said_at
        )
        found = extractor.read([turn], before)
        revision = revision if conversation else Revision(reader=extractor.reader)
        facts = revision.read(turn, found.facts)
        drafts = without_moot(facts)
        yield LineDrafts(text=text, drafts=drafts, needs_llm=bool(found.needs_model))
        if conversation:
            before = [*before, turn][-MAX_CONTEXT:]


def kind_of(draft: FactDraft) -> str:
    """Return the kind of a draft: profile, preference, rule or relation."""
    if draft.slot.startswith("relation."):
        return "relation"
    return "profile" if draft.fact_type == "custom" else draft.fact_type


def _draft_json(draft: FactDraft) -> dict[str, JsonValue]:
    """Return a draft as JSON values; with valid_from only if the text dates it."""
    values: dict[str, JsonValue] = {
        "kind": kind_of(draft),
        "value": draft.value,
        "slot": draft.slot,
        "confidence": draft.confidence,
        "pattern": draft.pattern,
        "operation": draft.operation,
        "subject": draft.subject,
        "statement": draft.statement,
        "importance": draft.importance,
        "language": draft.language,
    }
    if draft.valid_from is not None:
        values["valid_from"] = cli.iso(draft.valid_from)
    return values


def _draft_line(draft: FactDraft) -> str:
    sign = {"assert": "+", "retract": "-", "doubt": "?"}[draft.operation]
    since = ""
    if draft.valid_from:
        day = f"{draft.valid_from:%Y-%m-%d}"
        since = t(f", since {day}", f"，自 {day}")
    slot = draft.slot
    if draft.subject != "user":
        slot = t(f"{slot} of {draft.subject}", f"{draft.subject} 的 {slot}")
    value = draft.value or t("(all)", "（全部）")
    return f"{sign} {slot} = {value}  [{draft.confidence:.2f} {draft.pattern}{since}]"
