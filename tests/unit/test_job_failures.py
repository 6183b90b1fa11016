"""What may be told of a failed job, and how long it waits."""

import re

import pytest
from every_case import every_case

from shared_core import CallableEmbedder, ModelOutputInvalid, ModelQuotaExceeded, ModelUnavailable
from shared_core.core.failure_reason import reason
from shared_core.jobs.retries import LONGEST_PAUSE_S, OUTAGE, POISON, pause_s, wait_s
from shared_core.models.failures import model_failure

SAID = "I live in Lisbon,\nat 'home'. 我喜欢茶"


def test_a_reason_keeps_our_words_and_no_others_and_waits_grow_and_end():
    assert "ModelOutputInvalid: no JSON" == reason(ModelOutputInvalid("no JSON"))
    assert "ValueError" == reason(ValueError(SAID))
    assert 400 > len(reason(ModelUnavailable("x" * 10_000)))
    with pytest.raises(ValueError) as raised:
        try:
            raise OSError(SAID)
        except OSError as error:
            raise ValueError(SAID) from error
    place = r" at test_job_failures.py:\d+"
    assert re.fullmatch(f"ValueError{place}, from OSError{place}", reason(raised.value))
    own_cause = OSError(SAID)
    own_cause.__cause__ = own_cause  # as "raise error from error" leaves it
    (ours := ModelUnavailable("away")).__cause__ = own_cause
    assert ("OSError", "ModelUnavailable: away") == (reason(own_cause), reason(ours))
    for strategy, longest in ((POISON, 600), (OUTAGE, 300)):
        waits = [wait_s(strategy, attempt) for attempt in (1, 3, 6, 50)]
        assert sorted(waits) == waits and longest == waits[-1]
    assert 30 <= pause_s(ModelQuotaExceeded("", retry_after_s=30), 9) <= 33
    assert pause_s(ModelQuotaExceeded("", retry_after_s=1e9), 1) <= 1.1 * LONGEST_PAUSE_S
    assert pause_s(ModelQuotaExceeded(""), 1) <= 10


@every_case((429, ModelQuotaExceeded), (500, ModelUnavailable))
async def test_an_embedder_that_fails_is_quoted_by_its_type(status, kind):
    class Refused(Exception):
        status_code = status

    def embed(texts: list[str]) -> list[list[float]]:
        raise Refused(f"cannot take {texts[0]}")

    with pytest.raises(ModelUnavailable) as raised:
        await CallableEmbedder(embed, model="tiny").embed_passages([SAID])
    assert type(raised.value) is kind
    told = reason(raised.value)
    assert "Refused" in told and "tiny" in told
    assert "Lisbon" not in told and "茶" not in told


@every_case(SAID, f"{SAID} " * 50, f"{{'prompt': {SAID!r}}}", "")
def test_a_language_model_that_fails_is_quoted_by_its_type(said):
    class Refused(Exception):
        status_code = 503

    with pytest.raises(ModelUnavailable) as raised:
        try:
            raise Refused(said)
        except Refused as error:
            raise model_failure("tiny", error) from error
    told = "ModelUnavailable: language model 'tiny' failed: status 503, Refused"
    assert told == reason(raised.value).rstrip(": ")
