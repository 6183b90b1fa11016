"""Parses URIs of a memory on a command line: `adk web --memory_service_uri=hippocampus://`.

hippocampus://                                the memory of open_memory(): HIPPOCAMPUS_URI, or else
                                              the embedded PostgreSQL
hippocampus:///abs/folder                     an embedded PostgreSQL in that folder
hippocampus+postgresql://user:pw@host/db?...  a server
anything else                                 passed to open_memory() unchanged

After `?` the first three take OPTIONS; a server's URI also takes options of libpq.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import unquote, unquote_plus

from shared_core import ExtractionStrategy, InvalidInput, MemoryEngine
from shared_core.core import limits_of, named_limits, shown
from shared_core.models import hosted

Option: TypeAlias = str | int | float | bool | None

SCHEME = "hippocampus"
SERVER_SCHEME = "hippocampus+postgresql"

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def parse_uri(uri: str) -> tuple[str | None, dict[str, Option]]:
    """Return the uri for open_memory() and the options after it.

    Raises InvalidInput for an unknown option or form; no message contains a password.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme.lower() not in (SCHEME, SERVER_SCHEME):
        return uri, {}
    address, query = _split(rest)
    if scheme.lower() == SERVER_SCHEME:
        options, for_libpq = _options(query, strict=False)
        return f"postgresql://{address}" + (f"?{for_libpq}" if for_libpq else ""), options
    options, _ = _options(query, strict=True)
    if not address:
        return None, options
    if not address.startswith("/"):
        raise InvalidInput(
            "hippocampus:// takes no host: write hippocampus:///absolute/folder for a folder,"
            " hippocampus+postgresql://user:password@host/database for a server"
        )
    return f"embedded://{unquote(address)}", options


def engine_arguments(options: Mapping[str, Option]) -> dict[str, Any]:
    """Return the arguments of open_memory() among the options of a URI. Raises InvalidInput."""
    given: dict[str, Any] = {name: one for name, one in options.items() if name in ENGINE_OPTIONS}
    triggers = {name: given.pop(name) for name in TRIGGERS if name in given}
    if triggers:
        given["strategy"] = ExtractionStrategy(**triggers)
    if (limits := limits_of(given)) is not None:
        given = {name: one for name, one in given.items() if name not in named_limits()}
        given["llm_limits"] = limits
    return given


def named_memory(
    named: str | Path | None, engine: MemoryEngine | None
) -> tuple[str | Path | None, Mapping[str, Option]]:
    """Return the uri for open_memory() and the options in a constructor's uri; see parse_uri.

    Raises InvalidInput if engine is given as well, or is not a MemoryEngine.
    """
    if engine is not None and not isinstance(engine, MemoryEngine):
        raise InvalidInput(f"engine must be a MemoryEngine, got {type(engine).__name__}")
    if engine is not None and named is not None:
        raise InvalidInput("give either a uri or an engine: an engine already has its database")
    if isinstance(named, MemoryEngine):
        raise InvalidInput("uri is the first argument; give an engine by its name: engine=memory")
    return parse_uri(named) if isinstance(named, str) else (named, {})


def _split(rest: str) -> tuple[str, str]:
    """Return address and query; a password may contain a bare question mark, as in libpq."""
    at = rest.find("@", 0, rest.find("/") if "/" in rest else len(rest))
    address, _, query = rest[at + 1 :].partition("?")
    return rest[: at + 1] + address, query


def _options(query: str, *, strict: bool) -> tuple[dict[str, Option], str]:
    """Return our options and the unchanged rest of the query; strict raises if there is a rest."""
    options: dict[str, Option] = {}
    rest = []
    for pair in filter(None, query.split("&")):
        name, _, written = pair.partition("=")
        name = unquote_plus(name)
        if name not in OPTIONS:
            if strict:
                known = ", ".join(sorted(OPTIONS))
                raise InvalidInput(f"hippocampus:// has no option {name!r}: take one of {known}")
            rest.append(pair)
        elif name in options:
            raise InvalidInput(f"option {name!r} is in the URI twice: give it once")
        else:
            options[name] = _typed(name, unquote_plus(written))
    return options, "&".join(rest)


def _typed(name: str, written: str) -> Option:
    convert, expected = OPTIONS[name]
    try:
        return convert(written)
    except (ValueError, KeyError):
        raise InvalidInput(
            f"option {name!r} of the URI must be {expected}, got {shown(written)}"
        ) from None


def _text(written: str) -> str:
    if not written:
        raise ValueError
    return written


def _number(written: str) -> float:
    number = float(written)
    if not 0 <= number < float("inf"):
        raise ValueError
    return number


def _count(written: str) -> int:
    if not (written.isascii() and written.isdecimal()):
        raise ValueError
    return int(written)


def _count_or_off(written: str) -> int | None:
    return None if written.lower() == "off" else _count(written)


def _llm(written: str) -> str:
    return str(hosted(_text(written), "adk"))


def _truth(written: str) -> bool:
    return _WORDS[written.lower()]


_A_NUMBER = (_number, "a number of at least 0")
_A_COUNT = (_count, "a whole number")
_A_COUNT_OR_OFF = (_count_or_off, "a whole number, or off")
_A_TEXT = (_text, "a text")
_A_TRUTH = (_truth, "true or false")

OPTIONS: Mapping[str, tuple[Callable[[str], Option], str]] = MappingProxyType(
    {
        "deadline_s": _A_NUMBER,
        "delay_s": _A_NUMBER,
        "delete_memories": _A_TRUTH,
        "embedder": _A_TEXT,
        "event_count": _A_COUNT_OR_OFF,
        "fail_open": _A_TRUTH,
        "include_tool_results": _A_TRUTH,
        "llm": (_llm, "the name of a model"),
        "max_chars": _A_COUNT,
        "memories": _A_TEXT,
        "min_relevance": _A_NUMBER,
        "pool_size": _A_COUNT,
        "schema": _A_TEXT,
        "timezone": _A_TEXT,
        "token_threshold": _A_COUNT_OR_OFF,
        "top_k": _A_COUNT,
        "wait": _A_TRUTH,
        **{name: _A_NUMBER if kind is float else _A_COUNT for name, kind in named_limits().items()},
    }
)
"""Every option of a URI: its parser, and the description of a valid value."""

TRIGGERS = frozenset({"delay_s", "event_count", "token_threshold"})
"""Options of an ExtractionStrategy."""

ENGINE_OPTIONS = frozenset(
    {"embedder", "llm", "pool_size", "schema", "timezone", *TRIGGERS, *named_limits()}
)
"""Options of open_memory(); services with the same ones share one memory."""

SESSION_OPTIONS = frozenset({"delete_memories"})
"""Options of the session service; options in neither set belong to the memory service."""
