"""What the core asks of the outside: a store of memories, an embedder, an extractor, a clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from shared_core.core.domain import (
    Event,
    Extraction,
    InsightDraft,
    KnownPerson,
    Memory,
    ModelUsage,
)
from shared_core.ports.api_tokens import TokenStorage
from shared_core.ports.conversations import ConversationStorage
from shared_core.ports.erasures import ErasureStorage
from shared_core.ports.events import EventStorage, SliceStorage
from shared_core.ports.facts import FactStorage
from shared_core.ports.graph import GraphStorage
from shared_core.ports.indexes import IndexStorage, ReembedStorage
from shared_core.ports.items import InstructionStorage, ItemStorage
from shared_core.ports.jobs import JobStorage
from shared_core.ports.profiles import ProfileStorage
from shared_core.ports.recall import RecallStorage
from shared_core.ports.retention import AccessStorage, RetentionStorage
from shared_core.ports.runs import RunStorage
from shared_core.ports.session_logs import SessionStorage
from shared_core.ports.transfer import TransferStorage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

Clock: TypeAlias = Callable[[], datetime]


class Embedder(Protocol):
    """Turns texts into vectors of one length, L2-normalised, float32.

    model names the vectors in the database. Both methods take texts that are not blank and
    return an array of shape (number of texts, dimensions). Raise ModelUnavailable when the model
    fails.
    """

    @property
    def model(self) -> str: ...

    async def embed_passages(self, texts: Sequence[str]) -> Vectors: ...

    async def embed_query(self, text: str) -> Vectors:
        """Return the vector of one query, shape (1, dimensions)."""


class Extractor(Protocol):
    """Reads what is worth keeping out of turns, and sums up.

    name is stored with everything it found, and names the version of its rules or prompts. Raise
    ModelUnavailable when a model fails: the turns then wait, and are read later.
    window_tokens: about so much text is given to it at once. reread_turns: so many turns it wants
    to see again when it sums up, for one that does not build on the summary before.
    """

    @property
    def name(self) -> str: ...
    @property
    def window_tokens(self) -> int: ...
    @property
    def reread_turns(self) -> int: ...

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        """Return what events say. context: turns before them, read already, to understand them.

        A draft that tells something of context names those turns too, so that it goes with them.
        """

    async def summarise(
        self, events: Sequence[Event], previous: str, max_characters: int
    ) -> tuple[str, ModelUsage]:
        """Return what a thread is about in one short text, in its language.

        previous: the summary of what was said before events, "" if nothing was.
        """


@runtime_checkable
class Acquainted(Protocol):
    """An extractor that knows whom the user has named before the turns it is given."""

    def knowing(self, people: Sequence[KnownPerson]) -> Extractor:
        """Return the extractor that reads one window with these people in mind."""


@runtime_checkable
class Reflector(Protocol):
    """Draws conclusions out of memories of several threads. An extractor may be one as well."""

    @property
    def name(self) -> str: ...

    async def reflect(
        self, memories: Sequence[Memory]
    ) -> tuple[Sequence[InsightDraft], ModelUsage]:
        """Return what memories let one conclude; memory_ids of each name what it rests on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageReport:
    """What is behind the storage, for `hippocampus migrate --json`.

    size_bytes: on disk; None where the server does not tell.
    """

    engine: str
    location: str
    server_version: str
    extension_version: str
    role: str
    schema: str
    schema_version: int
    model: str | None
    dimensions: int | None
    size_bytes: int | None


class Storage(
    ItemStorage,
    EventStorage,
    RecallStorage,
    SessionStorage,
    JobStorage,
    InstructionStorage,
    ProfileStorage,
    RunStorage,
    GraphStorage,
    FactStorage,
    IndexStorage,
    AccessStorage,
    SliceStorage,
    RetentionStorage,
    TokenStorage,
    TransferStorage,
    ConversationStorage,
    ReembedStorage,
    ErasureStorage,
    Protocol,
):
    """Outcomes, not SQL. Every method is one transaction and touches only the scope it names.

    Raise StorageUnavailable when the database cannot be reached.
    """

    @property
    def is_embedded(self) -> bool:
        """Whether open() starts a server in a folder of this machine."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def report(self) -> StorageReport: ...

    async def dsn(self) -> str:
        """Return how to connect to the same database, password included."""

    async def use_model(self, model: str, dimensions: int) -> None:
        """Declare the model that makes vectors; EmbeddingMismatch if another one made them."""
