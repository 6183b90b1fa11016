"""The memories of one user as arrays, from which recall picks its candidates (decision 20).

Positions number the living memories in order: turns by thread, then the others, each by id. Slots
number the rows of the arrays, in order of arrival.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from uuid import UUID

import numpy as np

from shared_core.core.domain import Memory, MemoryId, MemoryKind, Role
from shared_core.core.doubts import doubted_at
from shared_core.core.timestamps import EARLIEST, LATEST
from shared_core.ports.recall import Candidate, Corpus
from shared_core.storage._resident_scores import Selection, candidates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared_core.ports.recall import Flags, Numbers, Places, SearchRequest

    Array: TypeAlias = NDArray[Any]

KINDS: Final[Sequence[MemoryKind]] = ("episodic", "semantic", "summary", "reflection", "item")
TURN: Final = 0
EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
FOREVER: Final = np.iinfo(np.int64).max
PAUSE_US: Final = 6 * 3_600 * 1_000_000
"""A pause after which a turn opens a session, in microseconds."""
SOON: Final = timedelta(hours=1)
"""Tolerance for a caller's clock that is ahead, as in the statement of recall."""
SPARE: Final = 1.25
"""Arrays that grow get room for a quarter more."""
MOST_DEAD: Final = 0.25
"""Share of unused slots above which an index is read anew."""
UNIT, RECORD = "\x1f", "\x1e"
"""Separate the words of a memory, and the words of two memories."""
_SLOT: Final = np.dtype([
    ("high", "u8"), ("low", "u8"), ("occurred", "i8"), ("expires", "i8"), ("updated", "i8"),
    ("text_at", "i8"), ("text_bytes", "i4"), ("length", "i4"), ("importance", "f4"),
    ("thread", "i4"), ("author", "i4"), ("role", "i4"), ("kind", "i1"), ("alive", "?"),
    ("doubtful", "?"),
])  # fmt: skip
_OF_CANDIDATE: Final = (
    "high", "low", "occurred", "text_at", "text_bytes", "author", "role", "kind", "doubtful",
)  # fmt: skip
_MAY_END: Final = (KINDS.index("episodic"), KINDS.index("summary"))
"""Kinds of memories that facts are drawn from."""
_FIELDS: Final = (
    ("occurred", ">i8"), ("expires", ">i8"), ("updated", ">i8"), ("length", ">i4"),
    ("importance", ">f4"), ("text_bytes", ">i4"),
)  # fmt: skip
_HALF: Final = np.arange(65_536, dtype=np.uint16).byteswap().view(np.float16).astype(np.float32)
"""The value of each half, by its two bytes, high byte first, as this machine reads them."""
_OBJECT_BYTES: Final = 140
"""Bytes of an id and its entry in the dictionary of slots, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedMemories:
    """What a storage reads of a user: everything, or the memories that changed.

    changed: ids of the memories that are read again; None if everything was read.
    groups: rows of the statement resident_memories. vectors: ids, and halves of all vectors.
    facts: id, begin and planned end; ends: id, and ends of the facts drawn from its turns. Both are
    None if they did not change.
    """

    seen: UUID
    changed: Sequence[UUID] | None
    groups: Sequence[Sequence[Any]]
    vectors: tuple[bytes | None, bytes | None]
    facts: Sequence[tuple[UUID, datetime, datetime | None]] | None
    ends: Sequence[tuple[UUID, Sequence[datetime]]] | None


class _NumberedTexts:
    """Numbers texts."""

    def __init__(self) -> None:
        self.texts: list[str | None] = []
        self._numbers: dict[str | None, int] = {}

    def number(self, text: str | None) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


@dataclass
class _View:
    """The living memories of a query, by position."""

    slots: Places
    opens: Flags
    rows: Array
    position_of: Places
    length: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.length = self.rows["length"].astype(np.float64)


class UserIndex:
    """The memories of one user with the vectors of one model; every method takes the lock.

    seen: the last change that the arrays hold. is_behind: changes are known to have come since.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seen = UUID(int=0)
        self.is_behind = False
        self._slot_of: dict[bytes, int] = {}
        self._used = self._dead = 0
        self._slots = np.zeros(0, _SLOT)
        self._texts = np.zeros(0, np.uint8)
        self._text_end = 0
        self._vectors: Array | None = None
        self._owners = np.zeros(0, np.int32)
        self._has_several = False
        self._words = np.zeros(0, np.int64)
        self._word_slots = np.zeros(0, np.int32)
        self._threads, self._authors, self._roles = (
            _NumberedTexts(),
            _NumberedTexts(),
            _NumberedTexts(),
        )
        self._begins: dict[bytes, int] = {}
        self._planned: dict[bytes, int] = {}
        self._ends: dict[bytes, Array] = {}
        self._view = self._arranged(np.zeros(0, np.intp))

    @property
    def is_sparse(self) -> bool:
        """Whether so many slots are unused that the index should be read anew."""
        return self._dead > MOST_DEAD * self._used

    @property
    def nbytes(self) -> int:
        """The memory that the index takes, about."""
        view = self._view
        arrays = (self._slots, self._texts, self._owners, self._words, self._word_slots,
                  view.rows, view.length, view.slots, view.position_of)  # fmt: skip
        vectors = 0 if self._vectors is None else self._vectors.nbytes
        return vectors + sum(one.nbytes for one in arrays) + _OBJECT_BYTES * len(self._slot_of)

    def apply(self, read: PackedMemories, since: UUID | None) -> bool:
        """Take over what was read since a change, if it is still the last one the arrays hold.

        Returns whether it was: otherwise another caller has taken over changes meanwhile.
        """
        with self.lock:
            if since is not None and self.seen != since:
                return False
            gone = [self._slot_of.pop(one.bytes, -1) for one in read.changed or ()]
            self._wipe(np.array([slot for slot in gone if slot >= 0], np.intp))
            self._append(read.groups)
            self._take_vectors(*read.vectors)
            if read.facts is not None and read.ends is not None:
                self._begins = {one.bytes: _us(begin) for one, begin, _ in read.facts}
                self._planned = {one.bytes: _us(end) for one, _, end in read.facts if end}
                self._ends = {
                    one.bytes: np.array([_us(end) for end in ends], np.int64)
                    for one, ends in read.ends
                }
            self._view = self._arranged(np.flatnonzero(self._slots["alive"][: self._used]))
            self.seen, self.is_behind = read.seen, False
            return True

    def wipe(self) -> None:
        """Overwrite everything with zeros."""
        with self.lock:
            self.seen = UUID(int=0)
            for one in (self._slots, self._texts, self._words, self._vectors, self._view.rows):
                if one is not None:
                    one[...] = np.zeros((), one.dtype)
            self._slot_of.clear()

    def scored(
        self, request: SearchRequest, now: datetime, memory_of: Callable[[UUID], Memory]
    ) -> tuple[UUID, Corpus | None, list[Candidate]]:
        """Return the last change the arrays hold, the corpus, and the candidates of a query.

        memory_of: returns the complete memory of a candidate.
        """
        with self.lock:
            view = self._living(request, now)
            if not len(view.slots):
                return self.seen, None, []
            terms = list(dict.fromkeys(request.terms))
            similarity = self._similarity(request, view)
            holders, words = self._held(terms, view)
            picked = candidates(
                Selection(
                    similarity=similarity, length=view.length, opens=view.opens, holders=holders,
                    words=words, terms=len(terms), updated=view.rows["updated"],
                    high=view.rows["high"], low=view.rows["low"],
                ),
                request.candidates,
            )  # fmt: skip
            corpus = Corpus(similarity=similarity, length=view.length, opens=view.opens,
                            holders=holders, words=words, terms=len(terms))  # fmt: skip
            return self.seen, corpus, self._candidates(view, picked, now, memory_of)

    def _candidates(
        self, view: _View, picked: Places, now: datetime, memory_of: Callable[[UUID], Memory]
    ) -> list[Candidate]:
        found = []
        soon = _us(now + SOON)
        rows = view.rows[list(_OF_CANDIDATE)][picked].tolist()  # as Python's own numbers, at once
        for number, row in zip(picked.tolist(), rows, strict=True):
            high, low, occurred, text_at, text_bytes, author, role, kind, doubtful = row
            memory_id = MemoryId(UUID(int=high << 64 | low))
            ends = self._ends.get(memory_id.bytes) if kind in _MAY_END else None
            found.append(Candidate(
                memory_id=memory_id,
                kind=KINDS[kind],
                text=self._texts[text_at : text_at + text_bytes].tobytes().decode(),
                author=self._authors.texts[author],
                role=cast("Role | None", self._roles.texts[role]),
                occurred_at=_moment(occurred),
                number=number,
                memory=partial(memory_of, memory_id),
                ended=0.0 if ends is None else float((ends <= soon).mean()),
                is_doubtful=doubtful,
            ))  # fmt: skip
        return found

    def _living(self, request: SearchRequest, now: datetime) -> _View:
        """Return the memories that a query may find now."""
        rows, at = self._view.rows, _us(now)
        keep = rows["expires"] > at
        soon = _us(now + SOON)
        hidden = {one for one, begin in self._begins.items() if begin > soon}
        hidden |= {one for one, end in self._planned.items() if end <= at}
        for one in hidden:
            slot = self._slot_of.get(one)
            if slot is not None:
                keep[self._view.position_of[slot]] = False
        if request.kinds is not None:
            keep &= np.isin(rows["kind"], [KINDS.index(kind) for kind in request.kinds])
        if request.begin is not None:
            keep &= rows["occurred"] >= _us(request.begin)
        if request.end is not None:
            keep &= rows["occurred"] < _us(request.end)
        if request.min_importance:
            keep &= rows["importance"] >= np.float32(request.min_importance)
        return self._view if keep.all() else self._of(self._view.slots[keep])

    def _similarity(self, request: SearchRequest, view: _View) -> Numbers:
        """Return the cosine of each memory with the query, NaN without a vector."""
        found = np.full(len(view.slots), np.nan)
        if request.vector is None or self._vectors is None:
            return found
        asked = np.asarray(request.vector[0], np.float32).astype(np.float16).astype(np.float32)
        norm = float(np.linalg.norm(asked))
        cosine = np.clip(self._vectors[: len(self._owners)] @ (asked / (norm or 1.0)), -1.0, 1.0)
        positions = view.position_of[self._owners]
        positions[self._owners < 0] = -1
        known = positions >= 0
        if self._has_several:
            np.fmax.at(found, positions[known], cosine[known])
        else:
            found[positions[known]] = cosine[known]
        return found

    def _held(self, terms: Sequence[str], view: _View) -> tuple[Places, Places]:
        """Return which memory holds which word of the query: positions, and numbers of words."""
        holders: list[Places] = [np.zeros(0, np.intp)]
        words: list[Places] = [np.zeros(0, np.intp)]
        for number, term in enumerate(terms):
            first = np.searchsorted(self._words, hash(term), "left")
            last = np.searchsorted(self._words, hash(term), "right")
            positions = view.position_of[self._word_slots[first:last]]
            positions = positions[positions >= 0]
            holders.append(positions)
            words.append(np.full(len(positions), number))
        return np.concatenate(holders), np.concatenate(words)

    def _append(self, groups: Sequence[Sequence[Any]]) -> None:
        new_words: list[int] = []
        new_slots: list[int] = []
        for kind, thread, author, role, ids, *columns, texts, words, doubts in groups:
            count, first = len(ids) // 16, self._used
            self._slots = _with_room(self._slots, first + count)
            rows = self._slots[first : first + count]
            halves = np.frombuffer(ids, ">u8").reshape(count, 2)
            rows["high"], rows["low"] = halves[:, 0], halves[:, 1]
            for (name, type_), packed in zip(_FIELDS, columns, strict=True):
                rows[name] = np.frombuffer(packed, type_)
            rows["kind"], rows["alive"], rows["doubtful"] = KINDS.index(kind), True, False
            rows["thread"] = self._threads.number(thread)
            rows["author"], rows["role"] = self._authors.number(author), self._roles.number(role)
            self._take_texts(rows, texts or b"")
            for at, held in enumerate((words or "").split(RECORD)):
                hashes = [hash(word) for word in held.split(UNIT) if word]
                new_words += hashes
                new_slots += [first + at] * len(hashes)
            for at in range(count):
                self._slot_of[bytes(ids[16 * at : 16 * at + 16])] = first + at
            for one, value in (doubts or {}).items():
                slot = self._slot_of[UUID(one).bytes]
                is_doubtful = kind == "semantic" and doubted_at(value) is not None
                self._slots["doubtful"][slot] = is_doubtful
            self._used += count
        self._insert_words(np.array(new_words, np.int64), np.array(new_slots, np.int32))

    def _insert_words(self, words: Array, slots: Array) -> None:
        order = np.argsort(words, kind="stable")
        words, slots = words[order], slots[order]
        if not len(self._words):
            self._words, self._word_slots = words, slots
        elif len(words):
            places = np.searchsorted(self._words, words)
            self._words = np.insert(self._words, places, words)
            self._word_slots = np.insert(self._word_slots, places, slots)

    def _take_texts(self, rows: Array, texts: bytes) -> None:
        ends = np.cumsum(rows["text_bytes"], dtype=np.int64)
        rows["text_at"] = self._text_end + ends - rows["text_bytes"]
        self._texts = _with_room(self._texts, self._text_end + len(texts))
        self._texts[self._text_end : self._text_end + len(texts)] = np.frombuffer(texts, np.uint8)
        self._text_end += len(texts)

    def _take_vectors(self, ids: bytes | None, packed: bytes | None) -> None:
        if not ids or not packed:
            return
        count, first = len(ids) // 16, len(self._owners)
        # Each vector begins with its length, in four bytes.
        halves = np.frombuffer(packed, np.uint8).reshape(count, -1)[:, 4:]
        owners = np.array(
            [self._slot_of.get(bytes(ids[at : at + 16]), -1) for at in range(0, len(ids), 16)],
            np.int32,
        )
        known = owners >= 0
        vectors = _HALF[np.ascontiguousarray(halves[known]).view(np.uint16)]
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        vectors /= np.where(norms > 0, norms, 1.0)[:, None]
        if self._vectors is None or self._vectors.shape[1] != vectors.shape[1]:
            self._vectors, self._owners, first = vectors, owners[known], 0
        else:
            self._vectors = _with_room(self._vectors, first + len(vectors))
            self._vectors[first : first + len(vectors)] = vectors
            self._owners = np.concatenate([self._owners, owners[known]])
        living = self._owners[self._owners >= 0]
        self._has_several = len(np.unique(living)) < len(living)

    def _wipe(self, slots: Places) -> None:
        """Overwrite what these slots hold with zeros, at once (docs/privacy.md)."""
        if not len(slots):
            return
        for row in self._slots[slots]:
            begin = int(row["text_at"])
            self._texts[begin : begin + int(row["text_bytes"])] = 0
        self._slots[slots] = np.zeros((), _SLOT)
        self._dead += len(slots)
        of_them = np.isin(self._owners, slots)
        if self._vectors is not None:
            self._vectors[: len(self._owners)][of_them] = 0.0
        self._owners[of_them] = -1
        stays = ~np.isin(self._word_slots, slots)
        old = self._words
        self._words, self._word_slots = self._words[stays], self._word_slots[stays]
        old[...] = 0

    def _arranged(self, living: Places) -> _View:
        """Return the view of these slots in the order in which recall numbers memories."""
        names = self._threads.texts
        order = sorted(range(len(names)), key=lambda at: (names[at] is None, _utf8(names[at])))
        rank = np.empty(len(names), np.int32)
        rank[order] = np.arange(len(names))
        rows = self._slots[living]
        thread = rank[rows["thread"]] if len(rows) else np.zeros(0, np.int32)
        sorted_ = np.lexsort((rows["low"], rows["high"], thread, rows["kind"] != TURN))
        return self._of(living[sorted_])

    def _of(self, slots: Places) -> _View:
        rows = self._slots[slots]
        opens = np.ones(len(slots), bool)
        opens[1:] = (
            (rows["kind"][1:] != TURN)
            | (rows["thread"][1:] != rows["thread"][:-1])
            | (rows["occurred"][1:] - rows["occurred"][:-1] > PAUSE_US)
        )
        position_of = np.full(self._used, -1, np.intp)
        position_of[slots] = np.arange(len(slots))
        return _View(slots, opens, rows, position_of)


def _with_room(array: Array, size: int) -> Array:
    """Return the array with room for so many rows, and some more."""
    if size <= len(array):
        return array
    room = size if not len(array) else max(size, int(len(array) * SPARE))
    grown = np.zeros((room, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def _us(moment: datetime) -> int:
    if moment == LATEST:
        return int(FOREVER)
    return round((moment - EPOCH) / timedelta(microseconds=1))


def _moment(microseconds: int) -> datetime:
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return LATEST if microseconds > 0 else EARLIEST


def _utf8(text: str | None) -> bytes:
    return (text or "").encode()
