"""The routes of lists, facts, runs and retention: what they answer, and whom they let in."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from shared_core import MemoryEngine, NewMemory, RetentionPolicy, Scope, open_memory
from tests.integration.http_clients import client_of, problem_of
from tests.integration.test_http import TURN

pytestmark = pytest.mark.both_engines

ANA = Scope("default", "ana")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
OPERATIONS = {
    "GET /health": "check_health", "GET /health/live": "check_liveness",
    "GET /health/ready": "check_readiness", "GET /metrics": "read_metrics",
    "POST /process": "process", "POST /debug": "debug", "POST /end-session": "end_session",
    "GET /session-status/{user_id}": "show_session_status",
    "POST /remember": "remember", "POST /events": "append_events", "POST /recall": "recall",
    "POST /search": "search", "POST /context": "assemble_context",
    "GET /memories": "list_memories", "GET /memories/count": "count_memories",
    "GET /memory/{user_id}": "show_memory", "GET /timeline/{user_id}": "show_timeline",
    "POST /forget": "forget", "POST /erase": "erase", "GET /erasures": "list_erasures",
    "GET /applications": "list_applications", "GET /users": "list_users",
    "GET /facts/{user_id}": "list_facts", "POST /state": "state_fact",
    "POST /retract": "retract_fact", "POST /restore": "restore_fact",
    "GET /runs/{user_id}": "list_runs", "POST /undo-run": "undo_run",
    "GET /retention-stats": "show_retention_stats",
    "GET /retention-policy": "show_retention_policy",
    "POST /retention-policy": "set_retention_policy",
    "GET /faded/{user_id}": "list_faded", "POST /revive": "revive", "POST /pin": "pin",
    "POST /unpin": "unpin",
    "POST /profile-update": "update_profile", "POST /profile-rollback": "roll_back_profile",
    "GET /profile/{user_id}": "show_profile",
    "GET /profile-versions/{user_id}": "list_profile_versions",
    "GET /profile-diff/{user_id}": "compare_profile_versions",
    "GET /graph/{user_id}": "show_graph", "GET /export": "export",
    "GET /jobs": "list_jobs", "POST /jobs": "request_job", "GET /jobs/{job_id}": "show_job",
    "POST /jobs/{job_id}/retry": "retry_job", "POST /jobs/{job_id}/cancel": "cancel_job",
}  # fmt: skip
"""The ids by which generated clients call: they stay."""


@pytest.fixture
async def memory(dsn):
    async with open_memory(dsn, worker=False) as engine:
        yield engine


@pytest.fixture
async def client(memory):
    async with client_of(memory) as found:
        yield found


async def read(client: httpx.AsyncClient, path: str, **params: object) -> Any:
    answer = await client.get(path, params=params)  # type: ignore[arg-type]
    assert 200 == answer.status_code, answer.text
    return answer.json()


async def send(client: httpx.AsyncClient, path: str, **body: object) -> Any:
    """Return the answer of a POST for the user ana."""
    answer = await client.post(path, json={"user_id": "ana", **body})
    assert 200 == answer.status_code, answer.text
    return answer.json()


async def fill(memory: MemoryEngine) -> None:
    await memory.remember(ANA, [
        NewMemory(text="Ana drinks green tea.", key="tea", occurred_at=NOON),
        NewMemory(text="Ana 去了上海。", key="sea", kind="episodic", occurred_at=NOON - 2 * DAY),
        NewMemory(text="Ana has 2 cats.", key="cats", occurred_at=NOON - 5 * DAY),
    ])  # fmt: skip


async def test_every_operation_has_an_id_that_stays(client):
    told = {
        f"{method.upper()} {path}": one["operationId"]
        for path, methods in (await read(client, "/openapi.json"))["paths"].items()
        for method, one in methods.items()
    }
    assert OPERATIONS == told
    assert len({*told.values()}) == len(told)
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", one) for one in told.values())


async def test_lists_counts_and_timelines_take_filters_and_no_get_changes_anything(client, memory):
    await fill(memory)
    filters: list[tuple[dict[str, object], list[str]]] = [
        ({}, ["tea", "sea", "cats"]), ({"contains": "ANA"}, ["tea", "sea", "cats"]),
        ({"contains": "上海"}, ["sea"]), ({"contains": "%"}, []), ({"kind": "episodic"}, ["sea"]),
        ({"thread_id": "t"}, []), ({"begin": (NOON - 2 * DAY).isoformat()}, ["tea", "sea"]),
        ({"end": NOON.isoformat()}, ["sea", "cats"]),
    ]  # fmt: skip
    for filtered, keys in filters:
        listed = (await read(client, "/memories", user_id="ana", **filtered))["memories"]
        assert keys == [one["key"] for one in listed]
        counted = await read(client, "/memories/count", user_id="ana", **filtered)
        assert {"count": len(keys)} == counted
    wrong = {"user_id": "ana", "begin": NOON.isoformat(), "end": NOON.isoformat()}
    problem_of(await client.get("/memories", params=wrong), 422, "invalid-input")
    asked = {"when": "last 3 days", "asked_at": (NOON + DAY / 4).isoformat(), "zone": "UTC"}
    found = await read(client, "/timeline/ana", bucket="day", **asked)
    assert ["tea", "sea"] == [one["key"] for one in found["memories"]]
    assert 2 == sum(one["count"] for one in found["buckets"])
    everything = await read(client, "/timeline/ana", order="oldest", kind="semantic", limit=1)
    assert ["cats"] == [one["key"] for one in everything["memories"]]
    scored = await read(client, "/timeline/ana", query="What does Ana drink?")
    assert "tea" == scored["memories"][0]["key"] and scored["memories"][0]["score"]
    problem_of(await client.get("/timeline/ana?when=blue"), 422, "invalid-input")
    before = [line async for line in memory.export(ANA)]
    schema = await read(client, "/openapi.json")
    shown = {"user_id": "ana", "key": "tea", "from_version": 1, "to_version": 2}
    for path, methods in schema["paths"].items():
        if "get" in methods and path not in ("/jobs/{job_id}", "/metrics"):
            named = {one["name"] for one in methods["get"].get("parameters", ())}
            required = {
                one["name"]: shown[one["name"]]
                for one in methods["get"].get("parameters", ())
                if one["required"] and one["in"] == "query"
            }
            assert named >= required.keys()
            answer = await client.get(path.replace("{user_id}", "ana"), params=required)
            assert answer.status_code in (200, 404), (path, answer.text)
    assert before == [line async for line in memory.export(ANA)]


async def test_a_memory_is_shown_with_its_turns(client, memory):
    await send(client, "/events", thread_id="t", later=False, events=[
        {"event_id": "1", "role": "user", "text": "I live in Leeds.",
         "occurred_at": "2026-03-01T12:00:00Z"}
    ])  # fmt: skip
    await memory.consolidate(ANA, "t")
    [fact] = (await read(client, "/facts/ana"))["facts"]
    shown = await read(client, "/memory/ana", key=fact["key"])
    assert ["I live in Leeds."] == [turn["text"] for turn in shown["turns"]]
    assert "Leeds" == shown["fact"]["value"] and shown["fact"]["why"]["stated"]["turns"]
    assert ("kept", True, 0) == (shown["stage"], shown["is_current"], shown["access_count"])
    problem_of(await client.get("/memory/ana", params={"key": "nothing"}), 404, "not-found")


async def test_a_fact_is_stated_ended_restored_and_its_run_undone(client):
    fact = await send(client, "/state", slot="employer", value="Acme")
    assert ("employer", "Acme", None) == (fact["slot"], fact["value"], fact["valid_until"])
    ended = await send(client, "/retract", key=fact["key"])
    assert ended["valid_until"] and [] == (await read(client, "/facts/ana"))["facts"]
    again = {"user_id": "ana", "key": fact["key"]}
    problem_of(await client.post("/retract", json=again), 409, "conflict")
    assert (await send(client, "/restore", key=fact["key"]))["valid_until"] is None
    runs = (await read(client, "/runs/ana"))["runs"]
    assert 3 == len(runs) == len({one["run_id"] for one in runs})
    for one in runs:
        assert {"undone": one["run_id"]} == await send(client, "/undo-run", run_id=one["run_id"])
    assert [] == (await read(client, "/facts/ana", history=True))["facts"]
    assert all(one["undone_at"] for one in (await read(client, "/runs/ana"))["runs"])
    assert 1 == len((await read(client, "/runs/ana", limit=1))["runs"])
    problem_of(await client.post("/restore", json=again), 404, "not-found")


async def test_what_fades_is_listed_brought_back_and_pinned(client, memory):
    await fill(memory)
    policy = await send(client, "/retention-policy", policy={"threshold": 1, "min_age_days": 0})
    assert 1.0 == policy["policy"]["episodic"]["threshold"] and policy["retimed"] >= 0
    await memory.retention.forget_faded(ANA)
    [faded] = (await read(client, "/faded/ana"))["memories"]
    assert ("sea", "demoted", False) == (faded["key"], faded["stage"], faded["is_pinned"])
    assert 2 == (await read(client, "/memories/count", user_id="ana"))["count"]
    assert {"changed": 1, "unknown": ["x"]} == await send(client, "/revive", keys=["sea", "x"])
    assert [] == (await read(client, "/faded/ana", kind="episodic"))["memories"]
    assert {"changed": 1, "unknown": []} == await send(client, "/pin", keys=["sea"])
    stats = await read(client, "/retention-stats", user_id="ana")
    assert (3, 1) == (stats["count"], stats["pinned"])
    assert {"kept": 1, "demoted": 0, "archived": 0} == stats["kinds"]["episodic"]["stages"]
    assert {"changed": 1, "unknown": []} == await send(client, "/unpin", keys=["sea"])
    assert {"changed": 0, "unknown": []} == await send(client, "/unpin", keys=["sea"])


async def test_a_policy_of_a_user_stands_before_that_of_the_application(client, memory):
    rule = {"policy": "knowledge", "never": ["summary"]}
    of_app = (await client.post("/retention-policy", json=rule)).json()["policy"]
    assert (0.02, None) == (of_app["episodic"]["decay_rate"], of_app["summary"])
    assert of_app == (await read(client, "/retention-policy"))["policy"]
    assert of_app == (await read(client, "/retention-policy", user_id="ana"))["policy"]
    assert of_app["semantic"] is None
    await send(client, "/retention-policy", policy="sensitive")
    own = (await read(client, "/retention-policy", user_id="ana"))["policy"]
    assert 0.3 == own["episodic"]["decay_rate"]
    assert of_app == (await send(client, "/retention-policy", policy=None))["policy"]
    expected = RetentionPolicy(decay_rate=0.02, threshold=0.02, archive_threshold=None)
    assert expected == (await memory.retention.policy(app="default"))["episodic"]
    body = {"policy": {"threshold": 2}}
    problem_of(await client.post("/retention-policy", json=body), 422, "invalid-input")


async def test_receipts_are_listed(client, memory):
    await fill(memory)
    await memory.remember(Scope("default", "bob"), "Bob sails.")
    for user in ("ana", "bob"):
        await client.post("/erase", json={"user_id": user})
    found = (await read(client, "/erasures"))["receipts"]
    assert ["bob", "ana"] == [one["user_id"] for one in found]
    assert all(one["is_intact"] for one in found)
    assert found[:1] == (await read(client, "/erasures", limit=1))["receipts"]
    assert found[1:] == (await read(client, "/erasures", user_id="ana"))["receipts"]
    assert [] == (await read(client, "/erasures", app="other"))["receipts"]


async def test_a_token_lists_its_own_application_and_users(client, memory):
    for app, user in (("one", "ana"), ("one", "bob"), ("one", "cleo"), ("two", "ana")):
        await memory.remember(Scope(app, user), f"{user} sails.")

    async def users(client: httpx.AsyncClient, **params: object) -> list[str]:
        return [one["user_id"] for one in (await read(client, "/users", **params))["users"]]

    assert ["one", "two"] == (await read(client, "/applications"))["applications"]
    assert ["ana", "bob", "cleo"] == await users(client, app="one")
    assert ["bob"] == await users(client, app="one", contains="B")
    assert ["bob"] == await users(client, app="one", after="ana", limit=1)
    assert [] == await users(client)
    async with client_of(memory, token=(await memory.tokens.create("one")).text) as of_app:
        assert ["one"] == (await read(of_app, "/applications"))["applications"]
        assert ["ana", "bob", "cleo"] == await users(of_app)
        problem_of(await of_app.get("/users?app=two"), 403, "forbidden")
    some = await memory.tokens.create("one", users=["cleo", "ana", "new"])
    async with client_of(memory, token=some.text) as of_some:
        assert ["ana", "cleo"] == await users(of_some)
        assert ["cleo"] == await users(of_some, after="ana")


async def test_a_token_for_some_users_reads_and_changes_no_others(memory):
    bob = Scope("one", "bob")
    await memory.remember(bob, NewMemory(text="Bob sails.", key="sails"))
    await memory.remember(Scope("two", "ana"), "Ana rows.")
    fact = await memory.state_fact(bob, "employer", "Acme")
    [run] = await memory.runs(bob)
    new = await memory.tokens.create("one", users=["ana"])
    async with client_of(memory, token=new.text) as client:
        asked = {"user_id": "ana", "query": "rows sails"}
        assert [] == (await client.post("/recall", json=asked)).json()["hits"]
        problem_of(await client.post("/recall", json={**asked, "app": "two"}), 403, "forbidden")
        unknown = await client.post("/search", json={**asked, "user_id": "nobody"})
        problem_of(unknown, 403, "forbidden")
        for path, body in (
            ("/recall", {"query": "sails"}), ("/remember", {"memories": ["x"]}),
            ("/forget", {"keys": ["sails"]}), ("/erase", {}),
            ("/context", {"thread_id": "t", "query": "x"}),
            ("/events", {"thread_id": "t", "events": [TURN]}),
            ("/jobs", {"job_type": "reflection"}), ("/process", {"input": "x"}),
            ("/debug", {"input": "x"}), ("/end-session", {}),
            ("/state", {"slot": "employer", "value": "Evil"}), ("/retract", {"key": fact.key}),
            ("/restore", {"key": fact.key}), ("/undo-run", {"run_id": str(run.run_id)}),
            ("/pin", {"keys": ["sails"]}), ("/unpin", {"keys": ["sails"]}),
            ("/revive", {"keys": ["sails"]}), ("/retention-policy", {"policy": "sensitive"}),
        ):  # fmt: skip
            answer = await client.post(path, json={"user_id": "bob", **body})
            problem_of(answer, 403, "forbidden")
        for path in (
            "/memories/count?user_id=bob", "/memory/bob?key=sails", "/timeline/bob", "/runs/bob",
            "/faded/bob", "/facts/bob", "/retention-stats?user_id=bob",
            "/retention-policy?user_id=bob", "/erasures?user_id=bob", "/memories?user_id=bob",
            "/graph/bob", "/session-status/bob", "/jobs?user_id=bob",
            # about all users
            "/retention-stats", "/retention-policy", "/erasures", "/retention-stats?app=two",
            "/jobs",
        ):  # fmt: skip
            problem_of(await client.get(path), 403, "forbidden")
        answer = await client.post("/retention-policy", json={"policy": "sensitive"})
        problem_of(answer, 403, "forbidden")
        own = {"user_id": "ana", "key": fact.key}
        problem_of(await client.post("/retract", json=own), 404, "not-found")
        pinned = await client.post("/pin", json={"user_id": "ana", "keys": ["sails"]})
        assert {"changed": 0, "unknown": ["sails"]} == pinned.json()
        assert 200 == (await client.get("/jobs?user_id=ana")).status_code
    assert [fact] == list(await memory.facts(bob)) and 1 == len(await memory.runs(bob))
    assert ["sails"] == [one.key for one in await memory.list_memories(bob) if one.key != fact.key]


OTHER_IDS = (
    "ana\n", "ana\nbo", "ana\r\n", " ana", "ana ", "ana/", "bo/../ana", "%61na", "ana?x", "Ana",
)  # fmt: skip
"""Ids of others that a careless reader of a path takes for "ana"."""
MORE_PARAMETERS = {
    "GET /memory/{user_id}": {"key": "x"},
    "GET /profile-diff/{user_id}": {"from_version": "1", "to_version": "1"},
}


async def test_an_id_in_a_path_means_exactly_itself(shared_memory, scope):
    for user in ("ana", *OTHER_IDS):
        await shared_memory.state_fact(Scope(scope.app, user), "employer", f"Firm of {user!r}")
    async with client_of(shared_memory) as client:
        paths = [path for path in OPERATIONS if path.endswith("/{user_id}")]
        assert len(paths) == 10
        for user in OTHER_IDS:
            facts = await client.get(f"/facts/{quote(user, safe='')}", params={"app": scope.app})
            assert [f"Firm of {user!r}"] == [fact["value"] for fact in facts.json()["facts"]]
            for path in paths:
                place = path.removeprefix("GET ").replace("{user_id}", quote(user, safe=""))
                more = MORE_PARAMETERS.get(path, {})
                found = await client.get(place, params={"app": scope.app, **more})
                assert found.status_code in (200, 404), (path, user, found.text)
                assert "no such path" not in found.text, (path, user)
                assert "Firm of 'ana'" not in found.text, (path, user)
