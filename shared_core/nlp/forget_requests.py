"""Find requests such as "Forget what I said about Theo" in a user's turn. Pure.

"Forget it", "I forgot", "don't forget" and questions about forgetting are none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Final

from shared_core.core.domain import Event, HeldFact
from shared_core.nlp.clauses import QUOTATION, own_sentences
from shared_core.nlp.rules import load_kin_words
from shared_core.nlp.slots import is_name_slot, slot_of
from shared_core.nlp.text import HAN_CHARACTER, Language, normalised, search_terms, stem
from shared_core.nlp.typed_text import load_english_typing

MAX_REQUEST_CHARACTERS: Final = 160
"""Maximum length of a sentence that is read as a request."""

_HINT: Final = re.compile(
    r"forget|delet|eras|remov|wipe|drop|unlearn|remember|忘|删|清除|清掉|抹|别再?记|不要再?记|(?:别|不要|不许)再.{0,6}提",
    re.IGNORECASE,
)
_COURTESY_EN: Final = (
    r"(?:(?:please|pls|plz|hey|hi|ok(?:ay)?|oh|ah|actually|and|also|so|now|sorry|btw|just"
    r"|(?:can|could|would|will) (?:you|u|ya)|i(?:'d| would) like you to|i want you to|i need you to"
    r"|you can|go ahead and)[,:]? ){0,5}"
)
_SAID_EN: Final = (
    r"(?:(?:i|i've|i have|we|we've) (?:ever |just )?"
    r"(?:said|told you|told u|mentioned|shared|wrote|talked|typed|asked)(?: to you| earlier"
    r"| before| here| you)?|you(?:'ve| have)? (?:know|remember|saved|stored|learned|learnt"
    r"|noted|have|heard)(?: saved| stored)?) "
)
_ENDING_EN: Final = r"(?:,? (?:please|pls|plz|ok(?:ay)?|thanks?|thank you|thx|now|for good)){0,3}"
_TOPIC_EN: Final = r"(?P<topic>[^,.!?;:]{2,80}?)"
_ALL_EN: Final = (
    r"(?:everything|anything|all(?: of)?|every memory|all (?:the )?memories|whatever|what"
    r"|all that)"
)
_PART_EN: Final = r"the (?:thing|things|stuff|part|bit|details?|info)"
_FORGET_EN: Final = r"(?:forget|unlearn|stop remembering)"
_ABOUT_EN: Final = r"(?:about|regarding|concerning)"
_FROM_MEMORY_EN: Final = r" from (?:your|my) memor(?:y|ies)"
ENGLISH: Final = re.compile(
    _COURTESY_EN
    + r"(?:(?:"
    + rf"(?:{_FORGET_EN}|delete|erase|remove|wipe|drop) "
    + rf"(?:{_ALL_EN}(?: that)? (?:(?:{_SAID_EN}|there is )?{_ABOUT_EN}|you have on)"
    + rf"|{_PART_EN}(?: that)? {_SAID_EN}{_ABOUT_EN}|all (?:the |my |your )?memories of)"
    + rf"|{_FORGET_EN} {_PART_EN} {_ABOUT_EN}) "
    + _TOPIC_EN
    + rf"(?:{_FROM_MEMORY_EN})?"
    + r"|forget about (?P<person>[\w' -]{2,40}?)"
    + r"|(?:forget|delete|erase|remove|wipe|drop|unlearn) (?:the \w+ )?about "
    + rf"(?P<known>.{{2,80}}?){_FROM_MEMORY_EN})"
    + _ENDING_EN
    + r" ?[.!?]*",
    re.IGNORECASE,
)
"""A whole sentence that asks to forget a topic.

