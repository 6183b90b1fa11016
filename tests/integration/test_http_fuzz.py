"""The HTTP server asked all that its own OpenAPI allows, and what it does not."""

import json
import os
import random
from typing import Any

import httpx
import pytest
import schemathesis
from commands import succeed
from every_case import every_case
from hypothesis import HealthCheck, Phase, given, settings
from long_forms import LONG
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from benchmarks.fuzz_requests import Client, Mutator, Request
from tests.integration.http_processes import serving

EXAMPLES, ODD_REQUESTS = (12, 200) if LONG else (1, 40)
UNTIMED = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
    phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
)  # fmt: skip


UNDERSTOOD = {
    "GET /memories", "GET /memories/count", "GET /timeline/{user_id}", "POST /state",
    "POST /retract", "POST /retention-policy",
}  # fmt: skip
"""No schema says what these refuse: a period that ends before it begins, words that name no time,
a slot that is a typo of another, kinds that never fade without a policy."""


@pytest.fixture(scope="module")
def served(postgres, tmp_path_factory):
    # Schemathesis takes 413 for no refusal: the bounds of the fields shall refuse what is too long.
    log, options = (
        tmp_path_factory.mktemp("fuzz") / "log",
        ("--rate", "0", "--max-body", "10000000"),
    )
    for dsn in postgres.lend():
        with serving(dsn, log, *options) as server:
            yield server


@pytest.fixture
def token(served):
    """A token of the server, which must have logged no error afterwards."""
    yield succeed("token", "create", "--app", "app", "--uri", served.dsn).strip()
    assert [] == [line for line in served.lines() if line.get("level") == "error"]


@pytest.mark.tail
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_breaks_the_server_or_what_it_tells_of_itself(served, token, mode):
    headers = {"Authorization": f"Bearer {token}"}
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    seen = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        seen.add(operation.label)
        takes = (operation.query, operation.path_parameters, operation.body)
        if mode is GenerationMode.NEGATIVE and not any(takes):
            continue  # it takes nothing that could be wrong
        excluded = [positive_data_acceptance] if operation.label in UNDERSTOOD else []

        @UNTIMED
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            options = {"excluded_checks": excluded}  # noqa: B023
            case.call_and_validate(headers=headers, timeout=120, **options)

        ask()
    assert {"POST /recall", "GET /graph/{user_id}", "GET /health/ready"} <= seen
    assert 200 == httpx.get(f"{served.url}/health/ready", timeout=60).status_code


@pytest.mark.tail
def test_odd_requests_are_refused_in_the_documented_form(served, token):
    """Odd values in every part of the examples, bodies that are no JSON, odd headers and paths."""
    mutator = Mutator(httpx.get(f"{served.url}/openapi.json").json())
    client = Client(served.port, token, served.process.pid)
    for number in range(ODD_REQUESTS):
        client.send(mutator.request(random.Random(number)))
    client.close()
    assert {} == client.answers.wrong
    assert {200, 422} <= client.answers.counts.keys()


REFUSAL = {"type": "x", "title": "x", "detail": "x", "status": 422}


@every_case(
    (500, "application/problem+json", {"status": 500}, True),
    (400, "text/plain", {}, True),
    (422, "application/problem+json", {"status": 422, "title": "x"}, True),
    (503, "application/problem+json", {"detail": "psycopg.OperationalError: x"}, True),
    (422, "application/problem+json", REFUSAL, False),
)  # fmt: skip
def test_only_a_documented_refusal_is_right(status, kind, body, is_wrong):
    client = Client(1, "", os.getpid())
    client.judge(Request(method="GET", path="/"), status, kind, json.dumps(body).encode())
    assert is_wrong == bool(client.answers.wrong)
