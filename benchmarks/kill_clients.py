"""The clients of benchmarks.kills: they write without end, and note what they send.

A ledger is a file of JSON lines, one file per client: {"op": ...} before a write is sent, {"again":
number} before it is sent again, {"ack": number} after it succeeded, {"error": ...} for an exception
that no caller may see. The file is not synced: only processes die, and a written line stays.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event as AdkEvent
from google.adk.sessions import Session
from google.genai import types
from langgraph.store.base import PutOp

from adk_memory import OpenMemoryService, PgSessionService
from langgraph_store import PgHippocampusStore
from shared_core import Event, MemoryEngine, NewMemory, Scope, open_memory
from shared_core.errors import BatchError, Conflict, StorageUnavailable

OPS_PER_CLIENT: Final = 1_000_000
SYLLABLES: Final = ("ba", "ko", "ri", "mu", "ten", "sal", "vor", "lin", "dap", "fe")
CITIES: Final = ("Rome", "Oslo", "Lima", "Kyoto", "Turin", "Porto", "Leeds", "Quito")
SHARED_TASTES: Final = 10
"""Number of facts of a user that several turns state."""
THREADS: Final = 3
START: Final = datetime(2026, 3, 1, tzinfo=UTC)
RETRY_S: Final = 0.05
RETRIES: Final = 2_000
RESENT: Final = 0.6
"""Share of the interrupted writes that the next client sends again."""
Op = dict[str, Any]


class Ledger:
    """The file of one client, continued by its successors."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, line: Op) -> None:
        """Append a line with one system call, so that no half line stays behind."""
        os.write(self._file, json.dumps(line).encode() + b"\n")


