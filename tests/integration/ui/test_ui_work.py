"""The pages of the inspector about runs, jobs, erasures, exports, imports and tokens."""

import json
import socket
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from browser import in_browser
from every_case import every_case
from inspector import ANA, link, sent
from inspector_actions import act, close
from playwright.sync_api import Page, expect
from turns import said

from shared_core import MemoryEngine, Scope, open_memory, run_sync
from shared_core.ports.jobs import JobStatus, JobType

pytestmark = in_browser


@pytest.fixture
def bob(memory, scope):
    """A user of another application."""
    run_sync(memory.append_events(scope, "thread-b", [said("b1", "I live in Oslo.")]))
    return scope


def facts(memory: MemoryEngine, scope: Scope) -> list[str]:
    return sorted(f"{one.slot}={one.value}" for one in run_sync(memory.facts(scope)))


def states(memory: MemoryEngine, scope: Scope) -> list[JobStatus]:
    """Return the states of the consolidations of a user."""
    jobs = run_sync(memory.jobs.list(scope, statuses=[*JobStatus]))
    return [one.status for one in jobs if one.job_type is JobType.FULL_CONSOLIDATION]


def count(memory: MemoryEngine, scope: Scope) -> int:
    return run_sync(memory.count_memories(scope))


def exported(memory: MemoryEngine, scope: Scope) -> str:
    async def lines() -> list[str]:
        return [line async for line in memory.export(scope)]

    return "\n".join([*run_sync(lines()), ""])


def test_a_run_is_undone_and_made_again(page, ana, memory):
    before = facts(memory, ana)
    assert before
    page.goto(link("runs", ana, thread="thread-1"))
    expect(page.get_by_text("4 turns read")).to_be_visible()
    assert "The run is undone" in act(page, "Undo", closes=False)
    assert [] == facts(memory, ana)
    close(page)
    expect(page.get_by_text("Undone at")).to_be_visible()
    assert "4 turns read" in act(page, "Consolidate now")
    assert before == facts(memory, ana)
    assert "nothing changed" in act(page, "Consolidate now")
    assert act(page, "Reflect now")


def test_a_job_is_cancelled(page, ana, lin, memory):
    for one in (ana, lin):
        run_sync(memory.jobs.request(one, "thread-1", JobType.FULL_CONSOLIDATION, delay_s=86_400))
    page.goto(link("runs", ana, of="all"))
    expect(page.get_by_text(f"{lin.app} / {lin.user}")).to_be_visible()
    page.goto(link("runs", ana))
    expect(page.get_by_text("due in")).to_have_count(1)
    assert "cancelled" in act(page, "Cancel the job")
    assert [JobStatus.CANCELLED] == states(memory, ana)
    assert [JobStatus.PENDING] == states(memory, lin)
    expect(page.get_by_text("There is no such job")).to_be_visible()
    page.get_by_role("link", name="cancelled", exact=True).click()
    expect(page.locator(".panel").get_by_text("cancelled", exact=True)).to_be_visible()


def test_a_dead_job_is_tried_again(page, ana, inspector, caplog):
    def broken(prompt: str) -> str:
        raise ConnectionError

    async def fail() -> JobStatus:
        async with open_memory(inspector.dsn, worker=False, llm=broken) as memory:
            turn = said("new", "I play the cello.")
            await memory.append_events(ana, "thread-1", [turn], later=True)
            return (await memory.jobs.run(ana, "thread-1")).status

    assert JobStatus.FAILED is run_sync(fail())
    caplog.clear()  # which has logged the failure
    page.goto(link("runs", ana))
    expect(page.get_by_text("ModelUnavailable").first).to_be_visible()
    assert "1 put back" in act(page, "Try again")
    assert JobStatus.FAILED not in states(inspector.memory, ana)


