"""Who may see the inspector: this machine without a token, else the holders of tokens."""

import json
from urllib.parse import quote

import httpx
import pytest
from inspector import ANA, APP, inspecting
from inspector_thread import RunningInspector
from nicegui import Client

from shared_core import Scope, run_sync
from shared_core.ui import guard, sockets

POLLING = "/_nicegui_ws/socket.io/?EIO=4&transport=polling"


@pytest.fixture
def address(inspector):
    """The address of an inspector without a token."""
    return inspector.address


def token(inspector: RunningInspector, scope: Scope, *users: str) -> str:
    """Return a token for the application of a user, or for some of its users."""
    return run_sync(inspector.memory.tokens.create(scope.app, users=users or None)).text


def get(url: str, **headers: str | bytes) -> httpx.Response:
    return httpx.get(url, headers=headers, timeout=60)


def post(url: str, **headers: str) -> httpx.Response:
    return httpx.post(url, headers=headers, timeout=60)


def log_in(address: str, text: str, wanted: str = "/ui/") -> httpx.Response:
    to = f"{address}/login?next={quote(wanted, safe='')}"
    return httpx.post(to, data={"token": text}, timeout=60)


def cookie_of(answer: httpx.Response) -> str:
    """Return the cookie of a login, as the browser sends it back."""
    return answer.headers["set-cookie"].partition(";")[0]


