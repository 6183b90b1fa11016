"""Parameters that a route does not know, or that are given twice, are refused.

A misspelt one would widen what is asked, and of two it is not said which one counts.
"""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute

from shared_core.http.problems import ProblemError


async def known_parameters(request: Request) -> None:
    """Raise ProblemError for a parameter after "?" that the route does not have, or has twice."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = {field.alias for field in route.dependant.query_params}
    if unknown := sorted(set(request.query_params) - known):
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise ProblemError(
            422, "invalid-input", f"There is no parameter {unknown[0][:100]!r} here: {takes}."
        )
    given = [name for name, _ in request.query_params.multi_items()]
    if len(given) > len(set(given)):
        twice = next(name for name in given if given.count(name) > 1)
        raise ProblemError(422, "invalid-input", f"The parameter {twice!r} is given twice.")
