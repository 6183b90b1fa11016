"""Computes the features that rank candidates: match, context, speaker, form and time. Pure.

Each feature is one number per candidate (K). Features named z_ are standardised over the whole
corpus, so that they are comparable between users and queries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import MAXYEAR, MINYEAR, datetime, timedelta
from typing import TYPE_CHECKING, Final

import numpy as np

from shared_core.core.digest_cache import DigestCache
from shared_core.core.timestamps import EPOCH, microseconds
from shared_core.nlp.asked_slots import asked_slots
from shared_core.nlp.bm25 import spread
from shared_core.nlp.changes import TEXTS, asks_how_it_was, asks_how_it_was_before
from shared_core.nlp.dates import TimeRange, resolve
from shared_core.nlp.question_subject import OF_KIN, begins_with_kin
from shared_core.nlp.relation_phrases import only_asks
from shared_core.nlp.text import is_question, language, search_terms, words_of
from shared_core.ports.recall import Candidates, Corpus, RankingQuery, TurnOrder
from shared_core.recall.matches import Matches, has_next
from shared_core.recall.supersession import CandidateRoles, Overtaken, overtaken, told_in_full

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    from shared_core.ports.recall import Flags, Numbers, Places

    Moments: TypeAlias = NDArray[np.int64]


MICROSECOND: Final = timedelta(microseconds=1)
DAY: Final = timedelta(days=1) // MICROSECOND
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


def time_fit(times: Sequence[TimeRange], moments: Moments) -> Numbers:
    """Return 1 for moments in one of the times, 0.5 in the seven days after one, else 0, (K,).

    A month or day without a year matches every year. moments: microseconds since EPOCH, (K,).
    """
    fit = np.zeros(len(moments))
    for time in times:
        if MONTH.search(time.text) and not YEAR.search(time.text):
            years = _years(moments)
            for year in np.unique(years).tolist():
                of_year = years == year
                for begin in _of_years_near(time.begin, year):
                    near = np.maximum(fit[of_year], _within(begin, time, moments[of_year]))
                    fit[of_year] = near
        else:
            fit = np.maximum(fit, _within(time.begin, time, moments))
    return fit


def _within(begin: datetime, time: TimeRange, moments: Moments) -> Numbers:
    """Return the fit of moments to a time that begins then, (K,)."""
    since = moments - microseconds(begin)
    length, more = (time.end - time.begin) // MICROSECOND, AFTERWARDS // MICROSECOND
    fit = np.where(since < length, 1.0, np.where(since < length + more, FIT_AFTERWARDS, 0.0))
    fit[since < 0] = 0.0
    return fit


def _years(moments: Moments) -> Places:
    """Return the year of each moment, in UTC, (K,)."""
    days = np.datetime64(EPOCH.date()) + (moments // DAY).astype("m8[D]")
    years: Places = days.astype("M8[Y]").astype(np.intp) + 1970
    return years


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
"""Least time span, in seconds, over which recency is scaled, and after which what was told later
counts in full."""
READ_CHARACTERS: Final = 2_000
"""Maximum characters of a text that are searched for times."""
BRIEF_AGENT, LONG_AGENT = 60, 150
"""Mean length of an agent's turns up to which, and from which on, memories are and are no chat."""
CHINESE_LENGTH: Final = 5
"""Length of a Chinese text beside that of an English one that says the same: its characters and
their pairs count, and no stop words are left out."""
A_WORD, A_SENTENCE = 1, 3
"""Number of terms up to which a text is nothing but brief, and from which it is not brief."""
BRIEF_EXCESS: Final = 0.12
"""Cosine that two texts of one word each have for their brevity alone."""
TOPIC_EXCESS: Final = 0.13
"""Cosine that does not count as relevance where the question has moved towards answers of a topic.

Floors and doubts were fitted to questions as they stand. It was set to pass one test, and lies
between what the move adds to unrelated lines (about 0.05) and to answers (about 0.2)."""


