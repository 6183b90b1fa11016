"""CI installs the oldest release of each framework that pyproject.toml allows, and no other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS = ("adk", "langgraph", "langchain", "mcp")
"""The extras whose requirements are frameworks."""
TOOLS = {"uvicorn", "pg-hippocampus"}
"""Requirements of these extras that are no frameworks."""


def floors() -> dict[str, list[int]]:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = [one for extra in EXTRAS for one in extras["optional-dependencies"][extra]]
    found = [re.fullmatch(r"([\w-]+)(?:\[.*\])?(?:>=([\d.]+))?.*", one) for one in required]
    return {one[1]: numbers(one[2]) for one in found if one and one[1] not in TOOLS}


def numbers(version: str) -> list[int]:
    parts = [int(part) for part in version.split(".")]
    return parts + [0] * (3 - len(parts))


def test_the_oldest_frameworks_are_those_of_pyproject() -> None:
    lines = (ROOT / ".ci/oldest.txt").read_text("utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert floors() == {name: numbers(version) for name, version in pinned.items()}