@dataclass(slots=True)
class Notes:
    """The content of ledgers: writes by number, and the numbers of those that succeeded."""

    ops: dict[int, Op] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)
    resent: set[int] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    def read(self, path: Path) -> Notes:
        """Add the lines of a ledger, if it exists; return self."""
        with suppress(FileNotFoundError):
            for line in map(json.loads, path.read_text().splitlines()):
                if "ack" in line:
                    self.acked.add(line["ack"])
                elif "again" in line:
                    self.resent.add(line["again"])
                elif "error" in line:
                    self.errors.append(line["error"])
                else:
                    self.ops[line["op"]] = line
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What a client works on. number: of the client. life: how many before it have died."""

    uri: str
    app: str
    users: int
    number: int
    life: int
    ledger: Path
    seed: int


def token(number: int) -> str:
    """Return a made word that stands for a number."""
    return "".join(SYLLABLES[int(digit)] for digit in f"{number:08d}")


class Client:
    """Writes in every documented way until it is killed."""

    def __init__(self, options: ClientOptions, memory: MemoryEngine) -> None:
        self._options = options
        self._memory = memory
        self._service = OpenMemoryService(engine=memory)
        self._store = PgHippocampusStore(engine=memory)
        self._sessions = PgSessionService(engine=memory)
        self._random = random.Random(f"{options.seed} {options.number} {options.life}")
        self._ledger = Ledger(options.ledger)
        self._notes = Notes().read(options.ledger)
        self._session: Session | None = None
        self._next = max(self._notes.ops, default=options.number * OPS_PER_CLIENT) + 1
        self._kinds: dict[str, Callable[[Op], Awaitable[object]]] = {
            "append": self._append,
            "adk": self._add_events,
            "remember": self._remember,
            "put": self._put,
            "batch": self._put_batch,
            "process": self._process,
            "consolidate": self._consolidate,
            "forget": self._forget,
            "log": self._log,
            "recall": self._recall,
        }

    async def run(self) -> None:
        """Complete what the predecessor left, then write without end."""
        lost = [op for number, op in self._notes.ops.items() if number not in self._notes.acked]
        if lost and self._random.random() < RESENT:
            self._ledger.write({"again": lost[-1]["op"]})
            await self._do(lost[-1])
        while True:
            op = self._new()
            self._ledger.write(op)
            await self._do(op)

    async def _do(self, op: Op) -> None:
        """Send a write until it succeeds, as a caller does whose answer is lost."""
        for _ in range(RETRIES):
            try:
                await self._kinds[op["kind"]](op)
                break
            except StorageUnavailable:
                await asyncio.sleep(RETRY_S)
            except BatchError as error:
                if error.split(StorageUnavailable)[1] is not None:
                    raise
                await asyncio.sleep(RETRY_S)
            except Conflict:
                if op["kind"] not in ("consolidate", "adk"):
                    raise
                break  # a killed or another worker has the thread; the turns are stored
        else:
            raise TimeoutError(f"{op['kind']} did not succeed in {RETRIES} attempts")
        self._notes.ops[op["op"]] = op
        self._notes.acked.add(op["op"])
        self._ledger.write({"ack": op["op"]})

    def _new(self) -> Op:
        number, chance = self._next, self._random
        self._next += 1
        kind = chance.choice([*self._kinds, "append", "remember", "put"])
        user = f"u{chance.randrange(self._options.users)}"
        op: Op = {"op": number, "kind": kind, "user": user}
        if kind in ("append", "adk", "log"):
            op["later"] = chance.random() < 0.5
        if kind in ("append", "adk", "consolidate"):
            op["thread"] = f"t{chance.randrange(THREADS)}"
        if kind == "log":
            op["user"] = f"u{self._options.number % self._options.users}"
            op["thread"] = f"s{self._options.number}"
        if kind in ("append", "adk", "remember", "batch"):
            op["items"] = [f"{token(number)}-{one}" for one in "abc"[: chance.randint(1, 3)]]
        elif kind in ("put", "process", "log"):
            op["items"] = [token(number)]
        if kind == "forget":
            known = [
                one for one in self._notes.ops.values()
                if one["kind"] == "remember" and one["op"] in self._notes.acked
            ]  # fmt: skip
            target = chance.choice(known) if known else {"user": user, "items": ["none"]}
            op |= {"user": target["user"], "items": target["items"]}
        op["texts"] = [self._text(number, item) for item in op.get("items", ())]
        return op

    def _text(self, number: int, item: str) -> str:
        chosen = self._random.random()
        if chosen < 0.2:
            return f"I moved to {self._random.choice(CITIES)}. Note {item}."
        if chosen < 0.5:
            return f"I love {token(self._random.randrange(SHARED_TASTES))} tea. Note {item}."
        return f"I love {token(number)} tea. Note {item}."

    def _scope(self, op: Op) -> Scope:
        return Scope(self._options.app, op["user"])

    async def _append(self, op: Op) -> None:
        events = [
            Event(
                event_id=item, author="user", role="user", text=text,
                occurred_at=START + timedelta(seconds=op["op"]),
            )
            for item, text in zip(op["items"], op["texts"], strict=True)
        ]  # fmt: skip
        await self._memory.append_events(
            self._scope(op), op["thread"], events, later=op["later"], delay_s=0
        )

    async def _add_events(self, op: Op) -> None:
        await self._service.add_events_to_memory(
            app_name=self._options.app, user_id=op["user"], session_id=op["thread"],
            events=[_adk_event(item, text) for item, text in _pairs(op)],
            custom_metadata={"wait": not op["later"]},
        )  # fmt: skip

    async def _remember(self, op: Op) -> None:
        new = [NewMemory(text=text, key=item) for item, text in _pairs(op)]
        await self._memory.remember(self._scope(op), new)

    async def _put(self, op: Op) -> None:
        for item, text in _pairs(op):
            await self._store.aput(_notes_of(self._scope(op)), item, {"text": text})

    async def _put_batch(self, op: Op) -> None:
        space = _notes_of(self._scope(op))
        await self._store.abatch([PutOp(space, item, {"text": text}) for item, text in _pairs(op)])

    async def _process(self, op: Op) -> None:
        await self._memory.process_memory(
            op["texts"][0], op["user"], app=self._options.app, event_id=op["items"][0]
        )

    async def _consolidate(self, op: Op) -> None:
        await self._memory.consolidate(self._scope(op), op["thread"], retry_later=True)

    async def _forget(self, op: Op) -> None:
        await self._memory.forget(self._scope(op), op["items"])

    async def _recall(self, op: Op) -> None:
        await self._memory.recall(self._scope(op), "What do I love?", limit=3)

    async def _log(self, op: Op) -> None:
        """Append an event to the session log of this client, which it alone writes."""
        try:
            await self._log_once(op)
        except (AlreadyExistsError, StaleSessionError) as error:
            # The last write of a killed predecessor was committed after this client had looked.
            self._session = None
            raise StorageUnavailable("the session changed") from error
        except StorageUnavailable:
            self._session = None
            raise

    async def _log_once(self, op: Op) -> None:
        if self._session is None:
            names = {"app_name": self._options.app, "user_id": op["user"]}
            found = await self._sessions.get_session(**names, session_id=op["thread"])
            self._session = found or await self._sessions.create_session(
                **names, session_id=op["thread"]
            )
        event = _adk_event(op["items"][0], op["texts"][0])
        await self._sessions.append_event(self._session, event)
        if not op["later"]:
            with suppress(Conflict):  # another worker has the thread; the turns are stored
                await self._service.add_session_to_memory(self._session)


def _pairs(op: Op) -> list[tuple[str, str]]:
    return list(zip(op["items"], op["texts"], strict=True))


def _notes_of(scope: Scope) -> tuple[str, ...]:
    return (scope.app, scope.user, "notes")


def _adk_event(item: str, text: str) -> AdkEvent:
    return AdkEvent(
        id=item, author="user", timestamp=START.timestamp(), invocation_id=item,
        content=types.Content(role="user", parts=[types.Part(text=text)]),
    )  # fmt: skip


async def write_until_killed(options: ClientOptions) -> None:
    """Run a client. An exception that no caller may see goes into the ledger and ends it."""
    memory = open_memory(options.uri, worker=bool(options.life % 2), track_access=True)
    try:
        await Client(options, memory).run()
    except Exception:  # noqa: BLE001  any error is a finding
        about = json.dumps({k: str(v) for k, v in asdict(options).items()})
        Ledger(options.ledger).write({"error": f"{about}\n{traceback.format_exc()}"})
