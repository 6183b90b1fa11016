"""Who may see the inspector: this machine without a token, else the holders of tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from inspector import ANA, APP, LIN, fill, inspecting

from shared_core import open_memory

POLLING = "/_nicegui_ws/socket.io/?EIO=4&transport=polling"


async def token(dsn: str, *users: str, app: str = APP) -> str:
    async with open_memory(dsn, worker=False) as memory:
        return (await memory.tokens.create(app, users=users or None)).text


@pytest.fixture
async def address(dsn: str, tmp_path: Path) -> Iterator[str]:  # type: ignore[misc]
    """An inspector without a token."""
    await fill(dsn)
    with inspecting(dsn, tmp_path / "ui.log") as found:
        yield found


@pytest.fixture
async def locked(dsn: str, tmp_path: Path) -> Iterator[str]:  # type: ignore[misc]
    """An inspector that asks for a token."""
    await fill(dsn)
    with inspecting(dsn, tmp_path / "ui.log", "--auth") as found:
        yield found


def get(url: str, **headers: str | bytes) -> httpx.Response:
    return httpx.get(url, headers=headers, timeout=60)


def post(url: str, **headers: str) -> httpx.Response:
    return httpx.post(url, headers=headers, timeout=60)


def log_in(address: str, text: str, wanted: str = "/ui/") -> httpx.Response:
    return httpx.post(
        f"{address}/login?next={quote(wanted, safe='')}", data={"token": text}, timeout=60
    )


def test_this_machine_sees_it_without_a_token_and_no_other_site_does(address: str) -> None:
    page = get(f"{address}/")
    assert 200 == page.status_code and "pg-hippocampus" in page.text
    assert 403 == get(f"{address}/", host="evil.example").status_code
    assert 403 == get(f"{address}/", origin="http://evil.example").status_code
    assert 403 == get(f"{address}/", **{"x-forwarded-for": "10.0.0.1"}).status_code
    socket = get(address + POLLING)
    assert 200 == socket.status_code, socket.text
    assert 403 == get(address + POLLING, origin="http://evil.example").status_code
    assert 403 == get(address + POLLING, host="evil.example").status_code


def test_another_site_may_link_to_a_page_and_starts_nothing(address: str) -> None:
    linked = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert 200 == get(f"{address}/", **linked).status_code
    assert 403 == get(f"{address}/export?app={APP}&user=ana", **linked).status_code
    assert 403 == get(f"{address}/", **{**linked, "sec-fetch-mode": "no-cors"}).status_code
    assert 403 == get(f"{address}/", origin="http://[").status_code


def test_the_root_leads_to_it_and_the_api_stands_beside_it(address: str) -> None:
    root = address.removesuffix("/ui")
    assert "/ui/" == get(f"{root}/").headers["location"]
    assert "/ui/" == get(address).headers["location"]
    missing = get(f"{address}/nothing")
    assert 404 == missing.status_code and "see /ui/" in missing.text
    assert "ok" == get(f"{root}/health").json()["status"]
    listed = httpx.get(f"{root}/memories", params={"user_id": "ana", "app": APP}, timeout=60)
    assert 200 == listed.status_code and listed.json()["memories"]


def test_each_answer_forbids_scripts_and_frames_of_others(address: str) -> None:
    for path in ("/", "/login", "/ask?app=helpdesk&user=ana"):
        headers = get(address + path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "http:" not in headers["content-security-policy"]
        assert "DENY" == headers["x-frame-options"]
        assert "nosniff" == headers["x-content-type-options"]


def test_a_page_loads_nothing_from_elsewhere(address: str) -> None:
    page = get(f"{address}/").text
    assert "https://" not in page.replace("https://nicegui.io", "")


async def test_with_tokens_it_asks_for_one(locked: str, dsn: str) -> None:
    page = get(f"{locked}/ask?app={APP}&user=ana")
    assert 303 == page.status_code
    assert page.headers["location"].startswith("/ui/login?next=%2Fui%2Fask")
    assert 303 == get(locked + POLLING).status_code
    form = get(f"{locked}/login", **{"accept-language": "zh-CN,zh"})
    assert "令牌" in form.text and "<script" not in form.text
    wrong = log_in(locked, "hippo_wrong")
    assert 401 == wrong.status_code and "set-cookie" not in wrong.headers
    assert "opens nothing" in wrong.text
    right = log_in(locked, await token(dsn), f"/ui/ask?app={APP}&user=ana")
    assert 303 == right.status_code
    assert f"/ui/ask?app={APP}&user=ana" == right.headers["location"]
    cookie = right.headers["set-cookie"]
    assert (
        "Secure" not in cookie
        and "HttpOnly" in cookie
        and "SameSite=strict" in cookie
        and "hippo_" not in cookie
    )
    with_cookie = {"cookie": cookie.partition(";")[0]}
    assert 200 == get(f"{locked}/ask?app={APP}&user=ana", **with_cookie).status_code
    assert 200 == get(locked + POLLING, **with_cookie).status_code
    others = {"cookie": f'a={{"x":1}}; 语言=中; foo; {with_cookie["cookie"]}'.encode()}
    assert 200 == get(f"{locked}/", **others).status_code
    assert 303 == get(f"{locked}/_nicegui/unknown").status_code
    assert 405 == get(f"{locked}/logout", **with_cookie).status_code
    gone = post(f"{locked}/logout", **with_cookie)
    assert 303 == gone.status_code
    assert 303 == get(f"{locked}/", **with_cookie).status_code


async def test_a_login_leads_to_no_other_site(locked: str, dsn: str) -> None:
    own = await token(dsn)
    for wanted in (
        "https://evil.example/", "//evil.example/ui/", "///ui/", "//[", "/ui//evil.example",
        "/\\evil.example", "/docs", "/ui/login", "",
    ):  # fmt: skip
        assert "/ui/" == log_in(locked, own, wanted).headers["location"], wanted


async def test_attempts_are_bounded(locked: str, dsn: str) -> None:
    tried = [log_in(locked, f"hippo_{number}").status_code for number in range(12)]
    assert [401, 429] == [tried[0], tried[-1]]
    assert 303 == log_in(locked, await token(dsn)).status_code  # a right one always gets in


async def test_a_token_sees_its_own_users_only(locked: str, dsn: str) -> None:
    cookie = log_in(locked, await token(dsn, "ana")).headers["set-cookie"].partition(";")[0]
    own = get(f"{locked}/memories?app={APP}&user=ana", cookie=cookie)
    assert "I live in Leeds." in json.dumps(own.text, ensure_ascii=False)
    other = get(f"{locked}/memories?app={APP}&user={quote(LIN.user)}", cookie=cookie)
    assert "杭州" not in other.text and "for other users" in other.text
    elsewhere = get(f"{locked}/memories?app=else&user=ana", cookie=cookie)
    assert "for another application" in elsewhere.text
    front = get(f"{locked}/", cookie=cookie)
    assert LIN.user not in front.text


async def test_a_revoked_token_opens_no_page(locked: str, dsn: str) -> None:
    async with open_memory(dsn, worker=False) as memory:
        new = await memory.tokens.create(APP)
        cookie = log_in(locked, new.text).headers["set-cookie"].partition(";")[0]
        assert 200 == get(f"{locked}/", cookie=cookie).status_code
        await memory.tokens.revoke(new.token.token_id)
        while 200 == get(f"{locked}/", cookie=cookie).status_code:
            pass  # a looked-up token is remembered for five seconds
    assert 303 == get(f"{locked}/", cookie=cookie).status_code


def test_no_get_changes_anything(address: str) -> None:
    """Every action goes over the socket, which a page of another site cannot open."""
    page = get(f"{address}/memories?app={APP}&user=ana")
    assert 'method="get"' not in page.text.lower()
    assert ANA.user in page.text


async def test_read_only_serves_no_api(dsn: str, tmp_path: Path) -> None:
    await fill(dsn)
    with inspecting(dsn, tmp_path / "ui.log", "--read-only") as address:
        assert 200 == get(f"{address}/").status_code
        sent = post(
            f"{address.removesuffix('/ui')}/remember", **{"content-type": "application/json"}
        )
        assert sent.status_code in (404, 405)
