"""The command that runs a suite and writes its report, for both packages of suites."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from langgraph_store.conformance.factories import BadFactory, Factory
from langgraph_store.conformance.report import Report
from langgraph_store.conformance.running import Recorder, run

FAILED = 1
BAD_INPUT = 2


class BadInput(ValueError):
    """An argument of the command cannot be used."""


class CommandParser(ArgumentParser):
    """Raises BadInput instead of printing its usage."""

    def error(self, message: str) -> None:  # type: ignore[override] # it raises instead
        raise BadInput(message)


def add_options(parser: ArgumentParser) -> None:
    """Add the options that the commands of all suites share."""
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the report as one page")
    parser.add_argument(
        "--area", metavar="TEXT", default="", help="run only the areas whose title has this text"
    )
    parser.add_argument("--name", help="name in the report; default: the name of the class")
    parser.add_argument(
        "--unsupported", metavar="FEATURE[=REASON]", action="append", default=[],
        help="skip the tests of an optional feature; may be repeated",
    )  # fmt: skip


def named_features(given: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return what --unsupported names, each with its reason."""
    named = {}
    for text in given:
        feature, _, reason = text.partition("=")
        if feature not in known:
            raise BadInput(
                f"--unsupported must name one of {', '.join(sorted(known))}, got {feature!r}"
            )
        named[feature] = reason or "unsupported"
    return named


def report(
    arguments: Namespace,
    *,
    suite: Path,
    title: str,
    name: str,
    factory: Factory,
    unsupported: Mapping[str, str],
    rewritten: Iterable[str],
    packages: Iterable[str],
) -> int:
    """Run a suite, print and write its report, and return the exit code of the command."""
    page: Path | None = arguments.html
    if page is not None and not page.parent.is_dir():
        raise BadInput(f"--html {str(page)!r}: the folder {str(page.parent)!r} does not exist")
    recorder = Recorder(factory, unsupported, list(rewritten), arguments.area)
    run(suite, recorder)
    if recorder.broken:
        raise BadInput(f"the suite cannot run: {recorder.broken[0]}")
    if not recorder.results:
        raise BadInput(f"--area must be in the title of an area, got {arguments.area!r}")
    if arguments.area:
        title = f"{title}, areas with {arguments.area!r} only"
    made = Report.of(title, arguments.name or name, dict.fromkeys(packages), recorder.results)
    if page is not None:
        try:
            page.write_text(made.html(), "utf-8")
        except OSError as error:
            raise BadInput(f"--html {str(page)!r} cannot be written: {error}") from error
    sys.stdout.write(made.text() + "\n")
    return FAILED if made.failed else 0


def refused(error: BadInput | BadFactory) -> int:
    """Print why a command cannot run, in one line, and return its exit code."""
    sys.stderr.write(f"error: {error}\n")
    return BAD_INPUT
