"""Reads a conversation that somebody has written down: JSON, or plain text. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import BinaryIO, Final

from shared_core.core.domain import ROLES, JsonValue
from shared_core.core.json_text import MAX_DEPTH, check_json
from shared_core.errors import InvalidInput

MAX_BYTES: Final = 16_777_216
"""Maximum size of a conversation in bytes, 16 MiB."""
JSON: Final = re.compile(r"\s*(?:\{|\[\s*[{\]])")
SPEAKERS: Final[Mapping[str, str]] = {**ROLES, "用户": "user", "助手": "agent"}
SPEAKER: Final = re.compile(rf"({'|'.join(SPEAKERS)})\s*[:：]\s*", re.IGNORECASE)


def read_conversation(source: BinaryIO) -> object:
    """Return the conversation in a UTF-8 stream: JSON, or plain text with one message per line.

    JSON is what update_with_pipeline() takes. A line is the user's unless it begins with
    "assistant:" (助手：) or another of domain.ROLES. Raises InvalidInput for anything else, and
    for more than 16 MiB.
    """
    raw = source.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise InvalidInput("the conversation is longer than 16 MiB: send it in parts")
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
                f"the conversation is nested too deep: at most {MAX_DEPTH} levels are allowed"
            ) from None
        except ValueError as error:
            raise InvalidInput(f"the conversation is not valid JSON: {error}") from None
        check_json(found, "the conversation")
        return found
    return [_message(line) for line in text.splitlines() if line.strip()]


def _message(line: str) -> dict[str, JsonValue]:
    speaker = SPEAKER.match(line)
    if speaker is None:
        return {"role": "user", "content": line.strip()}
    return {"role": SPEAKERS[speaker[1].lower()], "content": line[speaker.end() :].strip()}
