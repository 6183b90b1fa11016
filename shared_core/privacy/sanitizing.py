"""Sanitize text before it is stored: remove recalled memories and secrets."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import Final, TypeVar

from shared_core.core.delimiters import without_memories
from shared_core.core.digest_cache import DigestCache
from shared_core.core.domain import Event, JsonValue, NewMemory
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import clean_text
from shared_core.core.time_zones import of_user
from shared_core.core.validation import mapping
from shared_core.errors import InvalidInput
from shared_core.privacy.redaction import KINDS, PrivacyPolicy, narrow
from shared_core.privacy.told_secrets import asks_secret, may_follow, may_hold_value

T = TypeVar("T")

_NODS: Final = (
    "hi|hiya|hey|hello|good (?:morning|evening|afternoon|night|day)|there|all|everyone"
    "|(?:many )?thanks?(?: you)?(?: so much| very much| a lot| again)?|thx|ty|cheers|ok|okay|k"
    "|sure|alright|got it|i see|bye(?:[ -]bye)?|goodbye|see (?:you|ya)(?: later| soon)?|cool|great"
    "|nice|perfect|awesome|wow|lol|ha(?:ha)*|hm+|uh-?huh|yes|yeah|yep|yup|no|nope|right|exactly"
    "|you'?re welcome|no problem|no worries|of course|certainly|sounds good|makes sense|please"
    "|how are you(?: doing)?(?: today)?|what'?s up|i'?m (?:fine|good|ok|okay)|and you|absolutely"
)
_CHINESE_NODS: Final = (
    "你好呀?|您好|大家好|嗨|哈喽|早上好|早安|下午好|晚上好|晚安|谢谢你?|多谢|感谢|不客气|不用谢"
    "|好的?呀?|好吧|行吧?|可以|没问题|当然|嗯|哦|噢|啊|对的?|是的?|没事|明白了?|知道了|收到|了解"
    "|再见|拜拜|哈|呵呵|不错|太好了|辛苦了?|在吗|吃了吗"
)
# Atomic groups and a break after each English nod keep the match linear for any text.
SMALL_TALK: Final = re.compile(
    rf"[\W_]*+(?>(?>(?:{_NODS})(?![^\W_])|{_CHINESE_NODS})[\W_]*+)++", re.IGNORECASE
)
"""A text made only of greetings, thanks and nods."""
MOST_SMALL_TALK: Final = 80
"""Maximum characters of small talk."""
TURNS_BEFORE: Final = 2
"""Number of turns that may name what a value in the next turn opens."""
ASKED_BEFORE: Final = 4
"""Number of turns that may ask for a secret which the next turn tells."""
LONG_TEXTS: Final = 2_000
"""Number of characters from which texts are sanitized in a thread."""
TURNS: Final = 16_384
"""Number of turns for which the cache knows whether they show a secret."""


@dataclass(frozen=True, slots=True)
class Intake:
    """Sanitizes everything that enters the memory, under one privacy policy.

    zone: turns whose moment is in UTC count their days in it.
    """

    privacy: PrivacyPolicy
    zone: tzinfo = UTC
    _shows_whole: DigestCache[bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        marked = self.privacy.marked
        whole = DigestCache("redaction", lambda text: marked(text) == text, TURNS)
        object.__setattr__(self, "_shows_whole", whole)

    def text(self, text: str, before: str = "") -> str:
        """Return a turn's text as it may be stored, or "". before: the turns before it."""
        bare = without_memories(clean_text(text)).strip()
        return self.privacy.redact(bare, KINDS, _naming(bare, before)).text.strip()

    def event(self, event: Event, before: str = "") -> Event:
        """Return a turn as it may be stored."""
        metadata = self._mapping(event.metadata, "event metadata")
        author = self.privacy.marked(clean_text(event.author))
        return replace(
            event, text=self.text(event.text, before), author=author, metadata=metadata,
            occurred_at=of_user(event.occurred_at, self.zone),
        )  # fmt: skip

    def events(self, events: Iterable[Event], earlier: Sequence[Event] = ()) -> list[Event]:
        """Return successive turns as they may be stored. earlier: the stored turns before them."""
        turns = [*earlier]
        for event in events:
            turns.append(self.event(event, text_before(turns)))
        return turns[len(earlier) :]

    def shown(self, events: Iterable[Event]) -> list[Event]:
        """Return successive turns as a prompt may show them; a session log may hold more."""
        turns: list[Event] = []
        for event in events:
            if before := _naming(event.text, text_before(turns)):
                text = self.privacy.marked(event.text, KINDS, before)
            else:
                text = self.shown_text(event.text)
            turns.append(event if text == event.text else replace(event, text=text))
        return turns

    def shown_text(self, text: str) -> str:
        """Return the text of a turn as a prompt may show it."""
        return text if self._shows_whole(text) else self.privacy.marked(text)

    def logged(
        self, event: Event, payload: str, earlier: Sequence[Event] = ()
    ) -> tuple[Event, str]:
        """Return an event of a session log, and its JSON, as they may be stored."""
        if not self.privacy.session_logs:
            author = clean_text(event.author)
            return replace(event, text=clean_text(event.text).strip(), author=author), payload
        before = text_before(earlier)
        return self.event(event, before), self.payload(payload, before)

    def memory(self, memory: NewMemory) -> NewMemory:
        """Return a memory as it may be stored. Raises InvalidInput if the policy drops it."""
        done = self.privacy.redact(memory.text)
        if done.dropped:
            raise InvalidInput(
                f"the memory contains {', '.join(done.found)}, which the privacy setting refuses:"
                " remove it, or set the kind's mode to 'mask' or 'off'"
            )
        metadata = self._mapping(memory.metadata, "metadata of a memory")
        author = self.privacy.marked(memory.author) if memory.author else memory.author
        return replace(memory, text=done.text, author=author, metadata=metadata)

    def request(self, payload: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the payload of a callback as it may be stored: texts redacted, ids unchanged."""
        to_json(mapping(payload, "a job's payload"), "a job's payload")  # refuses what is no JSON
        masked = self._masked(payload, ("text", "content"))
        return self._mapping(masked, "a job's payload")

    def _mapping(self, value: object, what: str) -> dict[str, JsonValue]:
        redact = self.privacy.redact_value
        try:
            return {key: redact(part) for key, part in mapping(value, what).items()}
        except RecursionError as error:
            raise InvalidInput(f"{what} contains itself, or is nested too deep") from error

    def payload(self, payload: str, before: str = "") -> str:
        """Return the JSON of a session log event with every "text" in it redacted.

        Function calls and state belong to the application and stay.
        """
        event = json.loads(payload)
        masked = self._masked(event, before=before)
        return payload if masked == event else json.dumps(masked, ensure_ascii=False)

    def _masked(
        self, value: JsonValue, keys: Collection[str] = ("text",), before: str = ""
    ) -> JsonValue:
        if isinstance(value, Mapping):
            return {
                key: self.privacy.marked(part, KINDS, _naming(part, before))
                if key in keys and isinstance(part, str)
                else self._masked(part, keys, before)
                for key, part in value.items()
            }
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [self._masked(part, keys, before) for part in value]
        return value


def asks_before(events: Sequence[Event]) -> bool:
    """Tell whether one of the first of some turns may hold a value that an earlier one names."""
    first = (event.text.strip() for event in events[:ASKED_BEFORE])
    return any(may_follow(text) and may_hold_value(narrow(text)) for text in first)


def text_before(turns: Sequence[Event]) -> str:
    """Return the text of the last turns that may name a value in one that follows them."""
    asking = [one for one in turns[-ASKED_BEFORE:-TURNS_BEFORE] if asks_secret(one.text)]
    return "\n".join(turn.text for turn in (*asking, *turns[-TURNS_BEFORE:]))


def _naming(text: str, before: str) -> str:
    """Return the turns before a text if they may name a value in it, else "": a nod holds none."""
    return before if may_follow(text) and not is_small_talk(text) else ""


async def off_loop(texts: Iterable[str], work: Callable[[], T]) -> T:
    """Return work(); if its texts are long, done in a thread, so that the event loop is free."""
    if sum(map(len, texts)) < LONG_TEXTS:
        return work()
    return await asyncio.to_thread(work)


def is_small_talk(text: str) -> bool:
    """Tell whether a text is only greetings, thanks or nods: worth no memory."""
    return len(text) <= MOST_SMALL_TALK and SMALL_TALK.fullmatch(text) is not None


def without_nods(text: str) -> str:
    """Return a text without the greetings, thanks and nods that it begins with."""
    nods = SMALL_TALK.match(text)
    return text[nods.end() :] if nods else text
