"""What HTTP keeps to without a server: the methods of the client, and requests of this machine."""

import inspect
from typing import Any

import pytest
from every_case import every_case

from shared_core import wire
from shared_core.client import HippocampusClient
from shared_core.client.calls import READS
from shared_core.core.local_requests import fault_of_local_request
from shared_core.wire import STATUS_OF


@pytest.fixture(scope="module")
def openapi():
    from benchmarks import client_code  # imports the server: not while tests are collected

    return client_code.openapi()


def operations(openapi: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the operations of a description, by id."""
    return {
        one["operationId"]: one for methods in openapi["paths"].values() for one in methods.values()
    }


def names_of(openapi: dict[str, Any], operation: dict[str, Any]) -> set[str]:
    """Return the names of the parameters and of the fields of the body of an operation."""
    names = {one["name"] for one in operation.get("parameters", [])}
    if "requestBody" in operation:
        shape = operation["requestBody"]["content"]["application/json"]["schema"]
        for one in shape.get("oneOf", [shape]):
            body = openapi["components"]["schemas"][one["$ref"].rpartition("/")[2]]
            names |= set(body["properties"])
    return names


def methods() -> dict[str, Any]:
    """Return the public methods of the client that ask the server, by name."""
    return {
        name: method
        for name, method in inspect.getmembers(HippocampusClient, inspect.isfunction)
        if not name.startswith("_") and name != "aclose"
    }


def test_the_committed_files_have_every_operation_answer_and_error_of_the_description(openapi):
    from benchmarks import client_code

    made = client_code.sources(openapi)
    kept = {one.name: one.read_text("utf-8") for one in client_code.FOLDER.glob("*.py")}
    assert {"base.py"} == kept.keys() - made.keys(), "run python -m benchmarks.client_code"
    for name, source in made.items():
        assert kept.get(name) == source, f"run python -m benchmarks.client_code: {name} differs"
    assert operations(openapi).keys() == methods().keys()
    found = operations(openapi)
    for name, method in methods().items():
        _, *parameters = inspect.signature(method).parameters.values()
        assert {one.kind for one in parameters} <= {inspect.Parameter.KEYWORD_ONLY}, name
        assert names_of(openapi, found[name]) == {one.name for one in parameters}, name
    for name, method in methods().items():
        text = inspect.getdoc(method) or ""
        for parameter in list(inspect.signature(method).parameters)[1:]:
            assert f"\n    {parameter}: " in text, f"{name} says nothing of {parameter}"
        assert ("\nReturns:\n" in text or "\nYields:\n" in text) and "\nRaises:\n" in text, name
    for name, operation in operations(openapi).items():
        [answer] = [one for status, one in operation["responses"].items() if status[0] == "2"]
        if "application/json" in answer["content"]:
            model = answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            assert getattr(wire, model).model_config.get("extra") != "allow", name
    assert openapi["paths"].keys() >= READS
    from shared_core.http.problems import DETAIL_OF

    kinds = [kind for _, kind in STATUS_OF.values()]
    assert len(set(kinds)) == len(kinds)
    assert DETAIL_OF.keys() <= set(kinds)


LOCAL = [("host", "localhost:8420")]


@every_case("localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.2:80", "[::1]:9")
def test_a_name_of_this_machine_is_served(host):
    assert fault_of_local_request([("host", host)], "127.0.0.1") is None
    assert fault_of_local_request([*LOCAL, ("origin", f"http://{host}")]) is None


@every_case(
    "", "evil.example", "x@127.0.0.1", "127.0.0.1@evil.example", "localhost:x", "localhost:1:2",
    "127.0.0.1.evil.example", "[::1", "::1", "localhost ", "localhost/", "localhost,evil.example",
)  # fmt: skip
def test_any_other_name_is_refused(host):
    assert "only localhost" in str(fault_of_local_request([("host", host)]))
    assert "no web page" in str(fault_of_local_request([*LOCAL, ("origin", f"http://{host}")]))


@every_case("null", "", "file://localhost", "http:localhost", "http://localhost:1@evil.example")
def test_an_origin_of_another_form_is_refused(origin):
    assert "no web page" in str(fault_of_local_request([*LOCAL, ("origin", origin)]))


def test_two_hosts_no_host_a_proxy_and_another_machine_are_refused():
    for headers in ([], [*LOCAL, ("host", "evil.example")]):
        assert "only localhost" in str(fault_of_local_request(headers))
    assert "only localhost" in str(fault_of_local_request(LOCAL, "203.0.113.9"))
    for name in ("forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-proto"):
        assert "no proxy" in str(fault_of_local_request([*LOCAL, (name, "x")]))