class Matched:
    """Candidates beside the query: who is named, and how words match, without those names."""

    def __init__(self, corpus: Corpus, candidates: Candidates, asked: RankingQuery) -> None:
        self.corpus = corpus
        self.candidates = candidates
        self.asked = asked
        self.named = speakers_named(candidates, frozenset(asked.terms))
        self.words = Matches.of(corpus)
        self.nameless = _without_names(self.words, self.named, asked.terms)
        self.meant = spread(corpus.similarity)
        self.roles = CandidateRoles(candidates)

    def judged(self, judge: Callable[[str], bool]) -> Flags:
        """Return a judgement of the text of each candidate, (K,)."""
        return self.candidates.texts.judged(judge, np.arange(len(self.candidates)))


def features(found: Matched) -> Mapping[str, Numbers]:
    """Return the features of K candidates by name, (K,) each."""
    known = _of_turns(found)
    known |= _of_sessions(found)
    known |= _of_speakers(found)
    known |= _of_form(found)
    known |= _of_time(found)
    length = found.corpus.length[found.candidates.numbers]
    known["echo"] = known["is_question"] * _echo(known["similarity"], length)
    known |= _of_chat(found, known)
    # What was told later about the matter may have ended the fact without naming it.
    known["asked"] = _is_asked(found) * (1 - known["told_later"])
    for voices, is_so in _voices(found).items():
        for name in BY_VOICES[voices]:
            known[f"{voices}_{name}"] = float(is_so) * known[name]
    return known


BY_VOICES: Final[Mapping[str, Sequence[str]]] = {
    "agent": (
        "z_similarity", "z_session", "coverage", "coverage_with_previous", "coverage_around",
        "log_length", "is_question", "opens_session",
    ),
    "alone": ("z_similarity", "z_session", "log_length", "is_question"),
}  # fmt: skip
"""Features with extra weights for conversations with an agent, which asks, repeats and explains,
and for monologues. Their names: agent_coverage, alone_log_length."""


def _voices(found: Matched) -> dict[str, bool]:
    voices = found.candidates.voices
    people = {author for author, role in voices if author and role != "agent"}
    with_agent = any(role == "agent" for _, role in voices)
    return {"agent": with_agent, "alone": not with_agent and len(people) < 2}


def overtakings(found: Matched) -> Overtaken:
    """Return the pairs of candidates in which the later supersedes the earlier."""
    return overtaken(found.nameless, found.candidates, found.roles, found.asked.text)


def fuller_turns(found: Matched) -> Overtaken:
    """Return the pairs of a fact and a turn that tells it in full."""
    return told_in_full(found.candidates, found.roles)


def repeated_questions(found: Matched) -> Flags:
    """Return which candidates are turns in which a user has asked the same question, (K,).

    They have the words of the query and no others: they differ in case and punctuation, or in
    words that search leaves out. Such a turn answers nothing.
    """
    at = found.candidates.numbers
    if not only_asks(found.asked.text):
        return np.zeros(len(at), bool)
    length = len(search_terms(found.asked.text))
    flags: Flags = found.roles.is_turn & (found.corpus.length[at] == length)
    if found.asked.terms:
        flags &= found.words.holds(at).all(axis=-1)
    places = np.flatnonzero(flags)
    flags[places] = found.candidates.texts.judged(only_asks, places)
    return flags


def _without_names(matches: Matches, named: Collection[str], terms: Sequence[str]) -> Matches:
    """Return the matches without the names of speakers in the query.

    A name in a query selects the speaker, not the topic: "Hey Caroline!" is not a turn of Caroline.
    """
    names = {term for author in named for term in _first_name(author)}
    kept = [place for place, term in enumerate(terms) if term not in names]
    return matches.only(kept) if kept and len(kept) < matches.terms else matches


