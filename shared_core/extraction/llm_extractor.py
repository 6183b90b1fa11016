"""Read, sum up and reflect with a language model, and check its answers."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Self, TypeVar

from shared_core.core.domain import (
    Conclusions,
    Event,
    Extraction,
    HeldFact,
    InsightDraft,
    JsonValue,
    KnownPerson,
    Memory,
    MemoryId,
    ModelUsage,
)
from shared_core.core.model_limits import ModelLimits
from shared_core.core.namespaces import clean_text
from shared_core.core.telemetry import REASON, REFUSED, SKIPPED
from shared_core.errors import InvalidInput, ModelOutputInvalid
from shared_core.extraction.earlier_turns import with_context
from shared_core.extraction.evidence import SECRET
from shared_core.extraction.fact_review import outdated_facts, review_listing
from shared_core.extraction.gate import may_tell
from shared_core.extraction.held_listing import NOTHING_HELD, HeldListing, listing_of
from shared_core.extraction.llm_drafts import AnswerDrafting, ModelAnswer
from shared_core.extraction.llm_schema import (
    CHOICE_SCHEMA,
    EXTRACTION,
    REFLECTION,
    Element,
    ReflectionItem,
    ReviewItem,
    lists_schema,
    numbers_of,
)
from shared_core.extraction.prompts import Prompt, load_prompt
from shared_core.extraction.transcript import (
    Transcript,
    context_text,
    escaped,
    shown_text,
    transcripts,
)
from shared_core.models.call_limits import ModelCalls
from shared_core.models.json_repair import ParsedJson, Unreadable, read_items, read_object
from shared_core.models.language_model import LanguageModel, ModelReply, ModelRequest
from shared_core.nlp.extractive_summary import shortened, without_sentences
from shared_core.nlp.text import language, sentences
from shared_core.nlp.tokenizer import count_tokens
from shared_core.ports.storage import Extractor

log = logging.getLogger("hippocampus")

MODEL_VERSION: Final = "llm-v3"
EXTRACT: Final = "extract.v4"
SUMMARY: Final = "summary"
REFLECT: Final = "reflect.v2"
FORGET: Final = "forget.v1"

MAX_INPUT_TOKENS: Final = 16_000
"""Maximum tokens of turns in one call; longer input takes several calls."""
KNOWN_TOKENS: Final = 1_500
"""Maximum tokens of earlier turns shown as context."""
MAX_ELEMENTS: Final = 100
"""Maximum number of elements read from each list of an answer."""
MAX_QUOTED_CHARACTERS: Final = 500
LEAST_EVIDENCE: Final = 2
"""Minimum number of memories behind a reflection."""
NONE: Final = "(none)"
REFUSAL: Final = re.compile(
    r"\W*(?:i(?:'|’)?m (?:very )?sorry|sorry, |i apologi[sz]e|i (?:can(?:no|'|’)t|am unable to"
    r"|will not|won(?:'|’)t) |as an ai\b|很?抱歉|对不起|我(?:不能|无法|没有办法))",
    re.IGNORECASE,
)

Parsed = TypeVar("Parsed")


class ModelExtractor:
    """An Extractor and Reflector on a language model.

    A session takes one call per max_input_tokens, and none if no turn of the user tells anything.
    An unusable answer is requested once more, with the reason.

    Args:
        model: The language model.
        fallback: The extractor for when the model has failed for good; never called here.
        limits: Limits of its calls.
        max_input_tokens: Maximum tokens of turns in one call.
        reads_all: Ask the model also about sessions that tell nothing.

    Raises:
        ModelUnavailable: The model fails.
        ModelQuotaExceeded: The model accepts no more calls for now.
        ModelOutputInvalid: Two answers in a row are unusable.
    """

    def __init__(
        self,
        model: LanguageModel,
        fallback: Extractor,
        *,
        limits: ModelLimits | None = None,
        max_input_tokens: int = MAX_INPUT_TOKENS,
        reads_all: bool = False,
    ) -> None:
        if max_input_tokens < 1:
            raise InvalidInput(f"max_input_tokens must be at least 1, got {max_input_tokens}")
        self.fallback = fallback
        self._calls = ModelCalls(model, limits)
        self._max_input_tokens = max_input_tokens
        self._reads_all = reads_all
        self._people: Sequence[KnownPerson] = ()
        self._held: Sequence[HeldFact] = ()
        self._previous, self._summary_characters = "", 0

    def knowing(self, people: Sequence[KnownPerson], held: Sequence[HeldFact] = ()) -> Self:
        """Return a copy that shows the model these facts, for one window; it shares the usage."""
        knowing = copy(self)
        knowing._people = people
        knowing._held = held
        return knowing

    def summing_up(self, previous: str, max_characters: int) -> Self:
        """Return a copy whose extract() also continues this summary of the turns before."""
        summing = copy(self)
        summing._previous, summing._summary_characters = previous, max_characters
        return summing

    def reading_all(self) -> Self:
        """Return a copy that asks the model also about sessions that tell nothing."""
        reading = copy(self)
        reading._reads_all = True
        return reading

    @property
    def usage(self) -> ModelUsage:
        """Usage of this object so far, including unusable answers."""
        return self._calls.usage

    @property
    def name(self) -> str:
        """The version of this code and its prompt, and the model's name."""
        return f"{MODEL_VERSION}/{EXTRACT}/{self._calls.name}"

    @property
    def window_tokens(self) -> int:
        """Maximum tokens of one call; a longer thread is read window by window."""
        return self._max_input_tokens

    @property
    def reread_turns(self) -> int:
        """0: a summary builds on the previous one."""
        return 0

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        """Return the drafts of what the user says in events.

        After a truncated answer, the turns that follow stay unread: their ids are in `unread`.
        needs_model: ids of turns that were not read to the end. A session whose turns of the user
        tell nothing is not sent: their ids are in `skipped`.
        """
        parts = await asyncio.to_thread(transcripts, events, self._max_input_tokens)
        found, summary = Extraction(), self._previous
        before = list(context)
        for part in parts:
            turns = list(part.turns.values())
            said = [event.event_id for event in turns if event.role == "user"]
            if said and not (
                self._reads_all or await asyncio.to_thread(may_tell, turns, before, self._held)
            ):
                SKIPPED.add(len(said))
                found = _joined(found, Extraction(skipped=said, summary=found.summary))
            elif said:
                read = await self._extract(part, before, summary)
                summary = read.summary or summary
                found = _joined(found, await asyncio.to_thread(with_context, read, turns, before))
            before += turns
            if found.unread:
                break
        return found

    async def _extract(
        self, part: Transcript, before: Sequence[Event], previous: str
    ) -> Extraction:
        known = await asyncio.to_thread(context_text, before, KNOWN_TOKENS)
        listing = await asyncio.to_thread(listing_of, self._held, f"{known}\n{part.text}")
        (answer, truncated), usage = await self._answered(
            part, known, listing, previous, self._summary_characters
        )
        drafting = AnswerDrafting(part, known, EXTRACT, listing, self._people, self._held)
        drafts = await asyncio.to_thread(drafting.drafts_from, answer)
        _log_left_out(drafts.refused)
        behind = _after_last(part, answer) if truncated else []
        unread = tuple(behind) if answer.facts else ()
        return replace(
            drafts,
            usage=usage,
            needs_model=tuple(dict.fromkeys([*part.shortened, *behind])),
            unread=unread,
            summary="" if unread else _fitting(drafts.summary, self._summary_characters),
        )

    async def _answered(
        self, part: Transcript, known: str, listing: HeldListing, previous: str, characters: int
    ) -> tuple[tuple[ModelAnswer, bool], ModelUsage]:
        """Return the answer for a part, and whether it was cut off."""
        values = {
            "held": listing.text or NONE,
            "known": known or NONE,
            "previous": escaped(previous) or NONE,
            "turns": part.text,
            "language": part.language_note,
            "characters": str(characters),
        }
        schema = lists_schema("Extraction", EXTRACTION, (SUMMARY,))
        return await self.ask(load_prompt(EXTRACT), values, schema, (*EXTRACTION, SUMMARY), _answer)

    async def summarise(
        self, events: Sequence[Event], previous: str, max_characters: int
    ) -> tuple[str, ModelUsage]:
        """Return a summary that continues the previous one and covers the last events.

        It takes a call of its own; summing_up() has extract() write it along.
        """
        parts = await asyncio.to_thread(transcripts, events, self._max_input_tokens)
        if not parts:
            return previous[:max_characters], ModelUsage()
        (answer, _), usage = await self._answered(
            parts[-1], "", NOTHING_HELD, previous, max_characters
        )
        summary = _fitting(answer.summary, max_characters)
        if not summary:
            raise ModelOutputInvalid(
                f"language model {self._calls.name!r} returned no summary within"
                f" {max_characters} characters"
            )
        return summary, usage

    async def reflect(
        self, memories: Sequence[Memory], held: Sequence[HeldFact], now: datetime
    ) -> Conclusions:
        """Return insights from memories of one user, and which of the held facts are out of date.

        Each insight rests on at least two memories. Of many memories and facts the newest are read,
        of each what fits half of max_input_tokens.
        """
        room = self._max_input_tokens // 2
        shown = await asyncio.to_thread(_numbered, memories, room)
        if len(shown) < LEAST_EVIDENCE:
            return Conclusions()
        listing = await asyncio.to_thread(review_listing, held, room)
        text = "\n".join(line for line, _ in shown.values())
        values = {
            "today": now.date().isoformat(),
            "memories": text,
            "held": listing.text or NONE,
            "language": _language_note(text),
        }
        schema = lists_schema("Reflection", REFLECTION)
        (insights, reviewed, malformed), usage = await self.ask(
            load_prompt(REFLECT), values, schema, tuple(REFLECTION), _reflections
        )
        ids = {number: memory_id for number, (_, memory_id) in shown.items()}
        drafts, left_out = _insights(insights, ids)
        outdated, refused = outdated_facts(reviewed, listing, now, REFLECT)
        refused += left_out + Counter({"malformed element": malformed})
        _log_left_out(refused)
        return Conclusions(insights=drafts, outdated=outdated, refused=refused, usage=usage)

    async def telling(
        self, request: Event, topics: Sequence[str], memories: Sequence[Memory]
    ) -> tuple[frozenset[MemoryId], ModelUsage]:
        """Return which of the memories tell what the user asks to forget in a turn."""
        shown = await asyncio.to_thread(_numbered, memories, self._max_input_tokens)
        values = {
            "request": escaped(shown_text(request)),
            "topics": escaped("; ".join(topics)) or NONE,
            "memories": "\n".join(line for line, _ in shown.values()),
        }
        prompt, keys = load_prompt(FORGET), ("memories",)
        chosen, usage = await self.ask(prompt, values, CHOICE_SCHEMA, keys, _choice)
        return frozenset(shown[one][1] for one in chosen if one in shown), usage

    def _request(
        self, prompt: Prompt, values: Mapping[str, str], schema: Mapping[str, JsonValue]
    ) -> ModelRequest:
        return ModelRequest(
            system=prompt.system,
            prompt=prompt.filled(values),
            schema=schema,
            max_output_tokens=self._calls.limits.max_tokens,
        )

    async def _complete(self, request: ModelRequest) -> tuple[ModelReply, ModelUsage]:
        """Call the model once. Raises ModelOutputInvalid for a refusal or an empty answer."""
        reply, usage = await self._calls.complete(request)
        if reply.finish == "refused":
            raise ModelOutputInvalid(f"language model {self._calls.name!r} refused to answer")
        if not reply.text.strip():
            why = " (it used up its output tokens)" if reply.finish == "length" else ""
            raise ModelOutputInvalid(
                f"language model {self._calls.name!r} returned an empty answer{why}"
            )
        return reply, usage

    async def ask(
        self,
        prompt: Prompt,
        values: Mapping[str, str],
        schema: Mapping[str, JsonValue],
        keys: Sequence[str],
        parse: Callable[[ParsedJson], Parsed],
    ) -> tuple[Parsed, ModelUsage]:
        """Return the parsed answer. An unusable answer is requested once more."""
        request = self._request(prompt, values, schema)
        reply, usage = await self._complete(request)
        try:
            return _parsed(reply, keys, parse), usage
        except Unreadable as error:
            log.warning("retrying language model %s: %s", self._calls.name, error)
            again = replace(request, prompt=request.prompt + _complaint(reply, error))
        reply, more = await self._complete(again)
        try:
            return _parsed(reply, keys, parse), usage + more
        except Unreadable as error:
            raise ModelOutputInvalid(
                f"language model {self._calls.name!r} gave an unusable answer twice: {error}"
            ) from error