def test_a_user_is_erased_after_the_name_was_typed(page, ana, lin, memory):
    page.goto(link("privacy", lin))
    page.get_by_role("button", name=f"Erase everything of {lin.user}").click()
    dialog = page.get_by_role("dialog")
    yes = dialog.get_by_role("button", name=f"Erase everything of {lin.user}")
    dialog.get_by_role("textbox").fill("ana")
    expect(yes).to_be_disabled()
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    told = act(page, f"Erase everything of {lin.user}", typed=lin.user)
    assert "memories" in told and "Receipt" in told
    assert 0 == count(memory, lin) < count(memory, ana)
    expect(page.get_by_text("as it was written")).to_be_visible()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save the receipt").click()
    assert lin.user == json.loads(saving.value.path().read_text("utf-8"))["user_id"]


def test_an_export_comes_back(page, ana, memory, tmp_path):
    page.goto(link("privacy", ana))
    with page.expect_download() as saving:
        page.get_by_role("link", name="Everything of ana").click()
    assert saving.value.suggested_filename.endswith(f"{ana.app}-ana.jsonl")
    file = tmp_path / "ana.jsonl"
    saving.value.save_as(file)
    lines = file.read_text("utf-8").splitlines()
    assert {"app": ana.app, "user": "ana"} == json.loads(lines[0])["of"]
    assert json.loads(lines[-1])["rows"] == len(lines) - 2
    before = count(memory, ana)
    act(page, "Erase everything of ana", typed="ana")
    page.set_input_files("input[type=file]", file)
    expect(page.get_by_text("Without vectors")).to_be_visible()
    page.get_by_text("Also write what was forgotten or erased here").click()
    assert "rows written" in act(page, "Import")
    assert before == count(memory, ana)


def test_what_is_no_export_is_refused(page, tmp_path):
    file = tmp_path / "other.jsonl"
    file.write_text('{"a": 1}\n')
    page.goto(link("privacy"))
    page.set_input_files("input[type=file]", file)
    expect(page.get_by_text("is not the first line of an export")).to_be_visible()
    expect(page.get_by_role("button", name="Import", exact=True)).to_have_count(0)


def test_a_body_has_an_end(inspector):
    """The browser checks the size of a file; the server does not trust it."""
    host, port = inspector.address.removeprefix("http://").removesuffix("/ui").split(":")
    with socket.create_connection((host, int(port)), 60) as large:
        head = f"POST /ui/x HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {10**9}\r\n\r\n"
        large.sendall(head.encode())
        assert b"413" in large.recv(100)
    assert 411 == httpx.post(f"{inspector.address}/x", content=iter([b"a"]), timeout=60).status_code


def test_the_first_token_locks_the_door_and_opens_it(whole, page, monkeypatch):
    monkeypatch.setattr("shared_core.jobs.api_tokens.LOOK_AGAIN_S", 0.0)  # nothing is remembered
    page.goto(link("privacy", ANA))
    expect(page.get_by_text("Until the first token exists")).to_be_visible()
    assert "never again" in act(page, "Create a token", closes=False)
    secret = page.get_by_label("Copy it now").input_value()
    assert secret.startswith("hippo_")
    page.goto(link("privacy", ANA))
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_text("you are logged in with it")).to_be_visible()
    assert "revoked" in act(page, "Revoke", closes=False)


def login(
    memory: MemoryEngine, address: str, app: str, *users: str, days: int | None = None
) -> dict[str, str]:
    """Return the cookie of a login with a new token, for an application or some of its users."""
    end = None if days is None else datetime.now(UTC) + timedelta(days=days)
    new = run_sync(memory.tokens.create(app, users=users or None, expires_at=end))
    to = f"{address}/login?next=%2Fui%2F"
    return dict(httpx.post(to, data={"token": new.text}, timeout=60).cookies)


def logged_in(page: Page, cookies: dict[str, str], address: str) -> None:
    """Give a page the cookie of a login."""
    [(name, value)] = cookies.items()
    page.context.add_cookies([{"name": name, "value": value, "url": address}])