def _of_turns(found: Matched) -> dict[str, Numbers]:
    """Return features of turns, and of the turns around them in their session."""
    at, nameless = found.candidates.numbers, found.nameless
    places, there = _neighbours(found.corpus.order, at)
    similarity = found.corpus.similarity[places]
    z_similarity = found.meant.standardised(similarity) * there
    z_bm25 = nameless.worded.standardised(nameless.bm25[places[:2]]) * there[:2]
    holds = nameless.holds(places) & there[..., None]
    own, previous, following, two_before, two_after = holds
    around = own | previous | following
    coverage, with_previous, of_previous, coverage_around, wide = nameless.coverage(
        np.array([own, own | previous, previous, around, around | two_before | two_after])
    )
    known = np.where(np.isnan(similarity[:2]), 0.0, similarity[:2]) * there[:2]
    # The stem of an idiom is no relevance: what it asks for is known by its topic.
    is_idiom = found.asked.pulled > 0 and _has_other_words(found.asked)
    is_one = (holds[:2].sum(axis=-1) == 1) & (is_idiom and not _is_asked(found).any())
    read_as_one = nameless.z_around(at)
    return {
        "similarity": known[0],
        "z_similarity": z_similarity[0],
        "bm25": found.words.bm25[at],
        "z_bm25": z_bm25[0],
        "coverage": coverage,
        "similar_and_worded": np.maximum(z_similarity[0], 0) * np.sqrt(coverage),
        "z_bm25_with_previous": read_as_one["previous"],
        "z_bm25_with_next": read_as_one["next"],
        "z_bm25_around": read_as_one["around"],
        "similarity_previous": known[1],
        "coverage_previous": of_previous,
        "one_word": _numbers(is_one[0]),
        "one_word_previous": _numbers(is_one[1]),
        "z_bm25_previous": z_bm25[1],
        "z_similarity_previous": z_similarity[1],
        "z_similarity_next": z_similarity[2],
        "z_similarity_two_before": z_similarity[3],
        "z_similarity_two_after": z_similarity[4],
        "coverage_with_previous": with_previous,
        "coverage_around": coverage_around,
        "coverage_wide": wide,
    }


def _has_other_words(asked: RankingQuery) -> bool:
    """Tell whether a query is more than the words that are searched: "Who is Tom?", not "Tom"."""
    words = words_of(asked.text)
    return sum(len(word) if is_run else 1 for word, is_run in words) > len(asked.terms)


def _neighbours(order: TurnOrder, at: Places) -> tuple[Places, Flags]:
    """Return the places of memories and of their neighbours, and which of these are there, (5, K).

    The rows: themselves, the turn before, the turn after, two before, two after in their session.
    """
    follows, leads = ~order.opens, order.once(has_next)
    before, after = follows[at], leads[at]
    one_before, one_after = at - before, at + after
    two_before, two_after = before & follows[one_before], after & leads[one_after]
    places = np.array(
        [at, one_before, one_after, one_before - two_before, one_after + two_after], np.intp
    )
    return places, np.array([np.ones_like(before), before, after, two_before, two_after])


def _of_sessions(found: Matched) -> dict[str, Numbers]:
    """Return features of whole sessions, and of the mean of their three best turns."""
    return found.nameless.z_sessions(found.candidates.numbers)


def _of_speakers(found: Matched) -> dict[str, Numbers]:
    named = found.named
    user_is_named = any(
        author in named and role == "user" for author, role in found.candidates.voices
    )
    is_named = found.roles.of_voices(lambda author, _: author in named)
    has_author = found.roles.of_voices(lambda author, _: author is not None)
    return {
        # A fact without an author belongs to the user.
        "named_speaker": _numbers(is_named | (found.roles.is_fact & user_is_named)),
        "other_speaker": _numbers(has_author & ~is_named & bool(named)),
        "agent": _numbers(found.roles.is_agent),
    }


