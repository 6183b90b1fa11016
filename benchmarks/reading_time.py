"""Measures the processor time of redaction and of the rules, in seconds per 10 kB of text.

    python -m benchmarks.reading_time [--texts 2000] [--kilobytes 10] [--seed 1] [--json]

Texts are filled to --kilobytes of UTF-8: nothing but facts, English and Chinese, in random orders
(the labelled sentences of benchmarks/data), and the shortest ones with new words; the chats of
benchmarks/data; every labelled sentence again and again; and random ones of the texts that
tests/adversarial_patterns.py makes for every regular expression of the packages. --texts: number of
the last kind. "redaction" masks all kinds of secrets, "rules" reads one turn of a user, "summary"
summarises it. The worst text of each is read once more (the lesser time counts: other processes
disturb it), and at ten times the length, because time must not grow faster than the text.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.process_memory import words_of
from benchmarks.report import load_average
from shared_core import Event
from shared_core.extraction.rule_based import RuleExtractor, key_sentences
from shared_core.nlp.extractive_summary import summarise
from shared_core.privacy.redaction import KINDS, PrivacyPolicy
from tests.adversarial_patterns import attacks, compiled_patterns

DATA: Final = Path(__file__).parent / "data"
KB: Final = 1_000
LONGER: Final = 10
ORDERS: Final = 5
MASKS_ALL: Final = PrivacyPolicy(dict.fromkeys(KINDS, "mask"))
EXTRACTOR: Final = RuleExtractor()
DENSE: Final = {
    "en": (
        "I love {0}. ",
        "I work at {0}. ",
        "My sister is called {0}. ",
        "My dog is called {0}, she is 5. ",
        "My sister {0} is 5. She likes tea. ",
    ),
    "zh": ("我喜欢{0}。", "我住在{0}。", "我女儿叫{0}。", "我女儿{0}今年5岁，她喜欢画画。"),
}
"""The shortest sentences that state something new each time: the most facts in a text."""
AT: Final = datetime(2026, 3, 1, tzinfo=UTC)
Source = tuple[str, Callable[[int], str]]
"""A name, and a function that returns a text of a number of bytes."""


def filled(unit: str, size: int) -> str:
    """Return a unit again and again, at most size bytes of it."""
    clean = unit.encode("utf-8", "replace")  # as a memory stores lone surrogates
    return (clean * (size // max(1, len(clean)) + 1))[:size].decode(errors="ignore")


def turn(text: str) -> Event:
    """Return a turn of a user."""
    return Event(event_id="e", author="user", role="user", text=text, occurred_at=AT)


def redact(text: str) -> object:
    """Redact a text."""
    return MASKS_ALL.redact(text)


def read(text: str) -> object:
    """Read a text by the rules."""
    return EXTRACTOR.read([turn(text)])


def sum_up(text: str) -> object:
    """Summarise a text."""
    events = [turn(text)]
    return summarise(events, max_characters=1_000, key_sentences=key_sentences(events))


WORK: Final[dict[str, Callable[[str], object]]] = {
    "redaction": redact,
    "rules": read,
    "summary": sum_up,
}


def sources(count: int, seed: int) -> Iterator[Source]:
    """Yield texts by name."""
    labelled = json.loads((DATA / "utterances.json").read_text("utf-8"))
    secrets = json.loads((DATA / "redaction.json").read_text("utf-8"))
    for language in ("EN", "ZH"):
        facts = [row["text"] for row in labelled[language] if row["expect"]]
        for order in range(ORDERS):
            shuffled = random.Random(f"{seed} {order}").sample(facts, len(facts))
            joined = (" " if language == "EN" else "") .join(shuffled)  # fmt: skip
            yield f"nothing but facts, {language}", _repeated(joined + " ")
        for row in (*labelled[language], *secrets[language]):
            yield f"again and again: {row['text'][:60]}", _repeated(row["text"] + " ")
    for language, templates in DENSE.items():
        chance, words = random.Random(f"{seed} {language}"), words_of(language, 3_000)
        for template in templates:
            short = (template.format(chance.choice(words).capitalize()) for _ in range(1_000))
            yield f"short facts: {template}", _repeated("".join(short))
    chats = json.loads((DATA / "assistant.json").read_text("utf-8"))["conversations"]
    for chat in chats:
        said = [one for session in chat["sessions"] for one in session["turns"]]
        yield "chat", _repeated(" ".join(one.partition(": ")[2] for one in said) + " ")
    patterns, _ = compiled_patterns()
    made = sorted({one for pattern in patterns for one in attacks(pattern)})
    for lead, body, end in random.Random(seed).sample(made, min(count, len(made))):
        yield f"{lead[:20]!r} {body[:40]!r} {end!r}", _attack(lead, body, end)


def _repeated(unit: str) -> Callable[[int], str]:
    return lambda size: filled(unit, size)


def _attack(lead: str, body: str, end: str) -> Callable[[int], str]:
    return lambda size: lead + filled(body, size) + end


def seconds_per_10_kb(work: Callable[[str], object], text: str) -> float:
    """Return the processor time of some work on a text."""
    begun = time.process_time()
    work(text)
    return (time.process_time() - begun) / (len(text.encode("utf-8", "replace")) / (10 * KB))


def measure(count: int, kilobytes: int, seed: int) -> dict[str, Any]:
    """Return the worst texts of each kind of work."""
    for work in WORK.values():
        work("I live in Leeds. 我住在深圳。")  # compiles and loads
    worst: dict[str, tuple[float, Source]] = {}
    chats: dict[str, float] = {}
    texts = 0
    for source in sources(count, seed):
        texts += 1
        text = source[1](kilobytes * KB)
        for name, work in WORK.items():
            spent = seconds_per_10_kb(work, text)
            if spent > worst.get(name, (0.0, source))[0]:
                worst[name] = spent, source
            if source[0] == "chat":
                chats[name] = max(spent, chats.get(name, 0.0))
    return {
        "texts": texts,
        "kilobytes": kilobytes,
        "seconds of the processor per 10 kB": {
            name: {
                "worst": round(min(spent, seconds_per_10_kb(WORK[name], make(kilobytes * KB))), 4),
                "worst text": title,
                "ten times as long": round(
                    seconds_per_10_kb(WORK[name], make(LONGER * kilobytes * KB)), 4
                ),
                "worst chat": round(chats[name], 4),
            }
            for name, (spent, (title, make)) in worst.items()
        },
    }


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--texts", type=int, default=2_000)
    parser.add_argument("--kilobytes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    report = measure(arguments.texts, arguments.kilobytes, arguments.seed)
    report |= {"date": datetime.now(UTC).date().isoformat(), "load": load_average()}
    if arguments.json:
        print(json.dumps(report, ensure_ascii=False))
        return
    for name, value in report.items():
        print(f"{name}: {json.dumps(value, indent=2, ensure_ascii=False)}")


if __name__ == "__main__":
    main()
