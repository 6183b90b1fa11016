"""Profiles are read by their keys, however many versions and other tenants there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest
from policy_plans import add_memories, connections, give_statistics, reads_of, touched
from postgres_databases import PostgresDatabases

from shared_core.core.domain import Scope, ThreadId
from shared_core.policies.profile_versions import drop_profile, save_profile
from shared_core.policies.profiles import (
    pipeline_history,
    profile_by_id,
    profile_of,
    profile_of_run,
    profiles_to_show,
    recent_threads,
    turns_to_profile,
)
from shared_core.ports.operations import Policy
from shared_core.ports.profiles import NewVersion, ProfileRun, ProfileVersion

TENANTS, VERSIONS, MEMORIES = 40, 60, 60
"""As many versions as memories, so that one series fills all tables."""
ONE = UUID("00000000-0000-7000-8000-000000000007")
SCOPE = Scope("app", "u7")
NAMESPACE = "/profile/user/bot/"
NOW = datetime.now(UTC)
EMPTY = {"threads", "events", "memory_bases"}


@pytest.fixture(scope="module")
def filled(postgres: PostgresDatabases) -> Iterator[psycopg.Connection[Any]]:
    """40 users with a profile of 60 versions, each of 60 memories, and a log of every run."""
    ids = "('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid"
    many = f"generate_series(1, {TENANTS}) t, generate_series(1, {MEMORIES}) n"
    of = "SELECT '/app/u' || t || '/'"
    for connection in connections(postgres):
        add_memories(connection, many, memory_id=ids, namespace=f"'{NAMESPACE}'")
        for query in (
            f"INSERT INTO memory_sources {of}, {ids}, 't', 'e' || n FROM {many}",
            "INSERT INTO profiles (tenant_id, subject_kind, subject_id, version, content_hash,"
            f" run_id, created_at, memory_id, entries) {of}, 'user', 'bot', n, '', {ids}, now(),"
            f" '{ONE}', (SELECT jsonb_agg(jsonb_build_object('id', '00000000-0000-7000-8000-'"
            " || lpad(x::text, 12, '0'), 'role', 'event')) FROM generate_series(1, 60) x)"
            f" FROM {many}",
            "INSERT INTO runs (tenant_id, run_id, kind, extractor, started_at, finished_at)"
            f" {of}, {ids}, 'profile', 'x', now(), now() FROM {many}",
            "INSERT INTO pipeline_log (tenant_id, run_id, step, stage, started_at, duration_s,"
            f" memory_id) {of}, {ids}, 1, 's', now() + n * interval '1 s', 1, '{ONE}' FROM {many}",
            f"INSERT INTO tombstones {of}, 't', 'x' || n, now() FROM {many}",
            "ANALYZE",
        ):
            connection.execute(query.encode())
        yield connection


NEWEST = ProfileVersion(
    subject="user", agent_id="bot", version=VERSIONS, memory_id=ONE, event_limit=50,
    content_hash="00", run_id=ONE, began_at=NOW, created_at=NOW,
)  # fmt: skip
RUN = ProfileRun(run_id=UUID(int=1), extractor="x", started_at=NOW, counts={})
NEXT = NewVersion(
    subject="user", agent_id="bot", expected=VERSIONS, revision=0, revises=False, event_limit=50,
    content_hash="00", began_at=NOW, entries=[(ONE, "event")], rows=(), sources=(),
    rewritten=[ONE], required=(), covered=(), keep=VERSIONS,
)  # fmt: skip
POLICIES: dict[str, tuple[Callable[[], Policy[Any]], float]] = {
    "by_id": (partial(profile_by_id, ONE), 200),
    "of": (partial(profile_of, "user", "bot"), 200),
    "to_show": (partial(profiles_to_show, "app", None, ["event"]), 200),
    "of_run": (partial(profile_of_run, ONE), VERSIONS + 2),
    "history": (partial(pipeline_history, ONE, 10), 150),
    "unread": (partial(turns_to_profile, [ONE], ThreadId("t"), 10, NOW), VERSIONS),
    "recent": (partial(recent_threads, None, 10, NOW), 30),
    "save": (partial(save_profile, SCOPE, ONE, RUN, NEXT, None, (), NOW), 7 * VERSIONS),
    "drop": (partial(drop_profile, SCOPE, NEWEST, UUID(int=1), NOW), 7 * MEMORIES),
}


@pytest.mark.parametrize("has_statistics", [True, False])
@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_reads_rows_of_its_profile_by_an_index(
    filled: psycopg.Connection[Any], name: str, has_statistics: bool
) -> None:
    policy, most = POLICIES[name]
    give_statistics(filled, has=has_statistics)
    read = reads_of(filled, "/app/u7/", policy())
    scanned = {node["Relation Name"] for node in read if node["Node Type"] == "Seq Scan"}
    assert not scanned - EMPTY
    assert touched(read) <= most
