"""The options of the inspector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from shared_core.transfer.reembedding import TextOfField


class HealthFinding(Protocol):
    """One finding about the health of the memory, as `hippocampus doctor` reports it."""

    @property
    def check(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def found(self) -> str: ...
    @property
    def advice(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectorOptions:
    """The options of the inspector.

    Attributes:
        read_only: Refuse every action that changes the memory.
        examine: Returns the findings of the doctor; it blocks. None: the overview has no such part.
        text_of_field: Returns the text that was embedded under a name of a value, for imports.
    """

    read_only: bool = False
    examine: Callable[[], Sequence[HealthFinding]] | None = None
    text_of_field: TextOfField | None = None
