"""Compares the ledgers of benchmarks.kills with the stored rows, on either engine by its export."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.kill_clients import Notes, Op

Row = Mapping[str, Any]
Rows = Mapping[str, list[Row]]
TURNS: Final = ("append", "adk", "process", "log")
WHOLE: Final = ("append", "adk", "remember", "process", "log")
"""Kinds whose items are written together or not at all."""
OPEN: Final = ("pending", "running", "failed")
OF_A_MEMORY: Final = ("memory_sources", "memory_access", "facts", "embeddings")


def rows_by_table(lines: Iterable[str]) -> Rows:
    """Return the rows of an export by table."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for found in map(json.loads, lines):
        if "table" in found:
            rows[found["table"]].append(found["row"])
    return rows


@dataclass(slots=True)
class Findings:
    """What is wrong, by kind; every list is empty for a database that kept its promises."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    halved: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    resurrected: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    doctor: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(self.by_kind().values())

    def by_kind(self) -> dict[str, list[str]]:
        """Return the findings by kind."""
        return {name: getattr(self, name) for name in self.__slots__}


class Check:
    """Compares the notes of all clients with the rows of one application."""

    def __init__(self, app: str, notes: Notes, rows: Rows) -> None:
        self._app = app
        self._notes = notes
        self._rows = rows
        self.findings = Findings(errors=list(notes.errors))
        self.row_count = sum(map(len, rows.values()))
        self._memories = {(row["tenant_id"], row["memory_id"]): row for row in rows["memories"]}
        self._vectors = {(row["tenant_id"], row["memory_id"]) for row in rows["embeddings"]}
        self._turns: dict[str, list[Row]] = defaultdict(list)
        for row in rows["events"]:
            self._turns[row["event_id"]].append(row)
        self._keyed: dict[str, list[Row]] = defaultdict(list)
        for row in rows["memories"]:
            if row["thread_id"] is None:
                self._keyed[row["key"]].append(row)
        self._of_turn: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
        for row in rows["memory_sources"]:
            memory = self._memories.get((row["tenant_id"], row["memory_id"]))
            if memory is not None and memory["kind"] == "episodic":
                place = (row["tenant_id"], row["thread_id"], row["event_id"])
                self._of_turn[place].append(memory)

    def run(self) -> Findings:
        """Return everything that is wrong."""
        forgotten = set(self._forgotten(acked=True))
        maybe = set(self._forgotten(acked=False))
        for op in self._notes.ops.values():
            if op["kind"] in (*WHOLE, "put", "batch"):
                self._check_op(op, forgotten, maybe)
        self._check_strangers()
        self._check_turns()
        self._check_orphans()
        self._check_facts()
        self._check_runs()
        self._check_jobs()
        return self.findings

    def stored(self, op: Op) -> bool:
        """Return whether a write was stored, at least in part."""
        return any(self._found(op, item) for item in op.get("items", ()))

    def _forgotten(self, *, acked: bool) -> Iterator[str]:
        for number, op in self._notes.ops.items():
            if op["kind"] == "forget" and (number in self._notes.acked) is acked:
                yield from op["items"]

    def _found(self, op: Op, item: str) -> list[Row]:
        return self._turns[item] if op["kind"] in TURNS else self._keyed[item]

    def _check_op(self, op: Op, forgotten: set[str], maybe: set[str]) -> None:
        about, counts = f"{op['kind']} {op['op']} of {op['user']}", []
        tenant = f"/{self._app}/{op['user']}/"
        for item, text in zip(op["items"], op["texts"], strict=True):
            found = self._found(op, item)
            counts.append(len(found))
            if len(found) > 1:
                self.findings.doubled.append(f"{about}: {item} is there {len(found)} times")
            if found and item in forgotten:
                self.findings.resurrected.append(f"{about}: {item}")
            for row in found:
                if row["tenant_id"] != tenant:
                    self.findings.mixed.append(f"{about}: {item} is in {row['tenant_id']}")
                if row["text"].removeprefix("text: ") != text:
                    self.findings.halved.append(f"{about}: {item} has the text {row['text']!r}")
                if op["kind"] not in TURNS and (tenant, row["memory_id"]) not in self._vectors:
                    self.findings.halved.append(f"{about}: {item} has no vector")
        gone = [item for item in op["items"] if item in forgotten | maybe]
        if op["op"] in self._notes.acked and 0 in counts and not gone:
            self.findings.lost.append(f"{about}: {dict(zip(op['items'], counts, strict=True))}")
        if op["kind"] in WHOLE and 0 in counts and any(counts):
            self.findings.halved.append(f"{about}: {dict(zip(op['items'], counts, strict=True))}")

    def _check_strangers(self) -> None:
        ops = self._notes.ops.values()
        known = {item for op in ops for item in op.get("items", ())}
        for name, index in (("turn", self._turns), ("memory", self._keyed)):
            for item, rows in index.items():
                if rows and item not in known and rows[0].get("kind") != "reflection":
                    self.findings.mixed.append(f"nobody wrote the {name} {item}")

    def _check_turns(self) -> None:
        """Each remembered turn has one memory with its vector; numbers of turns are unique."""
        for row in self._rows["events"]:
            place = (row["tenant_id"], row["thread_id"], row["event_id"])
            memories = self._of_turn[place]
            wanted = 0 if row["memory_seq"] is None or _is_conversation(row) else 1
            if len(memories) != wanted:
                self.findings.halved.append(f"{place} has {len(memories)} memories, not {wanted}")
            for memory in memories:
                if memory["text"] != row["text"]:
                    self.findings.mixed.append(f"{place} is remembered as {memory['text']!r}")
                if (row["tenant_id"], memory["memory_id"]) not in self._vectors:
                    self.findings.halved.append(f"{place} has no vector")
        for row in self._rows["threads"]:
            thread = (row["tenant_id"], row["thread_id"])
            of_thread = [
                one for one in self._rows["events"]
                if (one["tenant_id"], one["thread_id"]) == thread
            ]  # fmt: skip
            highest = max((one["seq"] for one in of_thread), default=0)
            read = max((one["memory_seq"] or 0 for one in of_thread), default=0)
            if (highest, read) != (row["last_seq"], row["last_memory_seq"]):
                self.findings.halved.append(f"{thread} counts {row['last_seq']}, has {highest}")
            for name in ("seq", "memory_seq"):
                numbers = Counter(one[name] for one in of_thread if one[name] is not None)
                if twice := [number for number, count in numbers.items() if count > 1]:
                    self.findings.doubled.append(f"{thread} has {name} {twice} twice")
            if row["consolidated_seq"] < row["last_memory_seq"]:
                self.findings.jobs.append(f"{thread} has unread turns after all jobs")

    def _check_orphans(self) -> None:
        for table in OF_A_MEMORY:
            for row in self._rows[table]:
                if (row["tenant_id"], row["memory_id"]) not in self._memories:
                    self.findings.halved.append(f"{table} of no memory: {row}")

    def _check_facts(self) -> None:
        """What the stored turns state is known once; a slot with one value has one."""
        stated: dict[str, set[str]] = defaultdict(set)
        in_conversations: dict[str, set[str]] = defaultdict(set)
        for row in self._rows["events"]:
            if row["memory_seq"] is not None and row["text"].startswith("I love "):
                chosen = in_conversations if _is_conversation(row) else stated
                liked = row["text"].removeprefix("I love ").partition(".")[0]
                chosen[row["tenant_id"]].add(liked)
        likes: dict[str, Counter[str]] = defaultdict(Counter)
        for row in self._rows["facts"]:
            if row["slot"] == "like":
                likes[row["tenant_id"]][row["value"]] += 1
        found = self.findings.facts
        for tenant in stated.keys() | likes.keys():
            held, may = set(likes[tenant]), stated[tenant] | in_conversations[tenant]
            found += [f"{tenant}: {one!r} is not known" for one in sorted(stated[tenant] - held)]
            found += [f"{tenant}: nobody stated {one!r}" for one in sorted(held - may)]
            twice = [(value, count) for value, count in likes[tenant].items() if count > 1]
            found += [f"{tenant}: {value!r} is known {count} times" for value, count in twice]
        current = Counter(
            (row["tenant_id"], row["key"])
            for row in self._rows["facts"]
            if row["valid_until"] is None
        )
        found += [f"{key} holds {count} times" for key, count in current.items() if count > 1]

    def _check_runs(self) -> None:
        """No two runs of a thread read the same turns."""
        ends: dict[tuple[str, str], int] = defaultdict(int)
        runs = [row for row in self._rows["runs"] if row["to_seq"] and row["undone_at"] is None]
        for row in sorted(runs, key=lambda row: (row["from_seq"], row["to_seq"])):
            place = (row["tenant_id"], row["thread_id"])
            if row["from_seq"] < ends[place] and row["to_seq"] > row["from_seq"]:
                self.findings.doubled.append(f"two runs of {place} read {row['from_seq']}")
            ends[place] = max(ends[place], row["to_seq"])

    def _check_jobs(self) -> None:
        for row in self._rows["consolidation_jobs"]:
            if row["status"] in OPEN and row["job_type"] != "reflection":
                self.findings.jobs.append(f"{row['status']}: {row}")


def _is_conversation(event: Row) -> bool:
    """Return whether a turn is of a conversation, whose memories are statements alone."""
    return bool(event["thread_id"].startswith("conversation:"))
