"""A fake language model: it returns the answers of a test and keeps the requests."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from turns import said

from shared_core.core.domain import Event, HeldFact, MemoryId
from shared_core.extraction.llm_extractor import ModelExtractor
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.models.language_model import ModelReply, ModelRequest

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class ScriptedModel:
    """Returns its answers in order: texts, dicts as JSON, replies, or errors to raise."""

    def __init__(self, *answers: object, name: str = "scripted") -> None:
        self.name = name
        self.answers = list(answers)
        self.asked: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, ModelReply):
            return answer
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return ModelReply(text=text, input_tokens=100, output_tokens=10)


def reading(*answers: object, **options: Any) -> tuple[ModelExtractor, ScriptedModel]:
    """Return an extractor on a scripted model, and the model."""
    model = ScriptedModel(*answers)
    return ModelExtractor(model, RuleExtractor(), **options), model


def turns(*texts: str) -> list[Event]:
    """Return turns of a user; the prefixes "agent: ", "tool: " and "system: " set another role."""
    events = []
    for number, text in enumerate(texts, 1):
        role, found, spoken = text.partition(": ")
        if not found or role not in ("agent", "tool", "system"):
            role, spoken = "user", text
        moment = NOON + timedelta(minutes=number)
        events.append(said(f"e{number}", spoken, moment, author=role, role=role))
    return events


def parts(one: object, names: str) -> tuple[Any, ...]:
    """Return the attributes of these names, which blanks separate."""
    return tuple(getattr(one, name) for name in names.split())


def fact(turn: object, slot: str, value: str, statement: str = "", **more: Any) -> dict[str, Any]:
    """Return a fact as a model writes it."""
    text = statement or f"The user's {slot} is {value}."
    return {"turns": turn, "slot": slot, "value": value, "statement": text, **more}


def event(turn: object, statement: str) -> dict[str, Any]:
    """Return an event as a model writes it."""
    return {"op": "event", "turns": turn, "statement": statement}


def cut(characters: int, *facts: dict[str, Any]) -> ModelReply:
    """Return an answer with these facts that lacks its last characters."""
    return ModelReply(text=json.dumps({"facts": facts})[:-characters], finish="length")


def held(value: str, *, slot: str = "employer", number: int = 1, **more: Any) -> HeldFact:
    """Return a known fact; number: its id, and the minute it was recorded."""
    fields = {
        "fact_type": "profile", "subject": "user", "statement": f"User's {slot} is {value}.",
        "functional": True, "stated_at": NOON - timedelta(days=9) + timedelta(minutes=number),
    }  # fmt: skip
    return HeldFact(
        memory_id=MemoryId(UUID(int=number)), slot=slot, value=value, **{**fields, **more}
    )
