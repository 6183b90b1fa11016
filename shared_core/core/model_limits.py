"""Limits of the calls of a language model, the same options of every face. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared_core.core.shown import shown
from shared_core.core.validation import number, whole_number
from shared_core.errors import InvalidInput

MOST: Final = 1_000_000
"""Largest value of each limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits:
    """Limits of the calls of one language model.

        open_memory(llm=model, llm_limits=ModelLimits(timeout_s=30, retries=1))

    Args:
        timeout_s: seconds for one call, without the wait for a free place.
        concurrency: calls at the same time in a process, shared by its memories with the same model
            and limit.
        retries: further attempts of a failed call, after 1, 2, 4 ... seconds. The queue retries
            the job besides.
        max_tokens: tokens of one answer. Default: that of the model's object, or 8,192 for a model
            of ADK.

    Raises:
        InvalidInput: for a value out of range.
    """

    timeout_s: float = 120.0
    concurrency: int = 4
    retries: int = 0
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if number(self.timeout_s, "timeout_s", 0, MOST) == 0:
            raise InvalidInput(f"timeout_s must be above 0, got {shown(self.timeout_s)}")
        whole_number(self.concurrency, "concurrency", 1, MOST)
        whole_number(self.retries, "retries", 0, MOST)
        if self.max_tokens is not None:
            whole_number(self.max_tokens, "max_tokens", 1, MOST)


PREFIX: Final = "llm_"
"""Begins the name of a limit in a URI."""
VARIABLES: Final[Mapping[str, str]] = {
    "timeout_s": "HIPPOCAMPUS_LLM_TIMEOUT_S",
    "concurrency": "HIPPOCAMPUS_LLM_CONCURRENCY",
    "retries": "HIPPOCAMPUS_LLM_RETRIES",
    "max_tokens": "HIPPOCAMPUS_LLM_MAX_TOKENS",
}
"""The environment variable of each limit."""


def named_limits() -> dict[str, type[float] | type[int]]:
    """Return the options of a URI that set limits, and their types: {"llm_timeout_s": float}."""
    return {f"{PREFIX}{name}": _type_of(name) for name in VARIABLES}


def limits_of(options: Mapping[str, Any]) -> ModelLimits | None:
    """Return the limits among named options, or None if there are none. Raises InvalidInput."""
    given = {name: options[f"{PREFIX}{name}"] for name in VARIABLES if f"{PREFIX}{name}" in options}
    return ModelLimits(**given) if given else None


def limits_in(environment: Mapping[str, str]) -> ModelLimits | None:
    """Return the limits in the variables of an environment, or None if none is set.

    Raises InvalidInput for a variable that is no number, or is out of range.
    """
    given: dict[str, Any] = {}
    for name, variable in VARIABLES.items():
        if not (text := environment.get(variable, "").strip()):
            continue
        try:
            given[name] = _type_of(name)(text)
        except ValueError:
            raise InvalidInput(f"{variable} must be a number, got {shown(text)}") from None
        try:
            ModelLimits(**{name: given[name]})
        except InvalidInput as error:
            raise InvalidInput(str(error).replace(name, variable, 1)) from None
    return ModelLimits(**given) if given else None


def _type_of(name: str) -> type[float] | type[int]:
    return float if name == "timeout_s" else int
