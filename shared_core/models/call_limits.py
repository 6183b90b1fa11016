"""Limit, time and count the calls of a language model."""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractAsyncContextManager

from shared_core.core.domain import NO_USAGE, ModelUsage
from shared_core.core.event_loops import on_own_loop
from shared_core.errors import InvalidInput, MemoryCoreError, ModelUnavailable
from shared_core.models.failures import model_failure
from shared_core.models.language_model import LanguageModel, ModelReply, ModelRequest

MAX_CONCURRENT_CALLS = 4
"""Default number of simultaneous calls of one model in a process."""
TIMEOUT_S = 120.0
"""Default seconds allowed for one call."""


class ModelCalls:
    """Calls a language model on the bridge's loop, from any thread or loop.

    max_concurrent_model_calls: simultaneous calls in the process, shared by all memories with the
    same model and limit. timeout_s: seconds for one call, without the wait for a free place.
    Nothing is retried here: the queue retries the job.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        max_concurrent_model_calls: int = MAX_CONCURRENT_CALLS,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        if max_concurrent_model_calls < 1:
            raise InvalidInput(
                f"max_concurrent_model_calls must be at least 1, got {max_concurrent_model_calls}"
            )
        if not timeout_s > 0:
            raise InvalidInput(f"timeout_s must be above 0, got {timeout_s}")
        self._model = model
        self._limit = max_concurrent_model_calls
        self._timeout_s = timeout_s
        self.usage = NO_USAGE
        """Usage of this object so far."""

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, request: ModelRequest) -> tuple[ModelReply, ModelUsage]:
        """Return the answer and its usage. Raises ModelUnavailable for any failure."""
        reply = await on_own_loop(self._complete(request))
        usage = ModelUsage(
            calls=1,
            input_tokens=max(0, reply.input_tokens),
            output_tokens=max(0, reply.output_tokens),
        )
        self.usage += usage
        return reply, usage

    async def _complete(self, request: ModelRequest) -> ModelReply:
        async with _turn(self.name, self._limit):
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await self._model.complete(request)
            except TimeoutError as error:
                raise ModelUnavailable(
                    f"language model {self.name!r} did not answer within {self._timeout_s:g} s"
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
