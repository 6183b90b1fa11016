"""Recognises the product that wrote a file, and reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from shared_core.errors import InvalidInput
from shared_core.transfer.sources import chatgpt, claude, letta, mem0, zep
from shared_core.transfer.sources.json_file import JsonFile, json_files, listed_names, member_names
from shared_core.transfer.sources.records import Record, SkippedRecord, TurnRecord, name_of

Reader: TypeAlias = Callable[[JsonFile, str | None], Iterator[Record]]


@dataclass(frozen=True, slots=True)
class Format:
    """How a product's export looks. fits: whether the kind and the fields of a document fit.

    accounts: prefix of ijson for the ids of the accounts that the records name as their users.
    others: expressions for further members of an archive, with what their entries are. They are
    counted and not read.
    """

    product: str
    read: Reader
    fits: Callable[[str, Sequence[str]], bool]
    what: str
    accounts: str = ""
    others: Sequence[tuple[re.Pattern[str], str]] = ()


FORMATS = (
    Format("chatgpt", chatgpt.read, chatgpt.fits, "an array of conversations with 'mapping'"),
    Format(
        "claude",
        claude.read,
        claude.fits,
        "an array of conversations with 'chat_messages'",
        "item.account.uuid",
        claude.OTHERS,
    ),
    Format("letta", letta.read, letta.fits, "an agent file with 'agents' and 'blocks'"),
    Format("zep", zep.read, zep.fits, "an object with 'episodes', 'nodes' and 'edges'"),
    Format("mem0", mem0.read, mem0.fits, "an object with 'results', or an array with 'memory'"),
)
PRODUCTS = {one.product: one for one in FORMATS} | {
    "graphiti": Format("graphiti", zep.read, zep.fits, FORMATS[3].what)
}


@dataclass(frozen=True, slots=True)
class FileSource:
    """The export of a product in one or more JSON documents."""

    path: Path
    format: Format
    files: tuple[JsonFile, ...]

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def product(self) -> str:
        """The name of the product that wrote the file."""
        return self.format.product

    def records(self, user: str | None = None) -> Iterator[Record]:
        """Yield the records of all documents, from the beginning.

        user: the name of the user, as in RecordSource.records().
        The id of an account names nobody, so it is a user only where there are several.
        """
        prefix = self.format.accounts
        ids = (one for file in self.files for one in (file.items(prefix) if prefix else ()))
        accounts = {name for one in ids if (name := name_of(one))}
        for file in self.files:
            for record in self.format.read(file, user):
                if len(accounts) == 1 and isinstance(record, TurnRecord):
                    record = replace(record, user=None)
                yield record
        for file, reason in _others(self.path, self.format):
            for _ in range(file.count()):
                yield SkippedRecord(reason)


def _others(path: Path, product: Format) -> Iterator[tuple[JsonFile, str]]:
    """Yield the members of an archive that are only counted, with what their entries are."""
    for name in (member_names(path) or []) if product.others else ():
        reason = next((what for one, what in product.others if one.search(name)), None)
        if reason is not None:
            yield JsonFile(path, name), reason


def open_source(path: str | Path, product: str | None = None) -> FileSource:
    """Return the export in a JSON file or a zip archive.

    Args:
        path: The file.
        product: "chatgpt", "claude", "graphiti", "letta", "mem0" or "zep". By default the file
            itself shows it.

    Raises:
        NotFound: The file cannot be read.
        InvalidInput: It is no JSON, or of another product.
    """
    if product is not None and product not in PRODUCTS:
        raise InvalidInput(
            f"product must be one of {', '.join(sorted(PRODUCTS))}, got {product!r:.80}"
        )
    path = Path(path)
    files = json_files(path)
    kind, fields = files[0].outline()
    if kind == "array" and not fields and product is not None:
        return FileSource(path, PRODUCTS[product], tuple(files))  # an empty array is of anybody
    found = next((one for one in FORMATS if one.fits(kind, fields)), None)
    if found is None:
        of = "its first entry" if kind == "array" else "its object"
        raise InvalidInput(
            f"{files[0].name} is of no product that can be imported: {of} has"
            f" {listed_names(list(fields))}. {_expected(product)}"
        )
    wanted = PRODUCTS[product] if product else found
    if wanted.read is not found.read:
        raise InvalidInput(
            f"{files[0].name} is an export of {found.product}, not of {product}: import it with"
            f" --from {found.product}"
        )
    return FileSource(path, wanted, tuple(files))


def _expected(product: str | None) -> str:
    formats = [PRODUCTS[product]] if product else FORMATS
    return "Expected is " + ", or ".join(f"{one.what} ({one.product})" for one in formats)
