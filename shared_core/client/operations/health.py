"""The operations of the area "health".

Written by `python -m benchmarks.client_code`: change the server instead.
"""

from __future__ import annotations

from shared_core import wire
from shared_core.client.operations.base import OperationsBase


class HealthOperations(OperationsBase):
    """The operations of the area "health"."""

    async def check_health(self) -> wire.Health:
        """Return 200 while the server answers.

        Returns:
            The server answers.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(wire.Health, "GET", "/health")

    async def check_liveness(self) -> wire.Health:
        """Return 200 while the server answers.

        Returns:
            The server answers.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(wire.Health, "GET", "/health/live")

    async def check_readiness(self) -> wire.Health:
        """Return 200 once the bundled model is loaded and while the database answers, else 503.

        The first call loads the model and answers when that is done or has failed.

        Returns:
            The server answers.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(wire.Health, "GET", "/health/ready")

    async def read_metrics(self) -> str:
        """Return the metrics of this process and of the queue, of all applications together.

        They name no application and no user. They need a token for metrics, which opens nothing
        else.

        Returns:
            Metrics in the text format of Prometheus, or of OpenMetrics if it is accepted.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.text("GET", "/metrics")
