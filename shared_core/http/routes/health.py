"""Whether the server lives, and whether it can work. Neither needs a token."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from shared_core import __version__
from shared_core.engine import MemoryEngine
from shared_core.http import answers
from shared_core.http.answers import answers as told
from shared_core.http.json_answers import Json
from shared_core.http.memory_of import memory_of

router = APIRouter(tags=["health"])

READY_S = 1.0
"""The database is asked so often at most, however many ask here."""


@router.get("/health", responses=told(answers.Health))
@router.get("/health/live", responses=told(answers.Health))
async def live() -> Json:
    """Say that the server answers."""
    return Json({"status": "ok", "version": __version__})


@router.get("/health/ready", responses=told(answers.Health))
async def ready(request: Request, memory: Annotated[MemoryEngine, Depends(memory_of)]) -> Json:
    """Say that the database answers as well; 503 while it does not."""
    state = request.app.state
    if time.monotonic() >= getattr(state, "ready_until", 0.0):
        await memory.tokens.any()
        state.ready_until = time.monotonic() + READY_S
    return Json({"status": "ok", "version": __version__})