"Forget about X" often means: never mind. It counts for somebody around the user, see _is_person().
"Delete the part about X" is about a text that both look at, "don't remember" lacks its "I".
"""
_BIDDEN_EN: Final = re.compile(r"\b(?:please|pls|plz|you|u|ya)\b", re.IGNORECASE)
"""What shows that "forget about X" bids the listener, who remembers."""
_EX_EN: Final = r"(?:ex(?:[- ](?:wife|husband|boyfriend|girlfriend|partner|gf|bf))?|gf|bf|hubby)"
_INFLECTIONS: Final = (
    frozenset({"", "s", "es", "d", "ed", "ing"}),
    frozenset({"e", "es", "ed", "ing"}),
    frozenset({"y", "ies", "ied", "ying"}),
)
"""Endings that forms of one English word have after what they share; equal stems share more."""
CHINESE: Final = re.compile(
    r"(?:(?:请|麻烦|拜托|帮我|帮忙|劳驾|能不能|可不可以|可以|你|您|那就|那|对了|算了|还是|就|现在)"
    r"[，, ]?){0,5}"
    r"(?:"
    r"(?:把|将)(?P<taken>[^，。！？,.!?；]{1,40}?)(?:都|全都|全部|统统|通通|也|给我|给"
    r"|从(?:你的?)?(?:记忆|记录)(?:里|中)){0,3}"
    r"(?P<done>忘了|忘掉|忘记|忘干净|删了|删掉|删除|清除|清掉|抹掉|抹去)(?!了(?!吧|好))"
    r"|(?P<verb>忘了|忘掉|忘记|删掉|删除|清除|抹掉|抹去|别再?记(?:得|着|住)?"
    r"|不要再?记(?:得|着|住)?)(?P<after>(?!了)[^，。！？,.!?；]{2,40}?)"
    r")(?:吧|好吗|好不好|行吗|可以吗|谢谢|哦|啦|了|嘛|啊|呗){0,4} ?[。！？!?.~～]*"
)
"""A whole sentence that asks to forget a topic, unless it may tell what somebody forgot."""
_FORGOT_ZH: Final = re.compile(r"忘了|忘记")
_WILLED_ZH: Final = re.compile(
    r"[请帮]|麻烦|拜托|劳驾|^(?!那?[你您]).*(?:吧|好吗|好不好|行吗|可以吗|呗)[^好行可]*$"
)
"""忘了 without such words tells what the user forgot: 忘了开会的事, 你把开会的事忘了吧."""
_OF_TEXTS_ZH: Final = re.compile(r"(?:内容|记录|信息|消息|东西|部分|资料)们?$")
_OF_MEMORY_ZH: Final = re.compile(r"[说說讲講提聊告]|记忆")
"""What is deleted of a text, as 关于猫的内容, is no topic unless the user said it."""
_FRAME_ZH: Final = re.compile(
    r"^(?:(?:所有|全部|一切|刚才|刚刚|之前|以前|上次|昨天|前面)的?){0,3}"
    r"(?:(?:我|咱们?)(?:们)?(?:刚才|刚刚|之前|以前|上次|曾经|跟你|和你|对你|给你|向你){0,3}"
    r"(?:告[诉訴]你?|[说說讲講提聊](?:到)?)(?:过|過|起)?的?)?"
    r"(?:(?:关于|有关|關於|有關|跟|和|与)(?=.))?(?P<topic>.+?)"
    r"(?:有关的?|相关的?)?(?:的|那些?|这些?|一切|所有|全部|任何){0,3}"
    r"(?:事情?儿?|话|内容|记录|信息|记忆|消息|东西|一切|部分|资料|所有)(?:们)?$"
)
"""The topic within what is to be forgotten: 我说的阿泽的事. Without such a noun it is a thing."""
_PART: Final = re.compile(r"[A-Za-z0-9\u00c0-\u024f]+|[\u4e00-\u9fff]+")
_LATIN_WORD: Final = re.compile(r"[a-z]{3,40}")
_NICKNAME: Final = (
    r"(?:[小阿](?![学时声姐妹弟哥心孩区组班说的气住睡病有姨公婆产号名店车腿床票费吃额事肚手包卡楼院屋便"
    r"伤灶臂指猫狗宠米里点偷数众型程吵丑人鬼])[\u4e00-\u9fff]"
    r"|老[王李张刘陈杨赵黄周吴徐孙胡朱林何郭马罗梁宋郑谢韩唐冯董程曹袁邓许沈彭吕苏卢蒋蔡]"
    r"|我?的?前(?:任|女友|男友|女朋友|男朋友|夫|妻))"
)
"""A person by the form of the name: 小美, 阿强, 老王, and a former partner."""
_FULL_NAME: Final = (
    rf"(?:{_NICKNAME}|[A-Z][a-z]{{1,20}}|[王李张刘陈杨赵黄周吴徐孙胡朱林何郭罗梁宋郑谢韩唐冯董萧曹袁邓许"
    r"傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶潘杜戴汪姜姚谭廖邹陆郝崔邱秦顾侯邵孟段汤尹黎贺赖龚]"
    r"[\u4e00-\u9fff]{1,2})"
)
"""Also a name after a surname, which a word may look like: only where the verb is to forget."""
_POLITE_ZH: Final = (
    r"(?:(?:请|麻烦|拜托|帮我|以后|今后|往后|那就|那|就|算了|还是|现在|也|都)[，, ]?){0,4}"
)
_SOFTLY_ZH: Final = r"(?:吧|了|好吗|好不好|行吗|谢谢|哦|啦|嘛|啊|呗){0,3}[。！!.~～]*"
_PERSON_REQUEST: Final = re.compile(
    rf"{_POLITE_ZH}(?:"
    r"(?:你|您)?(?:别|不要|不许)再(?:跟我|和我|对我|向我)?提(?:起|到|及)?"
    rf"(?P<mentioned>{_NICKNAME}|[她他])(?:的(?:事情?|名字))?{_SOFTLY_ZH}"
    rf"|(?P<matter>{_NICKNAME}|[她他])的(?:事情?|名字)(?:就|都|也|请)?(?:别|不要|不许)再提(?:起|到|及)?"
    rf"{_SOFTLY_ZH}"
    rf"|(?:把|将)(?P<taken>{_FULL_NAME}|[她他])(?:这个人)?(?:都|全|彻底|给){{0,2}}忘(?:了|掉|记)吧{_SOFTLY_ZH}"
    rf"|(?:忘了(?P<forgot>{_NICKNAME}|[她他])|(?:忘掉|忘记)(?P<after>{_FULL_NAME}|[她他]))(?:这个人)?吧"
    rf"{_SOFTLY_ZH})"
)
"""A part of a sentence that asks to forget a person, or not to speak of one again."""
_PARTS_ZH: Final = re.compile(r"[，,；;\s]+")
_OTHERS_WORDS_ZH: Final = re.compile(
    r"[说說劝勸叫让讓问問听聽]|告诉|觉得|认为|以为|如果|要是|假如|[吗嗎么麼][。！!]*$|[?？]|歌|电影|小说|梦"
)
"""What makes a request one of somebody else, or none."""
_NAMED_ZH: Final = re.compile(
    rf"(?:^|[，,。！!；;\s]|[跟和与对给])(?P<name>{_NICKNAME})(?=[的和跟与就是在已对把分离走死骗伤甩又还也都不没])"
    rf"|[跟和与](?P<partner>{_FULL_NAME})(?=分手|离婚|分了|离了)"
)
"""A person whom a message names, but does not address."""
_OWN: Final = re.compile(r"^(?:(?:my|our|the|this|that) |我们?(?:家的?|的)?(?=..))", re.IGNORECASE)
_PASSAGE: Final = re.compile(
    r"[这那上下第前后]{1,2}[一二三四五六七八九十两几\d]{0,3}[段句条个页行章节张封份]"
)
"""A part of a text that the user shows: 这段, 第二条."""
_NO_TOPIC: Final = frozenset({
    "it", "that", "this", "these", "those", "them", "him", "her", "me", "you", "us", "everything",
    "anything", "nothing", "something", "all", "things", "stuff", "yourself", "myself", "lunch",
    "dinner", "它", "他", "她", "这", "那", "这个", "那个", "这些", "那些", "我", "你", "自己",
    "一切", "所有", "刚才", "之前",
})  # fmt: skip
"""What may stand where a topic stands, and names nothing."""
_PRONOUNS: Final = frozenset({"她", "他"})
_HOLLOW: Final = frozenset(
    search_terms("my our the his her their some any thing stuff part story matter issue whole")
)
"""Words of a topic that need not be in a text about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest:
    """A request to forget a topic. is_whole: the turn says nothing else.

    topic: as the user wrote it.
    """

    topic: str
    is_whole: bool

    @property
    def bare_topic(self) -> str:
        """The topic without "my" or 我."""
        return _OWN.sub("", self.topic)


