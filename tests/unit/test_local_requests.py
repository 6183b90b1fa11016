"""Which requests without a token come from this machine."""

from every_case import every_case

from shared_core.core.local_requests import fault_of_local_request

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
