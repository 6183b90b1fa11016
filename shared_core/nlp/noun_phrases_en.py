"""Find English noun phrases that may denote one unnamed person. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

from shared_core.nlp.rules import load_rules, load_things

# A determiner, with the noun phrase after it.
DETERMINER: Final = re.compile(
    r"(?:\b(?:my|our|your|the|an?|this|that|some|another|one|his|her|their|its)"
    r"|(?:\b(?!(?:it|that|he|she|what|there|who|let|here|where|how)')[\w-]{1,40}|§)'s) ++"
    r"(?=(?P<phrase>(?:(?:\d+[- ])?[^\W\d_][\w'-]*(?: +|$|(?=\W))){1,4}))",
    re.IGNORECASE,
)
# Verbs after a subject; the noun is before them.
DONE: Final = re.compile(
    r"\w+ed|\w{2,}ly|broke|fell|came|went|gave|got|ran|made|took|lost|won|left|began|grew|sank|rang"
    r"|stopped|works|smells|tastes|looks|sounds|costs|hurts|needs|runs|starts|ends|goes|comes|down|up"
)
PLURAL: Final = re.compile(
    r"(?:.* )?(?:people|men|women|children|kids|folks|guys|police|staff|family|parents)"
    r"|[^ ]+(?<![suia])s"
)
TITLE: Final = re.compile(r" (?:is|was) (?:called )?(?P<title>M(?:r?s|iss|r)\b)")
COPULA: Final = re.compile(
    r"(?:\b(?:am|is|are|was|were|be|been|being|become|becomes|became|as|isn't|wasn't)|'m|'re)"
    r"(?: (?:not|now|also|still|just|only|already|really|actually|both))?\s*\Z",
    re.IGNORECASE,
)
# Words before a place or an organisation.
PLACING: Final = re.compile(
    r"(?:\b(?:in|at|near|around|into|across|through|towards?|outside|inside|on|off|under|via|within"
    r"|between|called|speaks?|speaking|learn(?:s|ing)?|joined|left|quit"
    r"|(?:mov\w+|go(?:es|ing)?|went|gone|flew|fl(?:y|ies|ying)|travel\w*|dr(?:o|i)ve\w*|return\w*"
    r"|relocat\w+|trips?|back|came|come|been|commut\w+) to"
    r"|(?:am|is|are|was|were|be|comes?|came|originally|mov\w+|back) from|works? (?:for|with)"
    r"|worked (?:for|with)|working (?:for|with))|'m from)\s+(?:the )?\Z",
    re.IGNORECASE,
)
NAMED: Final = re.compile(
    r"(?:, ?|:? \(|,? (?:who is |who's |whose name is |is )?(?:called |named ))§| is §(?=\W*\Z)",
    re.IGNORECASE,
)
APPOSED: Final = re.compile(rf" ?§|{NAMED.pattern}", re.IGNORECASE)
PROPER: Final = re.compile(
    r"(?<![\w'-])(?:(?:Mr|Ms|Mrs|Dr|Miss)\.? )?[A-ZÀ-ÖØ-Þ][\w'-]*"
    r"(?: (?:de |van |von )?[A-ZÀ-ÖØ-Þ][\w-]*)*"
)
# Last words of names that are no people; "Professor Hill" is one.
PLACES: Final = re.compile(
    r" (?:School|University|College|Institute|Hospital|Clinic|Street|Road|Avenue|Lane|Square|Park"
    r"|Tower|Bridge|Museum|Library|Theat(?:re|er)|Stadium|Station|Airport|Hotel|Restaurant|Cafe"
    r"|Cent(?:re|er)|Club|Island|River|Lake|Ocean|Sea|Company|Day|Award|Cup|League|War)\Z"
)
INDEFINITE: Final = re.compile(r"\b(?:some(?:one|body)|any(?:one|body)|one of)\b", re.IGNORECASE)
BARE_SUBJECT: Final = re.compile(
    r"\A\s*(?P<name>[^\W\d_][\w-]*)"
    r"(?= (?:is|was|has|had|will|can|never|always|just|[a-z]+ed|[a-z]+s"
    r"|won|died|came|went|gave|said|told|got|left|lost|made|took|met|wrote|sang|ran)\b|'s\b)"
)
# "DHL guy rang", "New guy at work", "Team lead left": a subject of several words and no article.
BARE_PERSON: Final = re.compile(
    r"\A\s*(?P<name>(?:[^\W\d_][\w'-]* ){1,3}?(?:guy|dude|bloke|chap|man|woman|lady|girl|boy|kid"
    r"|fellow|lead|boss|driver|neighbou?r|friend|colleague|coworker|teacher|doctor|nurse))\b(?!')",
    re.IGNORECASE,
)
BARE_PHRASE: Final = re.compile(
    r"\A\s*(?P<name>(?:[^\W\d_][\w-]* ){1,2}[^\W\d_][\w-]*)"
    r"(?= (?:is|was|has|had|said|told|left|rang|came|went|quit|won|died|got|made|wrote|sang"
    r"|called|phoned|texted|visited|started|arrived|moved|retired|resigned)\b)"
)
# A film, book or show named after its maker or hero: "the new batman movie".
WORK: Final = re.compile(
    r"(?:.* )?(?P<name>[^ ]+) (?:movie|film|biography|novel|album|song|concert|show|series"
    r"|interview|documentary|comic|biopic)"
)
PLAIN_WORK: Final = re.compile(
    r"(?:new|newest|old|older|latest|last|next|first|second|third|good|great|bad|best|worst|nice|sad"
    r"|funny|scary|silly|boring|long|short|whole|same|other|different|favou?rite|own|famous|free|live"
    r"|horror|action|romantic|historical|foreign|local|animated|black|tv|reality|talent|quiz|chat|late"
    r"|amazing|awesome|beautiful|terrible|lovely|interesting|fantastic|wonderful|weird|strange|big"
    r"|french|german|spanish|italian|english|chinese|japanese|korean|american|british|indian|pop|rock"
    r"|folk|crime|fantasy|graphic|debut|job)|[a-z]+(?:ing|ed|al|ive|ous|ful|y)"
)
# People who share a known name: "that Tom Hanks movie".
NAMESAKE: Final = re.compile(r"(?<!§ )§ (?P<name>[A-ZÀ-ÖØ-Þ][\w-]+)")
ROMANCE: Final = re.compile(
    r"\b(?:had|have|went on|on) an? (?:[\w-]+ ){0,2}date\b(?! (?:of|for)\b)", re.IGNORECASE
)
BARE_OBJECT: Final = re.compile(
    r"\b(?:met|about|with|told|asked|marr(?:y|ied)|dat(?:e|ed|ing)|phoned|texted|(?:talk|spoke|speak)"
    r"(?:ed|s|ing)? (?:to|with)|interviewed|hugged|kissed|hired|fired) (?P<name>[a-z][\w-]+)"
    r"(?=\s*(?:$|[.,;!?]|\b(?:and|at|in|on|yesterday|today|again|last|about)\b))"
)
# In text without capitals, a liked object may be a person.
UNCAPITALISED: Final = re.compile(
    r"\b(?:like|love|hate|admire|miss|adore|saw|see|know|watch|read)(?:s|d|ed|ing)? "
    r"(?P<name>[a-z][\w-]+)"
    r"(?=\s*(?:$|[.,;!?]|\b(?:and|so|a lot|very)\b))"
)
OWN_NAME: Final = re.compile(
    r"\s*(?:my (?:full |first |last )?name(?: is|'s)|i am|i'm|(?:people |everyone )?calls? me)\b",
    re.IGNORECASE,
)
OPENER: Final = re.compile(
    r"(?:I|And|But|So|Also|It|He|She|We|You|They|There|Here|That|This|What|Who|Yes|No|Thanks?|Ok|Okay"
    r"|Please|Well|Maybe|Now|Then|All|Both|Every\w*|Nothing|Nobody|Each|Most|Many|Such|Even|If|When"
    r"|How|Why|Where|Which|Let|Great|Good|Bad|Nice|Sorry|Hi|Hello|Hey|Mine|Ours|Something|Some|Just"
    r"|Only|Still|Never|Always|In|On|At|By|For|From|To|With|After|Before|Since|The|An?|My|Our|Your|His"
    r"|Her|Their|Its)(?:'\w+)?\Z"
)


def english_phrases(clause: str) -> Iterator[str]:
    """Yield the phrases of an English clause that may denote one unknown person.

    clause: with § in place of known people.
    """
    for match in DETERMINER.finditer(clause):
        head = noun_phrase(match["phrase"])
        joined = APPOSED if " " not in head else NAMED  # "my barber knows Tom" names nobody
        named = joined.match(clause, match.end() + len(head))
        is_known = named or COPULA.search(clause[: match.start()])
        if head and not is_known and not is_thing(head):
            yield head + called(clause[match.end() + len(head) :])
    yield from (match[0] for match in INDEFINITE.finditer(clause))
    yield from (match[0] for match in ROMANCE.finditer(clause))
    if OWN_NAME.match(clause):
        return
    yield from _names(clause)
    yield from _bare_subjects(clause)
    bare = [BARE_SUBJECT, BARE_OBJECT, *([UNCAPITALISED] if clause.islower() else [])]
    for match in chain.from_iterable(pattern.finditer(clause) for pattern in bare):
        if is_bare_name(match["name"]):
            yield match["name"]


def noun_phrase(words: str) -> str:
    """Return the words after a determiner up to the head noun, or ""."""
    taken: list[str] = []
    for word in words.split():
        plain = re.sub(r"\W+\Z", "", word)
        bare = plain.lower().removesuffix("'s")
        if bare in load_things().en_stops or (taken and DONE.fullmatch(bare)):
            break
        taken.append(bare)
        if plain != word or plain.lower().endswith("'s"):
            break
    return " ".join(taken)


def called(rest: str) -> str:
    """Return the title after a noun phrase: " Mr" for "is Mr Brown"."""
    found = TITLE.match(rest)
    return f" {found['title']}" if found else ""


def is_thing(phrase: str) -> bool:
    """Tell whether a noun phrase denotes a thing or several people."""
    things = load_things()
    *before, head = phrase.split()
    if head == "king" or is_of_somebody(phrase):
        return False
    if head in things.en or PLURAL.fullmatch(phrase) or head.endswith(things.en_endings):
        return True
    # "the car stinks": after a thing comes a verb.
    return bool(before) and before[-1] in things.en and bool(re.fullmatch(r"[a-z]+s", head))


def is_of_somebody(phrase: str) -> bool:
    """Tell whether a phrase is a film, book or show named after somebody: "new batman movie"."""
    work = WORK.fullmatch(phrase)
    return (
        work is not None and not PLAIN_WORK.fullmatch(work["name"]) and not is_thing(work["name"])
    )


def is_bare_name(word: str) -> bool:
    """Tell whether a word without a determiner may be a name."""
    lower = word.lower()
    if OPENER.match(word.capitalize()) or lower in load_things().en_stops or lower.endswith("ly"):
        return False
    return not is_thing(lower) and not load_rules("en").no_person.fullmatch(word)


def _bare_subjects(clause: str) -> Iterator[str]:
    """Yield subjects of several words without an article, and people who share a known person's
    name."""
    for pattern in (BARE_PERSON, BARE_PHRASE):
        found = pattern.match(clause)
        if found is None:
            continue
        first, *rest = found["name"].lower().split()
        plain = not OPENER.match(first.capitalize()) and not {first, *rest} & load_things().en_stops
        if plain and not is_thing(" ".join([first, *rest])):
            yield found["name"]
    for namesake in NAMESAKE.finditer(clause):
        if not load_rules("en").no_person.fullmatch(namesake["name"]):
            yield namesake["name"]


def _names(clause: str) -> Iterator[str]:
    for match in PROPER.finditer(clause):
        before, name = clause[: match.start()], match[0]
        words = name.split()
        if len(words) > 1 and not before.strip() and OPENER.match(words[0]):
            name, words = " ".join(words[1:]), words[1:]
        if re.search(r"\b(?:an?|the)\s+\Z", before, re.IGNORECASE) or PLACING.search(before):
            continue
        if len(words) == 1 and (not before.strip() or not is_bare_name(name)):
            continue  # for the first word of a clause the verb decides, see BARE_SUBJECT
        thing = PLACES.search(name) if len(words) > 1 else is_thing(name.lower())
        if not thing and not load_rules("en").no_person.fullmatch(name):
            yield name