def _parsed(
    reply: ModelReply, keys: Sequence[str], parse: Callable[[ParsedJson], Parsed]
) -> Parsed:
    try:
        reading = read_object(reply.text, keys)
    except Unreadable as error:
        if REFUSAL.match(reply.text):
            raise Unreadable(f"it refused, with {error}") from error
        if reply.finish == "length":
            raise Unreadable(f"cut off when its tokens were used up, with {error}") from error
        raise
    cut = reading.truncated or reply.finish == "length"
    return parse(ParsedJson(value=reading.value, truncated=cut))


def _answer(reading: ParsedJson) -> tuple[ModelAnswer, bool]:
    """Return the elements of an extraction. Raises Unreadable if it has only invalid ones."""
    lists: dict[str, list[Element]] = {}
    wrong: list[str] = []
    for name, model in EXTRACTION.items():
        lists[name], refused = read_items(reading.value.get(name), model, MAX_ELEMENTS)
        wrong += [f"{name} {one}" for one in refused]
    given = reading.value.get(SUMMARY)
    summary = " ".join(clean_text(given).split()) if isinstance(given, str) else ""
    if wrong or not summary:
        _check(lists, wrong, reading)
    elements: dict[str, Any] = {**lists, "malformed": len(wrong)}
    return ModelAnswer(summary="" if REFUSAL.match(summary) else summary, **elements), (
        reading.truncated
    )


