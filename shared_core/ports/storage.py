"""What the core asks of the outside: a store of memories, an embedder, an extractor, a clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable
from uuid import UUID

from shared_core.core.domain import (
    AsOf,
    Event,
    Extraction,
    InsightDraft,
    JsonValue,
    KnownPerson,
    Memory,
    MemoryId,
    MemoryKind,
    ModelUsage,
    Namespace,
    Scope,
    ThreadId,
)
from shared_core.ports.accesses import AccessStorage
from shared_core.ports.api_tokens import TokenStorage
from shared_core.ports.conversations import ConversationStorage
from shared_core.ports.erasures import ErasureStorage
from shared_core.ports.facts import FactStorage
from shared_core.ports.graph import GraphStorage
from shared_core.ports.indexes import IndexStorage
from shared_core.ports.instructions import Instruction, InstructionStorage
from shared_core.ports.items import ItemAddress, ItemStamp, ItemStorage, MemoryRow, VectorRows
from shared_core.ports.jobs import JobStorage, NewJob
from shared_core.ports.profiles import NewVersion, ProfileRun, ProfileStorage
from shared_core.ports.recall import Recalled, SearchRequest
from shared_core.ports.reembedding import ReembedStorage
from shared_core.ports.retention import RetentionStorage
from shared_core.ports.runs import RunStorage
from shared_core.ports.session_logs import SessionStorage
from shared_core.ports.timeline import SliceStorage
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
        ...


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
        ...

    async def summarise(
        self, events: Sequence[Event], previous: str, max_characters: int
    ) -> tuple[str, ModelUsage]:
        """Return what a thread is about in one short text, in its language.

        previous: the summary of what was said before events, "" if nothing was.
        """
        ...


@runtime_checkable
class Acquainted(Protocol):
    """An extractor that knows whom the user has named before the turns it is given."""

    def knowing(self, people: Sequence[KnownPerson]) -> Extractor:
        """Return the extractor that reads one window with these people in mind."""
        ...


@runtime_checkable
class Reflector(Protocol):
    """Draws conclusions out of memories of several threads. An extractor may be one as well."""

    @property
    def name(self) -> str: ...

    async def reflect(
        self, memories: Sequence[Memory]
    ) -> tuple[Sequence[InsightDraft], ModelUsage]:
        """Return what memories let one conclude; memory_ids of each name what it rests on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """A turn to append. memory_id is None when the turn has no text to remember.

    terms: the words of its text for full-text search, in order, with repeats. value: what a
    key-value face shows, without the text. logged: the very text is in the session log of the
    thread already and is not sent again.
    """

    event: Event
    memory_id: MemoryId | None
    logged: bool
    value: Mapping[str, JsonValue]
    terms: Sequence[str]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuery:
    """Living memories below a namespace of a scope, newest first; as of now, or of a moment.

    thread_id: only those drawn from that thread.
    """

    scope: Scope
    namespace: Namespace
    kinds: Sequence[MemoryKind] | None
    limit: int
    offset: int
    as_of: AsOf | None = None
    thread_id: ThreadId | None = None


class Storage(
    ItemStorage,
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

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def report(self) -> StorageReport: ...

    async def dsn(self) -> str:
        """Return how to connect to the same database, password included."""
        ...

    async def use_model(self, model: str, dimensions: int) -> None:
        """Declare the model that makes vectors; EmbeddingMismatch if another one made them."""
        ...

    async def known_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> Mapping[str, bytes | None]:
        """Return those of the ids that are here: None if remembered or forgotten.

        What a session log holds and memory does not know comes with the SHA-256 of its text.
        """
        ...

    async def append_events(
        self,
        scope: Scope,
        thread_id: ThreadId,
        rows: Sequence[EventRow],
        vectors: VectorRows | None,
        job: NewJob | None = None,
    ) -> set[str]:
        """Append the turns that are new, remember them, and return their ids; enqueue the job."""
        ...

    async def save_profile(
        self,
        scope: Scope,
        memory_id: UUID,
        run: ProfileRun,
        version: NewVersion | None,
        vectors: VectorRows | None,
        turns: Sequence[EventRow] = (),
    ) -> set[str]:
        """Append turns, write a version of a profile and the record of its run: one transaction.

        version: None where nothing changed. vectors: of the rows of both. Returns the ids of turns
        that were new. Conflict, and nothing is written, if the version is not the next one.
        """
        ...

    async def thread_events(self, scope: Scope, thread_id: ThreadId, limit: int) -> Sequence[Event]:
        """Return the last of what is remembered of a thread, in the order it was said."""
        ...

    async def thread_history(
        self, scope: Scope, thread_id: ThreadId, limit: int, as_of: AsOf | None = None
    ) -> Sequence[Event]:
        """Return the last turns of a thread with words in them, remembered or logged, in order."""
        ...

    async def recall(self, request: SearchRequest) -> Recalled:
        """Return what may answer, by meaning, by words and by the turns around."""
        ...

    async def put_memories(
        self,
        rows: Sequence[MemoryRow],
        vectors: VectorRows | None,
        forgotten: Sequence[ItemAddress] = (),
        stamps: Sequence[ItemStamp] = (),
    ) -> None:
        """Write memories by namespace and key, replacing those that exist, vectors included.

        forgotten: what to delete in the same transaction, as forget() does. stamps: times that
        written items had elsewhere, and have here then. What is written in a namespace of
        instructions becomes a version of it, unless the newest says the same.
        """
        ...

    async def put_instruction(self, row: MemoryRow, vectors: VectorRows | None) -> Instruction:
        """Write one instruction as put_memories() does, and return its newest version."""
        ...

    async def forget(self, addresses: Sequence[ItemAddress]) -> int:
        """Delete memories and what was drawn only from them; return how many rows went.

        An instruction goes with all its versions.
        """
        ...

    async def forget_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> int:
        """Delete the memories of turns, and what was drawn only from them."""
        ...

    async def forget_scope(self, scope: Scope, thread_id: ThreadId | None) -> int:
        """Erase what is remembered of a scope, or of one of its threads; session logs stay."""
        ...

    async def list_memories(self, query: MemoryQuery) -> Sequence[Memory]: ...

    async def memories_without_vectors(
        self, scope: Scope, thread_id: ThreadId, model: str, limit: int
    ) -> Sequence[tuple[ItemAddress, str]]:
        """Return addresses and texts of turns of a thread that the model did not embed yet."""
        ...

    async def add_vectors(self, scope: Scope, vectors: VectorRows) -> None: ...

    async def resolve_ids(
        self, scope: Scope, memory_ids: Sequence[UUID]
    ) -> Sequence[ItemAddress]: ...
