"""Undoing a run restores what was before, whatever the run changed; on dictionaries."""

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
from dictionaries import Tables, run, tables
from hypothesis import given, settings, strategies as st
from long_forms import LONG

from shared_core.core.domain import Scope
from shared_core.core.doubts import marked
from shared_core.errors import Conflict, NotFound
from shared_core.policies.run_records import ends_before, iso
from shared_core.policies.run_undo import undo_run
from shared_core.policies.timing import retimed, rules_of, timed_of

SCOPE = Scope("app", "ana")
START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = START + timedelta(days=9)
LATER = NOW + timedelta(hours=1)
RUN = UUID(int=7)
TURNS, FACTS, EDGES, DRAWN, FADED = range(1, 6), range(11, 17), range(21, 25), 31, 32
ARCHIVED = 33
SUMMARY, COPY, ALIAS = UUID(int=41), UUID(int=42), UUID(int=51)
LEFT_OUT = ("runs", "run_changes")
few = settings(max_examples=100 if LONG else 30)


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def memory(number: int, kind: str, **given: Any) -> dict[str, Any]:
    row = {
        "memory_id": UUID(int=number), "namespace": "/memories/", "key": f"k{number}", "kind": kind,
        "text": f"text {number}", "value": {"content": f"text {number}"}, "terms": "",
        "term_count": 0, "importance": 5.0, "occurred_at": day(0), "created_at": day(0),
        "updated_at": day(0),
    }  # fmt: skip
    return row | given


def fact(number: int, **given: Any) -> dict[str, Any]:
    row = {
        "memory_id": UUID(int=number), "fact_type": "profile", "slot": "home", "key": f"p{number}",
        "value": f"v{number}", "valid_from": day(1), "recorded_at": day(1),
    }  # fmt: skip
    return row | given


def edge(number: int, **given: Any) -> dict[str, Any]:
    row = {
        "edge_id": UUID(int=number), "subject_key": "user", "relation": f"r{number}",
        "object_key": f"o{number}", "functional": number % 2 == 0, "valid_from": day(1),
        "recorded_at": day(1), "fact_id": UUID(int=number - 10), "memory_id": UUID(int=number - 10),
    }  # fmt: skip
    return row | given


def value_of(number: int) -> Any:
    """Return the value of a fact's memory; one of them is doubtful."""
    value = {"content": f"text {number}", "metadata": {"slot": "home"}}
    return marked(value, day(6) if number == FACTS[3] else None)


def world() -> Tables:
    """Return turns, facts with edges, a reflection, a faded memory, a summary and an alias."""
    found = tables(
        threads=[{"thread_id": "t", "consolidated_seq": 2, "summarised_seq": 2,
                  "last_memory_seq": 5, "unread_bytes": sum(len(f"text {n}") for n in (3, 4, 5))}],
        events=[{"thread_id": "t", "event_id": f"e{n}", "memory_seq": n, "text": f"text {n}"}
                for n in TURNS],
        memories=[
            *(memory(n, "episodic") for n in TURNS),
            *(memory(n, "semantic", expires_at=day(30), thread_id="t", value=value_of(n))
              for n in FACTS),
            memory(DRAWN, "reflection"),
            memory(FADED, "semantic", demoted_at=day(3)),
            memory(ARCHIVED, "semantic", demoted_at=day(3), text="", value={}),
            memory(SUMMARY.int, "summary", thread_id="t", run_id=UUID(int=6)),
        ],
        memory_sources=[
            *({"memory_id": UUID(int=n), "thread_id": "t", "event_id": f"e{n}", "basis": 0}
              for n in TURNS),
            *({"memory_id": UUID(int=n), "thread_id": "t", "event_id": "e1", "basis": 1}
              for n in FACTS),
            *({"memory_id": SUMMARY, "thread_id": "t", "event_id": f"e{n}"} for n in (1, 2)),
        ],
        memory_bases=[{"memory_id": UUID(int=DRAWN), "basis_id": UUID(int=FACTS[0])}],
        memory_access=[{"memory_id": UUID(int=FADED), "stage": 1, "staged_at": day(3),
                        "access_count": 2, "last_accessed_at": day(2)}],
        memory_archive=[{"memory_id": UUID(int=ARCHIVED), "text": "a", "archived_at": day(4),
                         "value": {"metadata": {"slot": "home"}}, "is_shown": False}],
        facts=[fact(n, **(ended() if n == FACTS[-1] else {})) for n in FACTS],
        edges=[edge(n) for n in EDGES],
        embeddings=[{"memory_id": SUMMARY, "model": "m", "field": "text", "embedding": "old"}],
        entity_aliases=[{"alias_id": ALIAS, "alias_key": "annie", "entity_key": "ann"}],
    )  # fmt: skip
    retime(found)
    return found


