"""Numbered migrations, the same number on every engine: an export of one engine fits the other."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Final

from shared_core.errors import SchemaOutOfDate

_NAME = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema. Its checksum shows an edit: a released migration is never edited."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()[:16]


def migrations_in(folder: Traversable) -> tuple[Migration, ...]:
    """Return the migrations of a folder in order; their versions are 1, 2, 3, ..."""
    found = [
        Migration(int(match[1]), match[2], file.read_text("utf-8"))
        for file in folder.iterdir()
        if (match := _NAME.fullmatch(file.name))
    ]
    found.sort(key=lambda migration: migration.version)
    if [one.version for one in found] != list(range(1, len(found) + 1)):
        raise AssertionError("the migrations are not numbered 1, 2, 3, ...")
    return tuple(found)


def check_applied(place: str, applied: Mapping[int, str], known: Sequence[Migration]) -> None:
    """Raise SchemaOutOfDate unless this library can work with the migrations a database has.

    Args:
        place: the schema or database, for the message.
        applied: checksums of the applied migrations, by version.
        known: the migrations of this library.
    """
    if is_of_development(applied, known):
        raise SchemaOutOfDate(
            f"{place} was made by a development version of pg-hippocampus, whose migrations are"
            f" not those of a release: {WAY_OUT_OF_DEVELOPMENT}"
        )
    newest = max(applied, default=0)
    if newest > len(known):
        raise SchemaOutOfDate(
            f"{place} is at version {newest}, this library knows only {len(known)}: upgrade it"
            " with pip install -U pg-hippocampus"
        )


WAY_OUT_OF_DEVELOPMENT: Final = (
    "export it with the version that wrote it ('hippocampus export APP --out FILE'), then import"
    " into another schema ('hippocampus import FILE --schema NEW') or database ('--uri URI')"
)


def is_of_development(applied: Mapping[int, str], known: Sequence[Migration]) -> bool:
    """Return whether a migration is not the released one of its number.

    Releases only ever add migrations, so a newer release has all of ours unchanged. Development
    versions numbered theirs up to 34 and began with another migration 1.
    """
    newest = max(applied, default=0)
    return any(applied.get(one.version) != one.checksum for one in known if one.version <= newest)