def forget_requests(text: str) -> list[ForgetRequest]:
    """Return the requests in a user's turn."""
    found = own_sentences(QUOTATION.sub(_unasked, text)) if _HINT.search(text) else []
    alone = len(found) == 1
    topics = [
        topic for sentence, lang in found for topic in _topics(sentence, lang, text, alone=alone)
    ]
    return [ForgetRequest(topic=topic, is_whole=len(topics) == len(found)) for topic in topics]


def _unasked(quotation: re.Match[str]) -> str:
    """Return a quotation that may only name a topic, or "…" for one that could ask."""
    return " … " if _HINT.search(quotation[0]) else quotation[0]


def topic_request(topic: str) -> ForgetRequest | None:
    """Return a request to forget a topic, or None if the topic names nothing."""
    named = _named(topic)
    return ForgetRequest(topic=named, is_whole=True) if named else None


def is_forget_request(text: str) -> bool:
    """Tell whether a turn only asks to forget something: it answers no question."""
    return any(one.is_whole for one in forget_requests(text))


def is_about(request: ForgetRequest, text: str, names: Collection[str] = ()) -> bool:
    """Tell whether a text is about the topic of a request.

    names: other names of the topic, e.g. "Mia" for "my daughter".
    """
    held = normalised(text)
    if any(_spelled(one, held) for one in names):
        return True
    return _spelled(request.bare_topic, held, frozenset(_LATIN_WORD.findall(held)))


