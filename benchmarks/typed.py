"""Measures what is drawn from text as people type it, and what ends, without a model.

    python -m benchmarks.typed [--rules] [--misses] [--data FOLDER]

The data are benchmarks/data/typed: development data since they decided once. --rules: the rules
alone, without the trained reader. --misses: also print required facts that were not found, drafts
that no label has, and lines that went wrong. --data: another folder with files of these names. The
last line is one JSON object. Figures by language:

required, found            facts of single messages that a careful reader keeps, and those drawn
drafts, labelled           drafts of single messages, and those with a label; others may be right
silent, loud               messages without a fact, and those of them with a draft
conversations, right       conversations; those where all of the following is well at the end
to_hold, held              facts that must be held at the end, and those that are
to_end, still_held         facts that must have ended, and those that are held all the same
never, held_falsely        facts that must never be held, and those that are
questions, first           questions, and those whose first recalled memory answers
changed, stale_above       questions about a change; a stale answer ranks above the current one
ends, ended, doubted       lines that end or replace a held fact, those that do, those that doubt it
traps, ended_falsely       lines that end nothing, and those that end or replace a held fact
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias
from uuid import uuid4

from shared_core import Event, MemoryEngine, Scope, open_memory
from shared_core.core.domain import USER, FactDraft, HeldFact, MemoryId, ThreadId
from shared_core.extraction import RuleExtractor
from shared_core.knowledge.revision import revised
from shared_core.nlp.rules import kin_word, load_rules
from shared_core.nlp.slots import RELATION, slot_about, slot_of
from shared_core.nlp.text import Language, normalised
from shared_core.ports.runs import Fact

DATA: Final = Path(__file__).parent / "data" / "typed"
SAID_AT: Final = datetime(2026, 3, 10, 10, tzinfo=UTC)
LIMIT: Final = 10
NEGATIVE: Final = re.compile(
    r"\b(?:not|n't|no longer|never|doesn't|don't|dislikes?|hates?|avoids?|without|no|quit|ex|single"
    r"|divorced|separated|stopped)\b|不|没|別|别|离|已故|戒|分手|单身",
    re.IGNORECASE,
)
DENIED: Final = frozenset({
    "avoids", "dislikes", "not_is", "not_has", "left_job", "pet_died", "separated", "stopped",
})  # fmt: skip
"""Predicates of labels that deny something."""
SLOTS: Final[Mapping[str, str]] = {
    "lives in": "residence", "住在": "residence", "住": "residence", "works at": "employer",
    "上班": "employer", "has cat": "relation.cat", "猫": "relation.cat", "has dog": "relation.dog",
    "狗": "relation.dog", "partner is": "relation.partner", "男友": "relation.boyfriend",
    "女友": "relation.girlfriend", "老公": "relation.husband", "老婆": "relation.wife",
    "husband is": "relation.husband", "married to": "relation.husband",
    "engaged to": "relation.fiance", "has son": "relation.son", "has daughter": "relation.daughter",
    "drives": "car", "车": "car", "diet": "trait", "饮食": "trait", "allergic to": "allergy",
    "过敏": "allergy", "年龄": "age", "instruction": "rule", "要求": "rule", "drinks": "like",
    "喝": "like", "plays": "activity", "runs": "activity", "keeps": "activity",
    "takes": "medication", "吃药": "medication", "手机": "phone", "studies": "education",
    "speaks": "language", "programs in": "tool", "friend of user": "relation.friend",
    "banks with": "bank",
}  # fmt: skip
"""Slots for the words of traps.json; other words name a slot themselves."""

Figures: TypeAlias = defaultdict[str, Counter[str]]


def has_value(label: Mapping[str, Any], text: str) -> bool:
    """Tell whether a text has a value of a label: one of its expressions, each part of "a&b"."""
    return any(
        all(re.search(part, text, re.IGNORECASE) for part in one.split("&"))
        for one in label["value"]
    )


def says(label: Mapping[str, Any], fact: FactDraft | Fact) -> bool:
    """Tell whether a fact says what a label says, about the same subject."""
    if not has_value(label, f"{fact.value} {fact.statement}"):
        return False
    subject = getattr(fact, "subject", USER)
    of_user = subject == USER and fact.slot.count(".") < 2 and not fact.slot.startswith("about.")
    if of_user != (label["subject"] == "user"):
        return False
    if not of_user:
        about = f"{subject} {fact.slot} {fact.statement}"
        return bool(re.search(re.escape(label["subject"]), about, re.IGNORECASE))
    retracts = getattr(fact, "operation", "assert") == "retract"
    denies = retracts or fact.slot == "dislike" or bool(NEGATIVE.search(fact.statement))
    return denies if label["predicate"] in DENIED else not retracts and fact.slot != "dislike"


def read_messages(extractor: RuleExtractor, figures: Figures, data: Path = DATA) -> Iterator[str]:
    """Count what is drawn from single messages; yield what is missed or has no label."""
    for one in _loaded("utterances", data):
        tally, turn = figures[one["lang"]], _turn("1", one["text"], SAID_AT)
        drafts = extractor.read([turn]).facts
        required = [label for label in one["facts"] if label["required"]]
        missed = [label for label in required if not any(says(label, fact) for fact in drafts)]
        unknown = [fact for fact in drafts if not any(says(label, fact) for label in one["facts"])]
        tally["required"] += len(required)
        tally["found"] += len(required) - len(missed)
        tally["drafts"] += len(drafts)
        tally["labelled"] += len(drafts) - len(unknown)
        tally["silent"] += not one["facts"]
        tally["loud"] += bool(drafts and not one["facts"])
        if missed or unknown:
            drawn = [f"{fact.slot}={fact.value}" for fact in unknown]
            yield f"{one['text']!r} missed {[label['value'] for label in missed]}, drew {drawn}"


def read_lines(extractor: RuleExtractor, figures: Figures, data: Path = DATA) -> Iterator[str]:
    """Count which lines end, replace or doubt one of the facts held; yield those that go wrong."""
    for one in _loaded("traps", data):
        held = [_held(fact, one["lang"]) for fact in one["held"]]
        turn = _turn("1", one["text"], SAID_AT)
        read = extractor.knowing([], held).read([turn])
        there = ThreadId("here")
        drafts = revised([turn], read, held, (), there, reader=extractor.reader).facts
        ended = {place for place, fact in enumerate(held) if _ends(drafts, fact, "retract")}
        doubted = {place for place, fact in enumerate(held) if _ends(drafts, fact, "doubt")} - ended
        tally, wanted = figures[one["lang"]], {*one["ends"]}
        tally["ends" if wanted else "traps"] += 1
        tally["ended"] += bool(wanted & ended)
        tally["doubted"] += bool(wanted & doubted)
        tally["ended_falsely"] += bool(ended - wanted)
        if wanted - ended or ended - wanted:
            yield f"{one['text']!r} must end {sorted(wanted)}, ends {sorted(ended)}"


async def told_conversations(
    memory: MemoryEngine, data: Path = DATA
) -> AsyncIterator[tuple[dict[str, Any], Scope, datetime]]:
    """Yield conversations that are stored and consolidated, their user, and when to ask."""
    for one in _loaded("conversations", data):
        scope, began = Scope("typed", one["id"]), datetime.fromisoformat(one["start"])
        days: dict[int, list[Event]] = defaultdict(list)
        for place, turn in enumerate(one["turns"]):
            at = began + timedelta(days=turn["day"], minutes=place)
            role = "user" if turn["role"] == "user" else "agent"
            days[turn["day"]].append(_turn(str(place), turn["text"], at, role))
        for day, turns in days.items():
            await memory.append_events(scope, f"day {day}", turns)
            await memory.consolidate(scope, f"day {day}")
        yield one, scope, began + timedelta(days=max(days) + 1)


async def hold_conversations(memory: MemoryEngine, figures: Figures, data: Path = DATA) -> None:
    """Count what is held, and recalled, at the end of conversations."""
    async for one, scope, asked_at in told_conversations(memory, data):
        facts = await memory.facts(scope)
        tally = figures[one["lang"]]
        hold = [label for label in one["hold"] if label["required"]]
        end = [label for label in one["ended"] if label["required"]]
        held, still, never = (_said(labels, facts) for labels in (hold, end, one["absent"]))
        tally.update(conversations=1, to_hold=len(hold), held=held, to_end=len(end))
        tally.update(still_held=still, never=len(one["absent"]), held_falsely=never)
        tally["right"] += held == len(hold) and not still and not never
        for question in one["questions"]:
            hits = await memory.recall(scope, question["q"], limit=LIMIT, asked_at=asked_at)
            _count_answer(tally, question, [hit.memory.text for hit in hits])


def _count_answer(tally: Counter[str], question: Mapping[str, Any], texts: Sequence[str]) -> None:
    if not question["expect"]:
        return
    current = [is_answer(question, text) for text in texts]
    tally.update(questions=1, first=current[:1] == [True])
    if question["stale"]:
        above = texts[: [*current, True].index(True)]
        tally.update(changed=1, stale_above=any(is_stale(question, text) for text in above))


def is_answer(question: Mapping[str, Any], text: str) -> bool:
    """Tell whether a text holds an answer of a question."""
    return _any(question["expect"], text)


def is_stale(question: Mapping[str, Any], text: str) -> bool:
    """Tell whether a text holds only what was true before."""
    return _any(question["stale"], text) and not is_answer(question, text)


def _any(expressions: Sequence[str], text: str) -> bool:
    return any(re.search(one, text, re.IGNORECASE | re.DOTALL) for one in expressions)


def _said(labels: Iterable[Mapping[str, Any]], facts: Sequence[Fact]) -> int:
    return sum(any(says(label, fact) for fact in facts) for label in labels)


def _held(given: Mapping[str, str], lang: Language) -> HeldFact:
    """Return a fact of traps.json as it would be held."""
    words, value = given["slot words"], given["value"]
    slot = slot_of(SLOTS.get(words, words)) or slot_of("thing")
    assert slot is not None
    subject = USER if given["subject"] in ("user", "用户") else normalised(given["subject"])
    slot = slot if subject == USER else slot_about(subject, slot)
    return HeldFact(
        memory_id=MemoryId(uuid4()),
        fact_type=slot.fact_type,
        slot=slot.name,
        subject=subject,
        value=value,
        statement=statement_of(slot.name, value, lang) or f"{given['subject']} {words} {value}",
        functional=slot.functional,
        stated_at=SAID_AT - timedelta(days=20),
        thread_id=ThreadId("before"),
        event_ids=("0",),
    )


def statement_of(slot: str, value: str, lang: Language) -> str:
    """Return the sentence that states a value about the user, "" for a slot without one."""
    rules, kin = load_rules(lang), slot.removeprefix(f"{RELATION}.")
    sentence = rules.sentences.get("relation.{kin}" if kin != slot else slot, "")
    verb = "doing" if lang == "en" else "做"
    words = {"value": value, "kin": kin_word(kin, lang), "canonical_kin": kin, "a": "a"}
    return sentence.format_map(words | {"verb": verb}) if "." not in kin else ""


def _ends(drafts: Iterable[FactDraft], fact: HeldFact, operation: str) -> bool:
    """Tell whether drafts do this to a held fact; another value of a single one retracts it."""
    for draft in drafts:
        subject = USER if draft.subject == USER else normalised(draft.subject)
        if (draft.slot, subject) != (fact.slot, fact.subject):
            continue
        is_same = normalised(draft.value) == normalised(fact.value)
        if draft.operation == operation and (is_same or not draft.value):
            return True
        if operation == "retract" and draft.operation == "assert" and draft.functional:
            return not is_same
    return False


def _turn(event_id: str, text: str, at: datetime, role: Any = "user") -> Event:
    return Event(event_id=event_id, author=role, role=role, text=text, occurred_at=at)


def _loaded(name: str, data: Path) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((data / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


async def _conversations(extractor: RuleExtractor, figures: Figures, data: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with open_memory(Path(folder), extractor=extractor, worker=False) as memory:
            await hold_conversations(memory, figures, data)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rules", action="store_true", help="without the trained reader")
    parser.add_argument("--data", type=Path, default=DATA, help="another folder")
    parser.add_argument("--misses", action="store_true", help="print what goes wrong")
    options = parser.parse_args()
    extractor, figures = RuleExtractor(reader=not options.rules), Figures(Counter)
    messages = read_messages(extractor, figures, options.data)
    for line in chain(messages, read_lines(extractor, figures, options.data)):
        if options.misses:
            print(line)
    asyncio.run(_conversations(extractor, figures, options.data))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
