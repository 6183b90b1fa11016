"""Loads and calls the factory of what is tested: of a store, or of a service."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

Factory = Callable[..., Any]
"""Returns something new and empty, or a context manager that yields it, sync or async."""


class BadFactory(ValueError):
    """A factory cannot be found, cannot be called, or returns something else."""


def load(spec: str, option: str) -> Factory:
    """Return the factory that `module:name` names.

    Raises BadFactory, with the option of the command in its text.
    """
    module_name, colon, path = spec.partition(":")
    if not (module_name and colon and path):
        raise BadFactory(f"{option} must be module:factory, got {spec!r}")
    try:
        found: Any = import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name)
    except Exception as error:  # the code of others may raise anything
        raise BadFactory(f"{option} {spec!r} cannot be loaded: {_said(error)}") from error
    if not callable(found):
        raise BadFactory(f"{option} {spec!r} must be callable, got {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def takes(factory: Factory, name: str) -> bool:
    """Return whether a factory has a keyword parameter of this name."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # one that is written in C tells nothing
        return False
    kinds = {parameter.kind for parameter in parameters.values()}
    return name in parameters or inspect.Parameter.VAR_KEYWORD in kinds


@asynccontextmanager
async def opened(factory: Factory, kind: type, **options: Any) -> AsyncIterator[Any]:
    """Call a factory with those options that it takes, and open what it returns.

    A result with both kinds of `with` is opened by the sync one.
    """
    made = factory(**{name: value for name, value in options.items() if takes(factory, name)})
    if inspect.isawaitable(made) and not hasattr(made, "__aenter__"):
        made = await made
    if hasattr(made, "__enter__"):
        with made as inside:
            yield _checked(inside, kind)
    elif hasattr(made, "__aenter__"):
        async with made as inside:
            yield _checked(inside, kind)
    else:
        yield _checked(made, kind)


async def probe(
    factory: Factory, kind: type, option: str, look: Callable[[Any], Awaitable[Any]]
) -> Any:
    """Open what a factory makes once, and return what `look` sees in it.

    Raises BadFactory where that fails.
    """
    try:
        async with opened(factory, kind) as made:
            return await look(made)
    except Exception as error:
        raise BadFactory(f"{option}: its factory failed: {_said(error)}") from error


def _checked(made: Any, kind: type) -> Any:
    if not isinstance(made, kind):
        raise TypeError(
            f"a factory must return a {kind.__name__}, or a context manager that yields one, got"
            f" {type(made).__name__}"
        )
    return made


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
