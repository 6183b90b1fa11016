"""The HTTP server asked all that its own OpenAPI allows, and what it does not."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from benchmarks.fuzz_requests import Client, Mutator, Request
from shared_core import open_memory, run_sync
from tests.integration.http_processes import serving

EXAMPLES = 12
UNTIMED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


UNDERSTOOD = {
    "GET /memories", "GET /memories/count", "GET /timeline/{user_id}", "POST /state",
    "POST /retract", "POST /retention-policy",
}  # fmt: skip
"""No schema says what these refuse: a period that ends before it begins, words that name no time,
a slot that is a typo of another, kinds that never fade without a policy."""


async def new_token(dsn: str) -> str:
    async with open_memory(dsn, worker=False) as memory:
        return (await memory.tokens.create("app")).text


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_breaks_the_server_or_what_it_tells_of_itself(
    dsn: str, tmp_path: Path, mode: GenerationMode
) -> None:
    headers = {"Authorization": f"Bearer {run_sync(new_token(dsn))}"}
    # Schemathesis takes 413 for no refusal: the bounds of the fields shall refuse what is too long.
    options = ("--rate", "0", "--max-body", "10000000")
    with serving(dsn, tmp_path / "log", *options) as server:
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        seen = set()
        for found in schema.get_all_operations():
            operation = found.ok()
            seen.add(operation.label)
            if mode is GenerationMode.NEGATIVE and not any(
                (operation.query, operation.path_parameters, operation.body)
            ):
                continue  # it takes nothing that could be wrong

            @UNTIMED
            @given(data=st.data())
            def ask(data: st.DataObject) -> None:
                case = data.draw(operation.as_strategy(generation_mode=mode))  # noqa: B023
                case.call_and_validate(headers=headers, timeout=120)

            @UNTIMED
            @given(data=st.data())
            def ask_what_is_understood(data: st.DataObject) -> None:
                case = data.draw(operation.as_strategy(generation_mode=mode))  # noqa: B023
                case.call_and_validate(
                    headers=headers, timeout=120, excluded_checks=[positive_data_acceptance]
                )

            (ask_what_is_understood if operation.label in UNDERSTOOD else ask)()
        assert {"POST /recall", "GET /graph/{user_id}", "GET /health/ready"} <= seen
        assert 200 == httpx.get(f"{server.url}/health/ready", timeout=60).status_code
        assert [] == [line for line in server.lines() if line.get("level") == "error"]


def test_odd_requests_are_refused_in_the_documented_form(dsn: str, tmp_path: Path) -> None:
    """Odd values in every part of the examples, bodies that are no JSON, odd headers and paths."""
    token = run_sync(new_token(dsn))
    options = ("--rate", "0", "--max-body", "10000000")
    with serving(dsn, tmp_path / "log", *options) as server:
        mutator = Mutator(httpx.get(f"{server.url}/openapi.json").json())
        client = Client(server.port, token, server.process.pid)
        for number in range(200):
            client.send(mutator.request(random.Random(number)))
        client.close()
        assert {} == client.answers.wrong
        assert {200, 422} <= client.answers.counts.keys()
        assert [] == [line for line in server.lines() if line.get("level") == "error"]


WRONG = [
    (500, "application/problem+json", {"status": 500}),
    (400, "text/plain", {}),
    (422, "application/problem+json", {"status": 422, "title": "x"}),
    (503, "application/problem+json", {"detail": "psycopg.OperationalError: x"}),
]


@pytest.mark.parametrize(("status", "kind", "body"), WRONG)
def test_a_wrong_answer_is_noticed(status: int, kind: str, body: dict[str, object]) -> None:
    client = Client(1, "", os.getpid())
    client.judge(Request(method="GET", path="/"), status, kind, json.dumps(body).encode())
    assert client.answers.wrong


def test_a_documented_refusal_is_right() -> None:
    client = Client(1, "", os.getpid())
    body = {"type": "x", "title": "x", "detail": "x", "status": 422}
    right = "application/problem+json", json.dumps(body).encode()
    client.judge(Request(method="GET", path="/"), 422, *right)
    assert {} == client.answers.wrong
