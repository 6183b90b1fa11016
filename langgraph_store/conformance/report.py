"""The report of a run: a table for the terminal, and a page of HTML that can be published."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, files, packages_distributions, version

from langgraph_store.conformance.running import CaseResult

OUTCOMES = ("passed", "failed", "skipped")

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100%; margin: 0 0 2rem }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0;
         border-bottom: 1px solid #ddd; overflow-wrap: anywhere }
td.n, th.n { text-align: right }
.passed { color: #17692f } .failed { color: #b3141d; font-weight: bold } .skipped { color: #666 }
"""


@dataclass(frozen=True, slots=True)
class Report:
    """The results of one run, with the names and versions that they are true for."""

    title: str
    name: str
    versions: dict[str, str]
    results: Sequence[CaseResult]
    at: datetime

    @classmethod
    def of(
        cls, title: str, name: str, packages: Iterable[str], results: Sequence[CaseResult]
    ) -> Report:
        """Return the report of a run that just ended on this machine."""
        known = {package: _version(package) for package in packages}
        return cls(
            title,
            name,
            {"Python": platform.python_version(), "System": platform.system(), **known},
            results,
            datetime.now(UTC),
        )

    @property
    def failed(self) -> bool:
        return any(result.outcome == "failed" for result in self.results)

    def text(self) -> str:
        """Return a table of the areas, and one line for each test that failed."""
        rows = [*self._areas(), ("All", Counter(result.outcome for result in self.results))]
        width = max(len(area) for area, _ in rows)
        lines = [f"{self.name}: {self.title}", _versions_line(self.versions), ""]
        lines.append(f"{'':{width}}" + "".join(f"{outcome:>9}" for outcome in OUTCOMES))
        for area, counts in rows:
            lines.append(f"{area:{width}}" + "".join(f"{counts[o]:>9}" for o in OUTCOMES))
        return "\n".join([*lines, *self._failures()])

    def _failures(self) -> list[str]:
        """Return one line for each test that failed, with the reason of its first failure."""
        failed: dict[str, list[str]] = {}
        for result in self.results:
            if result.outcome == "failed":
                failed.setdefault(result.test, []).append(result.reason)
        total = Counter(result.test for result in self.results)
        return [
            f"failed: {test} ({len(reasons)} of {total[test]}): {reasons[0]}"
            for test, reasons in failed.items()
        ]

    def html(self) -> str:
        """Return one page that needs nothing else: no script, no network."""
        counts = Counter(result.outcome for result in self.results)
        facts = {"Date": f"{self.at:%Y-%m-%d %H:%M} UTC", **self.versions}
        body = [
            f"<h1>{escape(self.name)}</h1>",
            f"<p>{escape(self.title)}</p>",
            _table([], [[escape(key), escape(value)] for key, value in facts.items()]),
            _table(
                ["Area", *OUTCOMES],
                [
                    *([escape(area), *_cells(found)] for area, found in self._areas()),
                    ["All", *_cells(counts)],
                ],
            ),
        ]
        for area, _ in self._areas():
            body.append(f"<h2>{escape(area)}</h2>")
            body.append(_table(["Test", "Result", "Reason"], [
                [escape(_named(result)), _marked(result.outcome, result.outcome),
                 escape(result.reason)]
                for result in self.results if result.area == area
            ]))  # fmt: skip
        return PAGE.format(title=escape(self.name), style=STYLE, body="\n".join(body))

    def _areas(self) -> list[tuple[str, Counter[str]]]:
        counts: dict[str, Counter[str]] = {}
        for result in self.results:
            counts.setdefault(result.area, Counter())[result.outcome] += 1
        return list(counts.items())


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def distribution_of(thing: object) -> str | None:
    """Return the name of the package that a class comes from, if it is installed."""
    module = type(thing).__module__
    found = packages_distributions().get(module.partition(".")[0], [])
    path = module.replace(".", "/")
    names = {f"{path}.py", f"{path}/__init__.py"}
    for name in found:  # several packages may share a namespace
        if any(str(file) in names for file in files(name) or ()):
            return name
    return found[0] if len(set(found)) == 1 else None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _versions_line(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _named(result: CaseResult) -> str:
    return f"{result.test} [{result.case}]" if result.case else result.test


def _marked(outcome: str, text: str) -> str:
    return f'<span class="{outcome}">{text}</span>'


def _cells(counts: Counter[str]) -> list[str]:
    return [_marked(o, str(counts[o])) if counts[o] else "0" for o in OUTCOMES]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{name}</th>" for name in head)
    lines = [f"<tr>{top}</tr>"] if head else []
    lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join(["<table>", *lines, "</table>"])
