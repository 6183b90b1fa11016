"""What an examination of a memory finds, on whatever engine it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One thing looked at. advice: how to mend a problem, or what a note is about."""

    check: str
    status: Status
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """The embedder in use, tried out; dimensions is None when it failed."""

    name: str
    dimensions: int | None
    finding: CheckResult


def problem(check: str, found: str, advice: str) -> CheckResult:
    """Return a problem, on one line."""
    return CheckResult(check=check, status="problem", found=" ".join(found.split()), advice=advice)


def vectors_finding(rows: Sequence[tuple[Any, ...]], model: Model) -> CheckResult:
    """Tell whether the embedder made the stored vectors. rows: the active model, or none."""
    if not rows:
        return CheckResult(check="vectors", status="ok", found="none stored yet")
    [(name, dimensions)] = rows
    found = f"made by {name}, {dimensions} dimensions"
    if model.dimensions is not None and (name, dimensions) != (model.name, model.dimensions):
        advice = "choose with --embedder the one that made them, or another --schema"
        return problem("vectors", f"{found}; the embedder in use is {model.name}", advice)
    return CheckResult(check="vectors", status="ok", found=found)


def queue_finding(waiting: int, callbacks: int, failed: int) -> CheckResult:
    """Tell what waits in the queue: jobs and callbacks that are due, and jobs given up."""
    if not (waiting or callbacks or failed):
        return CheckResult(check="queue", status="ok", found="nothing waits, nothing failed")
    found = f"{waiting} jobs are due and untaken, {failed} were given up"
    advice = ["hippocampus jobs shows them"]
    if waiting:
        advice.append("hippocampus worker --once does what is due")
    if failed:
        advice.append("hippocampus jobs --retry all puts back what was given up")
    if callbacks:
        found += f", {callbacks} wait for a process that knows their code"
        advice.append("callbacks are done by a process that has their reflector, by no worker")
    return CheckResult(check="queue", status="note", found=found, advice="; ".join(advice))
