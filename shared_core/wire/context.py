"""The answer about a context window."""

from __future__ import annotations

from pydantic import AwareDatetime, BaseModel

from shared_core.core.delimiters import Section
from shared_core.core.domain import Role


class ContextItemAnswer(BaseModel):
    """An item of a prompt. A field without a value is left out of the answer.

    ref: its name in the prompt. source: the id of its memory, fact or turn. uncertain: it is a
    doubtful fact. score_parts: only where `explain` asks for them. cut: its text is only the
    beginning.
    """

    ref: str
    section: Section
    text: str
    tokens: int
    kind: str | None = None
    source: str | None = None
    source_event_ids: list[str] = []
    thread_id: str | None = None
    author: str | None = None
    role: Role | None = None
    occurred_at: AwareDatetime | None = None
    valid_from: AwareDatetime | None = None
    valid_until: AwareDatetime | None = None
    uncertain: bool = False
    importance: float | None = None
    score: float | None = None
    score_parts: dict[str, float] = {}
    cut: bool = False


class DroppedItemAnswer(ContextItemAnswer):
    """An item that the prompt does not have. reason: e.g. "over budget"."""

    reason: str


class ContextAnswer(BaseModel):
    """The prompt, its cost in tokens, and each of its items.

    budget_used: tokens as a share of max_tokens. sections: the tokens of the items of each section.
    """

    prompt: str
    tokens: int
    total_tokens: int
    max_tokens: int
    budget_used: float
    sections: dict[Section, int]
    items: list[ContextItemAnswer]
    dropped: list[DroppedItemAnswer]
