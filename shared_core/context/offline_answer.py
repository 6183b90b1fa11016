"""What the stand-ins for a language model say: they quote the memories that they are shown. Pure.

The faces wrap it as a model of their framework, so agents run without a key and a network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from shared_core.core.domain import UNKNOWN_START, Event
from shared_core.extraction.forget_requests import (
    EVERYTHING,
    NOTHING_FOUND,
    forget_requests,
    is_forget_request,
)
from shared_core.extraction.forget_topics import turns_to_forget
from shared_core.nlp import relation_phrases
from shared_core.nlp.asked_slots import names_slot, slots_asked
from shared_core.nlp.changes import asks_how_it_was, tells_how_it_was
from shared_core.nlp.clauses import own_sentences
from shared_core.nlp.coreference import SPEAKER
from shared_core.nlp.dialogue_acts import dialogue_act
from shared_core.nlp.keywords_and_topics import patterns
from shared_core.nlp.question_subject import is_about_another, shares_words
from shared_core.nlp.rules import load_rules
from shared_core.nlp.text import Language, is_question, language, search_terms, sentences
from shared_core.nlp.typed_text import as_meant

TAG: Final = re.compile(r"<(PAST_CONVERSATIONS|MEMORIES|memories|facts)>\n")
"""Begins memories, from ADK's preload_memory or from ours; `</...>` ends them."""
LINE_LABEL: Final = re.compile(r"^- (?:\[[^\]]*\] )?")
CLAUSE_END: Final = re.compile(r"[,，;；]\s*|\bbut\b|但是?", re.IGNORECASE)
SUPPOSES: Final = (".condition", ".wish", ".role-play")
"""Guards of what is only supposed, from their clause to the end of the sentence."""
STATES: Final = 0.7
"""A clause that the rules take for a question is none if its chance to state is higher."""
ASKS: Final = 0.75
"""Any other clause without a question mark is a question if its chance is higher."""
SURELY_ASKS: Final = 0.95
"""The same of a clause of a memory that the rules take for none."""
ASKING_WORDS: Final = re.compile(
    r"\b(?:what|who|where|when|how|why)'?s\b|\b(?:remember|recall|please|again|hello|hi|hey)\b"
    r"|记得|知道|告诉|请问|什么时候|啥|咋|何时|你好",
    re.IGNORECASE,
)
"""Words around the topic of a question, beside those of relation_phrases.ASKING."""
ASKS_WHO: Final = re.compile(r"\bwho\b|谁", re.IGNORECASE)
"""A question that somebody around the user may answer: "who is visiting me?"."""
OF_AGENT: Final = re.compile(
    r"\byour\b|\bwho are (?:you|u)\b|[你您](?:叫|是谁|的名字)", re.IGNORECASE
)
"""A question about the stand-in itself, which no memory of the user answers."""
HAN: Final = re.compile(r"[\u4e00-\u9fff]")
NOTED: Final = ("Noted.", "好的，记住了。")
NOTHING: Final = ("I remember nothing about that.", "这件事我不记得。")
QUOTED: Final = ("I remember: ", "我记得：")
FORGETTING: Final = ("I'll forget what I find about that.", "好，找到的相关内容我会忘掉。")
"""The answer comes before the turn is stored, so it promises and reports nothing.

It leaves out the topic: the answer becomes a memory too, and would keep the topic in recall.
"""
FORGETTING_NOTHING: Final = (
    "I found nothing about that, so nothing is forgotten.",
    "我没有找到相关的内容，所以什么都没有忘掉。",
)
FORGETTING_ALL: Final = (
    "I can't forget that much at one message, so nothing is forgotten. Name one matter.",
    "一句话不能让我忘掉这么多，所以什么都没有忘掉。请说具体一件事。",
)
OWN_ANSWERS: Final = (
    *NOTED,
    *FORGETTING,
    *FORGETTING_NOTHING,
    *FORGETTING_ALL,
    "I remember",
    "我记得",
    "这件事我不记得",
)
"""How its own answers begin. They become memories too, and say nothing new."""


def offline_answer(texts: Sequence[str], said: Sequence[str] = ()) -> str:
    """Return the answer to the texts of a request, the user's message last.

    - A question gets what its own message states about it. Else it gets the newest of the user's
      earlier messages that states it or shares a word with it. Else it gets the first memory that
      could answer it: memories are ranked, messages are not.
    - What ended answers only a question about the past. What the user asked to forget answers none.
    - A request to forget gets FORGETTING, or FORGETTING_NOTHING or FORGETTING_ALL if the notice of
      the memory says so.
    - Any other message gets "Noted."

    Chinese messages get Chinese answers. Memories are the lines between the tags of our blocks, or
    else every line of an earlier text that begins with "- ".

    Args:
        texts: All texts of the request.
        said: Those that the user said; blocks of memories may be among them.
    """
    message = next((text for text in reversed(texts) if not _blocks(text)), "").strip()
    is_chinese = HAN.search(message) is not None
    if forget_requests(message):
        notices = "\n".join(_memory_lines(texts))
        if EVERYTHING in notices:
            return FORGETTING_ALL[is_chinese]
        return (FORGETTING_NOTHING if NOTHING_FOUND in notices else FORGETTING)[is_chinese]
    if not _asks(message):
        return NOTED[is_chinese]
    parts = sentences(message)
    asked = " ".join(part for part in parts if _asks(part))
    beside = [part for part in reversed(parts) if not _asks(part)]
    earlier = [text.strip() for text in said if not _blocks(text)]
    thread = [text for text in reversed(_not_forgotten(earlier)) if text != message]
    memories = [LINE_LABEL.sub("", line) for line in _memory_lines(texts)]
    found = chain(
        filter(_answer_test(asked, is_of_thread=True), beside),
        filter(_answer_test(message, is_of_thread=True), thread),
        filter(_answer_test(message, is_of_thread=False), memories),
    )
    quoted = next(found, None)
    return QUOTED[is_chinese] + quoted if quoted else NOTHING[is_chinese]


