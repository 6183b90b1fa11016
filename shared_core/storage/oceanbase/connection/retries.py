"""When work that failed is tried again, and for how long."""

from __future__ import annotations

import random
import time

import pymysql

from shared_core.storage.oceanbase.connection.errors import (
    LOCK_WAIT,
    LOST,
    ROLLED_BACK,
    UNDONE,
    UNKNOWN,
    UNREACHED,
    code_of,
    is_silent,
)

TRIES = 6
PAUSE_S = 0.02
"""Before the second try; twice as long before each that follows, up to 32 times."""
LONGEST_PAUSE = 5


class Attempts:
    """The attempts at one piece of work. until: by time.monotonic(), when waiting ends.

    What passes by itself is waited for until then: a lock, a new leader, and a server that alone
    knows whether what was written is committed. All else is tried so many times.
    """

    def __init__(self, until: float) -> None:
        self._until = until
        self._failed = self._tried = 0
        self.are_in_doubt = False

    def failed(self, error: pymysql.MySQLError, *, has_looked: bool, wrote: bool) -> None:
        """Note an attempt. has_looked: none before it was committed. wrote: it may have been."""
        if has_looked:
            self.are_in_doubt = False
        if wrote and (code_of(error) in (*LOST, UNKNOWN) or is_silent(error)):
            self.are_in_doubt = True
        self._failed += 1
        self._tried += not self._waits(error)

    def go_on(self, error: pymysql.MySQLError) -> bool:
        """Tell whether to try again.

        A server that was silent for as long as a statement may take is not asked again.
        """
        if is_silent(error):
            return False
        if self._waits(error):
            return time.monotonic() < self._until
        return code_of(error) in (*ROLLED_BACK, *LOST) and self._tried < TRIES

    def pause(self) -> None:
        """Sleep for a moment, longer from one attempt to the next."""
        time.sleep(random.uniform(0, PAUSE_S * 2 ** min(self._failed - 1, LONGEST_PAUSE)))

    def _waits(self, error: pymysql.MySQLError) -> bool:
        code = code_of(error)
        passes = code == LOCK_WAIT or code in UNDONE
        return passes or (self.are_in_doubt and code in (*LOST, *UNREACHED))
