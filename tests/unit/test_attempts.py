"""What is tried again on OceanBase, and for how long."""

import time

import pymysql
from every_case import every_case

from shared_core.storage.oceanbase.connection.attempts import TRIES, Attempts

PAST = -1.0
HOUR = 3600.0


def failed(attempts: Attempts, code: int, *, wrote: bool = False, has_looked: bool = True) -> bool:
    error = pymysql.OperationalError(code, "")
    attempts.failed(error, has_looked=has_looked, wrote=wrote)
    return attempts.go_on(error)


@every_case(1213, 6235, 2006, 2013)
def test_what_may_fail_for_ever_is_tried_so_many_times(code):
    attempts = Attempts(time.monotonic() + HOUR)
    assert [failed(attempts, code) for _ in range(TRIES)] == [True] * (TRIES - 1) + [False]


@every_case(1205, 4038, 6225)
def test_what_passes_by_itself_is_waited_for(code):
    attempts = Attempts(time.monotonic() + HOUR)
    assert all(failed(attempts, code) for _ in range(10 * TRIES))
    assert not failed(Attempts(PAST), code)


def test_waiting_for_a_lock_uses_no_try_up():
    attempts = Attempts(time.monotonic() + HOUR)
    assert all(failed(attempts, 1205) for _ in range(10 * TRIES))
    assert failed(attempts, 2013)


def test_an_answer_in_doubt_is_asked_for_as_long_as_there_is_time():
    attempts = Attempts(time.monotonic() + HOUR)
    assert failed(attempts, 2013, wrote=True)
    assert attempts.are_in_doubt
    assert all(failed(attempts, 2003, has_looked=False) for _ in range(10 * TRIES))
    assert attempts.are_in_doubt
    assert failed(attempts, 1213)
    assert not attempts.are_in_doubt
    assert not failed(attempts, 2003, has_looked=False)


@every_case(1146, 2003, 4012, 1062)
def test_the_rest_is_told_at_once(code):
    assert not failed(Attempts(time.monotonic() + HOUR), code)
