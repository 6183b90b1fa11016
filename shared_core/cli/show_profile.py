"""What `hippocampus profile` reads and shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, Final

from rich.table import Table
from rich.text import Text

from shared_core.cli.app import word_table
from shared_core.core.domain import ROLES, JsonValue
from shared_core.core.json_text import MAX_DEPTH, check_json
from shared_core.errors import InvalidInput
from shared_core.ports.profiles import ProfileVersion
from shared_core.profiles.entries import Mind
from shared_core.profiles.memory import Memory
from shared_core.profiles.repository import ProfileDiff

MAX_BYTES: Final = 16_777_216
JSON: Final = re.compile(r"\s*(?:\{|\[\s*[{\]])")
SPEAKERS: Final[Mapping[str, str]] = {**ROLES, "用户": "user", "助手": "agent"}
SAID_BY: Final = re.compile(rf"({'|'.join(SPEAKERS)})\s*[:：]\s*", re.IGNORECASE)


def read_conversation(source: BinaryIO) -> object:
    """Return the conversation of a UTF-8 stream: JSON, or a message a line.

    JSON is what update_with_pipeline() takes. A line is the user's, unless it begins with
    "assistant:" (助手：), or with another of domain.ROLES. Raises InvalidInput for what is neither,
    or longer than 16 MiB.
    """
    raw = source.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise InvalidInput("the conversation is longer than 16 MiB: give it in parts")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"the conversation is not UTF-8 (byte {error.start + 1}): convert it first, e.g. with"
            " iconv -f GB18030 -t UTF-8"
        ) from None
    if JSON.match(text):
        try:
            found = json.loads(text)
        except RecursionError:
            raise InvalidInput(
                f"the conversation is nested too deep: JSON of at most {MAX_DEPTH} levels is read"
            ) from None
        except ValueError as error:
            raise InvalidInput(f"the conversation is no JSON: {error}") from None
        check_json(found, "the conversation")
        return found
    return [_message(line) for line in text.splitlines() if line.strip()]


def _message(line: str) -> dict[str, JsonValue]:
    named = SAID_BY.match(line)
    if named is None:
        return {"role": "user", "content": line.strip()}
    return {"role": SPEAKERS[named[1].lower()], "content": line[named.end() :].strip()}


def profile_lines(memory: Memory) -> Iterator[Text]:
    """Yield a profile for people: the prompt, then what may be concluded."""
    yield Text(memory.to_prompt() or "Nothing is known.")
    if memory.mind.findings:
        yield Text("")
        yield from (Text(one, style="dim") for one in finding_lines(memory.mind))


def finding_lines(mind: Mind) -> list[str]:
    """Return findings, one a line, with their confidence."""
    return [f"{one.dimension} {one.confidence:.1f}  {one.text}" for one in mind.findings]


def versions_table(versions: Sequence[ProfileVersion]) -> Table:
    """Return versions as a table, newest first."""
    rows = [
        (
            str(one.version),
            f"{one.created_at:%Y-%m-%d %H:%M}",
            str(one.revision),
            "" if one.run_id is None else str(one.run_id),
        )
        for one in versions
    ]
    return word_table(("version", "stored (UTC)", "told again", "run"), rows)


def diff_lines(diff: ProfileDiff) -> Iterator[Text]:
    """Yield what changed: "-" for what went, "+" for what came."""
    parts = (
        (diff.removed, diff.added),
        (diff.removed_events, diff.added_events),
        (diff.removed_findings, diff.added_findings),
    )
    changed = False
    for removed, added in parts:
        for sign, style, texts in (("-", "red", removed), ("+", "green", added)):
            for text in texts:
                changed = True
                yield Text(f"{sign} {text}", style=style)
    if not changed:
        yield Text(f"Versions {diff.from_version} and {diff.to_version} say the same.")
