"""Turn a model's requests to forget into drafts, and drop inadmissible ones. Pure.

A model is not trusted with forgetting either:
- The turn that asks must be one of the user, with words of its own beside any quotation, and must
  not give orders to the memory ("delete everything you know").
- A topic must stand in the own words of that turn or of a turn named. It is never the user, nor
  "it" or "everything".
- Turns must have been shown by number, and facts by id; an answer names few of them.

What is carried out is a run that can be undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from shared_core.core.domain import Event, Extraction, ForgetDraft, MemoryId
from shared_core.extraction.earlier_turns import telling_words
from shared_core.extraction.evidence import USER_WORDS, Evidence, said_by_user
from shared_core.extraction.fact_operations import Inadmissible, gives_orders
from shared_core.extraction.forget_requests import topic_of_matter, topic_request
from shared_core.extraction.forget_topics import topic_among
from shared_core.extraction.held_listing import HeldListing
from shared_core.extraction.llm_schema import FactOperation
from shared_core.nlp.extractive_summary import without_sentences
from shared_core.nlp.text import has_words, normalised, search_terms

MAX_REQUESTS: Final = 10
"""Maximum number of requests to forget that are carried out of one answer."""
MAX_NAMED: Final = 20
"""Maximum number of turns that one request names."""


class ForgetDrafting:
    """Turns the operations "forget" of one answer into drafts.

    listing: the facts that the model was shown.
    """

    def __init__(self, evidence: Evidence, listing: HeldListing) -> None:
        self._evidence = evidence
        self._held = listing.facts

    def drafts(self, items: Iterable[FactOperation]) -> list[ForgetDraft]:
        """Return the admissible requests, those of one turn as one, in the order of the answer."""
        admitted: list[ForgetDraft] = []
        for item in items:
            try:
                admitted.append(self._draft(item))
            except Inadmissible as error:
                self._evidence.leave_out(str(error))
        for _ in admitted[MAX_REQUESTS:]:
            self._evidence.leave_out("too many requests to forget")
        found: dict[str, ForgetDraft] = {}
        for one in admitted[:MAX_REQUESTS]:
            known = found.get(one.event_id, ForgetDraft(event_id=one.event_id))
            found[one.event_id] = ForgetDraft(
                event_id=one.event_id,
                topics=tuple(dict.fromkeys((*known.topics, *one.topics))),
                event_ids=tuple(dict.fromkeys((*known.event_ids, *one.event_ids))),
                memory_ids=tuple(dict.fromkeys((*known.memory_ids, *one.memory_ids))),
            )
        return list(found.values())

    def without(self, found: Extraction, asked: Sequence[ForgetDraft]) -> Extraction:
        """Return an extraction without what the requests are about.

        What a turn after the request says of a topic stays, and what the asking turn says beside.
        """
        for draft in asked:
            found = self._without_one(found, draft)
        return replace(found, forget=tuple(asked))

    def _without_one(self, found: Extraction, draft: ForgetDraft) -> Extraction:
        at, gone = self._evidence.order[draft.event_id], frozenset(draft.event_ids)
        words = self._words_of(draft)

        def stays(text: str, *ids: str) -> bool:
            is_later = any(self._evidence.order.get(one, 0) > at for one in ids)
            return is_later or not (gone.intersection(ids) or self._is_about(draft, text))

        return replace(
            found,
            facts=[
                one
                for one in found.facts
                if one.operation != "assert"
                or stays(f"{one.statement}\n{one.subject}", one.event_id, *one.other_event_ids)
            ],
            statements=[one for one in found.statements if stays(one.text, *one.event_ids)],
            triples=[
                one
                for one in found.triples
                if stays(f"{one.subject}\n{one.object}", one.event_id, *one.other_event_ids)
            ],
            summary=without_sentences(
                found.summary,
                lambda text: (
                    self._is_about(draft, text) or not words.isdisjoint(search_terms(text))
                ),
            ),
        )

    def _words_of(self, draft: ForgetDraft) -> frozenset[str]:
        """Return the informative words that only the turns and facts to forget have."""
        own = [one for one in self._evidence.turns.values() if one.event_id in draft.event_ids]
        facts = [one for one in self._held.values() if one.memory_id in draft.memory_ids]
        others = (one for one in self._evidence.turns.values()
                  if one not in own and one.event_id != draft.event_id)  # fmt: skip
        words = frozenset[str]().union(
            *(telling_words(one.text) for one in own), *(telling_words(one.value) for one in facts)
        )
        return words.difference(*(search_terms(one.text) for one in others))

    def _draft(self, item: FactOperation) -> ForgetDraft:
        source = self._evidence.source(item.turns)
        if source is None:
            raise Inadmissible("request to forget without a turn of the user")
        turn = source[0]
        own = said_by_user(turn.text)
        if not has_words(own.replace("…", "")):
            raise Inadmissible("request to forget in a quotation")
        if gives_orders(turn.text):
            raise Inadmissible("change by a turn that gives orders to the memory")
        shown = [self._evidence.turns[one] for one in item.of if one in self._evidence.turns]
        named = [one for one in shown if one is not turn]
        held = self._held.get(item.id)
        topic = self._topic(item.value, [turn, *named])
        if not (topic or named or held) or (item.id and held is None):
            raise Inadmissible("request to forget that names nothing")
        if len(named) > MAX_NAMED:
            raise Inadmissible("too many requests to forget")
        facts: tuple[MemoryId, ...] = (held.memory_id,) if held else ()
        event_ids = tuple(one.event_id for one in named)
        topics = (topic,) if topic else ()
        return ForgetDraft(
            event_id=turn.event_id, topics=topics, event_ids=event_ids, memory_ids=facts
        )

    def _topic(self, value: str, turns: Sequence[Event]) -> str:
        """Return the topic that a value names, if the user's turns have all its words, else ""."""
        topic = topic_of_matter(value)
        if topic.casefold() in USER_WORDS or topic_request(topic) is None:
            return ""
        own = "\n".join(said_by_user(one.text) for one in turns if one.role == "user")
        has_words_of = frozenset(search_terms(topic)) <= frozenset(search_terms(own))
        return topic if has_words_of or normalised(topic) in normalised(own) else ""

    def _is_about(self, draft: ForgetDraft, text: str) -> bool:
        requests = filter(None, map(topic_request, draft.topics))
        return any(topic_among(one, self._held.values()).has_text(text) for one in requests)