def ended() -> dict[str, Any]:
    return {"valid_until": day(4), "superseded_at": day(5)}


def retime(found: Tables) -> None:
    """Note when memories leave their stage, as every writer does."""
    counters = {one["memory_id"]: one for one in found["memory_access"]}
    names = ("stage", "staged_at", "pinned_at", "strength", "access_count", "last_accessed_at",
             "forget_at")  # fmt: skip
    memories = []
    for one in found["memories"]:
        counted = counters.get(one["memory_id"], {})
        own = [one[name] for name in ("memory_id", "kind", "importance", "value", "updated_at",
                                      "created_at", "superseded_at")]  # fmt: skip
        memories.append(timed_of((*own, *(counted.get(name) for name in names))))
    for operation in retimed(memories, rules_of([], "/app/ana/")):
        for memory_id, forget_at in operation.rows:  # type: ignore[union-attr]
            if memory_id in counters:
                counters[memory_id]["forget_at"] = forget_at
            else:
                row = {"memory_id": memory_id, "forget_at": forget_at}
                found["memory_access"] += tables(memory_access=[row])["memory_access"]


class Written:
    """A run that changes a world at random, and notes it as runs do."""

    def __init__(self, found: Tables, random: Random) -> None:
        self.found, self.random = found, random
        self.row = {"run_id": RUN, "number": 1, "thread_id": "t", "from_seq": 2, "to_seq": 5}
        for one in ("end_facts", "move_edge", "say_again", "rate", "sum_up", "revive", "rename",
                    "restore", "write", "doubt"):  # fmt: skip
            if random.random() < 0.6:
                getattr(self, one)()
        self.row_of("threads", thread_id="t").update(consolidated_seq=5, unread_bytes=0)
        found["runs"] += tables(runs=[self.row])["runs"]
        retime(found)

    def row_of(self, table: str, **key: Any) -> dict[str, Any]:
        [row] = [one for one in self.found[table] if key.items() <= one.items()]
        return row

    def add(self, table: str, *rows: dict[str, Any]) -> None:
        self.found[table] += tables(**{table: rows})[table]

    def note(self, change: str, target: UUID, before: Any = None, event_id: str = "") -> None:
        row = {"run_id": RUN, "change": change, "target": target, "event_id": event_id}
        self.add("run_changes", row | {"before": before or {}})

    def end_facts(self) -> None:
        """The reflection is retired with the first fact, and its edges end with a fact."""
        for number in self.random.sample(FACTS[:4], 2):
            one = UUID(int=number)
            self.row_of("facts", memory_id=one).update(valid_until=day(8), superseded_at=NOW)
            self.note("closed", one)
            retired = [one, *([UUID(int=DRAWN)] if number == FACTS[0] else [])]
            for memory_id in retired:
                self.row_of("memories", memory_id=memory_id).update(superseded_at=NOW)
                self.note("retired", memory_id)
            if number + 10 in EDGES[:3]:
                edge_id = UUID(int=number + 10)
                self.row_of("edges", edge_id=edge_id).update(valid_until=day(8), superseded_at=NOW)
                self.note("edge", edge_id)
            if self.random.random() < 0.5:
                key = self.row_of("facts", memory_id=one)["key"]
                self.add("memories", memory(number + 100, "semantic", run_id=RUN))
                self.add("facts", fact(number + 100, key=key, valid_from=day(8)))

    def move_edge(self) -> None:
        row = self.row_of("edges", edge_id=UUID(int=EDGES[3]))
        row.update(valid_until=day(20), superseded_at=day(2))
        self.note("moved", row["edge_id"], ends_before(row["valid_until"], row["superseded_at"]))
        self.moved = deepcopy(row)
        row.update(valid_until=day(10), superseded_at=NOW)

    def say_again(self) -> None:
        one = UUID(int=FACTS[4])
        turns = self.random.sample(["e3", "e4"], self.random.randint(1, 2))
        for event_id in turns:
            self.add("memory_sources", {"memory_id": one, "thread_id": "t", "event_id": event_id,
                                        "basis": 2})  # fmt: skip
            self.note("sourced", one, {"bases": [2]}, event_id)
        row = self.row_of("memories", memory_id=one)
        self.note("renewed", one, {"expires_at": iso(row["expires_at"])})
        row["expires_at"] = None

    def rate(self) -> None:
        for number in (3, 4):
            row = self.row_of("memories", memory_id=UUID(int=number))
            self.note("rated", row["memory_id"], {"importance": 5.0, "emotion": number == 4})
            row["importance"] = 8.0
            if number == 4:
                row["value"] = {**row["value"], "metadata": {"emotion": {"arousal": 0.7}}}

    def sum_up(self) -> None:
        row = self.row_of("memories", memory_id=SUMMARY)
        copy = {**deepcopy(row), "memory_id": COPY, "key": "copy", "superseded_at": NOW}
        self.add("memories", copy)
        self.add("embeddings", {"memory_id": COPY, "model": "m", "field": "text",
                                "embedding": "old"})  # fmt: skip
        self.note("summary", SUMMARY, {"copy": str(COPY)})
        row.update(text="new", value={"content": "new"}, run_id=RUN, updated_at=NOW, created_at=NOW)
        self.row_of("embeddings", memory_id=SUMMARY)["embedding"] = "new"
        for event_id in ("e3", "e4", "e5"):
            self.add("memory_sources", {"memory_id": SUMMARY, "thread_id": "t",
                                        "event_id": event_id})  # fmt: skip
        self.row |= {"summed_from_seq": 2, "summed_to_seq": 5}
        self.row_of("threads", thread_id="t")["summarised_seq"] = 5

    def revive(self) -> None:
        one = UUID(int=FADED)
        row, counted = self.row_of("memories", memory_id=one), self.row_of(
            "memory_access", memory_id=one)  # fmt: skip
        before = {name: iso(counted[name]) for name in ("staged_at", "last_accessed_at")}
        before |= {"demoted_at": iso(row["demoted_at"]), "revived_at": iso(NOW)}
        self.note("revived", one, {**before, "access_count": counted["access_count"]})
        row["demoted_at"] = None
        counted.update(stage=0, staged_at=NOW, access_count=3, last_accessed_at=NOW)

    def rename(self) -> None:
        self.row_of("entity_aliases", alias_id=ALIAS)["unmerged_at"] = NOW
        self.note("moved", ALIAS, {"alias": "ended"})
        new = UUID(int=ALIAS.int + 1)
        self.add("entity_aliases", {"alias_id": new, "alias_key": "annie", "entity_key": "anna"})
        self.note("moved", new, {"alias": "added"})

    def restore(self) -> None:
        one = UUID(int=FACTS[-1])
        row, retired_at = self.row_of("facts", memory_id=one), iso(None)
        before = ends_before(row["valid_until"], row["superseded_at"])
        self.note("moved", one, {**before, "retired_at": retired_at})
        self.add("fact_closures", {"memory_id": one, "closed_at": row["superseded_at"],
                                   "restored_at": NOW, "run_id": RUN})  # fmt: skip
        row.update(valid_until=None, superseded_at=None)

    def doubt(self) -> None:
        """One fact becomes doubtful, a doubtful one certain, and an archived one doubtful."""
        for number, before, after in ((FACTS[4], None, day(7)), (FACTS[3], day(6), None)):
            row = self.row_of("memories", memory_id=UUID(int=number))
            row["value"] = marked(row["value"], after)
            self.note("doubted", row["memory_id"], {"doubted_at": iso(before)})
        row = self.row_of("memory_archive", memory_id=UUID(int=ARCHIVED))
        row["value"] = marked(row["value"], day(7))
        self.note("doubted", row["memory_id"], {"doubted_at": None})

    def write(self) -> None:
        """A memory of the run, a reflection of a later one upon it, an edge and a retraction."""
        self.add("memories", memory(200, "semantic", run_id=RUN), memory(201, "reflection"))
        self.add("memory_bases", {"memory_id": UUID(int=201), "basis_id": UUID(int=200)})
        self.add("edges", edge(202, run_id=RUN, memory_id=UUID(int=200)))
        self.add("edge_sources", {"edge_id": UUID(int=202), "thread_id": "t", "event_id": "e3"})
        self.add("retractions", {"retraction_id": UUID(int=203), "run_id": RUN})


