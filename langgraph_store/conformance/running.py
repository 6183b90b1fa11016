"""Runs a suite in this process with pytest, and collects what became of each test."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from langgraph_store.conformance.factories import Factory

PLUGIN = "conformance-report"
SETTINGS = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
"""
MAX_REASON = 300
"""Maximum length of the reason of a failure, in characters."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of one test, or of one case of it."""

    area: str
    """What the area promises, in one sentence."""
    test: str
    """The name of the test in words."""
    case: str
    """The case and the mode, or an empty text."""
    outcome: str
    """ "passed", "failed" or "skipped"."""
    reason: str = ""
    """Why it failed or was skipped."""


class Recorder:
    """The plugin of one run: it gives the suite its factory, and keeps the results.

    Args:
        factory: makes what is tested.
        unsupported: as of the suite.
        rewritten: modules whose assertions explain their failure.
        only: a text that the title of an area must have.
    """

    def __init__(
        self,
        factory: Factory,
        unsupported: Mapping[str, str],
        rewritten: Sequence[str],
        only: str = "",
    ) -> None:
        self.factory = factory
        self._unsupported = dict(unsupported)
        self._rewritten = rewritten
        self._only = only
        self._named: dict[str, tuple[str, str, str]] = {}
        self._order: dict[str, int] = {}
        self._found: dict[str, CaseResult] = {}
        self.broken: list[str] = []
        """Why the suite could not be collected."""

    @property
    def results(self) -> list[CaseResult]:
        """All results, area by area in the order of the suite."""
        found = [self._found[node] for node in self._named if node in self._found]
        return sorted(found, key=lambda result: self._order[result.area])

    def pytest_configure(self) -> None:
        # Registered once more: pytest was not running when the package was imported.
        pytest.register_assert_rewrite(*self._rewritten)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken.append(_reason(report))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            test: Any = item
            test.cls.unsupported = self._unsupported
            name = test.originalname
            area, position = _area(test.cls, name)
            if self._only not in area:
                continue
            self._order[area] = position
            self._named[item.nodeid] = (
                area,
                name.removeprefix("test_").replace("_", " "),
                item.name.removeprefix(name)[1:-1],
            )
        items[:] = [item for item in items if item.nodeid in self._named]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            before = self._found.get(report.nodeid)
            if before is None or before.outcome == "passed":
                reason = "" if report.passed else _reason(report)
                self._found[report.nodeid] = CaseResult(
                    *self._named[report.nodeid], outcome=report.outcome, reason=reason
                )


def run(suite: Path, recorder: Recorder) -> int:
    """Run the tests of a file, without the configuration and the plugins of the caller.

    Returns pytest's exit code.
    """
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ.pop("PYTEST_PLUGINS", None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with TemporaryDirectory(prefix="conformance-") as folder:
        settings = Path(folder, "pytest.ini")
        settings.write_text(SETTINGS, "utf-8")
        return int(
            pytest.main(
                [
                    f"--config-file={settings}", f"--rootdir={folder}", "--noconftest", "-p",
                    "pytest_asyncio.plugin", "-p", "no:cacheprovider", "-p", "no:terminal",
                    str(suite),
                ],
                plugins=[_Named(recorder)],
            )
        )  # fmt: skip


class _Named:
    """Registers a recorder by its name."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.register(self._recorder, PLUGIN)


def factory_of(request: pytest.FixtureRequest) -> Factory:
    """Return the factory of the run that a fixture belongs to."""
    recorder: Recorder = request.config.pluginmanager.get_plugin(PLUGIN)  # type: ignore[assignment]
    return recorder.factory


def _area(suite: type, test: str) -> tuple[str, int]:
    """Return what the class of a test promises, and its position in the suite."""
    for position, owner in enumerate(suite.__mro__):
        if test in vars(owner):
            return (inspect.getdoc(owner) or owner.__name__).partition("\n")[0], position
    raise LookupError(test)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    told: Any = report.longrepr
    if isinstance(told, tuple):  # file, line and reason of a skip
        text = str(told[2]).removeprefix("Skipped: ")
    elif (crash := getattr(told, "reprcrash", None)) is not None:
        text = crash.message.partition("\n")[0]
    else:
        text = str(told)
    if getattr(report, "when", "call") == "teardown":
        text = f"after the test: {text}"
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 1]}…"
