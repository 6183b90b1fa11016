"""Checks the arguments of a call against the types that its signature declares. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from typing_extensions import get_protocol_members, is_protocol, is_typeddict

from shared_core.core.shown import shown
from shared_core.errors import InvalidInput

_WORDS: Final[Mapping[Any, str]] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Mapping: "a mapping",
    Callable: "a function",
}
_PLAIN: Final = (str, int, float, NoneType)
"""Types of values that an error shows; any other value may hold a password."""


def check_arguments(called: Callable[..., object], given: Mapping[str, object]) -> None:
    """Raise InvalidInput for the first argument that has another type than the call declares.

    It checks the outer type: the entries of a mapping are for the called function to check.

    Args:
        called: a function, or a class whose fields are the arguments.
        given: the arguments by name, e.g. locals() on the first line of a function.
    """
    for name, kind in _declared(called).items():
        if name in given and not _fits(given[name], kind):
            value = given[name]
            got = shown(value) if isinstance(value, _PLAIN) else _with_article(type(value))
            raise InvalidInput(f"{name} must be {_described(kind)}, got {got}")


@lru_cache
def _declared(called: Callable[..., object]) -> Mapping[str, Any]:
    return {name: kind for name, kind in get_type_hints(called).items() if name != "return"}


def _fits(value: object, kind: Any) -> bool:
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(kind))
    if origin in (Any, object):
        return True
    if origin is Literal:
        return value in get_args(kind)
    if is_typeddict(origin):
        return isinstance(value, Mapping)
    if is_protocol(origin):
        return all(hasattr(value, member) for member in get_protocol_members(origin))
    if isinstance(value, bool) and origin in (int, float):
        return False
    return isinstance(value, int | float if origin is float else origin)


def _described(kind: Any) -> str:
    """Return what is allowed in words; None goes without saying, as it is the same as no value."""
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType):
        return _either([_described(one) for one in get_args(kind) if one is not NoneType])
    if origin is Literal:
        return _either([repr(one) for one in get_args(kind)])
    if is_protocol(origin):
        return f"an object with {', '.join(sorted(get_protocol_members(origin)))}"
    return "a mapping" if is_typeddict(origin) else _WORDS.get(origin) or _with_article(origin)


def _either(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _with_article(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}"