def _not_forgotten(said: Sequence[str]) -> list[str]:
    """Return the user's messages without what a later one asks to forget."""
    turns = [
        Event(event_id=str(place), author="user", role="user", text=text, occurred_at=UNKNOWN_START)
        for place, text in enumerate(said)
    ]
    gone = turns_to_forget(turns, ())
    return [one.text for one in turns if one.event_id not in gone]


def _answer_test(question: str, *, is_of_thread: bool) -> Callable[[str], bool]:
    """Return the test of a text: whether it could answer a question.

    A text of the thread must share a word with the question or state what it asks for, because
    nothing ranked it.
    """
    is_on_topic = _topic_test(question)
    may_suppose, may_be_past = _supposes(question), asks_how_it_was(question)
    slots = relation_phrases.work_and_home_slots(question)
    asked, kin = slots | slots_asked(question), set(relation_phrases.asked_kin(question))

    def answers(text: str) -> bool:
        if text.startswith(OWN_ANSWERS) or is_forget_request(text):
            return False
        stated = _stated(text, may_suppose=may_suppose, may_be_past=may_be_past)
        if not stated or not is_on_topic(stated):
            return False
        return (
            not is_of_thread
            or shares_words(stated, question)
            or not kin.isdisjoint(relation_phrases.asked_kin(stated))
            or relation_phrases.names_slots(stated, slots)
            or relation_phrases.states_slots(stated, asked)
        )

    return answers


def _stated(text: str, *, may_suppose: bool, may_be_past: bool) -> str:
    """Return the clauses of a text that state something: none that asks, or supposes or wishes.

    may_suppose: keep suppositions and wishes, for a question about one. may_be_past: keep what was.
    """
    stated = []
    for sentence, _ in own_sentences(text):
        for clause in CLAUSE_END.split(sentence):
            if not may_suppose and _supposes(clause):
                break
            if clause and not _is_asked(clause, SURELY_ASKS):
                stated.append(clause)
    return ", ".join(one for one in stated if may_be_past or not tells_how_it_was(one))


def _is_asked(clause: str, surely: float) -> bool:
    """Tell whether a clause asks. surely: the least chance to, if the rules take it for none."""
    act = dialogue_act(clause)
    if surely == ASKS and slots_asked(clause):
        return True
    if relation_phrases.is_question(clause):
        return is_question(clause) or act.statement < STATES
    return is_question(clause) or act.asks > surely


def _supposes(text: str) -> bool:
    """Tell whether a text speaks of what is only wished, planned or supposed."""
    lang = language(text)
    meant = as_meant(text)
    guards = [one.regex for one in load_rules(lang).guards if one.id.endswith(SUPPOSES)]
    return any(one.search(meant) for one in (*guards, *_wishes(lang)))


def _wishes(lang: Language) -> list[re.Pattern[str]]:
    return [of[lang] for labels, _, of in patterns("intent") if labels["en"] == "goal"]


def _topic_test(question: str) -> Callable[[str], bool]:
    """Return the test of a memory: whether it has to do with a question.

    A memory passes if it shares a word or a relative with the question, or if the question names
    nothing ("so, where?"). A question about the user lets every memory pass that is not about a
    relative; one about a relative passes only if the question asks who. No memory tells who the
    stand-in is.
    """
    kin = set(relation_phrases.asked_kin(question))
    topic = _topic_words(ASKING_WORDS.sub(" ", relation_phrases.ASKING.sub(" ", question)))
    is_of_user = relation_phrases.asks_about_user(question) or names_slot(question)
    is_of_user = is_of_user or bool(kin and SPEAKER.search(question))
    asks_who = ASKS_WHO.search(question)
    is_open = not (topic or kin or is_of_user or OF_AGENT.search(question))

    def is_about_it(memory: str) -> bool:
        if is_of_user and not (kin or asks_who):
            return not is_about_another(memory, slot="")
        shared = topic.intersection(search_terms(memory))
        if is_open or shared or kin.intersection(relation_phrases.asked_kin(memory)):
            return True
        return is_of_user and not is_about_another(memory, slot="")

    return is_about_it


def _topic_words(text: str) -> set[str]:
    """Return the search terms of a text; single characters only where there is nothing longer."""
    terms = {*search_terms(text)}
    return {term for term in terms if len(term) > 1} or terms


def _asks(text: str) -> bool:
    """Tell whether the last clause that is no greeting asks, with or without a question mark."""
    asks = False
    for clause in (one for sentence in sentences(text) for one in CLAUSE_END.split(sentence)):
        if relation_phrases.is_question(clause) or dialogue_act(clause).name != "social":
            asks = _is_asked(clause, ASKS)
    return asks


def _memory_lines(texts: Sequence[str]) -> list[str]:
    blocks = _blocks("\n".join(texts))
    if not blocks:
        listed = [line for text in texts[:-1] for line in text.splitlines()]
        return [line for line in listed if line.startswith("- ")]
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.strip() and not line.startswith("Time: ")]


def _blocks(text: str) -> list[str]:
    """Return what stands between the tags around memories."""
    found = []
    unclosed = set()
    place = 0
    while tag := TAG.search(text, place):
        place = tag.end()
        end = -1 if tag[1] in unclosed else text.find(f"</{tag[1]}>", place)
        if end < 0:
            unclosed.add(tag[1])  # one search is enough, however often the tag begins
            continue
        found.append(text[place:end])
        place = end
    return found
