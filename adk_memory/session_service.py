"""PgSessionService: Google ADK's session log, on the same rows as the memory."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, Session, State
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from pydantic_core import PydanticSerializationError, to_json as to_json_bytes, to_jsonable_python

from adk_memory.events import moment, rewound_ids, to_log_event
from adk_memory.uri import engine_arguments, named_memory
from shared_core import Conflict, MemoryEngine, NotFound, Scope, open_memory
from shared_core.core import JsonValue, check_arguments, cleaned, shown, to_json
from shared_core.ports import Seen, SessionRecord, StateChange

log = logging.getLogger("hippocampus")

_STALE = (
    "the session has changed in the database since it was loaded: load it again with"
    " get_session(), then repeat"
)


class PgSessionService(BaseSessionService):
    """Keeps ADK sessions in the database of the memory, on the same rows.

        engine = open_memory()
        Runner(..., session_service=PgSessionService(engine=engine),
               memory_service=OpenMemoryService(engine=engine))

    Events are stored once: adding a session to memory marks and indexes its existing rows. Any
    number of processes may write. An append to a session that has changed since it was loaded
    raises ADK's StaleSessionError and writes nothing. The service needs no running event loop,
    does no I/O until its first call, and works from any loop.

    Args:
        uri: as in shared_core.open_memory. Options in a hippocampus:// URI override arguments.
        dsn: another name for uri.
        schema: as in shared_core.open_memory.
        engine: a MemoryEngine to share; close() leaves it open.
        delete_memories: whether deleting a session also erases its memories.
        agents_dir: accepted and not used; `adk web` passes it.
    """

    def __init__(
        self,
        uri: str | Path | None = None,
        *,
        dsn: str | None = None,
        schema: str | None = None,
        engine: MemoryEngine | None = None,
        delete_memories: bool = False,
        agents_dir: str | None = None,
    ) -> None:
        address, in_uri = named_memory(uri if uri is not None else dsn, engine)
        check_arguments(PgSessionService.__init__, locals())
        self._owns_engine = engine is None
        if engine is None:
            of_engine: dict[str, Any] = {"schema": schema}
            of_engine |= engine_arguments(in_uri)
            engine = open_memory(address, **of_engine)
        self._engine = engine
        self._delete_memories = bool(in_uri.get("delete_memories", delete_memories))
        self._locks: dict[tuple[int, str, str, str], tuple[asyncio.Lock, list[None]]] = {}

    @property
    def engine(self) -> MemoryEngine:
        """The memory that stores the sessions."""
        return self._engine

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, object] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session. White space around the id is stripped; a blank id gets a new one.

        Raises:
            AlreadyExistsError: if a session has this id.
        """
        if state is not None and not isinstance(state, Mapping):
            raise TypeError(f"state must be a dict, got {type(state).__name__}")
        session_id = _id(session_id or "") or str(uuid4())
        try:
            record = await self._engine.sessions.create(
                Scope(app_name, user_id), session_id, _change(state or {})
            )
        except Conflict as error:
            raise AlreadyExistsError(f"Session with id {session_id} already exists.") from error
        return _session(record)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with its events, oldest first, or None."""
        if config is not None and not isinstance(config, GetSessionConfig):
            raise TypeError(f"config must be a GetSessionConfig, got {type(config).__name__}")
        after = config.after_timestamp if config else None
        record = await self._engine.sessions.load(
            Scope(app_name, user_id),
            _id(session_id),
            after=None if after is None else moment(after),
            limit=config.num_recent_events if config else None,
        )
        return None if record is None else _session(record)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of one user or of all, without events, last changed last."""
        records = await self._engine.sessions.list(app_name, user_id)
        return ListSessionsResponse(sessions=[_session(record) for record in records])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session, and with delete_memories its memories.

        Without delete_memories its queued turns are consolidated now.
        """
        scope, session_id = Scope(app_name, user_id), _id(session_id)
        await self._engine.sessions.delete(scope, session_id, forget=self._delete_memories)
        if not self._delete_memories:
            await self._engine.end_session(scope, session_id)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, object]:
        """Return the state that all sessions of a user share, with keys without "user:"."""
        return dict(await self._engine.sessions.user_state(Scope(app_name, user_id)))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event to a session, in the database and in the object, in one round trip.

        It returns a partial event unchanged, and appends no event twice. A rewind also makes memory
        forget the turns that it removed.

        Raises:
            SessionNotFoundError: for an unknown session.
            StaleSessionError: if the object lacks events of the database.
        """
        for value, kind in ((session, Session), (event, Event)):
            if not isinstance(value, kind):
                name = kind.__name__
                raise TypeError(
                    f"{name.lower()} must be a {name} of ADK, got {type(value).__name__}"
                )
        if event.partial:
            return event
        async with self._serialized(session):
            self._apply_temp_state(session, event)
            event = self._trim_temp_delta_state(event)
            try:
                version = await self._engine.sessions.append(
                    Scope(session.app_name, session.user_id),
                    session.id,
                    to_log_event(event),
                    _payload(event),
                    state=_change(event.actions.state_delta if event.actions else {}),
                    seen=_seen(session),
                )
            except Conflict as error:
                raise StaleSessionError(_STALE) from error
            except NotFound as error:
                raise SessionNotFoundError(f"Session {session.id} not found.") from error
            if version is None:
                if any(event.id == other.id for other in session.events):
                    return event
                # An earlier call wrote it and its reply was lost: the object missed only that step.
                before = _version(session)
                version = None if before is None else before + 1
            if version is not None:
                session._storage_update_marker = str(version)
            session.last_update_time = moment(event.timestamp).timestamp()
            # As BaseSessionService does; one method for both exists from google-adk 2.10 on.
            self._update_session_state(session, event)
            session.events.append(event)
        if event.actions.rewind_before_invocation_id:
            await self._engine.forget_turns(
                Scope(session.app_name, session.user_id), session.id, rewound_ids(session.events)
            )
        return event

    async def close(self) -> None:
        """Close all connections, unless the engine was given."""
        if self._owns_engine:
            await self._engine.close()

    async def __aenter__(self) -> PgSessionService:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @asynccontextmanager
    async def _serialized(self, session: Session) -> AsyncIterator[None]:
        """Serialize the appends of one event loop to one session, in order."""
        loop = id(asyncio.get_running_loop())
        key = (loop, session.app_name, session.user_id, session.id)
        lock, users = self._locks.setdefault(key, (asyncio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                del self._locks[key]


def _session(record: SessionRecord) -> Session:
    state: dict[str, object] = dict(record.state)
    state |= {State.APP_PREFIX + key: value for key, value in record.app_state.items()}
    state |= {State.USER_PREFIX + key: value for key, value in record.user_state.items()}
    session = Session(
        id=record.thread_id,
        app_name=record.scope.app,
        user_id=record.scope.user,
        state=state,
        events=[Event.model_validate_json(payload) for payload in record.payloads],
        last_update_time=record.updated_at.timestamp(),
    )
    session._storage_update_marker = str(record.version)
    return session


def _id(session_id: object) -> str:
    """Return a session id without white space around it. Raises TypeError if it is no text."""
    if not isinstance(session_id, str):
        raise TypeError(f"session_id must be a text, got {type(session_id).__name__}")
    return session_id.strip()


def _version(session: Session) -> int | None:
    marker = session._storage_update_marker
    return int(marker) if marker is not None and marker.isdecimal() else None


def _seen(session: Session) -> Seen:
    """Return the version that the object has; an object of another service has none."""
    if version := _version(session):
        return Seen(version=version)
    return Seen(
        version=None,
        event_id=session.events[-1].id if session.events else None,
        updated_at=datetime.fromtimestamp(session.last_update_time, UTC),
    )


def _payload(event: Event) -> str:
    """Return an event as JSON; values that are not JSON become text, with a warning."""
    try:
        return event.model_dump_json(exclude_none=True, by_alias=True)
    except PydanticSerializationError as error:
        log.warning(
            "event %s has a value that is not JSON, which is stored as text: %s", event.id, error
        )
    plain = to_jsonable_python(
        cleaned(event.model_dump(exclude_none=True, by_alias=True)),
        bytes_mode="base64",
        serialize_unknown=True,
    )
    return to_json(plain, f"event {event.id}")


def _change(state: Mapping[str, object]) -> StateChange:
    """Return a state delta split into app, user and session state, without temporary keys.

    Values that are not JSON become text, with a warning, so that they fail no turn.
    """
    app: dict[str, JsonValue] = {}
    user: dict[str, JsonValue] = {}
    own: dict[str, JsonValue] = {}
    for key, value in state.items():
        if key.startswith(State.APP_PREFIX):
            app[key.removeprefix(State.APP_PREFIX)] = _jsonable(key, value)
        elif key.startswith(State.USER_PREFIX):
            user[key.removeprefix(State.USER_PREFIX)] = _jsonable(key, value)
        elif not key.startswith(State.TEMP_PREFIX):
            own[key] = _jsonable(key, value)
    return StateChange(app=app, user=user, session=own)


def _jsonable(key: str, value: object) -> JsonValue:
    try:
        plain: JsonValue = json.loads(to_json_bytes(value, inf_nan_mode="strings"))
    except PydanticSerializationError as error:
        log.warning(
            "state %r has a value that is not JSON, which is stored as text: %s", key, error
        )
        try:
            plain = to_jsonable_python(cleaned(value), bytes_mode="base64", serialize_unknown=True)
        except (RecursionError, ValueError):  # it contains itself, or is nested too deep
            plain = shown(value)
    return plain
