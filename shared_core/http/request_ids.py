"""The id of the request that is being answered."""

from __future__ import annotations

from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("hippocampus_request_id", default="")