def names_of_topic(request: ForgetRequest, held: Iterable[HeldFact]) -> frozenset[str]:
    """Return the names of "my brother" among facts that hold; none for any other topic."""
    slot = slot_of(f"relation.{request.bare_topic}")
    if slot is None or not slot.known or not is_name_slot(slot.name):
        return frozenset()
    return frozenset(one.value for one in held if one.slot == slot.name and one.ended_at is None)


def turns_to_forget(turns: Sequence[Event], held: Sequence[HeldFact]) -> frozenset[str]:
    """Return the ids of turns that a later turn of the user asks to forget, and of those askings.

    turns: oldest first. held: the facts that hold.
    """
    gone: set[str] = set()
    for place, turn in enumerate(turns):
        for request in forget_requests(turn.text) if turn.role == "user" else ():
            names = names_of_topic(request, held)
            before = turns[:place]
            gone |= {one.event_id for one in before if is_about(request, one.text, names)}
            gone |= {turn.event_id} if request.is_whole else set()
    return frozenset(gone)


def _spelled(topic: str, held: str, words: Collection[str] = ()) -> bool:
    """Tell whether a text holds each Latin word of a topic as a word, and its Chinese as it is.

    held: the text, normalised. words: those of it that may be another form of a word of the topic.
    """
    for part in _PART.findall(unicodedata.normalize("NFKC", topic)):
        folded = part.casefold()
        is_han = bool(HAN_CHARACTER.match(part))
        if not is_han and frozenset(search_terms(part)) <= _HOLLOW:
            continue
        whole = re.escape(folded)
        whole = whole if is_han else rf"(?<![a-z0-9]){whole}(?:'?s|es)?(?![a-z0-9])"
        if re.search(whole, held):
            continue
        may_inflect = not is_han and part == folded and folded not in _first_names()
        if not (may_inflect and any(_is_form(folded, one) for one in words)):
            return False
    return True


