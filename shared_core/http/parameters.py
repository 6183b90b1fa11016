"""Parameters that a route does not know are refused: a misspelt one would widen what is asked."""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute

from shared_core.http.problems import ProblemError


async def known_parameters(request: Request) -> None:
    """Raise ProblemError for a parameter after "?" that the route of a request does not have."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = {field.alias for field in route.dependant.query_params}
    if unknown := sorted(set(request.query_params) - known):
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise ProblemError(
            422, "invalid-input", f"There is no parameter {unknown[0][:100]!r} here: {takes}."
        )