def _reflections(reading: ParsedJson) -> tuple[list[ReflectionItem], list[ReviewItem], int]:
    """Return the insights and reviewed facts of an answer, and how many elements are malformed."""
    insights, wrong = read_items(reading.value.get("insights"), ReflectionItem, MAX_ELEMENTS)
    facts, unread = read_items(reading.value.get("facts"), ReviewItem, MAX_ELEMENTS)
    _check({"insights": insights, "facts": facts}, [*wrong, *unread], reading)
    return insights, facts, len(wrong) + len(unread)


def _choice(reading: ParsedJson) -> list[int]:
    """Return the numbers of an answer. Raises Unreadable if it has no list of them."""
    given = reading.value.get("memories")
    if not isinstance(given, list):
        raise Unreadable("it has no list of memories")
    return numbers_of(given)


def _check(
    lists: Mapping[str, Sequence[Element]], wrong: Sequence[str], reading: ParsedJson
) -> None:
    found = any(lists.values())
    if wrong:
        log.debug("dropped elements of an answer: %s", "; ".join(wrong[:5]))
    if wrong and not found:
        raise Unreadable(f"no element can be used: {'; '.join(wrong[:3])}")
    if reading.truncated and not found:
        raise Unreadable("cut off before its first element was complete; answer more briefly")