def _is_form(word: str, other: str) -> bool:
    """Tell whether two words are forms of one: "smoking" and "smoke", not "police" and "policy"."""
    if stem(word) != stem(other):
        return False
    shared = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False))
    )
    rests = {word[shared:], other[shared:]}
    # "stopped" doubles the last letter of "stop".
    single = {rest.removeprefix(word[shared - 1]) for rest in rests} if shared else rests
    return any(rests <= endings or single <= endings for endings in _INFLECTIONS)


@lru_cache
def _first_names() -> frozenset[str]:
    """Return common first names in lower case, without those that are words as well."""
    return load_english_typing().first_names


@lru_cache
def _own_person() -> re.Pattern[str]:
    """Return the pattern of somebody around the user: "my brother", "my ex"."""
    kin = "|".join(map(re.escape, sorted(load_kin_words("en"), key=len, reverse=True)))
    which = r"(?:little |big |older |younger |late |old |new )?"
    return re.compile(rf"(?:my|our) {which}(?:{kin}|{_EX_EN})", re.IGNORECASE)


def _topics(sentence: str, lang: Language, message: str, *, alone: bool) -> Iterator[str]:
    plain = " ".join(unicodedata.normalize("NFKC", sentence).split())
    if len(plain) > MAX_REQUEST_CHARACTERS:
        return
    topic = _english_topic(plain, alone=alone) if lang == "en" else _chinese_topic(plain, message)
    if named := _named(topic):
        yield named


def _english_topic(sentence: str, *, alone: bool) -> str:
    match = ENGLISH.fullmatch(sentence)
    if match is None:
        return ""
    if person := match["person"]:
        return person if _is_person(person, sentence, alone=alone) else ""
    return match["topic"] or match["known"] or ""


def _is_person(topic: str, sentence: str, *, alone: bool) -> bool:
    """Tell whether "forget about X" asks to forget somebody rather than to leave a subject.

    alone: the turn says nothing else. Without "please" or "you", nothing may stand before it.
    """
    is_bidden = bool(_BIDDEN_EN.search(sentence))
    if _own_person().fullmatch(topic):
        return is_bidden or (alone and sentence[:6].casefold() == "forget")
    return is_bidden and topic.casefold() in _first_names()


def _chinese_topic(sentence: str, message: str) -> str:
    if person := _chinese_person(sentence, message):
        return person
    match = CHINESE.fullmatch(sentence)
    if match is None:
        return ""
    verb, what = match["done"] or match["verb"], match["taken"] or match["after"]
    if _FORGOT_ZH.match(verb):
        is_asked = bool(_WILLED_ZH.search(sentence))
    else:
        is_asked = not _OF_TEXTS_ZH.search(what) or bool(_OF_MEMORY_ZH.search(sentence))
    named = _FRAME_ZH.match(what) if is_asked else None
    return named["topic"] if named and not _PASSAGE.match(named["topic"]) else ""


def _chinese_person(sentence: str, message: str) -> str:
    """Return the person whom a sentence asks to forget, "" for none or several.

    A pronoun stands for the one person whom the message names.
    """
    if _OTHERS_WORDS_ZH.search(sentence):
        return ""
    parts = [_PERSON_REQUEST.fullmatch(one) for one in _PARTS_ZH.split(sentence)]
    asked = {next(filter(None, one.groups())) for one in parts if one}
    if not asked:
        return ""
    names = asked - _PRONOUNS
    if asked & _PRONOUNS:
        named = (one["name"] or one["partner"] for one in _NAMED_ZH.finditer(message))
        names |= set(named)
    return names.pop() if len(names) == 1 else ""


def _named(topic: str) -> str:
    """Return a topic without quotation marks, or "" if it names nothing."""
    topic = topic.strip(" '\"“”「」")
    bare = _OWN.sub("", topic)
    has_words = frozenset(search_terms(bare)) - _HOLLOW
    return topic if has_words and normalised(bare) not in _NO_TOPIC else ""
