"""What `hippocampus extract` does: shows what the rules read, line by line, to tune them by."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO, Final

from shared_core.core.domain import Event, Extraction, FactDraft, JsonValue
from shared_core.errors import InvalidInput
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.knowledge.fact_planning import without_moot

LINE_BREAKS: Final = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
"""What JSON leaves as it is, and some take for the end of a line."""
UTF_16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MAX_CONVERSATION: Final = 20
"""So many lines before a line help to understand it, if lines are turns of one conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReading:
    """What was read out of one line."""

    text: str
    drafts: Sequence[FactDraft]
    needs_llm: bool

    def as_json(self) -> str:
        """Return it as a JSON object on one line."""
        told: dict[str, JsonValue] = {
            "text": self.text,
            "drafts": [draft_json(draft) for draft in self.drafts],
            "needs_llm": self.needs_llm,
        }
        return json.dumps(told, ensure_ascii=False).translate(LINE_BREAKS)

    def as_lines(self) -> str:
        """Return it for people: the text, and a line for each draft."""
        shown = [self.text, *(f"  {_shown(draft)}" for draft in self.drafts)]
        if self.needs_llm:
            shown.append("  (more than rules can read)")
        elif not self.drafts:
            shown.append("  nothing")
        return "\n".join(shown)


def read_lines(
    source: BinaryIO, extractor: RuleExtractor, said_at: datetime, *, conversation: bool = False
) -> Iterator[LineReading]:
    """Yield what the rules read out of each line of a UTF-8 stream, an empty one included.

    said_at: when every line was said, for relative dates. conversation: the lines are turns of one
    user, so that a pronoun may mean who was named before; else each stands alone.
    Raises InvalidInput, with the number of the line, for bytes that are no UTF-8.
    """
    before: list[Event] = []
    for number, raw in enumerate(source, start=1):
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            written = "UTF-16" if number == 1 and raw.startswith(UTF_16_MARKS) else "GB18030"
            raise InvalidInput(
                f"line {number} is not UTF-8 (byte {error.start + 1}): convert the text first,"
                f" e.g. with iconv -f {written} -t UTF-8"
            ) from None
        turn = Event(
            event_id=str(number), author="user", role="user", text=text, occurred_at=said_at
        )
        yield line_reading(text, extractor.read([turn], before))
        if conversation:
            before = [*before, turn][-MAX_CONVERSATION:]


def line_reading(text: str, found: Extraction) -> LineReading:
    """Return what was read out of a line; ends of facts that it replaces itself are left out."""
    drafts = without_moot(found.facts)
    return LineReading(text=text, drafts=drafts, needs_llm=bool(found.needs_model))


def moment(text: str | None) -> datetime:
    """Return a moment in ISO 8601, in UTC without a zone; now for None. Raises InvalidInput."""
    if text is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{text!r} is no time: write it as 2026-05-13 or 2026-05-13T15:00+02:00"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def kind_of(draft: FactDraft) -> str:
    """Return "profile", "preference", "rule" or "relation"."""
    if draft.slot.startswith("relation."):
        return "relation"
    return "profile" if draft.fact_type == "custom" else draft.fact_type


def draft_json(draft: FactDraft) -> dict[str, JsonValue]:
    """Return a draft as a JSON object; valid_from only if the text dates it."""
    told: dict[str, JsonValue] = {
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
        told["valid_from"] = draft.valid_from.isoformat()
    return told


def _shown(draft: FactDraft) -> str:
    sign = "-" if draft.operation == "retract" else "+"
    since = f", since {draft.valid_from:%Y-%m-%d}" if draft.valid_from else ""
    slot = draft.slot if draft.subject == "user" else f"{draft.slot} of {draft.subject}"
    value = draft.value or "(all)"
    return f"{sign} {slot} = {value}  [{draft.confidence:.2f} {draft.pattern}{since}]"
