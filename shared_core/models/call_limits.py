"""Limit, time, retry and count the calls of a language model."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import AbstractAsyncContextManager
from typing import Final

from shared_core.core.domain import NO_USAGE, ModelUsage
from shared_core.core.event_loops import on_own_loop
from shared_core.core.model_limits import ModelLimits
from shared_core.core.telemetry import model_call_failed
from shared_core.errors import (
    MemoryCoreError,
    ModelKeyRefused,
    ModelOutputInvalid,
    ModelQuotaExceeded,
    ModelUnavailable,
)
from shared_core.models.failures import model_failure
from shared_core.models.language_model import LanguageModel, ModelReply, ModelRequest

log = logging.getLogger("hippocampus")

FIRST_WAIT_S: Final = 1.0
"""Seconds before the first retry of a call; each further one waits twice as long."""
LASTING: Final = (ModelKeyRefused, ModelQuotaExceeded, ModelOutputInvalid)
"""Failures that a retry within seconds does not mend."""


class ModelCalls:
    """Calls a language model from any thread or loop, within limits."""

    def __init__(self, model: LanguageModel, limits: ModelLimits | None = None) -> None:
        self._model = model
        self.limits = limits or ModelLimits()
        self.usage = NO_USAGE
        """Usage of this object so far."""

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, request: ModelRequest) -> tuple[ModelReply, ModelUsage]:
        """Return the answer and its usage. Raises ModelUnavailable for any failure."""
        return await on_own_loop(self._complete(request))

    async def _complete(self, request: ModelRequest) -> tuple[ModelReply, ModelUsage]:
        async with _turn(self.name, self.limits.concurrency):
            for retries in range(self.limits.retries + 1):
                try:
                    reply = await self._called(request)
                except ModelUnavailable as error:
                    self.usage += ModelUsage(failed=1)
                    model_call_failed(self.name, error)
                    if isinstance(error, LASTING) or retries == self.limits.retries:
                        raise
                    log.info("language model %s is called again: %s", self.name, error)
                    await asyncio.sleep(FIRST_WAIT_S * 2**retries)
                else:
                    usage = ModelUsage(
                        calls=1,
                        input_tokens=max(0, reply.input_tokens),
                        output_tokens=max(0, reply.output_tokens),
                    )
                    self.usage += usage
                    return reply, usage
        raise AssertionError("the last attempt returns or raises")

    async def _called(self, request: ModelRequest) -> ModelReply:
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                return await self._model.complete(request)
        except TimeoutError as error:
            raise ModelUnavailable(
                f"language model {self.name!r} did not answer within {self.limits.timeout_s:g} s"
            ) from error
        except MemoryCoreError:
            raise
        except Exception as error:  # foreign code may raise anything
            raise model_failure(self.name, error) from error


_turns: dict[tuple[str, int], asyncio.Semaphore] = {}
_pid = 0


def _turn(model: str, limit: int) -> AbstractAsyncContextManager[None]:
    """Return the process's semaphore of a model. Call it only on the bridge's loop."""
    global _pid
    if _pid != os.getpid():  # a forked child has a loop of its own
        _pid = os.getpid()
        _turns.clear()
    return _turns.setdefault((model, limit), asyncio.Semaphore(limit))
