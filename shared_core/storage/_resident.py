"""The memories of one user as arrays, from which recall picks its candidates (decision 20).

Positions number the living memories in order: turns by thread, then the others, each by id. Slots
number the rows of the arrays, in order of arrival.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar
from uuid import UUID

import numpy as np

from shared_core.core.domain import Memory, MemoryId
from shared_core.core.doubts import doubted_at
from shared_core.core.timestamps import CLOCKS_APART, EARLIEST, LATEST, microseconds
from shared_core.ports.recall import KINDS, AnswerOutdated, Candidates, Corpus, TurnOrder, Voice
from shared_core.storage._candidates import picked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared_core.ports.recall import Flags, Numbers, Places, SearchRequest

    _Filter: TypeAlias = tuple[tuple[str, ...] | None, datetime | None, datetime | None, float]
    """Kinds, begin, end and least importance."""
    Array: TypeAlias = NDArray[Any]

V = TypeVar("V")

TURN: Final = KINDS.index("episodic")
FOREVER: Final = np.iinfo(np.int64).max
LONGEST_PAUSE: Final = 6 * 3_600 * 1_000_000
"""A longer pause before a turn opens a session, in microseconds."""
SOON: Final = CLOCKS_APART // timedelta(microseconds=1)
"""Tolerance for a caller's clock that is ahead, in microseconds, as in the statement of recall."""
SPARE: Final = 1.25
"""Arrays that grow get room for a quarter more."""
MOST_DEAD: Final = 0.25
"""Share of unused slots above which an index is read anew."""
MOST_INSERTED: Final = 100
"""Maximum number of new memories that are put in their places; more are sorted with all others."""
KEPT_VIEWS: Final = 2
"""Number of filtered views that an index keeps besides that of all living memories."""
UNIT, RECORD = "\x1f", "\x1e"
"""Separate the words of a memory, and the words of two memories."""
_SLOT: Final = np.dtype([
    ("high", "u8"), ("low", "u8"), ("occurred", "i8"), ("expires", "i8"), ("updated", "i8"),
    ("text_at", "i8"), ("text_bytes", "i4"), ("length", "i4"), ("importance", "f4"),
    ("thread", "i4"), ("voice", "i4"), ("stated", "i4"), ("kind", "i1"), ("alive", "?"),
    ("doubtful", "?"),
])  # fmt: skip
_FIELDS: Final = (
    ("occurred", ">i8"), ("expires", ">i8"), ("updated", ">i8"), ("length", ">i4"),
    ("importance", ">f4"), ("text_bytes", ">i4"),
)  # fmt: skip
_MAY_END: Final = (TURN, KINDS.index("summary"))
"""Kinds of memories that facts are drawn from."""
_HALF: Final = np.arange(65_536, dtype=np.uint16).byteswap().view(np.float16).astype(np.float32)
"""The value of each half, by its two bytes, high byte first, as this machine reads them."""
_OBJECT_BYTES: Final = 140
"""Bytes of an id and its entry in the dictionary of slots, about."""
_VIEW_BYTES: Final = 100
"""Bytes of a memory in the arrays that a view of the memories keeps, about."""
UNFILTERED: Final = (None, None, None, 0.0)
_UNKNOWN, _NO, _YES = range(3)
"""What an index knows of a judgement of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedMemories:
    """What a storage reads of a user: everything, or the memories that changed.

    changed: ids of the memories that are read again; None if everything was read.
    groups: rows of the statement resident_memories. vectors: ids, and halves of all vectors.
    facts: id, begin and planned end; ends: id, and ends of the facts drawn from its turns; names:
    keys of the entities of the graph. All three are None if they did not change.
    """

    seen: UUID
    changed: Sequence[UUID] | None
    groups: Sequence[Sequence[Any]]
    vectors: tuple[bytes | None, bytes | None]
    facts: Sequence[tuple[UUID, datetime, datetime | None]] | None
    ends: Sequence[tuple[UUID, Sequence[datetime]]] | None
    names: Sequence[str] | None


class _Numbered(Generic[V]):
    """Numbers values."""

    def __init__(self) -> None:
        self.values: list[V] = []
        self._numbers: dict[V, int] = {}

    def number(self, value: V) -> int:
        if value not in self._numbers:
            self._numbers[value] = len(self.values)
            self.values.append(value)
        return self._numbers[value]


@dataclass(frozen=True, slots=True)
class _View:
    """Living memories by position.

    slots: (N,). position_of: by slot, -1 for others. vector_of: (N,), rows of vectors, -1 for none.
    ends, shares: of facts drawn from the memories at ended: when each ends, and its share of them.
    """

    slots: Places
    order: TurnOrder
    position_of: Places
    vector_of: Places
    ended: Places
    ends: Array
    shares: Numbers

    def share_ended(self, by: int) -> Numbers:
        """Return the share of each memory's facts that ended by a moment, (N,)."""
        is_over = self.ends <= by
        found = np.bincount(self.ended[is_over], self.shares[is_over], len(self.slots))
        return found.astype(np.float64, copy=False)


