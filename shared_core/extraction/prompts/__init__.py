"""Prompts: one Markdown file each, with its version in the name.

A file has a header with its purpose, the system text, and after a line "--- user ---" the prompt
with {{placeholders}}. Never edit a prompt in use, add a new version: stored memories name it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final

HEADER: Final = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
USER: Final = "--- user ---\n"
PLACE: Final = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt; version is its file name, e.g. "extract.v4"."""

    version: str
    system: str
    user: str

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the prompt with its placeholders filled. Raises KeyError for a missing value.

        Values are not searched for placeholders: users may write "{{facts}}".
        """
        return PLACE.sub(lambda match: values[match[1]], self.user)


@lru_cache
def load_prompt(version: str) -> Prompt:
    """Return the prompt in a file of this folder."""
    text = (files(__package__) / f"{version}.md").read_text(encoding="utf-8")
    system, _, user = HEADER.sub("", text, count=1).partition(USER)
    return Prompt(version=version, system=system.strip(), user=user.strip())
