"""The pages of the inspector about runs, jobs, erasures, exports, imports and tokens."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest
from browser import browsing, in_browser
from inspector import ANA, APP, FIRST_DAY, LIN, fill, inspecting, now
from playwright.sync_api import Page, expect

from shared_core import Event, Scope, open_memory
from shared_core.ports.jobs import JobStatus, JobType

pytestmark = in_browser
OTHER = Scope("elsewhere", "bob")


def place(address: str, path: str, scope: Scope | None = None, **params: str) -> str:
    """Return the address of a page."""
    named = {} if scope is None else {"app": scope.app, "user": scope.user}
    return f"{address}{path}?{urlencode(named | params)}"


async def filled(dsn: str) -> None:
    await fill(dsn)
    async with open_memory(dsn, worker=False) as memory:
        turn = Event(
            event_id="b1", author="user", role="user", text="I live in Oslo.",
            occurred_at=FIRST_DAY,
        )  # fmt: skip
        await memory.append_events(OTHER, "thread-b", [turn])


@pytest.fixture
def address(dsn: str, tmp_path: Path) -> Iterator[str]:
    """An inspector of two applications."""
    now(filled(dsn))
    with inspecting(dsn, tmp_path / "ui.log") as found:
        yield found


@pytest.fixture
def page() -> Iterator[Page]:
    with browsing() as context:
        yield context.new_page()


def act(page: Page, label: str, *, typed: str = "", nth: int = 0) -> str:
    """Press the button of an action, confirm it, and return what it says was done."""
    page.get_by_role("button", name=label, exact=True).nth(nth).click()
    dialog = page.get_by_role("dialog")
    yes = dialog.get_by_role("button", name=label, exact=True)
    if typed:
        expect(yes).to_be_disabled()
        dialog.get_by_role("textbox").fill(typed)
    yes.click()
    done = page.get_by_role("status")
    expect(done).to_be_visible()
    return done.inner_text()


def close(page: Page) -> None:
    page.get_by_role("button", name="Close", exact=True).click()
    expect(page.get_by_role("status")).to_have_count(0)


async def facts(dsn: str, scope: Scope = ANA) -> list[str]:
    async with open_memory(dsn, worker=False) as memory:
        return sorted(f"{one.slot}={one.value}" for one in await memory.facts(scope))


async def memories(dsn: str, scope: Scope) -> int:
    async with open_memory(dsn, worker=False) as memory:
        return await memory.count_memories(scope)


def test_a_run_is_undone_and_made_again(address: str, dsn: str, page: Page) -> None:
    before = now(facts(dsn))
    assert before
    page.goto(place(address, "/runs", ANA, thread="thread-1"))
    expect(page.get_by_text("4 turns read")).to_be_visible()
    assert "The run is undone" in act(page, "Undo")
    assert [] == now(facts(dsn))
    close(page)
    expect(page.get_by_text("Undone at")).to_be_visible()
    assert "4 turns read" in act(page, "Consolidate now")
    assert before == now(facts(dsn))
    close(page)
    assert "nothing changed" in act(page, "Consolidate now")
    close(page)
    assert act(page, "Reflect now")


def test_a_job_is_cancelled(address: str, dsn: str, page: Page) -> None:
    async def ask() -> None:
        async with open_memory(dsn, worker=False) as memory:
            for scope in (ANA, LIN):
                await memory.jobs.request(
                    scope, "thread-1", JobType.FULL_CONSOLIDATION, delay_s=86_400
                )

    async def states(scope: Scope) -> list[JobStatus]:
        async with open_memory(dsn, worker=False) as memory:
            jobs = await memory.jobs.list(scope, statuses=[*JobStatus])
            return [one.status for one in jobs if one.job_type is JobType.FULL_CONSOLIDATION]

    now(ask())
    page.goto(place(address, "/runs", ANA, of="all"))
    expect(page.get_by_text(f"{APP} / {LIN.user}")).to_be_visible()
    page.goto(place(address, "/runs", ANA))
    expect(page.get_by_text("due in")).to_have_count(1)
    assert "cancelled" in act(page, "Cancel the job")
    assert [JobStatus.CANCELLED] == now(states(ANA))
    assert [JobStatus.PENDING] == now(states(LIN))
    close(page)
    expect(page.get_by_text("There is no such job")).to_be_visible()
    page.get_by_role("link", name="cancelled", exact=True).click()
    expect(page.locator(".panel").get_by_text("cancelled", exact=True)).to_be_visible()


def test_a_dead_job_is_tried_again(address: str, dsn: str, page: Page) -> None:
    def broken(prompt: str) -> str:
        raise ConnectionError

    async def fail() -> JobStatus:
        async with open_memory(dsn, worker=False, llm=broken) as memory:
            turn = Event(
                event_id="new", author="user", role="user", text="I play the cello.",
                occurred_at=FIRST_DAY,
            )  # fmt: skip
            await memory.append_events(ANA, "thread-1", [turn], later=True)
            return (await memory.jobs.run(ANA, "thread-1")).status

    async def states() -> list[JobStatus]:
        async with open_memory(dsn, worker=False) as memory:
            jobs = await memory.jobs.list(ANA, statuses=[*JobStatus])
            return [one.status for one in jobs if one.job_type is JobType.FULL_CONSOLIDATION]

    assert JobStatus.FAILED is now(fail())
    page.goto(place(address, "/runs", ANA))
    expect(page.get_by_text("ModelUnavailable").first).to_be_visible()
    assert "1 put back" in act(page, "Try again")
    assert JobStatus.FAILED not in now(states())


def test_a_user_is_erased_after_the_name_was_typed(address: str, dsn: str, page: Page) -> None:
    page.goto(place(address, "/privacy", LIN))
    page.get_by_role("button", name=f"Erase everything of {LIN.user}").click()
    dialog = page.get_by_role("dialog")
    yes = dialog.get_by_role("button", name=f"Erase everything of {LIN.user}")
    dialog.get_by_role("textbox").fill("ana")
    expect(yes).to_be_disabled()
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    said = act(page, f"Erase everything of {LIN.user}", typed=LIN.user)
    assert "memories" in said and "Receipt" in said
    assert 0 == now(memories(dsn, LIN))
    assert now(memories(dsn, ANA))
    close(page)
    expect(page.get_by_text("as it was written")).to_be_visible()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save the receipt").click()
    receipt = json.loads(saving.value.path().read_text("utf-8"))
    assert LIN.user == receipt["user_id"]


def test_an_export_comes_back(address: str, dsn: str, page: Page, tmp_path: Path) -> None:
    page.goto(place(address, "/privacy", ANA))
    with page.expect_download() as saving:
        page.get_by_role("link", name="Everything of ana").click()
    assert saving.value.suggested_filename.endswith(f"{APP}-ana.jsonl")
    file = tmp_path / "ana.jsonl"
    saving.value.save_as(file)
    lines = file.read_text("utf-8").splitlines()
    assert {"app": APP, "user": "ana"} == json.loads(lines[0])["of"]
    assert json.loads(lines[-1])["rows"] == len(lines) - 2
    before = now(memories(dsn, ANA))
    act(page, "Erase everything of ana", typed="ana")
    close(page)
    page.set_input_files("input[type=file]", file)
    expect(page.get_by_text("Without vectors")).to_be_visible()
    page.get_by_text("Also write what was forgotten or erased here").click()
    assert "rows written" in act(page, "Import")
    assert before == now(memories(dsn, ANA))


def test_what_is_no_export_is_refused(address: str, page: Page, tmp_path: Path) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text('{"a": 1}\n')
    page.goto(place(address, "/privacy"))
    page.set_input_files("input[type=file]", file)
    expect(page.get_by_text("is not the first line of an export")).to_be_visible()
    expect(page.get_by_role("button", name="Import", exact=True)).to_have_count(0)


def test_a_body_has_an_end(address: str) -> None:
    """The browser checks the size of a file; the server does not trust it."""
    host, port = address.removeprefix("http://").removesuffix("/ui").split(":")
    with socket.create_connection((host, int(port)), 60) as large:
        head = f"POST /ui/x HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {10**9}\r\n\r\n"
        large.sendall(head.encode())
        assert b"413" in large.recv(100)
    endless = httpx.post(f"{address}/x", content=iter([b"a"]))
    assert 411 == endless.status_code


def test_the_first_token_locks_the_door_and_opens_it(address: str, dsn: str, page: Page) -> None:
    page.goto(place(address, "/privacy", ANA))
    expect(page.get_by_text("Until the first token exists")).to_be_visible()
    said = act(page, "Create a token")
    assert "never again" in said
    secret = page.get_by_label("Copy it now").input_value()
    assert secret.startswith("hippo_")
    while httpx.get(f"{address}/", follow_redirects=False).status_code == 200:
        pass  # the answer "there is no token" is remembered for five seconds
    page.goto(place(address, "/privacy", ANA))
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_text("you are logged in with it")).to_be_visible()
    assert "revoked" in act(page, "Revoke")


def cookie_of(address: str, dsn: str, *users: str, days: int | None = None) -> str:
    async def create() -> str:
        async with open_memory(dsn, worker=False) as memory:
            end = None if days is None else datetime.now(UTC) + timedelta(days=days)
            return (await memory.tokens.create(APP, users=users or None, expires_at=end)).text

    answer = httpx.post(f"{address}/login?next=%2Fui%2F", data={"token": now(create())})
    return str(answer.headers["set-cookie"]).partition(";")[0]


def test_a_token_reaches_only_its_own(dsn: str, tmp_path: Path) -> None:
    now(filled(dsn))

    async def ask() -> None:
        async with open_memory(dsn, worker=False) as memory:
            await memory.jobs.request(OTHER, "thread-b", delay_s=86_400)
            await memory.jobs.request(LIN, "thread-1", delay_s=86_400)
            await memory.erase(OTHER)
            await memory.jobs.request(OTHER, "thread-c", delay_s=86_400)
            await memory.tokens.create(OTHER.app, label="of-elsewhere")

    now(ask())
    with inspecting(dsn, tmp_path / "ui.log", "--auth") as address:
        of_app, of_ana = cookie_of(address, dsn), cookie_of(address, dsn, "ana")

        def text(cookie: str, path: str, scope: Scope | None = None, **params: str) -> str:
            got = httpx.get(place(address, path, scope, **params), headers={"cookie": cookie})
            assert 200 == got.status_code
            return got.text

        for cookie in (of_app, of_ana):
            for path in ("/runs", "/privacy"):
                assert "bob" not in text(cookie, path)
                assert "of-elsewhere" not in text(cookie, path)
        assert LIN.user in text(of_app, "/runs")
        assert LIN.user not in text(of_ana, "/runs")
        assert "Create a token" in text(of_app, "/privacy")
        assert "Create a token" not in text(of_ana, "/privacy")
        for cookie, scope, params in (
            (of_app, OTHER, {}),
            (of_ana, LIN, {}),
            (of_ana, ANA, {"whole": "true"}),
        ):
            got = httpx.get(place(address, "/export", scope, **params), headers={"cookie": cookie})
            assert 403 == got.status_code
        whole = httpx.get(
            place(address, "/export", app=APP, whole="true"), headers={"cookie": of_app}
        )
        assert 200 == whole.status_code and "attachment" in whole.headers["content-disposition"]
        assert 303 == httpx.get(place(address, "/export", ANA)).status_code


def test_a_token_imports_only_its_own(dsn: str, tmp_path: Path) -> None:
    now(filled(dsn))

    async def exported(scope: Scope) -> str:
        async with open_memory(dsn, worker=False) as memory:
            return "\n".join([*[line async for line in memory.export(scope)], ""])

    for name, scope in (("lin", LIN), ("bob", OTHER)):
        (tmp_path / f"{name}.jsonl").write_text(now(exported(scope)), "utf-8")
    with inspecting(dsn, tmp_path / "ui.log", "--auth") as address, browsing() as context:
        name, _, value = cookie_of(address, dsn, "ana", days=2).partition("=")
        context.add_cookies([{"name": name, "value": value, "url": address}])
        page = context.new_page()
        page.goto(place(address, "/privacy", ANA))
        for file, why in (("lin", "for other users"), ("bob", "for other users")):
            page.set_input_files("input[type=file]", tmp_path / f"{file}.jsonl")
            expect(page.get_by_text(why).first).to_be_visible()
            page.reload()
        expect(page.get_by_role("button", name="Import", exact=True)).to_have_count(0)


def test_a_new_token_may_not_outlive_its_maker(dsn: str, tmp_path: Path) -> None:
    now(fill(dsn))
    with inspecting(dsn, tmp_path / "ui.log", "--auth") as address, browsing() as context:
        name, _, value = cookie_of(address, dsn, days=2).partition("=")
        context.add_cookies([{"name": name, "value": value, "url": address}])
        page = context.new_page()
        page.goto(place(address, "/privacy"))
        page.get_by_role("button", name="Create a token", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Create a token").click()
        expect(page.get_by_text("may not outlive it")).to_be_visible()


def test_read_only_pages_offer_nothing(dsn: str, tmp_path: Path) -> None:
    now(fill(dsn))
    with inspecting(dsn, tmp_path / "ui.log", "--read-only") as address, browsing() as context:
        page = context.new_page()
        page.goto(place(address, "/runs", ANA, thread="thread-1"))
        expect(page.get_by_text("4 turns read")).to_be_visible()
        for label in ("Undo", "Consolidate now", "Reflect now"):
            expect(page.get_by_role("button", name=label)).to_have_count(0)
        page.goto(place(address, "/privacy", ANA))
        expect(page.get_by_role("heading", name="Receipts")).to_be_visible()
        for label in ("Erase everything of ana", "Create a token"):
            expect(page.get_by_role("button", name=label)).to_have_count(0)
        expect(page.locator("input[type=file]")).to_have_count(0)