def held(found: Tables) -> dict[str, list[str]]:
    """Return the rows of a world in an order of their own, without the records of runs."""
    return {table: sorted(map(repr, rows)) for table, rows in found.items()
            if rows and table not in LEFT_OUT}  # fmt: skip


def written(random: Random) -> tuple[Tables, Tables, Written]:
    """Return a world before and after a run, and the run."""
    found = world()
    before = deepcopy(found)
    by = Written(found, random)
    if moved := getattr(by, "moved", None):  # its end was known before
        row = next(one for one in before["edges"] if one["edge_id"] == moved["edge_id"])
        row.update(moved)
    return before, found, by


@few
@given(st.randoms(use_true_random=False))
def test_an_undone_run_leaves_what_was_before(random):
    before, found, _ = written(random)
    run(undo_run(SCOPE, RUN, LATER), found)
    assert held(before) == held(found)
    assert LATER == found["runs"][0]["undone_at"]
    with pytest.raises(Conflict, match="was undone already"):
        run(undo_run(SCOPE, RUN, LATER), found)


@few
@given(st.randoms(use_true_random=False))
def test_a_run_that_another_builds_on_stays(random):
    _, found, by = written(random)
    built_on = [one for one in found["run_changes"] if one["change"] != "rated"]
    later = UUID(int=8)
    of_thread = not built_on or random.random() < 0.5
    row = {"run_id": later, "number": 2}
    by.add("runs", row | ({"thread_id": "t", "from_seq": 5, "to_seq": 9} if of_thread else {}))
    if not of_thread:
        target = random.choice(built_on)["target"]
        by.add("run_changes", {"run_id": later, "change": "moved", "target": target})
    left = held(found)
    with pytest.raises(Conflict, match=f"1 later runs build on run {RUN}.*: {later}$"):
        run(undo_run(SCOPE, RUN, LATER), found)
    assert left == held(found)


@few
@given(st.randoms(use_true_random=False))
def test_a_place_that_was_taken_since_keeps_the_run(random):
    _, found, by = written(random)
    freed = [row for row in found["facts"] if row["valid_until"] == day(8)]
    parted = [row for row in found["edges"] if row["valid_until"] == day(8)]
    if freed and random.random() < 0.5:
        by.add("memories", memory(300, "semantic"))
        by.add("facts", fact(300, key=random.choice(freed)["key"]))
    elif parted:
        place = random.choice(parted)
        same = {name: place[name] for name in ("subject_key", "relation", "functional")}
        other = "o" if place["functional"] else place["object_key"]
        by.add("edges", edge(300, **same, object_key=other, fact_id=None, memory_id=None))
    else:
        return
    with pytest.raises(Conflict, match="something that no run wrote has taken its place"):
        run(undo_run(SCOPE, RUN, LATER), found)


def test_a_run_that_is_not_there_is_not_found():
    with pytest.raises(NotFound, match="engine.runs"):
        run(undo_run(SCOPE, RUN, LATER), world())
