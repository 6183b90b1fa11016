"""Time slices: resolves words or moments to a period, and divides it into buckets. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, get_args

from shared_core.core.delimiters import OUR_TAGS
from shared_core.core.domain import Hit, JsonValue, Memory
from shared_core.core.shown import shown
from shared_core.core.timestamps import check_moment, check_period
from shared_core.errors import InvalidInput
from shared_core.nlp import calendar
from shared_core.nlp.dates import TimeRange, resolve
from shared_core.nlp.past_dates import is_weekday, looked_back
from shared_core.nlp.uncertainty import shown_text
from shared_core.ports.events import BucketUnit

MAX_BUCKETS: Final = 10_000
EXAMPLES: Final = (
    '"last Tuesday", "two weeks ago", "last 7 days", "from 2024-05-01 to 2024-05-10", "上周二",'
    ' "最近三天"'
)

_FROM_TO: Final = (
    re.compile(
        r"(?:from|between)\s++(.{1,99}?)\s+(?:to|until|till|and|through)\s++(.+)", re.I | re.S
    ),
    re.compile(r"(?:从|自)?(.{1,99}?)(?:到|至)(.{1,99}?)(?:之间|期间|为止)?"),
)
_ISO: Final = re.compile(r"(\d{4})([-/.])(\d{1,2})(?:\2(\d{1,2}))?")
_BESIDE: Final = re.compile(
    r"(?:\b(?:on|in|at|the|during|of|over|around|from)\b|[在于的那时候期间里，。,.?？!！\s])+", re.I
)
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBucket:
    """A part of a time slice, end exclusive, and its number of memories."""

    begin: datetime
    end: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlice:
    """A page of the memories of a period, end exclusive; None for no bound.

    Attributes:
        memories: in the requested order.
        hits: the same with scores, if there was a query.
        buckets: of the whole period, not of the page; () unless requested.
    """

    begin: datetime | None
    end: datetime | None
    memories: tuple[Memory, ...]
    hits: tuple[Hit, ...] = ()
    buckets: tuple[TimeBucket, ...] = ()

    def to_dict(self, *, explain: bool = False) -> dict[str, JsonValue]:
        """Return a JSON object; times in ISO 8601. explain: add the parts of each score."""
        found: list[JsonValue] = [hit.to_dict(explain=explain) for hit in self.hits]
        return {
            "begin": self.begin.isoformat() if self.begin else None,
            "end": self.end.isoformat() if self.end else None,
            "memories": found or [memory.to_dict() for memory in self.memories],
            "buckets": [
                {"begin": one.begin.isoformat(), "end": one.end.isoformat(), "count": one.count}
                for one in self.buckets
            ],
        }


def told(found: TimeSlice, characters: int = 8_000) -> dict[str, Any]:
    """Return a slice as the result of a tool, with the fields that help a model.

    characters: maximum total text; "left_out" counts the memories beyond it.
    """
    shown: list[dict[str, str]] = []
    for memory in found.memories:
        text = OUR_TAGS.escaped(shown_text(memory)[: max(characters, 0) + 1])
        text = text if len(text) <= characters else f"{text[:characters]} […]"
        characters -= len(text)
        if characters < 0 and shown:
            break
        about = {"id": memory.key, "text": text, "author": memory.author or ""}
        about["time"] = memory.occurred_at.isoformat()
        shown.append({name: value for name, value in about.items() if value})
    answer: dict[str, Any] = {
        "from": found.begin.isoformat() if found.begin else None,
        "to": found.end.isoformat() if found.end else None,
        "memories": shown,
    }
    left_out = len(found.memories) - len(shown)
    return answer | ({"left_out": left_out} if left_out else {})


def stretch(
    when: str | None, begin: datetime | str | None, end: datetime | str | None, now: datetime
) -> tuple[datetime | None, datetime | None]:
    """Return begin and end of a period, both aware; None for no bound.

    when: words for the period. begin, end: moments, or words for its first and last part. now:
    aware, the reference of the words. Raises InvalidInput for words that name no time, many, or
    a recurring one; for naive moments; and for an end that is not after the beginning.
    """
    check_moment(now, "asked_at")
    if when is not None:
        if begin is not None or end is not None:
            raise InvalidInput("give when, or begin and end, not both")
        return named(when, now, "when")
    since = _moment(begin, now, "begin", 0)
    until = _moment(end, now, "end", 1)
    check_period(since, until)
    return since, until


def named(text: str, now: datetime, what: str) -> tuple[datetime, datetime]:
    """Return the period that words name. Raises InvalidInput, naming what."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be words for a time, got {type(text).__name__}")
    words = text.strip()
    whole = _one(words, now)
    if isinstance(whole, tuple):
        return whole
    for pattern in _FROM_TO:
        if match := pattern.fullmatch(words):
            first, last = _one(match[1].strip(), now), _one(match[2].strip(), now)
            if isinstance(first, tuple) and isinstance(last, tuple):
                if last[1] <= first[0] and is_weekday(match[1].strip()):
                    first = (first[0] - timedelta(days=7), first[1])  # of the week before
                if calendar.instant(last[1]) <= calendar.instant(first[0]):
                    raise InvalidInput(f"{what} {text!r} ends before it begins")
                return first[0], last[1]
    raise InvalidInput(f"{what} {text!r} {whole}: say one as {EXAMPLES}, or give begin and end")