def _complaint(reply: ModelReply, error: Unreadable) -> str:
    begin = escaped(reply.text[:MAX_QUOTED_CHARACTERS])
    return (
        f"\n\nYour answer before could not be used: {error}. It began:\n<answer>\n{begin}\n"
        "</answer>\nAnswer once more, with the JSON object only."
    )


def _after_last(part: Transcript, answer: ModelAnswer) -> list[str]:
    """Return the ids of the user turns after the last one a truncated answer reached."""
    numbers = [number for fact in answer.facts for number in fact.turns]
    last = max((number for number in numbers if number in part.turns), default=0)
    return [
        event.event_id
        for number, event in part.turns.items()
        if number > last and event.role == "user"
    ]


def _joined(first: Extraction, second: Extraction) -> Extraction:
    return Extraction(
        facts=[*first.facts, *second.facts],
        statements=[*first.statements, *second.statements],
        triples=[*first.triples, *second.triples],
        emotions={**first.emotions, **second.emotions},
        importance={**first.importance, **second.importance},
        needs_model=(*first.needs_model, *second.needs_model),
        unread=(*first.unread, *second.unread),
        skipped=(*first.skipped, *second.skipped),
        forget=(*first.forget, *second.forget),
        refused=Counter(first.refused) + Counter(second.refused),
        summary=second.summary,
        usage=first.usage + second.usage,
    )


