"""Which language people read: English or Chinese, with both texts side by side in the code."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal, TypeAlias

Language: TypeAlias = Literal["en", "zh"]

LANGUAGE_VARIABLE: Final = "HIPPOCAMPUS_LANG"
"""Environment variable that takes precedence over the locale: en, zh or a locale."""

LOCALE_VARIABLES: Final = ("LC_ALL", "LC_MESSAGES", "LANG")
"""Environment variables of the locale, as POSIX orders them."""

_spoken: ContextVar[Language | None] = ContextVar("hippocampus_language", default=None)


def in_language(language: Language, english: str, chinese: str) -> str:
    """Return the one of two texts that is in the language."""
    return chinese if language == "zh" else english


def t(english: str, chinese: str) -> str:
    """Return the one of two texts that is in the language of spoken_language()."""
    return in_language(spoken_language(), english, chinese)


def spoken_language() -> Language:
    """Return the language of the innermost speaking() block, else that of the environment."""
    return _spoken.get() or language_of(os.environ)


@contextmanager
def speaking(language: Language | None) -> Iterator[None]:
    """Make t() return texts of a language inside the block. None keeps the present language."""
    token = _spoken.set(language or _spoken.get())
    try:
        yield
    finally:
        _spoken.reset(token)


def language_of(environ: Mapping[str, str]) -> Language:
    """Return the language that environment variables ask for: English unless they say Chinese.

    As in GNU gettext, LANGUAGE counts unless the locale is C.
    """
    if chosen := environ.get(LANGUAGE_VARIABLE, "").strip():
        return _named(chosen)
    locale = next((environ[name] for name in LOCALE_VARIABLES if environ.get(name)), "C")
    if locale.partition(".")[0] in ("C", "POSIX"):
        return "en"
    return _named(environ.get("LANGUAGE") or locale)


def _named(name: str) -> Language:
    return "zh" if name.lower().startswith("zh") else "en"
