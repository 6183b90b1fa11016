"""The ports of the core: storage, embedder, extractor, reflector and clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, runtime_checkable

from shared_core.core.domain import (
    Conclusions,
    Event,
    Extraction,
    HeldFact,
    KnownPerson,
    Memory,
    MemoryId,
    ModelUsage,
)
from shared_core.ports.api_tokens import TokenStorage
from shared_core.ports.conversations import ConversationStorage
from shared_core.ports.erasures import ErasureStorage
from shared_core.ports.events import EventStorage
from shared_core.ports.graph import GraphStorage
from shared_core.ports.indexes import IndexStorage, ReembedStorage
from shared_core.ports.items import ItemStorage
from shared_core.ports.jobs import JobStorage
from shared_core.ports.operations import Lock, PolicyFactory, Row, Select
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
T = TypeVar("T")


class Embedder(Protocol):
    """Turns texts into L2-normalised float32 vectors of one length.

    model: names the vectors in the database. Both methods take non-blank texts, return an array of
    shape (texts, dimensions), and raise ModelUnavailable if the model fails.
    """

    @property
    def model(self) -> str: ...

    async def embed_passages(self, texts: Sequence[str]) -> Vectors: ...

    async def embed_query(self, text: str) -> Vectors:
        """Return the vector of one query, shape (1, dimensions)."""


class Extractor(Protocol):
    """Extracts facts and statements from turns, and summarises threads.

    name: stored with all its results; it includes the version of its rules or prompts.
    window_tokens: approximate size of one call. reread_turns: number of earlier turns it needs
    again to summarise; 0 if it extends the previous summary.
    Raise ModelUnavailable if a model fails: a later run then reads the turns.
    """

    @property
    def name(self) -> str: ...
    @property
    def window_tokens(self) -> int: ...
    @property
    def reread_turns(self) -> int: ...

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        """Return drafts from events. context: earlier turns, for understanding only.

        A draft that uses context lists those turns too, so that it is forgotten with them.
        """

    async def summarise(
        self, events: Sequence[Event], previous: str, max_characters: int
    ) -> tuple[str, ModelUsage]:
        """Return a short summary of a thread in its language.

        previous: the summary of the turns before events, or "".
        """


@runtime_checkable
class Acquainted(Protocol):
    """An extractor that accepts what is known before the turns of a window."""

    def knowing(self, people: Sequence[KnownPerson], held: Sequence[HeldFact] = ()) -> Extractor:
        """Return an extractor for one window.

        people: named by the user in earlier turns. held: facts that hold, or ended recently.
        """


@runtime_checkable
class Summarising(Protocol):
    """An extractor whose extract() can write the summary of the thread along, in the same call."""

    def summing_up(self, previous: str, max_characters: int) -> Extractor:
        """Return an extractor for one window that also continues a summary.

        previous: the summary of the turns before, or "". The result is Extraction.summary, "" if
        it has none; a summary of turns that were skipped is left to the rules.
        """


@runtime_checkable
class Choosing(Protocol):
    """An extractor that chooses what a request to forget is about."""

    async def telling(
        self, request: Event, topics: Sequence[str], memories: Sequence[Memory]
    ) -> tuple[frozenset[MemoryId], ModelUsage]:
        """Return which of the memories tell what the user asks to forget in a turn."""


@runtime_checkable
class Sparing(Protocol):
    """An extractor that asks no model about sessions that tell nothing."""

    def reading_all(self) -> Extractor:
        """Return an extractor that asks it about those as well."""


@runtime_checkable
class Revisable(Protocol):
    """An extractor that may read turns without comparing them with what is held.

    needs_revision: the drafts do not say what the turns do to the held facts, so
    shared_core.knowledge.revision compares them. Other extractors say it themselves. reader:
    whether the trained judge of changes compares them too.
    """

    @property
    def needs_revision(self) -> bool: ...

    @property
    def reader(self) -> bool: ...


def is_judged(extractor: Extractor) -> bool:
    """Tell whether the trained judge reads the turns of an extractor: no model reads them."""
    return isinstance(extractor, Revisable) and extractor.needs_revision and extractor.reader


@runtime_checkable
class Reflector(Protocol):
    """Draws conclusions from memories across threads. An extractor may also be one."""

    @property
    def name(self) -> str: ...

    async def reflect(
        self, memories: Sequence[Memory], held: Sequence[HeldFact], now: datetime
    ) -> Conclusions:
        """Return insights, each with the memory_ids of its provenance, and outdated facts.

        held: facts that hold, then those that ended, the newest of each kind first.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageReport:
    """The state of a database, for `hippocampus migrate --json`.

    size_bytes: on disk; None if the server does not report it.
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


class Storage(Protocol):
    """A storage engine, composed of one part for each area.

    Every method of a part is one transaction and touches only the scope it names. Every method
    raises StorageUnavailable if the database is unreachable.
    """

    @property
    def items(self) -> ItemStorage: ...
    @property
    def events(self) -> EventStorage: ...
    @property
    def recall(self) -> RecallStorage: ...
    @property
    def accesses(self) -> AccessStorage: ...
    @property
    def session_logs(self) -> SessionStorage: ...
    @property
    def conversations(self) -> ConversationStorage: ...
    @property
    def jobs(self) -> JobStorage: ...
    @property
    def runs(self) -> RunStorage: ...
    @property
    def graph(self) -> GraphStorage: ...
    @property
    def retention(self) -> RetentionStorage: ...
    @property
    def erasures(self) -> ErasureStorage: ...
    @property
    def indexes(self) -> IndexStorage: ...
    @property
    def reembedding(self) -> ReembedStorage: ...
    @property
    def transfer(self) -> TransferStorage: ...
    @property
    def tokens(self) -> TokenStorage: ...

    @property
    def is_embedded(self) -> bool:
        """Whether open() starts a server in a local folder."""

    async def read(self, tenant: str, operations: Sequence[Select]) -> list[list[Row]]:
        """Return the rows of each operation, all of one moment."""

    async def query(self, tenant: str, reader: PolicyFactory[T]) -> T:
        """Return what a policy that only reads returns; all its batches see one moment."""

    async def transact(self, tenant: str, policy: PolicyFactory[T], *, lock: Lock = "wait") -> T:
        """Run a policy as one transaction of its tenant and return what it returns.

        The tenant's lock is taken first, so the policy reads what earlier holders committed. The
        policy is made anew and runs from its start after a deadlock and after a lost connection,
        unless its transaction was committed.

        Raises:
            Conflict: a row with the same key exists; nothing is written then.
            TenantBusy: another transaction holds the lock (lock="skip").
        """

    async def transact_all(
        self, policies: Mapping[str, PolicyFactory[T]], *, lock: Lock = "wait"
    ) -> dict[str, T]:
        """Run one policy for each tenant, all as one transaction; return their results.

        Raises TenantBusy if another transaction holds one of the locks (lock="skip").
        """

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def report(self) -> StorageReport: ...

    async def dsn(self) -> str:
        """Return the connection string of the database, including the password."""

    async def active_model(self) -> tuple[str, int] | None:
        """Return the embedding model in use and its dimensions, or None before the first."""

    async def use_model(self, model: str, dimensions: int) -> None:
        """Declare the embedding model; raises EmbeddingMismatch if another one is active."""

    async def add_model(self, model: str, dimensions: int) -> None:
        """Declare a model whose vectors stand beside those of the active one (a store's items).

        Raises EmbeddingMismatch if its name stands for other dimensions.
        """