def test_a_token_reaches_only_its_own(locked, memory, ana, lin, bob):
    run_sync(memory.jobs.request(bob, "thread-b", delay_s=86_400))
    run_sync(memory.jobs.request(lin, "thread-1", delay_s=86_400))
    run_sync(memory.erase(bob))
    run_sync(memory.jobs.request(bob, "thread-c", delay_s=86_400))
    run_sync(memory.tokens.create(bob.app, label="of-elsewhere"))
    of_app, of_ana = login(memory, locked, ana.app), login(memory, locked, ana.app, "ana")

    def asked(cookies: dict[str, str], path: str, *of: Scope, **params: str) -> httpx.Response:
        return httpx.get(f"{locked}/{link(path, *of, **params)}", cookies=cookies, timeout=60)

    def text(cookies: dict[str, str], path: str) -> str:
        got = asked(cookies, path)
        assert 200 == got.status_code
        return got.text

    for cookies in (of_app, of_ana):
        for path in ("runs", "privacy"):
            assert bob.user not in text(cookies, path)
            assert "of-elsewhere" not in text(cookies, path)
    assert lin.user in text(of_app, "runs")
    assert lin.user not in text(of_ana, "runs")
    assert "Create a token" in text(of_app, "privacy")
    assert "Create a token" not in text(of_ana, "privacy")
    for cookies, one, params in (
        (of_app, bob, {}),
        (of_ana, lin, {}),
        (of_ana, ana, {"whole": "true"}),
    ):
        assert 403 == asked(cookies, "export", one, **params).status_code
    everything = asked(of_app, "export", app=ana.app, whole="true")
    assert 200 == everything.status_code
    assert "attachment" in everything.headers["content-disposition"]
    assert 303 == asked({}, "export", ana).status_code


def test_a_token_imports_only_its_own(locked, memory, ana, lin, bob, page, tmp_path):
    logged_in(page, login(memory, locked, ana.app, "ana", days=2), locked)
    page.goto(link("privacy", ana))
    for one in (lin, bob):
        file = tmp_path / "other.jsonl"
        file.write_text(exported(memory, one), "utf-8")
        page.set_input_files("input[type=file]", file)
        expect(page.get_by_text("for other users").first).to_be_visible()
        page.reload()
    expect(page.get_by_role("button", name="Import", exact=True)).to_have_count(0)


def test_a_new_token_may_not_outlive_its_maker(locked, memory, ana, page):
    logged_in(page, login(memory, locked, ana.app, days=2), locked)
    page.goto(link("privacy"))
    page.get_by_role("button", name="Create a token", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Create a token").click()
    expect(page.get_by_text("may not outlive it")).to_be_visible()


@every_case(
    ("runs", "4 turns read", ("Undo", "Consolidate now", "Reflect now")),
    ("privacy", "Receipts", ("Erase everything of ana", "nicegui-upload")),
)
def test_read_only_pages_offer_nothing(path, shown, labels, inspector):
    thread = {"thread": "thread-1"} if path == "runs" else {}
    address = f"{inspector.address}/{link(path, ANA, **thread)}"
    assert {*labels} <= {*sent(address)}
    with inspector.showing(read_only=True):
        texts = sent(address)
    assert any(shown in one for one in texts)
    assert {*labels}.isdisjoint(texts)
    assert not [one for one in texts if "Create a token" in one]


@pytest.mark.parametrize(
    ("path", "shown", "labels"),
    [
        ("memories", "My dog is called Pickle.", ("Forget", "Pin", "Remember")),
        ("forgetting", "built in", ("Set the preset", "Run forgetting now")),
    ],
)
def test_read_only_pages_of_tables_offer_nothing(page, inspector, path, shown, labels):
    with inspector.showing(read_only=True):
        page.goto(link(path, ANA, thread="thread-1"))
        expect(page.get_by_text(shown).first).to_be_visible()
        for label in labels:
            expect(page.get_by_role("button", name=label)).to_have_count(0)
        expect(page.locator("main :is(input[type=file], [role=checkbox])")).to_have_count(0)