def _of_form(found: Matched) -> dict[str, Numbers]:
    at, corpus = found.candidates.numbers, found.corpus
    asks = _numbers(found.judged(is_question))
    return {
        "log_length": np.log1p(corpus.length[at]),
        "is_question": asks,
        "agent_asks": asks * found.roles.is_agent,
        "opens_session": _numbers(found.roles.of_kind("episodic") & corpus.opens[at]),
        "fact": _numbers(found.roles.of_kind("semantic")),
        "summary": _numbers(found.roles.of_kind("summary")),
        "of_another": _of_another(found),
    }


def _is_asked(found: Matched) -> Flags:
    """Return which candidates are facts that the query asks for, (K,)."""
    return _asked_of(found.candidates, found.asked.text)


def holds_asked(candidates: Candidates | None, question: str) -> bool:
    """Return whether any candidate is a fact that a question asks for."""
    return candidates is not None and bool(_asked_of(candidates, question).any())


def _asked_of(candidates: Candidates, question: str) -> Flags:
    known = [slot for slot in candidates.slots if slot]
    asked = asked_slots(question, known) if known else ()
    return np.array([slot in asked for slot in candidates.slots], bool)[candidates.stated]


def _of_another(found: Matched) -> Numbers:
    """Return how far a query asks for the user where candidates are about a relative, (K,)."""
    candidates = found.candidates
    if not found.asked.about_user:
        return np.zeros(len(candidates))
    is_kin = np.array([slot.startswith(OF_KIN) for slot in candidates.slots], bool)
    of_kin = is_kin[candidates.stated] | (found.roles.is_turn & found.judged(_speaks_of_another))
    return _numbers(of_kin) * found.asked.about_user


def _of_time(found: Matched) -> dict[str, Numbers]:
    asked, moments = found.asked, found.candidates.occurred
    nothing = np.zeros(len(moments))
    times = named_times(asked.text, asked.now)
    when = asks_when(asked.text)
    since = (moments - moments.min()).astype(np.float64) * 1e-6
    return {
        "time_fit": time_fit(times, moments),
        "when_told": _numbers(found.judged(tells_when)) if when else nothing,
        "recency": since / max(float(since.max()), LONG),
        "ended": nothing if asks_how_it_was(asked.text) else _ended(found.candidates),
    }


