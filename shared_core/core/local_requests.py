"""Tells whether an HTTP request without a token comes from this machine and names it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from shared_core.core.uri_validation import is_loopback

PROXIED: Final = frozenset({"forwarded", "via", "x-real-ip"})
"""Headers of a proxy, in addition to those that begin with x-forwarded-."""
_AUTHORITY: Final = re.compile(
    r"(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::[0-9]{1,5})?", re.IGNORECASE
)
_ORIGIN: Final = re.compile(r"https?://(.*)", re.IGNORECASE)


def fault_of_local_request(
    headers: Iterable[tuple[str, str]], client: str | None = None
) -> str | None:
    """Return why a request must not be served without a token, or None if it may be.

    This stops other machines, proxies, and web pages that make their own name point here (DNS
    rebinding) or send requests from a page of another host.

    Args:
        headers: All headers of the request, with names in lower case.
        client: Address of the client; None is not checked, as on a Unix socket.
    """
    found = list(headers)
    hosts = [value for name, value in found if name == "host"]
    if len(hosts) != 1 or not _names_this_machine(hosts[0]):
        return "Without tokens only localhost is served, see --auth."
    if client is not None and not is_loopback(client):
        return "Without tokens only localhost is served, see --auth."
    if any(name in PROXIED or name.startswith("x-forwarded-") for name, _ in found):
        return "Without tokens no proxy is served, see --auth."
    if not all(_is_local_origin(value) for name, value in found if name == "origin"):
        return "Without tokens no web page of another host is served, see --auth."
    return None


def _names_this_machine(authority: str) -> bool:
    parts = _AUTHORITY.fullmatch(authority)
    return parts is not None and is_loopback((parts[1] or parts[2]).lower())


def _is_local_origin(origin: str) -> bool:
    parts = _ORIGIN.fullmatch(origin)
    return parts is not None and _names_this_machine(parts[1])
