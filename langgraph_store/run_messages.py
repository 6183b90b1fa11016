"""The messages of one run of an agent, also those that a middleware cuts away meanwhile."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias, TypeVar

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_store.messages import is_of_a_model, is_of_a_user, spoken_text
from shared_core import Scope
from shared_core.nlp import search_terms

T = TypeVar("T")
RunKey: TypeAlias = tuple[Scope, str, str]
"""A scope, a thread, and the place of a graph below the one that was run."""
MAX_OPEN_RUNS = 1_000
"""Maximum number of runs that are kept open, and of threads with messages that are no turns."""
KEPT_WORDS = 0.5
"""Minimum share of the words of a rewritten message that the message had before.

A redaction leaves words out. A notice in the place of a message has words of its own.
"""


@dataclass(slots=True)
class RunMessages:
    """Collects the messages of a run, by their ids.

    left: ids of turns that had left the thread when the run began. forked_at: the run was told to
    start from a checkpoint of this time.
    """

    left: Sequence[str] = ()
    forked_at: datetime | None = None
    _first: dict[str, BaseMessage] = field(default_factory=dict)
    _last: dict[str, BaseMessage] = field(default_factory=dict)
    _given: set[str] = field(default_factory=set)
    _answers: list[BaseMessage] = field(default_factory=list)

    def begin(self, messages: Iterable[BaseMessage], refused: Container[str] = ()) -> None:
        """Add the messages that are there when a run begins; refused: ids of no turns."""
        messages = list(messages)
        self._add(messages)
        self._given |= {one.id for one in messages if one.id and one.id not in refused}

    def asked(self, messages: Iterable[BaseMessage], answers: Sequence[BaseMessage] = ()) -> None:
        """Add the messages of a request to the model, and its answers.

        A request shows copies, which a middleware may have cut: of those that are known, only a
        user's is taken as it is now.
        """
        self._add(one for one in messages if one.id not in self._last or is_of_a_user(one))
        self._add(answers)
        self._answers += answers

    def end(self, messages: Iterable[BaseMessage]) -> None:
        """Add the messages of the state in which the run ended."""
        self._add(messages)

    def refused(self) -> set[str]:
        """Return the ids of messages that a middleware wrote in the place of somebody."""
        answers = {one.id for one in self._answers}  # the graph gives an id to one without
        return {
            one
            for one, message in self._last.items()
            if _is_rewritten(self._first[one], message)
            or (isinstance(message, AIMessage) and not is_of_a_model(message)
                and one not in answers and one not in self._given)
        }  # fmt: skip

    def turns(self) -> list[BaseMessage]:
        """Return the messages in order, without those that a middleware wrote."""
        refused = self.refused()
        return [message for one, message in self._last.items() if one not in refused]

    def _add(self, messages: Iterable[BaseMessage]) -> None:
        for message in messages:
            if message.id:
                self._first.setdefault(message.id, message)
                self._last[message.id] = message


def _is_rewritten(before: BaseMessage, now: BaseMessage) -> bool:
    """Return whether a message lost its words to others within a run."""
    old, new = spoken_text(before), spoken_text(now)
    if old == new or not (isinstance(now, AIMessage) or is_of_a_user(now)):
        return False
    if not old:  # a call of a tool; a user's picture may get a caption
        return isinstance(now, AIMessage)
    words = {*search_terms(new)}
    return len(words & {*search_terms(old)}) < KEPT_WORDS * len(words)


class OpenRuns:
    """The runs that have begun and not ended; those that fail never report their end."""

    def __init__(self) -> None:
        self._runs: OrderedDict[RunKey, RunMessages] = OrderedDict()
        self._refused: OrderedDict[RunKey, set[str]] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, key: RunKey, run: RunMessages, messages: Sequence[BaseMessage]) -> None:
        """Open a run; it makes up for what a run of the same thread left open, unless it forks."""
        with self._lock:
            before = self._runs.pop(key, None)
            if before is not None and run.forked_at is None:
                run.begin(one for one in before.turns() if one.id not in run.left)
            run.begin(messages, self._refused.get(key, ()))
            _keep(self._runs, key, run)

    def of(self, key: RunKey) -> RunMessages | None:
        """Return an open run."""
        return self._runs.get(key)

    def end(self, key: RunKey, messages: Sequence[BaseMessage]) -> RunMessages | None:
        """Close a run with its last state, if it is open."""
        with self._lock:
            run = self._runs.pop(key, None)
            if run is not None:
                run.end(messages)
                here = {one.id for one in messages}
                known = self._refused.pop(key, set()) | run.refused()
                if refused := {one for one in known if one in here}:
                    _keep(self._refused, key, refused)
            return run


def _keep(kept: OrderedDict[RunKey, T], key: RunKey, value: T) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > MAX_OPEN_RUNS:
        kept.popitem(last=False)
