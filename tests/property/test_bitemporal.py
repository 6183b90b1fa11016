"""Facts as of random moments, after random statements and corrections, against a plain model."""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeAlias
from uuid import uuid4

import pytest
from hypothesis import given, settings, strategies as st
from long_forms import LONG

from shared_core import AsOf, Conflict, InvalidInput, MemoryEngine, Scope, open_memory, run_sync
from shared_core.core.domain import FactDraft, MemoryId
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import memories_namespace
from shared_core.knowledge.fact_planning import fact_key, plan_facts
from shared_core.knowledge.run_rows import apply_run
from shared_core.ports.items import MemoryRow
from shared_core.ports.runs import KnownFact, PlannedFact, RunPlan
from shared_core.ports.storage import Storage
from shared_core.settings import load_settings
from shared_core.storage import open_storage

START = datetime(2024, 1, 1, tzinfo=UTC)
Step: TypeAlias = tuple[object, ...]
DAYS = st.integers(0, 12)
VALUES = st.sampled_from(["Rome", "上海"])
PLACES = st.integers(0, 3)
ODD = st.integers(0, 5).map(lambda number: number == 0)
"""Whether to correct any fact, also one that cannot be."""

SAY = st.tuples(st.just("say"), st.sampled_from(["home", "home", "like", "dislike"]), VALUES, DAYS)
UNSAY = st.tuples(st.just("unsay"), st.sampled_from(["home", "like"]), VALUES, DAYS)
RETRACT = st.tuples(st.just("retract"), PLACES, ODD, st.none() | DAYS)
RESTORE = st.tuples(st.just("restore"), PLACES, ODD)
UNDO = st.tuples(st.just("undo"))
STEP = st.one_of(SAY, SAY, SAY, UNSAY, RETRACT, RETRACT, RESTORE, RESTORE, UNDO)
STEPS = st.lists(STEP, min_size=5, max_size=12)
MOMENT = st.none() | st.integers(-1, 30)
MOMENTS = st.lists(st.tuples(MOMENT, MOMENT), min_size=8, max_size=12)


def day(number: int) -> datetime:
    return START + timedelta(days=number)


@dataclass(frozen=True)
class Row:
    """A fact as it is known at one moment."""

    slot: str
    key: str
    value: str
    begins: datetime
    ends: datetime | None
    recorded: datetime


State: TypeAlias = dict[MemoryId, Row]


class Model:
    """All that was ever known, whole, after every step that changed it."""

    def __init__(self) -> None:
        self.states: list[tuple[datetime, State]] = [(day(-999), {})]

    @property
    def now(self) -> State:
        return self.states[-1][1]

    def known(self, moment: datetime | None) -> State:
        return next(state for at, state in reversed(self.states) if moment is None or at <= moment)

    def rivals(self, row: Row) -> set[str]:
        other = {"like": "dislike", "dislike": "like"}.get(row.slot)
        keys = {row.key, other + row.key.removeprefix(row.slot) if other else row.key}
        return keys & {one.key for one in self.now.values() if one.ends is None}

    def holding(self, valid: datetime, known: datetime | None) -> dict[MemoryId, Row]:
        best: dict[str, MemoryId] = {}
        state = self.known(known)
        for memory_id, row in state.items():
            if row.begins <= valid and (row.ends is None or row.ends > valid):
                place = row.key.removeprefix("dis")
                best[place] = max(
                    memory_id, best.get(place, memory_id),
                    key=lambda one: (state[one].begins, state[one].recorded, one),
                )  # fmt: skip
        return {memory_id: state[memory_id] for memory_id in best.values()}