def _of_chat(found: Matched, known: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Return features of chats with an agent: how much was told later, and how long turns are.

    told_later: the share of what people told about the matter that was told after a memory, where
    exp(z_similarity) weighs each turn that is no agent's, and each fact. What was told LONG after
    it or later counts in full, what was told sooner in proportion: people change little from day to
    day. 0 where meaning tells no memory from another. user_length: log_length of a turn that is no
    agent's less their mean, else 0. recency_past, recency_before: recency where the question asks
    about the past, or for the state before a change.
    """
    asked, length, roles = found.asked.text, known["log_length"], found.roles
    usual = float(length[roles.is_turn].mean()) if roles.is_turn.any() else 0.0
    return {
        "told_later": _later(_shares(found, known), found.candidates.occurred),
        "user_length": (length - usual) * roles.is_turn,
        "recency_past": known["recency"] * asks_how_it_was(asked),
        "recency_before": known["recency"] * asks_how_it_was_before(asked),
        "chat": np.full(len(length), _is_chat(found)),
    }


def _shares(found: Matched, known: Mapping[str, Numbers]) -> Numbers:
    """Return the share of each candidate in what was told about the matter, (K,)."""
    meant = known["z_similarity"]
    is_told = found.roles.is_turn | found.roles.is_fact
    if not is_told.any() or not meant.any():
        return np.zeros(len(meant))
    near = np.where(is_told, np.exp(np.minimum(meant - meant[is_told].max(), 0.0)), 0.0)
    shares: Numbers = near / near.sum()
    return shares


def _later(share: Numbers, moments: Moments) -> Numbers:
    """Return the sum of the shares of what was said later, times min(time between / LONG, 1), (K,).

    By running sums over time, so that no pair of memories is compared.
    """
    times = (moments - moments.min()) * (1e-6 / LONG)
    order = np.argsort(times)
    at, shares = times[order], share[order]
    total = np.append(0.0, np.cumsum(shares))
    timed = np.append(0.0, np.cumsum(shares * at))
    begin, end = np.searchsorted(at, times, "right"), np.searchsorted(at, times + 1, "left")
    soon = timed[end] - timed[begin] - times * (total[end] - total[begin])
    later: Numbers = soon + total[-1] - total[end]
    return later


def _is_chat(found: Matched) -> float:
    """Return how much candidates are a chat with an agent, 0 to 1, by the lengths of its turns.

    Where an agent writes pages and the user asks for details later, it is 0: there the first turns
    count as much as the last ones (docs/decisions/0021).
    """
    places = np.flatnonzero(found.roles.is_agent)
    if not len(places):
        return 0.0
    length = found.corpus.length[found.candidates.numbers[places]]
    is_chinese = found.candidates.texts.judged(has_chinese_length, places)
    mean = float(np.where(is_chinese, length / CHINESE_LENGTH, length).mean())
    brief, long = math.log(BRIEF_AGENT), math.log(LONG_AGENT)
    return min(max((long - math.log(max(mean, 1.0))) / (long - brief), 0.0), 1.0)


def has_chinese_length(text: str) -> bool:
    """Tell whether most search terms of a text are Chinese characters and their pairs."""
    return language(text[:READ_CHARACTERS]) == "zh"


def brief_excess(found: Matched) -> tuple[Numbers, Numbers]:
    """Return the cosine that candidates, and the turns before them, owe to brevity, (K,) each.

    Models find any two texts of a word or two alike: "zeppelin" and "marker". The excess falls to
    0 from one word to three, in the query and in the memory (benchmarks.relevance).
    """
    asked = found.asked
    at, length = found.candidates.numbers, found.corpus.length
    own, previous = length[at], length[np.maximum(at - 1, 0)]
    is_chinese = has_chinese_length(asked.text)
    share = float(_brevity(np.array([float(len(asked.terms))]), np.array([is_chinese]))[0])
    short = np.flatnonzero(np.minimum(own, previous) < A_SENTENCE * CHINESE_LENGTH)
    if share == 0 or not len(short):
        return np.zeros(len(at)), np.zeros(len(at))
    chinese = np.zeros(len(at), bool)
    chinese[short] = found.candidates.texts.judged(has_chinese_length, short)
    whole = BRIEF_EXCESS * share
    return whole * _brevity(own, chinese), whole * _brevity(previous, chinese)


def _brevity(length: Numbers, is_chinese: Flags) -> Numbers:
    """Return 1 for texts of one word, 0 from A_SENTENCE on, (K,). length: in terms."""
    words = np.where(is_chinese, length / CHINESE_LENGTH, length)
    brevity: Numbers = np.clip((A_SENTENCE - words) / (A_SENTENCE - A_WORD), 0, 1)
    return brevity


def asks_when(question: str) -> bool:
    """Tell whether a question asks when something was or will be."""
    return ASKS_WHEN.search(question[:READ_CHARACTERS]) is not None


def tells_when(text: str) -> bool:
    """Tell whether a text says when something was."""
    return TELLS_WHEN.search(text[:READ_CHARACTERS]) is not None


def _ended(candidates: Candidates) -> Numbers:
    """Return the share of each that no longer holds; a doubtful fact counts as half, (K,)."""
    share: Numbers = np.maximum(candidates.ended, np.multiply(DOUBTFUL, candidates.doubtful))
    return share


def speakers_named(candidates: Candidates, asked: frozenset[str]) -> set[str]:
    """Return the authors whose first name is in the query, unless all of them are."""
    authors = {author for author, _ in candidates.voices if author}
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


_speaks_of_another: Final = DigestCache(
    "about another", lambda text: begins_with_kin(text[:READ_CHARACTERS]), TEXTS
)


def _numbers(flags: Flags) -> Numbers:
    return flags.astype(np.float64)