def starts(begin: datetime, end: datetime, unit: BucketUnit, zone: tzinfo) -> list[datetime]:
    """Return the start of each hour, day, week (from Monday), month or year of a period.

    The first one contains begin. Days are local to the zone, also across clock changes.
    Raises InvalidInput for another unit, and for more than MAX_BUCKETS.
    """
    if unit not in get_args(BucketUnit):
        raise InvalidInput(
            f"bucket must be one of {', '.join(get_args(BucketUnit))}, got {shown(unit)}"
        )
    if unit == "hour":
        # Counted in UTC, because a zone repeats an hour when its clocks go back.
        first = begin.astimezone(zone).replace(minute=0, second=0, microsecond=0).astimezone(UTC)
        count = _count((calendar.instant(end) - first) / timedelta(hours=1), unit)
        hours = [first + timedelta(hours=number) for number in range(count)]
        return [hour.astimezone(zone) for hour in hours if hour < calendar.instant(end)]
    span = getattr(calendar, unit)
    local = begin.astimezone(zone)
    days = (end - begin) / timedelta(days={"day": 1, "week": 7, "month": 28, "year": 365}[unit])
    found: list[datetime] = []
    for offset in range(_count(days, unit) + 2):
        moment = span(local, offset).begin
        if calendar.instant(moment) >= calendar.instant(end):
            break
        found.append(moment)
    return found


def _count(length: float, unit: str) -> int:
    if length > MAX_BUCKETS:
        raise InvalidInput(
            f"that is more than {MAX_BUCKETS:,} times a {unit}: take a larger bucket, or give"
            " begin and end"
        )
    return int(length) + 1


def _one(text: str, now: datetime) -> tuple[datetime, datetime] | str:
    """Return the period that a text names, or an error if it says anything else."""
    if match := _ISO.fullmatch(text):
        return _iso(match, now)
    if back := looked_back(text.rstrip(".。?？!！"), now):
        return back.begin, back.end
    ranges = resolve(text, now) or resolve(f"in {text}", now)
    distinct = {(one.begin, one.end): one for one in ranges}
    if not distinct:
        return "names no time, or one that may mean several"
    if len(distinct) > 1:
        texts = " and ".join(repr(one.text) for one in distinct.values())
        return f"names several times, {texts}"
    [one] = distinct.values()
    if one.kind == "every":
        return f"names a recurring time, {one.text!r}"
    return _unread(text, one) or (one.begin, one.end)


def _unread(text: str, one: TimeRange) -> str:
    """Return an error for words beside the time: a time half understood is a wrong time."""
    rest = text.replace(one.text, " ", 1) if one.text in text else ""
    if one.kind == "since":
        rest = re.sub(r"\bsince\b|自从|以来|之后|以后|开始|起|从|自|至今", " ", rest, flags=re.I)
    words = _WORD.findall(_BESIDE.sub(" ", rest))
    return (
        f"says more than the time {one.text!r}: {' '.join(words)!r} was not understood"
        if words
        else ""
    )


def _iso(match: re.Match[str], now: datetime) -> tuple[datetime, datetime] | str:
    unit = calendar.day if match[4] else calendar.month
    try:
        span = unit(now.replace(year=int(match[1]), month=int(match[3]), day=int(match[4] or 1)))
    except (OverflowError, ValueError):
        return "names no time"
    return span.begin, span.end


def _moment(given: datetime | str | None, now: datetime, what: str, side: int) -> datetime | None:
    if given is None:
        return None
    if isinstance(given, str):
        return _exact(given) or named(given, now, what)[side]
    if not isinstance(given, datetime):
        raise InvalidInput(f"{what} must be a datetime or words for a time, got {shown(given)}")
    return given


def _exact(text: str) -> datetime | None:
    """Return the moment of an ISO 8601 time with a zone, or None; a date names a day."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo else None