def _fitting(text: str, max_characters: int) -> str:
    """Return the whole sentences that fit, without secrets, else the start of the first."""
    kept = ""
    usable = sentences(without_sentences(text, lambda one: bool(SECRET.search(one))))
    for sentence in usable:
        space = "" if not kept or language(kept) == "zh" else " "
        if len(kept) + len(space) + len(sentence) > max_characters:
            break
        kept += space + sentence
    return kept or (shortened(usable[0], max_characters) if usable else "")


def _language_note(text: str) -> str:
    return ", which is Chinese (中文)" if language(text) == "zh" else ""


def _numbered(memories: Sequence[Memory], max_tokens: int) -> dict[int, tuple[str, MemoryId]]:
    """Return the newest memories that fit, oldest first, as numbered lines."""
    chosen: list[tuple[str, MemoryId]] = []
    for memory in sorted(memories, key=lambda one: one.occurred_at, reverse=True):
        text = f"{memory.occurred_at.date().isoformat()}, {memory.kind}: {escaped(memory.text)}"
        max_tokens -= count_tokens(text) + 5
        if max_tokens < 0:
            break
        chosen.append((text, memory.memory_id))
    return {
        number: (f"[{number}] {text}", memory_id)
        for number, (text, memory_id) in enumerate(reversed(chosen), 1)
    }


def _insights(
    items: Sequence[ReflectionItem], ids: Mapping[int, MemoryId]
) -> tuple[list[InsightDraft], Counter[str]]:
    """Return the insights that enough memories support, and how many others there were, and why."""
    drafts: dict[str, InsightDraft] = {}
    left_out: Counter[str] = Counter()
    for item in items:
        evidence = tuple(ids[number] for number in item.memories if number in ids)
        if len(evidence) < LEAST_EVIDENCE:
            left_out["insight on fewer than two memories"] += 1
        elif SECRET.search(item.text):
            left_out["insight with a secret"] += 1
        else:
            drafts.setdefault(
                item.text,
                InsightDraft(
                    text=item.text,
                    category=item.category,
                    importance=item.importance,
                    memory_ids=evidence,
                ),
            )
    return list(drafts.values()), left_out


def _log_left_out(reasons: Mapping[str, int]) -> None:
    for reason, count in reasons.items():
        REFUSED.add(count, {REASON: reason})
    dropped = ", ".join(f"{reason} ({count})" for reason, count in sorted(reasons.items()))
    if dropped:
        log.info("dropped from a model's answer: %s", dropped)
