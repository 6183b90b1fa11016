"""Nouns of things: what a noun phrase may speak of that is nobody. Data in rules/things.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Things:
    """Nouns of things: English words, how such words end, what ends a phrase; Chinese words."""

    en: frozenset[str]
    en_endings: tuple[str, ...]
    en_stops: frozenset[str]
    zh: tuple[str, ...]


@lru_cache
def load_things() -> Things:
    """Return the nouns that no pronoun of a person stands for."""
    text = (files("shared_core.nlp.rules") / "things.toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)
    return Things(
        en=frozenset(found["en"].split()),
        en_endings=tuple(found["en_endings"]),
        en_stops=frozenset(found["en_stops"].split()),
        zh=tuple(found["zh"]),
    )
