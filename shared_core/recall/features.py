"""Computes the features that rank candidates: match, context, speaker, form and time. Pure.

Each feature is one number per candidate (K). Features named z_ are standardised over the whole
corpus, so that they are comparable between users and queries.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import MAXYEAR, MINYEAR, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from shared_core.nlp.dates import TimeRange, resolve
from shared_core.nlp.text import is_question, search_terms
from shared_core.ports.recall import Candidate, Corpus, RankingQuery
from shared_core.recall.bm25 import (
    Matches,
    bm25,
    covered,
    inverse_document_frequency,
    matched_words,
    standardised,
)
from shared_core.recall.supersession import Overtaken, asks_how_it_was, overtaken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared_core.ports.recall import Flags, Numbers, Places

    Values = TypeVar("Values", bound=NDArray[Any])


YEAR: Final = re.compile(r"\d{4}|\byear\b|年")
MONTH: Final = re.compile(
    r"\b(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec)|月|号|\d日", re.IGNORECASE
)
AFTERWARDS: Final = timedelta(days=7)
"""People often report events some days later."""
FIT_AFTERWARDS: Final = 0.5


def named_times(text: str, now: datetime) -> list[TimeRange]:
    """Return the times a question names, except recurring ones."""
    return [one for one in resolve(text, now) if one.kind != "every"]


def time_fit(times: Sequence[TimeRange], moment: datetime) -> float:
    """Return 1 if moment is in one of the times, 0.5 in the seven days after one, else 0.

    A month or day without a year matches every year.
    """
    return max((_fit(one, moment) for one in times), default=0.0) if times else 0.0


def _fit(time: TimeRange, moment: datetime) -> float:
    length = time.end - time.begin
    begins = [time.begin]
    if MONTH.search(time.text) and not YEAR.search(time.text):
        begins = _of_years_near(time.begin, moment.year)
    return max((_within(begin, length, moment) for begin in begins), default=0.0)


def _within(begin: datetime, length: timedelta, moment: datetime) -> float:
    since = moment - begin
    if timedelta(0) <= since < length:
        return 1.0
    return FIT_AFTERWARDS if length <= since < length + AFTERWARDS else 0.0


def _of_years_near(begin: datetime, year: int) -> list[datetime]:
    """Return begin in a year and its neighbours; time zones disagree around New Year."""
    day = min(begin.day, 28) if begin.month == 2 else begin.day
    return [
        begin.replace(year=near, day=day)
        for near in range(max(year - 1, MINYEAR), min(year + 1, MAXYEAR) + 1)
    ]


ASKS_WHEN: Final = re.compile(
    r"\bwhen\b|what (?:date|day|month|year|time)|how long|how many (?:days|weeks|months|years)"
    r"|什么时候|几月|几号|哪天|哪一天|何时|多久",
    re.IGNORECASE,
)
TELLS_WHEN: Final = re.compile(
    r"\b(?:yesterday|today|tomorrow|tonight|last|next|ago|weeks?|months?|years?|weekend|recently"
    r"|since|january|february|march|april|may|june|july|august|september|october|november"
    r"|december|(?:mon|tues|wednes|thurs|fri|satur|sun)day|\d{4})\b"
    r"|昨天|今天|明天|前天|后天|上周|下周|上个月|下个月|去年|今年|明年|周[一二三四五六日天]|星期",
    re.IGNORECASE,
)
LEAST_ECHO, MOST_ECHO = 0.3, 0.6
"""Cosine at which a question begins to count as an echo of the query, and fully counts."""
BRIEF, TELLING = 8, 16
"""Length up to which a question only asks, and from which it also informs ("I moved to York, can
you help me find a dentist?"); in words, for Chinese in characters and pairs."""
LONG: Final = 30 * 86_400.0
"""Least time span, in seconds, over which recency is scaled."""
READ_CHARACTERS: Final = 2_000
"""Maximum characters of a text that are searched for times."""


def features(
    corpus: Corpus, matches: Matches, candidates: Sequence[Candidate], asked: RankingQuery
) -> Mapping[str, Numbers]:
    """Return the features of K candidates by name, (K,) each."""
    at = np.array([candidate.number for candidate in candidates], dtype=np.intp)
    named = speakers_named(candidates, frozenset(asked.terms))
    nameless = _without_names(corpus, matches, named, asked.terms)
    everywhere = (
        _of_turns(matches, nameless) | _around(corpus, nameless) | _of_sessions(corpus, nameless)
    )
    found = {name: values[at] for name, values in everywhere.items()}
    found |= _of_speakers(candidates, named)
    found |= _of_form(corpus, candidates, at)
    found |= _of_time(candidates, asked)
    found["echo"] = found["is_question"] * _echo(found["similarity"], corpus.length[at])
    for voices, is_so in _voices(candidates).items():
        for name in BY_VOICES[voices]:
            found[f"{voices}_{name}"] = float(is_so) * found[name]
    return found


BY_VOICES: Final[Mapping[str, Sequence[str]]] = {
    "agent": (
        "z_similarity", "z_session", "coverage", "coverage_with_previous", "coverage_around",
        "log_length", "is_question", "opens_session",
    ),
    "alone": ("z_similarity", "z_session", "log_length", "is_question"),
}  # fmt: skip
"""Features with extra weights for conversations with an agent, which asks, repeats and explains,
and for monologues. Their names: agent_coverage, alone_log_length."""


def _voices(candidates: Sequence[Candidate]) -> dict[str, bool]:
    people = {one.author for one in candidates if one.author and one.role != "agent"}
    with_agent = any(one.role == "agent" for one in candidates)
    return {"agent": with_agent, "alone": not with_agent and len(people) < 2}


def overtakings(
    corpus: Corpus, matches: Matches, candidates: Sequence[Candidate], asked: RankingQuery
) -> Overtaken:
    """Return the pairs of candidates in which the later supersedes the earlier."""
    named = speakers_named(candidates, frozenset(asked.terms))
    return overtaken(_without_names(corpus, matches, named, asked.terms), candidates, asked.text)


def _without_names(
    corpus: Corpus, matches: Matches, named: Collection[str], terms: Sequence[str]
) -> Matches:
    """Return the matches without the names of speakers in the query.

    A name in a query selects the speaker, not the topic: "Hey Caroline!" is not a turn of Caroline.
    """
    names = {term for author in named for term in _first_name(author)}
    kept = [place for place, term in enumerate(terms) if term not in names]
    if not kept or len(kept) == matches.holds.shape[1]:
        return matches
    return matched_words(corpus, matches.holds[:, kept])


def _of_turns(matches: Matches, nameless: Matches) -> dict[str, Numbers]:
    z_similarity = standardised(matches.similarity)
    return {
        "similarity": np.nan_to_num(matches.similarity),
        "z_similarity": z_similarity,
        "bm25": matches.bm25,
        "z_bm25": standardised(nameless.bm25),
        "coverage": nameless.coverage,
        "similar_and_worded": np.maximum(z_similarity, 0) * np.sqrt(nameless.coverage),
    }


def _around(corpus: Corpus, nameless: Matches) -> dict[str, Numbers]:
    """Return features of the neighbouring turns of a session, alone and combined with the turn."""
    opens, length, holds = corpus.opens, corpus.length, nameless.holds
    before, after = _before(holds, opens), _after(holds, opens)
    length_before, length_after = _before(length, opens), _after(length, opens)
    around = holds | before | after
    z_similarity = standardised(nameless.similarity)
    z_previous, z_next = _before(z_similarity, opens), _after(z_similarity, opens)
    return {
        "z_bm25_with_previous": _read_as_one([holds, before], length + length_before),
        "z_bm25_with_next": _read_as_one([holds, after], length + length_after),
        "z_bm25_around": _read_as_one(
            [holds, before, after], length + length_before + length_after
        ),
        "similarity_previous": _before(np.nan_to_num(nameless.similarity), opens),
        "coverage_previous": _before(nameless.coverage, opens),
        "z_bm25_previous": _before(standardised(nameless.bm25), opens),
        "z_similarity_previous": z_previous,
        "z_similarity_next": z_next,
        "z_similarity_two_before": _before(z_previous, opens),
        "z_similarity_two_after": _after(z_next, opens),
        "coverage_with_previous": covered(holds | before, nameless.idf),
        "coverage_around": covered(around, nameless.idf),
        "coverage_wide": covered(
            around | _before(before, opens) | _after(after, opens), nameless.idf
        ),
    }


def _read_as_one(parts: Sequence[Flags], length: Numbers) -> Numbers:
    frequency = np.add.reduce([part.astype(float) for part in parts])
    return standardised(bm25(frequency, length, inverse_document_frequency(frequency > 0)))


BEST_OF_SESSION: Final = 3


def _of_sessions(corpus: Corpus, nameless: Matches) -> dict[str, Numbers]:
    """Return features of whole sessions, and of the mean of their three best turns."""
    session: Places = np.cumsum(corpus.opens) - 1
    sessions = int(session[-1]) + 1
    frequency = np.zeros((sessions, nameless.holds.shape[1]))
    np.add.at(frequency, session, nameless.holds)
    lengths = np.bincount(session, corpus.length, sessions).astype(np.float64)
    words = bm25(frequency, lengths, inverse_document_frequency(frequency > 0))
    return {
        "z_session": standardised(words[session]),
        "z_session_similarity": _best_of(np.nan_to_num(nameless.similarity), session, sessions),
        "z_session_words": _best_of(nameless.bm25, session, sessions),
    }


def _best_of(scores: Numbers, session: Places, sessions: int) -> Numbers:
    order = np.lexsort((-scores, session))
    first = np.searchsorted(session[order], np.arange(sessions))
    place = np.arange(len(scores)) - first[session[order]]
    best = order[place < BEST_OF_SESSION]
    total = np.bincount(session[best], scores[best], sessions)
    mean = total / np.bincount(session[best], minlength=sessions)
    return standardised(mean[session])


def _before(values: Values, opens: Flags) -> Values:
    """Return the values of the turn before, or 0 where a session opens."""
    moved: Values = np.zeros_like(values)
    moved[1:] = values[:-1]
    moved[opens] = 0
    return moved


def _after(values: Values, opens: Flags) -> Values:
    moved: Values = np.zeros_like(values)
    moved[:-1] = values[1:]
    moved[:-1][opens[1:]] = 0
    return moved


def _of_speakers(candidates: Sequence[Candidate], named: Collection[str]) -> dict[str, Numbers]:
    user_is_named = any(one.author in named and one.role == "user" for one in candidates)
    return {
        # A fact without an author belongs to the user.
        "named_speaker": _numbers(
            one.author in named or (user_is_named and one.kind == "semantic" and one.author is None)
            for one in candidates
        ),
        "other_speaker": _numbers(
            bool(named) and one.author is not None and one.author not in named for one in candidates
        ),
        "agent": _numbers(one.role == "agent" for one in candidates),
    }


def _of_form(corpus: Corpus, candidates: Sequence[Candidate], at: Places) -> dict[str, Numbers]:
    asks = _numbers(is_question(one.text) for one in candidates)
    return {
        "log_length": np.log1p(corpus.length[at]),
        "is_question": asks,
        "agent_asks": asks * _numbers(one.role == "agent" for one in candidates),
        "opens_session": _numbers(
            one.kind == "episodic" and bool(corpus.opens[one.number]) for one in candidates
        ),
        "fact": _numbers(one.kind == "semantic" for one in candidates),
        "summary": _numbers(one.kind == "summary" for one in candidates),
    }


def _of_time(candidates: Sequence[Candidate], asked: RankingQuery) -> dict[str, Numbers]:
    times = named_times(asked.text, asked.now)
    when = ASKS_WHEN.search(asked.text[:READ_CHARACTERS]) is not None
    moments = np.array([one.occurred_at.timestamp() for one in candidates])
    span = max(float(np.ptp(moments)), LONG)
    is_of_now = not asks_how_it_was(asked.text)
    return {
        "time_fit": np.array([time_fit(times, one.occurred_at) for one in candidates]),
        "when_told": _numbers(
            when and TELLS_WHEN.search(one.text[:READ_CHARACTERS]) is not None for one in candidates
        ),
        "recency": (moments - moments.min()) / span,
        "ended": is_of_now * np.array([_ended(one) for one in candidates]),
    }


def _ended(one: Candidate) -> float:
    """Return the share of a candidate that no longer holds; a doubtful fact counts as half."""
    return max(one.ended, DOUBTFUL) if one.is_doubtful else one.ended


def speakers_named(candidates: Sequence[Candidate], asked: frozenset[str]) -> set[str]:
    """Return the authors whose first name is in the query, unless all of them are."""
    authors = {author for candidate in candidates if (author := candidate.author)}
    named = set()
    for author in authors:
        name = _first_name(author)
        if name and all(term in asked for term in name):
            named.add(author)
    return named if named != authors else set()


def _first_name(author: str) -> list[str]:
    return search_terms(author.split(maxsplit=1)[0]) if author.strip() else []


DOUBTFUL: Final = 0.5
"""Share of a doubtful fact that counts as ended."""


def _echo(similarity: Numbers, length: Numbers) -> Numbers:
    """Return 1 for an echo of the query, 0 for dissimilar or informative texts, (K,)."""
    near = np.clip((similarity - LEAST_ECHO) / (MOST_ECHO - LEAST_ECHO), 0, 1)
    brief = np.clip((TELLING - length) / (TELLING - BRIEF), 0, 1)
    echo: Numbers = near * brief
    return echo


def _numbers(values: Iterable[bool]) -> Numbers:
    return np.fromiter(values, dtype=np.float64)
