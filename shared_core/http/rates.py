"""How often each token may ask: a token bucket for each, in this process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

MOST_BUCKETS = 10_000


class TokenBuckets:
    """Buckets by key that fill at rate a second up to burst. rate 0: no limit."""

    def __init__(
        self, rate: float, burst: int, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._now_s = now_s
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> int:
        """Take one; return 0, or after how many whole seconds there is one again."""
        if not self._rate:
            return 0
        now = self._now_s()
        level, then = self._buckets.get(key, (float(self._burst), now))
        level = min(float(self._burst), level + (now - then) * self._rate)
        if len(self._buckets) >= MOST_BUCKETS and key not in self._buckets:
            self._drop_full(now)
        self._buckets[key] = (level - 1 if level >= 1 else level), now
        return 0 if level >= 1 else math.ceil((1 - level) / self._rate)

    def _drop_full(self, now: float) -> None:
        """Forget buckets that are full by now: a new one is as full."""
        self._buckets = {
            key: (level, then)
            for key, (level, then) in self._buckets.items()
            if level + (now - then) * self._rate < self._burst
        }