class UserIndex:
    """The memories of one user with the vectors of one model. Its lock guards the arrays.

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
        self._threads: _Numbered[str | None] = _Numbered()
        self._voices: _Numbered[Voice] = _Numbered()
        self._fact_slots: _Numbered[str] = _Numbered()
        self._begins: dict[bytes, int] = {}
        self._planned: dict[bytes, int] = {}
        self._ends: dict[bytes, Array] = {}
        self._names: set[int] = set()
        self._judgements: dict[Callable[[str], bool], Array] = {}
        self._order = np.zeros(0, np.intp)
        self._moments = np.zeros(0, np.int64)
        self._now: tuple[int, _View] | None = None
        self._filtered: OrderedDict[_Filter, _View] = OrderedDict()

    @property
    def is_sparse(self) -> bool:
        """Whether more than MOST_DEAD of the slots are unused: the index should be read anew."""
        return self._dead > MOST_DEAD * self._used

    @property
    def nbytes(self) -> int:
        """The memory that the index takes, about."""
        arrays = (self._slots, self._texts, self._owners, self._words, self._word_slots)
        vectors = 0 if self._vectors is None else self._vectors.nbytes
        views = (1 + KEPT_VIEWS) * _VIEW_BYTES * self._used
        objects = _OBJECT_BYTES * (len(self._slot_of) + len(self._names)) + views
        return vectors + sum(one.nbytes for one in arrays) + objects

    def apply(self, read: PackedMemories, since: UUID | None) -> bool:
        """Take over what was read since a change, if it is still the last one the arrays hold.

        Returns whether it was: otherwise another caller has taken over changes meanwhile.
        """
        with self.lock:
            if since is not None and self.seen != since:
                return False
            gone = [self._slot_of.pop(one.bytes, -1) for one in read.changed or ()]
            self._wipe(np.array([slot for slot in gone if slot >= 0], np.intp))
            first = self._used
            self._append(read.groups)
            self._take_vectors(*read.vectors)
            if read.facts is not None and read.ends is not None:
                self._begins = {one.bytes: microseconds(begin) for one, begin, _ in read.facts}
                self._planned = {one.bytes: microseconds(end) for one, _, end in read.facts if end}
                self._ends = {
                    one.bytes: np.array([_us(end) for end in ends], np.int64)
                    for one, ends in read.ends
                }
            if read.names is not None:
                self._names = {hash(name) for name in read.names}
            self._arrange(first)
            self.seen, self.is_behind = read.seen, False
            return True

    def wipe(self) -> None:
        """Overwrite everything with zeros."""
        with self.lock:
            self.seen = UUID(int=0)
            for one in (self._slots, self._texts, self._words, self._vectors):
                if one is not None:
                    one[...] = np.zeros((), one.dtype)
            self._slot_of.clear()
            self._judgements.clear()
            self._threads, self._voices = _Numbered(), _Numbered()
            self._fact_slots = _Numbered()
            self._begins, self._planned, self._ends, self._names = {}, {}, {}, set()
            self._order = np.zeros(0, np.intp)
            self._drop_views()

    def scored(
        self, request: SearchRequest, now: datetime, memory_of: Callable[[UUID], Memory]
    ) -> tuple[UUID, Corpus | None, Candidates | None]:
        """Return the last change the arrays hold, the corpus, and the candidates of a query.

        memory_of: returns the complete memory of a candidate.
        """
        with self.lock:
            view = self._living(request, microseconds(now))
            if not len(view.slots):
                return self.seen, None, None
            terms = list(dict.fromkeys(request.terms))
            holders, words = self._held(terms, view)
            corpus = Corpus(
                similarity=self._similarity(request, view), order=view.order, holders=holders,
                words=words, terms=len(terms),
            )  # fmt: skip
            numbers = picked(corpus, request.candidates, partial(self._newest_first, view))
            return self.seen, corpus, self._candidates(view, numbers, now, memory_of)

    def may_name(self, mentions: Sequence[str], seen: UUID) -> bool:
        """Tell whether the graph may hold one of these names, or the index holds a later change."""
        with self.lock:
            return self.seen != seen or any(hash(name) in self._names for name in mentions)

    def text(self, slot: int, seen: UUID) -> str:
        """Return the text of a slot. Raises AnswerOutdated if the index holds a later change."""
        with self.lock:
            self._check(seen)
            return self._text(slot)

    def judged(self, judge: Callable[[str], bool], slots: Places, seen: UUID) -> Flags:
        """Return the judgement of the texts of some slots, made once. Raises AnswerOutdated."""
        with self.lock:
            self._check(seen)
            known = _with_room(self._judgements.get(judge, np.zeros(0, np.int8)), self._used)
            self._judgements[judge] = known
            for slot in slots[known[slots] == _UNKNOWN].tolist():
                known[slot] = _YES if judge(self._text(slot)) else _NO
            flags: Flags = known[slots] == _YES
            return flags

    def _check(self, seen: UUID) -> None:
        if self.seen != seen:
            raise AnswerOutdated

    def _text(self, slot: int) -> str:
        begin, size = int(self._slots["text_at"][slot]), int(self._slots["text_bytes"][slot])
        return self._texts[begin : begin + size].tobytes().decode()

    def _newest_first(self, view: _View, positions: Places) -> Places:
        """Return positions by the last update of their memories, the latest first, then by id."""
        rows = self._slots[view.slots[positions]]
        return positions[np.lexsort((rows["low"], rows["high"], -rows["updated"]))]

    def _candidates(
        self, view: _View, numbers: Places, now: datetime, memory_of: Callable[[UUID], Memory]
    ) -> Candidates:
        slots = view.slots[numbers]
        rows = self._slots[slots]
        voices, speakers = np.unique(rows["voice"], return_inverse=True)
        fact_slots, stated = np.unique(rows["stated"], return_inverse=True)
        return Candidates(
            numbers=numbers,
            kinds=rows["kind"],
            speakers=speakers,
            voices=[self._voices.values[voice] for voice in voices.tolist()],
            stated=stated,
            slots=[self._fact_slots.values[one] for one in fact_slots.tolist()],
            occurred=rows["occurred"],
            high=rows["high"],
            low=rows["low"],
            ended=view.share_ended(microseconds(now) + SOON)[numbers],
            doubtful=rows["doubtful"],
            texts=_SlotTexts(self, self.seen, slots, rows, memory_of),
        )

    def _living(self, request: SearchRequest, at: int) -> _View:
        """Return the memories that a query may find now; at: microseconds."""
        # Between two moments the same memories live.
        since = int(np.searchsorted(self._moments, at, "right"))
        if self._now is None or self._now[0] != since:
            self._now = since, self._view(self._order[self._live(at)])
            self._filtered.clear()
        asked = _filter_of(request)
        if asked == UNFILTERED:
            return self._now[1]
        view = self._filtered.pop(asked, None) or self._admitted(self._now[1], request)
        self._filtered[asked] = view
        if len(self._filtered) > KEPT_VIEWS:
            self._filtered.popitem(last=False)
        return view

    def _admitted(self, view: _View, request: SearchRequest) -> _View:
        """Return the memories of a view that the filters of a query admit."""
        rows, keep = self._slots[view.slots], np.ones(len(view.slots), bool)
        if request.kinds is not None:
            keep &= np.isin(rows["kind"], [KINDS.index(kind) for kind in request.kinds])
        if request.begin is not None:
            keep &= rows["occurred"] >= microseconds(request.begin)
        if request.end is not None:
            keep &= rows["occurred"] < microseconds(request.end)
        if request.min_importance:
            keep &= rows["importance"] >= np.float32(request.min_importance)
        return view if keep.all() else self._view(view.slots[keep])

    def _live(self, at: int) -> Flags:
        """Return which memories, in order, have begun and have not expired."""
        live = np.zeros(self._used, bool)
        live[self._order] = self._slots["expires"][self._order] > at
        hidden = {one for one, begin in self._begins.items() if begin > at + SOON}
        hidden |= {one for one, end in self._planned.items() if end <= at}
        live[[self._slot_of[one] for one in hidden if one in self._slot_of]] = False
        return live[self._order]

    def _similarity(self, request: SearchRequest, view: _View) -> Numbers:
        """Return the cosine of each memory with the query, NaN without a vector."""
        found = np.full(len(view.slots), np.nan)
        if request.vector is None or self._vectors is None or not len(self._owners):
            return found
        asked = np.asarray(request.vector[0], np.float32).astype(np.float16).astype(np.float32)
        norm = float(np.linalg.norm(asked))
        cosine = _products(self._vectors[: len(self._owners)], asked / (norm or 1.0))
        np.clip(cosine, -1.0, 1.0, out=cosine)
        if self._has_several:
            positions = np.where(self._owners < 0, -1, view.position_of[self._owners])
            known = positions >= 0
            np.fmax.at(found, positions[known], cosine[known])
            return found
        found[:] = cosine[view.vector_of]
        found[view.vector_of < 0] = np.nan
        return found

    def _held(self, terms: Sequence[str], view: _View) -> tuple[Places, Places]:
        """Return which memory holds which word of the query: positions, and numbers of words."""
        hashes = np.array([hash(term) for term in terms], np.int64)
        first = np.searchsorted(self._words, hashes, "left").tolist()
        last = np.searchsorted(self._words, hashes, "right").tolist()
        holders: list[Places] = [np.zeros(0, np.intp)]
        for begin, end in zip(first, last, strict=True):
            # Sorted, and without -1, which stands for memories of other queries.
            holds = np.zeros(len(view.slots) + 1, bool)
            holds[view.position_of[self._word_slots[begin:end]]] = True
            holders.append(np.flatnonzero(holds[:-1]))
        counts = [len(one) for one in holders[1:]]
        return np.concatenate(holders), np.repeat(np.arange(len(terms)), counts)

    def _append(self, groups: Sequence[Sequence[Any]]) -> None:
        new_words: list[int] = []
        new_slots: list[int] = []
        for kind, thread, author, role, fact_slot, ids, *columns, texts, words, doubts in groups:
            count, first = len(ids) // 16, self._used
            self._slots = _with_room(self._slots, first + count)
            rows = self._slots[first : first + count]
            halves = np.frombuffer(ids, ">u8").reshape(count, 2)
            rows["high"], rows["low"] = halves[:, 0], halves[:, 1]
            for (name, type_), packed in zip(_FIELDS, columns, strict=True):
                rows[name] = np.frombuffer(packed, type_)
            rows["kind"], rows["alive"], rows["doubtful"] = KINDS.index(kind), True, False
            rows["thread"] = self._threads.number(thread)
            rows["voice"] = self._voices.number((author, role))
            rows["stated"] = self._fact_slots.number(fact_slot or "")
            for name in ("occurred", "updated"):
                rows[name] = np.clip(rows[name], microseconds(EARLIEST), microseconds(LATEST))
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
        rows["text_at"] = np.add(np.subtract(ends, rows["text_bytes"]), self._text_end)
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
        """Overwrite what these slots hold with zeros, at once (docs/explanation/privacy.md)."""
        if not len(slots):
            return
        for row in self._slots[slots]:
            begin = int(row["text_at"])
            self._texts[begin : begin + int(row["text_bytes"])] = 0
        self._slots[slots] = np.zeros((), _SLOT)
        for known in self._judgements.values():
            known[slots[slots < len(known)]] = _UNKNOWN
        self._dead += len(slots)
        of_them = np.isin(self._owners, slots)
        if self._vectors is not None:
            self._vectors[: len(self._owners)][of_them] = 0.0
        self._owners[of_them] = -1
        stays = ~np.isin(self._word_slots, slots)
        old = self._words
        self._words, self._word_slots = self._words[stays], self._word_slots[stays]
        old[...] = 0

    def _arrange(self, first: int) -> None:
        """Put the slots from the first on in their places, and leave out those that are unused."""
        new = np.arange(first, self._used)
        order = self._order[self._slots["alive"][self._order]]
        if len(new) <= MOST_INSERTED:
            for slot in new.tolist():
                at = bisect_left(order, self._key(slot), key=self._key)
                order = np.insert(order, at, slot)
        else:
            order = self._sorted(np.concatenate([order, new]))
        self._order = order
        rows = self._slots[order]
        moments = [rows["expires"][rows["expires"] < FOREVER], [*self._planned.values()]]
        moments.append([begin - SOON for begin in self._begins.values()])
        self._moments = np.unique(np.concatenate(moments).astype(np.int64))
        self._drop_views()

    def _drop_views(self) -> None:
        self._now = None
        self._filtered.clear()

    def _key(self, slot: int) -> tuple[bool, bool, bytes, int, int]:
        """Return what orders a slot: turns by thread, then the others, each by id."""
        row = self._slots[slot]
        thread = self._threads.values[row["thread"]]
        is_other = bool(row["kind"] != TURN)
        return is_other, thread is None, _utf8(thread), int(row["high"]), int(row["low"])

    def _sorted(self, slots: Places) -> Places:
        """Return slots in the order of _key()."""
        names = self._threads.values
        order = sorted(range(len(names)), key=lambda at: (names[at] is None, _utf8(names[at])))
        rank = np.empty(len(names), np.int32)
        rank[order] = np.arange(len(names))
        rows = self._slots[slots]
        keys = rows["low"], rows["high"], rank[rows["thread"]], rows["kind"] != TURN
        return slots[np.lexsort(keys)]

    def _view(self, slots: Places) -> _View:
        """Return the view of some slots, which are in order."""
        rows = self._slots[slots]
        opens = np.ones(len(slots), bool)
        opens[1:] = (
            (rows["kind"][1:] != TURN)
            | (rows["thread"][1:] != rows["thread"][:-1])
            | (np.diff(rows["occurred"]) > LONGEST_PAUSE)
        )
        position_of = np.full(self._used, -1, np.intp)
        position_of[slots] = np.arange(len(slots))
        vector_of = np.full(self._used, -1, np.intp)
        owned = np.flatnonzero(self._owners >= 0)
        vector_of[self._owners[owned]] = owned
        ended, ends = self._ends_of(position_of)
        return _View(
            slots=slots,
            order=TurnOrder(rows["length"].astype(np.float64), opens),
            position_of=position_of,
            vector_of=vector_of[slots],
            ended=np.repeat(ended, [len(one) for one in ends]),
            ends=np.concatenate([np.zeros(0, np.int64), *ends]),
            shares=np.concatenate(
                [np.zeros(0), *(np.full(len(one), 1 / len(one)) for one in ends)]
            ),
        )

    def _ends_of(self, position_of: Places) -> tuple[Places, list[Array]]:
        """Return the positions of memories that facts with an end were drawn from, and all ends."""
        positions, found = [], []
        for one, ends in self._ends.items():
            slot = self._slot_of.get(one)
            if (
                slot is not None
                and position_of[slot] >= 0
                and self._slots["kind"][slot] in _MAY_END
            ):
                positions.append(position_of[slot])
                found.append(ends)
        return np.array(positions, np.intp), found


@dataclass(frozen=True, slots=True)
class _SlotTexts:
    """The texts of candidates in the slots of an index, as long as it holds no later change."""

    _index: UserIndex
    _seen: UUID
    _slots: Places
    _rows: Array
    _memory_of: Callable[[UUID], Memory]

    def text(self, at: int) -> str:
        return self._index.text(int(self._slots[at]), self._seen)

    def memory(self, at: int) -> Memory:
        row = self._rows[at]
        return self._memory_of(MemoryId(UUID(int=int(row["high"]) << 64 | int(row["low"]))))

    def judged(self, judge: Callable[[str], bool], places: Places) -> Flags:
        return self._index.judged(judge, self._slots[places], self._seen)


def _filter_of(request: SearchRequest) -> _Filter:
    kinds = None if request.kinds is None else tuple(sorted(request.kinds))
    return kinds, request.begin, request.end, request.min_importance


def _products(vectors: Array, vector: Array) -> Array:
    """Return the inner product of each row with a vector, the same for equal rows.

    Not vectors @ vector: its threads wait for each other where other work takes the cores.
    """
    if hasattr(np, "vecdot"):
        products: Array = np.vecdot(vectors, vector)
        return products
    summed: Array = np.einsum("ij,j->i", vectors, vector)
    return summed


def _with_room(array: Array, size: int) -> Array:
    """Return the array with room for a number of rows, and some more; one that grew is zeroed."""
    if size <= len(array):
        return array
    room = size if not len(array) else max(size, int(len(array) * SPARE))
    grown = np.zeros((room, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    array[...] = np.zeros((), array.dtype)
    return grown


def _us(moment: datetime) -> int:
    return int(FOREVER) if moment == LATEST else microseconds(moment)


def _utf8(text: str | None) -> bytes:
    return (text or "").encode()
