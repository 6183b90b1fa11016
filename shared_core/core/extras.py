"""Names the extra that installs a missing optional package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from shared_core.errors import ExtraMissing

PACKAGES: Mapping[str, frozenset[str]] = {
    "adk": frozenset({"google"}),
    "client": frozenset({"httpx"}),
    "langchain": frozenset({"langchain"}),
    "langgraph": frozenset({"langchain_core", "langgraph"}),
    "mcp": frozenset({"mcp", "mcp_types", "uvicorn"}),
    "oceanbase": frozenset({"pylibseekdb", "pymysql"}),
    "server": frozenset(
        {
            "fastapi",
            "opentelemetry",
            "orjson",
            "prometheus_client",
            "starlette",
            "uvicorn",
            "uvloop",
        }
    ),
}
"""The top-level modules that each extra installs."""


@contextmanager
def from_extras(what: str, *extras: str) -> Iterator[None]:
    """Raise ExtraMissing if the body fails to import a package of one of these extras."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        for extra in extras:
            if package in PACKAGES[extra]:
                raise ExtraMissing(
                    f"{what} needs the module {error.name!r}, which is not installed: run"
                    f" pip install 'pg-hippocampus[{extra}]'",
                    name=error.name,
                ) from error
        raise