def test_this_machine_sees_it_without_a_token_and_another_site_may_only_link_to_it(address, whole):
    page = get(f"{address}/")
    assert 200 == page.status_code and "pg-hippocampus" in page.text
    assert "https://" not in page.text.replace("https://nicegui.io", "")  # all of it is from here
    assert 403 == get(f"{address}/", host="evil.example").status_code
    assert 403 == get(f"{address}/", origin="http://evil.example").status_code
    assert 403 == get(f"{address}/", **{"x-forwarded-for": "10.0.0.1"}).status_code
    socket = get(address + POLLING)
    assert 200 == socket.status_code, socket.text
    assert 403 == get(address + POLLING, origin="http://evil.example").status_code
    assert 403 == get(address + POLLING, host="evil.example").status_code
    linked = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert 200 == get(f"{address}/", **linked).status_code
    assert 403 == get(f"{address}/export?app={APP}&user=ana", **linked).status_code
    assert 403 == get(f"{address}/", **{**linked, "sec-fetch-mode": "no-cors"}).status_code
    assert 403 == get(f"{address}/", origin="http://[").status_code
    for path in ("/", "/login", "/ask?app=helpdesk&user=ana"):
        headers = get(address + path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "http:" not in headers["content-security-policy"]
        assert "DENY" == headers["x-frame-options"]
        assert "nosniff" == headers["x-content-type-options"]
    # Every action goes over the socket, which a page of another site cannot open.
    page = get(f"{address}/memories?app={APP}&user=ana")
    assert 'method="get"' not in page.text.lower()
    assert ANA.user in page.text
    root = address.removesuffix("/ui")
    assert "/ui/" == get(f"{root}/").headers["location"]
    assert "/ui/" == get(address).headers["location"]
    missing = get(f"{address}/nothing")
    assert 404 == missing.status_code and "see /ui/" in missing.text
    assert "ok" == get(f"{root}/health").json()["status"]
    listed = get(f"{root}/memories?user_id=ana&app={APP}")
    assert 200 == listed.status_code and listed.json()["memories"]


def test_with_tokens_it_asks_for_one(locked, inspector):
    page = get(f"{locked}/ask?app={APP}&user=ana")
    assert 303 == page.status_code
    assert page.headers["location"].startswith("/ui/login?next=%2Fui%2Fask")
    assert 303 == get(locked + POLLING).status_code
    form = get(f"{locked}/login", **{"accept-language": "zh-CN,zh"})
    assert "令牌" in form.text and "<script" not in form.text
    wrong = log_in(locked, "hippo_wrong")
    assert 401 == wrong.status_code and "set-cookie" not in wrong.headers
    assert "opens nothing" in wrong.text
    right = log_in(locked, token(inspector, ANA), f"/ui/ask?app={APP}&user=ana")
    assert 303 == right.status_code
    assert f"/ui/ask?app={APP}&user=ana" == right.headers["location"]
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    assert "Secure" not in cookie and "hippo_" not in cookie
    with_cookie = {"cookie": cookie_of(right)}
    assert 200 == get(f"{locked}/ask?app={APP}&user=ana", **with_cookie).status_code
    assert 200 == get(locked + POLLING, **with_cookie).status_code
    others = {"cookie": f'a={{"x":1}}; 语言=中; foo; {with_cookie["cookie"]}'.encode()}
    assert 200 == get(f"{locked}/", **others).status_code
    assert 303 == get(f"{locked}/_nicegui/unknown").status_code
    assert 405 == get(f"{locked}/logout", **with_cookie).status_code
    assert 303 == post(f"{locked}/logout", **with_cookie).status_code
    assert 303 == get(f"{locked}/", **with_cookie).status_code


def test_the_logins_and_unopened_pages_of_a_token_are_bounded_and_end_no_others(
    locked, inspector, monkeypatch
):
    monkeypatch.setattr(guard, "MOST_OF_TOKEN", 4)
    monkeypatch.setattr(sockets, "MOST_UNOPENED", 3)
    of_admin, of_user = token(inspector, ANA), token(inspector, ANA, "ana")
    admin, *users = [
        {"cookie": cookie_of(log_in(locked, text))} for text in (of_admin, *[of_user] * 6)
    ]
    page = f"{locked}/ask?app={APP}&user=ana"
    known = set(Client.instances)
    assert [200, 303, 303, 200, 200, 200, 200] == [
        get(page, **one).status_code for one in (admin, *users)
    ]
    assert [200] * 4 == [get(page, **users[-1]).status_code for _ in range(4)]
    assert 4 == len(set(Client.instances) - known)  # one of the admin, and three


def test_malformed_messages_are_lines_of_the_log_without_a_trace(address, caplog, capfd):
    sent = ('["event",{}]', '["log"]', '["ack",7]', '["connect",1]', '["event",{"client_id":[]}]',
            "{}", "[]", "xyz")  # fmt: skip
    for message in [*(f"42{one}" for one in sent), "49", "\0"]:
        opened = json.loads(get(address + POLLING).text[1:])["sid"]
        socket = f"{address}{POLLING}&sid={opened}"
        for packet in ("40{}", message):
            httpx.post(socket, content=packet, timeout=60)
        httpx.get(socket, timeout=60)
    told = [one for one in caplog.records if "of a page is dropped: " in one.getMessage()]
    assert len(sent) + 2 == len(told) and not any(one.exc_info for one in told)
    assert "Traceback" not in caplog.text + "".join(capfd.readouterr())


def test_a_login_leads_to_no_other_site_and_attempts_are_bounded(locked, inspector):
    own = token(inspector, ANA)
    for wanted in (
        "https://evil.example/", "//evil.example/ui/", "///ui/", "//[", "/ui//evil.example",
        "/\\evil.example", "/docs", "/ui/login", "",
    ):  # fmt: skip
        assert "/ui/" == log_in(locked, own, wanted).headers["location"], wanted
    tried = [log_in(locked, f"hippo_{number}").status_code for number in range(12)]
    assert [401, 429] == [tried[0], tried[-1]]
    assert 303 == log_in(locked, token(inspector, ANA)).status_code  # a right one gets in


def test_a_token_sees_its_own_users_only(locked, inspector, ana, lin):
    cookie = cookie_of(log_in(locked, token(inspector, ana, "ana")))
    own = get(f"{locked}/memories?app={ana.app}&user=ana", cookie=cookie)
    assert "I live in Leeds." in json.dumps(own.text, ensure_ascii=False)
    other = get(f"{locked}/memories?app={ana.app}&user={quote(lin.user)}", cookie=cookie)
    assert "杭州" not in other.text and "for other users" in other.text
    elsewhere = get(f"{locked}/memories?app={APP}&user=ana", cookie=cookie)
    assert "for another application" in elsewhere.text
    assert lin.user not in get(f"{locked}/", cookie=cookie).text


def test_a_revoked_token_opens_no_page(locked, inspector, monkeypatch):
    monkeypatch.setattr("shared_core.http.access.KNOWN_S", 0.0)  # nothing is remembered
    tokens = inspector.memory.tokens
    new = run_sync(tokens.create(APP))
    cookie = cookie_of(log_in(locked, new.text))
    assert 200 == get(f"{locked}/", cookie=cookie).status_code
    run_sync(tokens.revoke(new.token.token_id))
    assert 303 == get(f"{locked}/", cookie=cookie).status_code


def test_read_only_serves_no_api(dsn, tmp_path):
    with inspecting(dsn, tmp_path / "ui.log", "--read-only") as address:
        assert 200 == get(f"{address}/").status_code
        root = address.removesuffix("/ui")
        sent = post(f"{root}/remember", **{"content-type": "application/json"})
        assert sent.status_code in (404, 405)


def test_serve_has_the_inspector_beside_the_api(dsn, tmp_path):
    log = tmp_path / "serve.log"
    with inspecting(dsn, log, "--no-worker", command="serve --ui") as address:
        page = get(f"{address}/")
        assert 200 == page.status_code and "pg-hippocampus" in page.text
        told, root = {"user_id": "ana", "memories": ["I like tea."]}, address.removesuffix("/ui")
        assert 200 == httpx.post(f"{root}/remember", json=told, timeout=60).status_code
        assert get(f"{root}/memories?user_id=ana").json()["memories"]