class World:
    """A memory and its model, taken through the same steps, one a day."""

    def __init__(self, memory: MemoryEngine, storage: Storage, today: list[datetime]) -> None:
        self.memory, self.storage, self.today = memory, storage, today
        self.scope = Scope("app", uuid4().hex)
        self.model = Model()

    def take(self, number: int, step: Step) -> None:
        self.today[0] = day(number)
        kind, *arguments = step
        getattr(self, f"_{kind}")(*arguments)

    def _commit(self, state: State) -> None:
        self.model.states.append((self.today[0], state))

    def _say(self, slot: str, value: str, said: int, operation: str = "assert") -> None:
        draft = FactDraft(
            fact_type="profile", slot=slot, value=value, statement=f"User {slot} {value}.",
            event_id="e", functional=slot == "home", confidence=0.9, pattern="test",
            language="en", operation=operation,
        )  # type: ignore[arg-type] # fmt: skip
        current = [
            KnownFact(memory_id=memory_id, fact_type="profile", key=row.key, value=row.value,
                      valid_from=row.begins)
            for memory_id, row in self.model.now.items() if row.ends is None
        ]  # fmt: skip
        plan = plan_facts([draft], current, {"e": day(said)}, lambda: MemoryId(uuid7()))
        if not plan.opened and not plan.closed:
            return
        self._apply(plan.opened, list(plan.closed.items()))
        state = dict(self.model.now)
        for memory_id, until in plan.closed.items():
            row = state[memory_id]
            state[memory_id] = replace(row, ends=max(until, row.begins))
        for fact in plan.opened:
            state[fact.memory_id] = Row(
                slot, fact_key(fact.draft), value, fact.valid_from, fact.valid_until, self.today[0]
            )
        self._commit(state)

    def _unsay(self, slot: str, value: str, said: int) -> None:
        self._say(slot, value, said, "retract")

    def _apply(
        self, opened: Sequence[PlannedFact], closed: Sequence[tuple[MemoryId, datetime]]
    ) -> None:
        run_id = uuid7()
        rows = [
            MemoryRow(
                memory_id=fact.memory_id, namespace=memories_namespace(self.scope),
                key=str(fact.memory_id), kind="semantic", text=fact.draft.statement, value={},
                terms=[], occurred_at=fact.valid_from, run_id=run_id,
                superseded_at=self.today[0] if fact.valid_until else None,
            )
            for fact in opened
        ]  # fmt: skip
        plan = RunPlan(run_id=run_id, kind="test", scope=self.scope, thread_id=None,
                       extractor="test", started_at=self.today[0], close=closed, facts=opened,
                       memories=rows)  # fmt: skip
        run_sync(apply_run(self.storage, plan, lambda: self.today[0]))

    def _named(self, place: int, *, odd: bool, ended: bool) -> tuple[MemoryId, Row] | None:
        rows = [one for one in self.model.now.items() if odd or (one[1].ends is not None) == ended]
        return rows[place % len(rows)] if rows else None

    def _retract(self, place: int, odd: bool, at: int | None) -> None:
        if (named := self._named(place, odd=odd, ended=False)) is None:
            return
        memory_id, row = named
        moment = None if at is None else day(at)
        misplaced = moment is not None and not row.begins <= moment <= self.today[0]
        call = self.memory.retract(self.scope, str(memory_id), at=moment)
        has_ended = row.ends is not None and row.ends <= self.today[0]
        if self._done(call, refused=has_ended or misplaced):
            until = moment or max(self.today[0], row.begins)
            self._commit(self.model.now | {memory_id: replace(row, ends=until)})

    def _restore(self, place: int, odd: bool) -> None:
        if (named := self._named(place, odd=odd, ended=True)) is None:
            return
        memory_id, row = named
        refused = row.ends is None or bool(self.model.rivals(row))
        if self._done(self.memory.restore(self.scope, str(memory_id)), refused=refused):
            self._commit(self.model.now | {memory_id: replace(row, ends=None)})

    def _undo(self) -> None:
        """Take back the last run: as if it had never been."""
        runs = [one for one in run_sync(self.memory.runs(self.scope)) if one.undone_at is None]
        assert len(runs) == len(self.model.states) - 1
        if runs:
            run_sync(self.memory.undo_run(self.scope, runs[0].run_id))
            self.model.states.pop()

    @staticmethod
    def _done(call: Coroutine[object, object, object], *, refused: bool) -> bool:
        if not refused:
            run_sync(call)
            return True
        with pytest.raises((Conflict, InvalidInput)):
            run_sync(call)
        return False

    def check(self, valid: datetime | None, known: datetime | None) -> None:
        as_of = AsOf(valid=valid, known=known)
        moment = valid or self.today[0]
        expected = {key: row.ends for key, row in self.model.holding(moment, known).items()}
        found = run_sync(self.memory.facts(self.scope, as_of=as_of))
        assert expected == {one.memory_id: one.valid_until for one in found}
        places = [(one.slot == "home") or str(one.value) for one in found]
        assert len(set(places)) == len(places)  # one home, and nothing both liked and disliked
        listed = run_sync(self.memory.list_memories(self.scope, as_of=as_of))
        assert set(expected) == {one.memory_id for one in listed}
        past = run_sync(self.memory.facts(self.scope, history=True, as_of=as_of))
        assert {
            key: row.ends for key, row in self.model.known(known).items() if row.begins <= moment
        } == {one.memory_id: one.valid_until for one in past}


@pytest.fixture(scope="module")
def world(postgres):
    """Makes worlds of their own on one database."""
    today = [START]
    for dsn in postgres.lend():
        storage = open_storage(load_settings(dsn, pool_size=2), lambda: today[0])
        memory = open_memory(dsn, clock=lambda: today[0], worker=False, pool_size=2)
        run_sync(storage.open())
        yield partial(World, memory, storage, today)
        run_sync(storage.close())
        run_sync(memory.close())


@settings(max_examples=150 if LONG else 30)
@given(steps=STEPS, moments=MOMENTS)
def test_facts_are_what_a_model_of_both_time_lines_says(world, steps, moments):
    """Statements are of days 0 to 12, steps are taken on days 5, 7, 9 and so on."""
    one = world()
    for number, step in enumerate(steps):
        one.take(5 + 2 * number, step)
    for valid, known in [*moments, (None, None)]:
        one.check(None if valid is None else day(valid), None if known is None else day(known))
    unended = {key: row for key, row in one.model.now.items() if row.ends is None}
    current = {key for key, row in unended.items() if row.begins <= one.today[0]}
    assert current == {fact.memory_id for fact in run_sync(one.memory.facts(one.scope))}
