"""Streams JSON out of a file or out of a zip archive, so that large exports fit into memory."""

from __future__ import annotations

import codecs
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import ijson

from shared_core.errors import InvalidInput, NotFound
from shared_core.transfer.lines import opened

BOM = b"\xef\xbb\xbf"
CONVERSATIONS = re.compile(r"(?:^|/)conversations(?:-\d+)?\.json$")
"""Matches the members of an archive that hold conversations. Large exports have several."""
DAMAGED = (zipfile.BadZipFile, zlib.error)
LONG_NUMBER = re.compile(rb"\d{4000}")
"""Matches digits that may be a number of more than 4,300, which Python refuses to read."""
CHUNK = 1 << 20
"""Bytes that are looked at at a time."""
UTF_16 = (b"\xff\xfe", b"\xfe\xff", b"[\0", b"{\0", b"\0[", b"\0{")
"""How a document in UTF-16 begins."""
BEGINS = (b"[", b"{", b'"{')
"""How an export begins."""
CUT_OFF = ("premature EOF", "Incomplete", "Unterminated")
"""Words of the parsers for a document whose end is missing."""
DEEPEST = 500
"""Most levels of a document. The parser takes memory with the square of them."""
LONGEST_TEXT = 100_000_000
"""Most bytes of one text of a document."""
MOST_UNPACKED = 200
"""Most times its own size that a member of an archive unpacks to; exports have 5 to 20."""
SHOWN = 6
"""Maximum number of names of files or fields in a message."""


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A JSON document. member: its name in the archive, or "" if path is the document itself."""

    path: Path
    member: str = ""

    @property
    def name(self) -> str:
        """The name of the file, for messages."""
        return f"{self.path.name}, {self.member}" if self.member else self.path.name

    def items(self, prefix: str) -> Iterator[Any]:
        """Yield the values at a prefix of ijson: "item" for the entries of an array.

        Raises InvalidInput if the document is empty, cut off, no JSON or not UTF-8.
        """
        with self._readable() as file:
            yield from self._parser().items(file, prefix)

    def outline(self) -> tuple[str, list[str]]:
        """Return "array" and the fields of its first object, or "object" and its fields.

        For an array of anything else the fields are empty.
        """
        with self._readable() as file:
            events = self._parser().basic_parse(file)
            kind, _ = next(events, ("", None))
            if kind not in ("start_array", "start_map"):
                raise InvalidInput(
                    f"{self.name} holds one JSON value, which is no export: give a file with an"
                    " array or an object"
                )
            if kind == "start_array":
                return "array", _first(events)
            return "object", _fields(events)

    def count(self) -> int:
        """Return the number of entries of an array, and 1 for any other document."""
        try:
            kind, _ = self.outline()
            return sum(1 for _ in self.items("item")) if kind == "array" else 1
        except InvalidInput:
            return 1

    def _parser(self) -> Any:
        """Return ijson, or its slower parser in Python for a document that may end the process.

        ijson's parser in C reads a number that Python refuses through a null pointer. Raises
        InvalidInput for a document that would fill the memory.
        """
        before, parser, shape, is_json = b"", ijson, _JsonBounds(self.name), False
        with self._opened() as file:
            while chunk := file.read(CHUNK):
                if not is_json and not (is_json := chunk.lstrip().startswith(BEGINS)):
                    continue  # blank, or no JSON, as the parser finds
                shape.read(chunk)
                if parser is ijson and LONG_NUMBER.search(before + chunk):
                    parser = ijson.get_backend("python")
                before = chunk[-4000:]
        return parser

    @contextmanager
    def _readable(self) -> Iterator[IO[bytes]]:
        try:
            try:
                with self._opened() as file:
                    yield file
            except ijson.JSONError as error:
                raise InvalidInput(f"{self.name} {self._fault(error)}") from error
        except (*DAMAGED, EOFError, NotImplementedError, RuntimeError) as error:
            raise InvalidInput(f"{self.name} cannot be unpacked: {error}") from error
        except OSError as error:
            raise NotFound(f"the file {str(self.path)!r} cannot be read: {error}") from error

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        with self._bytes() as file:
            yield file if self.member else _unwrapped(file, self.name)

    @contextmanager
    def _bytes(self) -> Iterator[IO[bytes]]:
        if not self.member:
            with opened(self.path) as file:
                yield _without_bom(file)
            return
        with zipfile.ZipFile(self.path) as archive, closing(archive.open(self.member)) as unpacked:
            one = archive.getinfo(self.member)
            if one.file_size > MOST_UNPACKED * max(one.compress_size, 1):
                raise InvalidInput(
                    f"{self.name} unpacks to {one.file_size:,} bytes, more than {MOST_UNPACKED}"
                    " times its packed size, which no export does: download it again"
                )
            yield _without_bom(unpacked)

    def _fault(self, error: ijson.JSONError) -> str:
        """Return why the document cannot be parsed, and what to do: a phrase after its name."""
        with self._bytes() as file:
            chunk = file.read(CHUNK)
            start, first = chunk[:2], chunk.lstrip()
            while not first and (chunk := file.read(CHUNK)):
                first = chunk.lstrip()
        if not first:
            return "is empty: export it again"
        if start in UTF_16:
            return "is UTF-16, not UTF-8: convert it, e.g. with iconv -f UTF-16 -t UTF-8"
        if not first.startswith(BEGINS):
            return "is no JSON: give the export as it was downloaded, a JSON file or a zip archive"
        with self._bytes() as file:
            at, is_whole = _first_odd_byte(file)
        if at is not None and is_whole:
            return (
                f"is not UTF-8 (byte {at + 1:,}): convert it, e.g. with iconv -f GB18030 -t UTF-8"
            )
        reason = _reason(error)
        if at is not None or any(sign in reason for sign in CUT_OFF):
            return "was cut off, its end is missing: export or download it again"
        return f"is no valid JSON: {reason}. Export it again"


class _JsonBounds:
    """Checks the levels and the texts of a JSON document by its bytes, before it is parsed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._depth = 0
        self._text: int | None = None
        self._cut = b""

    def read(self, chunk: bytes) -> None:
        """Read the next bytes. Raises InvalidInput if a text is too long or a value too deep."""
        chunk, self._cut = self._cut + chunk, b""
        if self._text is not None:
            end = _UP_TO_QUOTE.match(chunk).end()  # type: ignore[union-attr] # it matches always
            if chunk[end : end + 1] != b'"':
                self._go_on(self._text + end, chunk[end:])
                return
            chunk, self._text = chunk[end + 1 :], None
        end = _WHOLE.match(chunk).end()  # type: ignore[union-attr] # it matches always
        bare, text = _TEXT.sub(b"", chunk[:end]), chunk[end + 1 :]
        depths = accumulate((1 - (sign & 4) // 2 for sign in bare.translate(None, _OTHERS)),
                            initial=self._depth)  # fmt: skip
        for self._depth in depths:
            if self._depth > DEEPEST:
                raise InvalidInput(
                    f"{self._name} is nested more than {DEEPEST} levels deep, which no export is:"
                    " give the export as it was downloaded"
                )
        if end < len(chunk):
            end = _UP_TO_QUOTE.match(text).end()  # type: ignore[union-attr]
            self._go_on(end, text[end:])

    def _go_on(self, length: int, cut: bytes) -> None:
        """Note a text that goes on in the next chunk. cut: half an escape at the end of this."""
        self._text, self._cut = length, cut
        if length > LONGEST_TEXT:
            raise InvalidInput(
                f"{self._name} holds a text of more than {LONGEST_TEXT // 1_000_000} MB, which no"
                " export has: give the export as it was downloaded"
            )


_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_WHOLE = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
"""All before a text that goes on in the next chunk: _TEXT alone would try each quote within it."""
_UP_TO_QUOTE = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
"""All bytes but brackets. Of these, the closing ones have the bit 4."""


def json_files(path: Path) -> list[JsonFile]:
    """Return the documents of an export: a JSON file, or the right members of a zip archive.

    Raises:
        NotFound: the file cannot be read.
        InvalidInput: the archive holds no document to import.
    """
    names = member_names(path)
    if names is None:
        return [JsonFile(path)]
    found = sorted(name for name in names if CONVERSATIONS.search(name))
    if not found:
        found = [name for name in names if name.endswith((".json", ".af"))]
        found = found if len(found) == 1 else []
    if not found:
        raise InvalidInput(
            f"{path.name} holds no conversations.json, but {listed_names(names)}: give the archive"
            " as it was downloaded, or one JSON file of it"
        )
    return [JsonFile(path, name) for name in found]


def member_names(path: Path) -> list[str] | None:
    """Return the names of the files in a zip archive, or None if the file is no archive.

    Raises:
        NotFound: the file cannot be read.
        InvalidInput: the archive is damaged.
    """
    try:
        with opened(path) as file:
            is_archive = file.read(4) == b"PK\x03\x04"
        if not is_archive:
            return None
        with zipfile.ZipFile(path) as archive:
            return [one.filename for one in archive.infolist() if not one.is_dir()]
    except zipfile.BadZipFile as error:
        raise InvalidInput(
            f"{path.name} is a damaged zip archive ({error}): download it again"
        ) from error
    except OSError as error:
        raise NotFound(f"the file {str(path)!r} cannot be read: {error}") from error


def listed_names(names: list[str]) -> str:
    """Return the first names of a list for a message."""
    if not names:
        return "nothing"
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(f"{name[:40]!r}" for name in names[:SHOWN]) + more


def _first(events: Iterator[tuple[str, Any]]) -> list[str]:
    """Return the fields of the first entry of an array, or none if it is no object."""
    kind, _ = next(events, ("", None))
    return _fields(events) if kind == "start_map" else []


def _fields(events: Iterator[tuple[str, Any]]) -> list[str]:
    """Return the fields of the object that has just begun, and read up to its end."""
    found: list[str] = []
    depth = 1
    for kind, value in events:
        if kind == "map_key" and depth == 1:
            found.append(str(value))
        elif kind.startswith("start_"):
            depth += 1
        elif kind.startswith("end_"):
            depth -= 1
            if not depth:
                break
    return found


def _unwrapped(file: IO[bytes], name: str) -> IO[bytes]:
    """Return the document in a JSON text: json.dump() of a client's text writes such a file."""
    at = file.tell()
    is_wrapped = file.read(2) == b'"{'
    file.seek(at)
    if not is_wrapped:
        return file
    text = file.read(LONGEST_TEXT + 1)
    if len(text) > LONGEST_TEXT:
        raise InvalidInput(
            f"{name} is one text of more than {LONGEST_TEXT // 1_000_000} MB with JSON in it: save"
            " the JSON itself"
        )
    try:
        return BytesIO(str(json.loads(text)).encode())
    except ValueError as error:
        raise ijson.JSONError(str(error)) from error


def _first_odd_byte(file: IO[bytes]) -> tuple[int | None, bool]:
    """Return the place of the first byte that is no UTF-8, or None.

    Also tell whether bytes follow that make its letter whole: a cut may leave half a letter.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    read = 0
    while True:
        chunk = file.read(CHUNK)
        waiting = len(decoder.getstate()[0])
        try:
            decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            return read - waiting + error.start, bool(chunk)
        if not chunk:
            return None, True
        read += len(chunk)


def _without_bom(file: IO[bytes]) -> IO[bytes]:
    if file.read(len(BOM)) != BOM:
        file.seek(0)
    return file


def _reason(error: Exception) -> str:
    """Return the first line of a parser's message, without the excerpt below it."""
    told = error.args[0] if error.args else error
    text = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
    return text.strip().splitlines()[0].strip().rstrip(".")[:100] if text.strip() else "no reason"
