"""Opens connections that notice a dead network, with the same parameters for every client."""

from __future__ import annotations

from typing import Any

from psycopg.abc import AdaptContext
from psycopg.conninfo import conninfo_to_dict

from shared_core.settings import Settings
from shared_core.storage.postgres.connection.pipeline import Connection

ANSWER_GRACE_S = 10.0
"""Seconds beyond a statement's deadline in which the answer of a server that lives arrives."""
DEAD_NETWORK = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""Parameters of libpq that close a connection whose other end is gone, within about 30 s."""
MIN_CONNECT_S = 2
"""The shortest connect_timeout that libpq accepts."""


def client_parameters(conninfo: str, connect_timeout_s: float, name: str) -> dict[str, Any]:
    """Return the parameters of a connection, for any connect() of psycopg.

    Those of the conninfo win over ours. Raises psycopg.ProgrammingError for a malformed one.
    """
    ours = {
        "connect_timeout": max(MIN_CONNECT_S, int(connect_timeout_s)),
        "application_name": name,
        **DEAD_NETWORK,
    }
    given = conninfo_to_dict(conninfo)
    return {
        # psycopg's names of prepared statements mean another statement on each session.
        "prepare_threshold": None,
        **{parameter: value for parameter, value in ours.items() if parameter not in given},
    }


async def connect(
    conninfo: str,
    settings: Settings,
    *,
    name: str = "hippocampus",
    adapters: AdaptContext | None = None,
) -> Connection:
    """Open a connection in autocommit, whose statements end when the server falls silent."""
    connection = await Connection.connect(
        conninfo,
        autocommit=True,
        context=adapters,
        **client_parameters(conninfo, settings.connect_timeout_s, name),
    )
    connection.silence_s = silence_s(settings.statement_timeout_s)
    return connection


def silence_s(deadline_s: float) -> float | None:
    """Return how long a server may be silent; None for statements without a deadline (0)."""
    return deadline_s + ANSWER_GRACE_S if deadline_s else None
