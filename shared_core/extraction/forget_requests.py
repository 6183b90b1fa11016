"""Find requests such as "Forget what I said about Theo" in a user's turn.

"Forget it", "I forgot", "don't forget" and questions about forgetting are none. Rules find plain
requests; where they find none, the trained tagger does ("take Theo out of your notes"), and then
the judge ("the peanut thing, please lose it").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from typing import Final

from shared_core.extraction.reader_rules import load_reader_rules
from shared_core.extraction.rule_reader import guarded
from shared_core.extraction.trained_reader import joined, passages
from shared_core.nlp.asked_slots import asked_slots
from shared_core.nlp.clauses import QUOTATION, own_sentences
from shared_core.nlp.coreference import SPEAKER
from shared_core.nlp.nicknames import NICKNAME
from shared_core.nlp.relation_phrases import asked_kin, kin_of_word, slots_of_word
from shared_core.nlp.rules import load_kin_words, load_rules
from shared_core.nlp.slots import known_slot_names, slot_for_alias, umbrellas
from shared_core.nlp.text import Language, is_question, normalised, search_terms
from shared_core.nlp.typed_text import load_english_typing

MAX_REQUEST_CHARACTERS: Final = 160
"""Maximum length of a sentence that is read as a request."""

FOUND: Final = (
    "The memory holds {} entries about what this message asks to forget. They are set aside when"
    " the message is stored, and erased after 30 days."
)
NOTHING_FOUND: Final = (
    "The memory holds nothing about what this message asks to forget, so nothing is forgotten."
)
EVERYTHING: Final = (
    "This message asks to forget everything, or very much. No message can do that, so nothing is"
    " forgotten. Tell the user to name one matter, or to ask the operator of the memory to erase"
    " everything."
)
"""What a model that answers a request is told."""
FORGET: Final = "forget"
"""Tag of what a message asks to forget."""
LEAST_SURE: Final = 0.7
"""Least probability of the tag."""
MAX_READ_CHARACTERS: Final = 400
"""Maximum length of a turn that the networks read. They read as much of a longer held text."""
BETWEEN: Final = re.compile(r"\s*(?:(?:my|our|the|a) )?")
"""What may stand between words of one topic: "dye my hair"."""
BESIDE: Final = re.compile(r"[,，;；]|\b(?:and|but|also)\b|另外|还有|顺便")
"""What may join something else to a request."""
_MAY_ASK: Final = re.compile(
    r"forg[eo]t|delet|eras|remov|wip[ei]|drop|unlearn|rememb|memor|scratch|\bbin\b|toss|los[ei]|nuke"
    r"|strike|cross|keep|hold|hang|know|kno\b|record|notes?\b|store|sav[ei]|retain|ditch|scrub|purge"
    r"|clear|clean|get rid|let go|out of|take .{1,40} (?:off|out)|heard of|mention|bring"
    r"|\bgo(?:ne)?\b|no more|pretend|private|拿掉|消失|出现|出現|不想|不希望|别写|別寫"
    r"|忘|删|刪|清|抹|记|記|去掉|移除|划|劃|存|留|提|收回|拿走|取消|当没|當沒|翻篇|失忆|失憶|脑子|腦子|撤|消除|屏蔽|丢掉|扔",
    re.IGNORECASE,
)
"""A word that stands in each text that the networks read; most such texts ask nothing."""
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
_TOPIC_EN: Final = r"(?P<topic>[^,.!?;:]{2,80}?(?:, [^,.!?;:]{2,40}){0,6}?)"
_ALL_EN: Final = (
    r"(?:everything|anything|all(?: of)?|every memory|all (?:the )?memories|whatever|what"
    r"|all that)"
)
_PART_EN: Final = r"the (?:thing|things|stuff|part|bit|details?|info)"
_FORGET_EN: Final = r"(?:forget|unlearn|stop remembering)"
_ABOUT_EN: Final = r"(?:about|regarding|concerning)"
_FROM_MEMORY_EN: Final = r" from (?:your|my) memor(?:y|ies)"
_BESIDE_EN: Final = re.compile(r"[,;] ?| - | (?:and|but) ")
"""What may part a request from what else the sentence tells."""
_JOINED_EN: Final = re.compile(r",? (?:and|or|as well as) |, | ?& ?")
_JOINED_ZH: Final = re.compile(r"、|以及|还有|[和跟与](?![平谐解睦气服尚]|$)")
"""What joins several topics; not the second character of 和平."""
_CLAUSE_EN: Final = re.compile(
    r"\b(?:i|he|she|it|we|you|they)(?:'\w+)?\b|^(?:remember|note|tell|let|just|then|now|please)\b",
    re.IGNORECASE,
)
"""What makes a part of a sentence something told besides, and no topic."""
MAX_TOPIC_WORDS: Final = 4
"""Maximum number of spaces in a further topic of a list."""
_MY_EN: Final = re.compile(r"(?:my|our) ", re.IGNORECASE)
_MY_BEFORE: Final = re.compile(r"\b(?:my|our) \Z", re.IGNORECASE)
_MY_ZH: Final = re.compile("我的")
_DELETE_ZH: Final = "忘了|忘掉|忘记|删了|删掉|删除|抹掉"
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
    + r"|(?:forget|delete|erase|remove|wipe|drop|unlearn) (?:(?:the \w+ )?about )?"
    + rf"(?P<known>.{{2,80}}?){_FROM_MEMORY_EN}"
    + rf"|(?P<verb>{_FORGET_EN}|delete|erase|remove|wipe|drop) (?P<own>"
    + r"(?:my|our|where|what|which|who|when|how) [^.!?;:]{2,60}?)"
    + r"|forget (?P<name>[\w' -]{2,40}?))"
    + _ENDING_EN
    + r" ?[.!?]*",
    re.IGNORECASE,
)
"""A whole sentence that asks to forget a topic.

"Forget about X" often means: never mind. It counts for somebody around the user.
"Delete the part about X" is about a text that both look at, "don't remember" lacks its "I".
"""
_LAST: Final = {
    "en": re.compile(
        rf"{_COURTESY_EN}(?:{_FORGET_EN}|delete|erase|drop) (?P<last>(?:what|everything|the thing)"
        r" i(?:'ve| have)? just (?:said|told you|typed|wrote|sent|mentioned)"
        r"|(?:my|that|the) last (?:message|thing i said|thing i told you))"
        rf"{_ENDING_EN} ?[.!?]*",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        rf"(?=.{{0,30}}(?:{_DELETE_ZH}))(?:请|麻烦|帮我|那){{0,3}}(?:把|将)?(?:{_DELETE_ZH})?"
        r"(?P<last>我刚[才刚](?:跟你|和你|对你)?[说講讲]的(?:那?句?话)?)(?:都|给){0,2}"
        rf"(?:{_DELETE_ZH})?(?:吧|好吗|了|谢谢){{0,2}}[。！!.~～]*"
    ),
}
"""A whole sentence that asks to forget the user's turn before it."""
_BIDDEN_EN: Final = re.compile(
    r"\b(?:please|pls|plz|(?:can|could|would|will|like|want|need) (?:you|u|ya))\b", re.IGNORECASE
)
"""What shows that "forget about X" bids the listener, who remembers. "You can" may release one."""
_EX_EN: Final = r"(?:ex(?:[- ](?:wife|husband|boyfriend|girlfriend|partner|gf|bf))?|gf|bf|hubby)"
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
_BIDDEN_ZH: Final = re.compile("[请帮]|麻烦|拜托|劳驾")
_WILLED_ZH: Final = re.compile(
    rf"{_BIDDEN_ZH.pattern}|^(?!那?[你您]).*(?:吧|好吗|好不好|行吗|可以吗|呗)[^好行可]*$"
)
"""忘了 without such words tells what the user forgot: 忘了开会的事, 你把开会的事忘了吧."""
_TOLD_ZH: Final = re.compile("[你您].*了[。！!.~～]*$")
"""你忘掉我妹妹了 complains."""
_OF_TEXTS_ZH: Final = re.compile(r"(?:内容|记录|信息|消息|东西|部分|资料)们?$")
_OF_MEMORY_ZH: Final = re.compile(r"[说說讲講提聊告]|记忆")
"""What is deleted of a text, as 关于猫的内容, is no topic unless the user said it."""
_FRAME_ZH: Final = re.compile(
    r"^(?:(?:所有|全部|一切|刚才|刚刚|之前|以前|上次|昨天|前面)的?){0,3}"
    r"(?:(?:我|咱们?)(?:们)?(?:刚才|刚刚|之前|以前|上次|曾经|跟你|和你|对你|给你|向你){0,3}"
    r"(?:告[诉訴]你?|[说說讲講提聊](?:到)?)(?:过|過|起)?的?)?"
    r"(?:(?:关于|有关|關於|有關|跟|和|与)(?=.))?(?P<topic>.+?)"
    r"(?:有关的?|相关的?)?(?:的|[那这](?:[些件个段句](?!的))?|一切|所有|全部|任何){0,3}"
    r"(?:(?<=[的那这些件段句个切有部何])(?:事情?儿?|话)"
    r"|内容|记录|信息|记忆|消息|东西|一切|部分|资料|所有)(?:们)?$"
)
"""The topic within what is to be forgotten: 我说的阿泽的事. Without such a noun it is a thing."""
_NICKNAME: Final = rf"(?:{NICKNAME}|我?的?前(?:任|女友|男友|女朋友|男朋友|夫|妻))"
"""A person by the form of the name: 小美, 阿强, 老王, and a former partner."""
_NICKNAME_ONLY: Final = re.compile(_NICKNAME)
_FULL_NAME: Final = (
    rf"(?:{_NICKNAME}|[A-Z][a-z]{{1,20}}|[王李张刘陈杨赵黄周吴徐孙胡朱林何郭罗梁宋郑谢韩唐冯董萧曹袁邓许"
    r"傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶潘杜戴汪姜姚谭廖邹陆郝崔邱秦顾侯邵孟段汤尹黎贺赖龚]"
    r"[\u4e00-\u9fff]{1,2})"
)
"""Also what may be a city, a brand or food, as 罗马, Tesla, 黄油: only for a named partner."""
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
_PARTS_ZH: Final = re.compile(r"[，,；;。！!\s]+")
_OTHERS_WORDS_ZH: Final = re.compile(
    r"[说說劝勸叫让讓问問听聽]|告诉|觉得|认为|以为|如果|要是|假如|[吗嗎么麼][。！!]*$|[?？]|歌|电影|小说|梦"
)
"""What makes a request one of somebody else, or none."""
_ASIDE_ZH: Final = re.compile(rf"{_POLITE_ZH}(?:好|唉|哎|嗯|谢谢)?{_SOFTLY_ZH}")
"""A part of a sentence that says nothing."""
_BEFORE_ZH: Final = r"(?:^|[，,。！!；;\s])"
_PARTED_ZH: Final = r"(?:分手|离婚|分了|离了|分开)"
_WHEN_ZH: Final = r"(?:已经|早就|终于|昨天|上周|上个月|最近|今天){0,2}"
_NAMED_ZH: Final = re.compile(
    rf"{_BEFORE_ZH}(?P<name>{_NICKNAME})(?={_WHEN_ZH}(?:[和跟与]我们?{_WHEN_ZH}{_PARTED_ZH}"
    r"|把我(?:甩|骗|伤|抛弃)|(?:甩|骗|伤害?|背叛|抛弃|离开|不要)了?我|走了|死了|去世|劈腿|出轨))"
    rf"|{_BEFORE_ZH}(?:我们?)?{_WHEN_ZH}[跟和与](?P<partner>{_FULL_NAME})(?={_WHEN_ZH}{_PARTED_ZH})"
    rf"|{_BEFORE_ZH}我{_WHEN_ZH}被(?P<leaver>{_NICKNAME})(?=甩|骗|伤|抛弃)"
)
"""A person who left the user, or died. 小美的男朋友 is somebody else."""
_ANYBODY_ZH: Final = re.compile(rf"(?:^|[，,。！!；;\s跟和与对给把被])(?P<name>{_NICKNAME})")
_OWN: Final = re.compile(r"^(?:(?:my|our|the|this|that) |我们?家?的|我们?家?(?=..))", re.IGNORECASE)
_PASSAGE: Final = re.compile(
    r"[这那上下第前后]{1,2}[一二三四五六七八九十两几\d]{0,3}[段句条个页行章节张封份]"
)
"""A part of a text that the user shows: 这段, 第二条."""
_NO_TOPIC: Final = frozenset({
    "it", "that", "this", "these", "those", "them", "him", "her", "me", "you", "us", "everything",
    "anything", "nothing", "something", "all", "things", "stuff", "yourself", "myself", "lunch",
    "dinner", "它", "他", "她", "这", "那", "这个", "那个", "这些", "那些", "我", "你", "自己",
    "一切", "所有", "刚才", "之前", "这件", "那件", "我们", "过去", "错", "今天", "昨天", "明天",
    "today", "yesterday", "tomorrow", "tonight", "last night", "last week",
})  # fmt: skip
"""What may stand where a topic stands, and names nothing."""
_OF_KIN: Final = ("age", "birthday", "employer", "job", "place", "school")
"""What a question may ask of somebody around the user."""
_PRONOUNS: Final = frozenset({"她", "他"})
HOLLOW: Final = frozenset(
    search_terms("my our the his her their some any thing stuff part story matter issue whole")
)
"""Words of a topic that need not be in a text about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest:
    """A request to forget a topic. is_whole: the turn says nothing else.

    topic: as the user wrote it. is_of_last: it means the user's turn before, not a topic. is_read:
    the topic is the whole turn, and the judge tells what it is about.
    """

    topic: str
    is_whole: bool
    is_of_last: bool = False
    is_read: bool = False

    @property
    def bare_topic(self) -> str:
        """The topic without "my" or 我."""
        return _OWN.sub("", self.topic)


def forget_requests(text: str, *, reads: bool = True) -> list[ForgetRequest]:
    """Return the requests in a user's turn. reads: whether the judge looks for them, too."""
    if not may_ask(text):
        return []
    found = own_sentences(QUOTATION.sub(_unasked, text))
    asked = [list(_asked(sentence, lang, text)) for sentence, lang in found]
    if not any(asked):
        is_long = sum(len(one) for one, _ in found) > MAX_READ_CHARACTERS
        if is_long or any(guarded(one, load_rules(lang), "turn") for one, lang in found):
            return []
        return _tagged(found) or (_read(found) if reads else [])
    is_whole = all(some and all(one.is_whole for one in some) for some in asked)
    return [replace(one, is_whole=is_whole) for some in asked for one in some]


def may_ask(text: str) -> bool:
    """Tell whether a text has a word without which nothing asks to forget."""
    return bool(_MAY_ASK.search(text))


def _tagged(found: Sequence[tuple[str, Language]]) -> list[ForgetRequest]:
    """Return the requests that the trained tagger finds in sentences.

    is_whole: the turn is one sentence, and says nothing beside the request.
    """
    # Deferred: numpy takes a moment to load.
    from shared_core.extraction.span_tagger import load_tagger

    tagger = load_tagger()
    if tagger is None:
        return []
    asked: list[ForgetRequest] = []
    for passage in passages(found):
        for span in joined(tagger.tag(passage.text).spans, passage.text, BETWEEN):
            said, sentence = passage.text[span.start : span.end], passage.sentence(span.start)
            own = _MY_BEFORE.search(passage.text, 0, span.start)
            is_sure = span.slot == FORGET and span.sure >= LEAST_SURE
            if is_sure and _asks_to_forget(sentence, said, passage.language):
                is_whole = len(found) == 1 and not BESIDE.search(sentence.replace(said, "", 1))
                topic = f"{own[0]}{said}" if own else said
                asked += _requests(topic, passage.language, is_whole=is_whole)
    return asked


def _read(found: Sequence[tuple[str, Language]]) -> list[ForgetRequest]:
    """Return the request that the judge reads in sentences."""
    # Deferred: numpy takes a moment to load.
    from shared_core.extraction.forget_reading import asks_to_forget, says_no_more

    told = " ".join(one for one, _ in found)
    is_kept = any(load_reader_rules(lang).words["kept"].search(one) for one, lang in found)
    if not told or is_kept or not asks_to_forget(told):
        return []
    return [ForgetRequest(topic=told, is_whole=says_no_more(told), is_read=True)]


def _asks_to_forget(sentence: str, topic: str, lang: Language) -> bool:
    """Tell whether a sentence asks the listener to forget a topic, if the tagger thinks so.

    It speaks of the listener's memory. It does not want the topic kept, asks nothing, and is no
    text for somebody else.
    """
    words = load_reader_rules(lang).words
    if words["kept"].search(sentence) or not words["listener"].search(
        sentence.replace(topic, "", 1)
    ):
        return False
    return not is_question(sentence) or bool(words["polite"].search(sentence))


def _unasked(quotation: re.Match[str]) -> str:
    """Return a quotation that may only name a topic, or "…" for one that could ask."""
    return " … " if _MAY_ASK.search(quotation[0]) else quotation[0]


def topic_request(topic: str) -> ForgetRequest | None:
    """Return a request to forget a topic, or None if the topic names nothing."""
    named = _named(topic)
    return ForgetRequest(topic=named, is_whole=True) if named else None


def topic_of_matter(text: str) -> str:
    """Return the topic of a matter as 小周 of 小周那事; any other text as it is."""
    named = _FRAME_ZH.match(text)
    return named["topic"] if named else text.strip()


def is_forget_request(text: str) -> bool:
    """Tell whether a turn only asks to forget something: it answers no question."""
    return any(one.is_whole for one in forget_requests(text))


@lru_cache
def first_names() -> frozenset[str]:
    """Return common first names in lower case, without those that are words as well."""
    return load_english_typing().first_names


@lru_cache
def _own_person() -> re.Pattern[str]:
    """Return the pattern of somebody around the user: "my brother", "my ex"."""
    kin = "|".join(map(re.escape, sorted(load_kin_words("en"), key=len, reverse=True)))
    which = r"(?:little |big |older |younger |late |old |new )?"
    return re.compile(rf"(?:my|our) {which}(?:{kin}|{_EX_EN})", re.IGNORECASE)


def _asked(sentence: str, lang: Language, message: str) -> Iterator[ForgetRequest]:
    """Yield the requests of a sentence. is_whole: the sentence says nothing else."""
    plain = _plain(sentence)
    if len(plain) > MAX_REQUEST_CHARACTERS:
        return
    if last := _LAST[lang].fullmatch(plain):
        yield ForgetRequest(topic=last["last"], is_whole=True, is_of_last=True)
        return
    person = _chinese_person(plain, _plain(message)) if lang == "zh" else ""
    if person:
        yield from _requests(person, lang, is_whole=_says_no_more(plain, person))
        return
    read = _english_topic if lang == "en" else _chinese_topic
    beside = _BESIDE_EN if lang == "en" else _PARTS_ZH
    ends = [len(plain), *(one.start() for one in reversed([*beside.finditer(plain)]))]
    for end in ends:
        if topic := read(plain[:end], is_whole=end == len(plain)):
            yield from _requests(topic, lang, is_whole=end == len(plain))
            return


def _requests(topic: str, lang: Language, *, is_whole: bool) -> list[ForgetRequest]:
    """Return a request for each topic in a list such as "my job and Theo"."""
    parts = _parts(topic, lang)
    kept = [*parts[:1], *takewhile(_is_topic, parts[1:])]
    named = dict.fromkeys(filter(None, map(_named, kept)))
    is_whole &= len(kept) == len(parts)
    return [ForgetRequest(topic=one, is_whole=is_whole) for one in named]


def _parts(topic: str, lang: Language) -> list[str]:
    """Return the parts of a list; "job" of "my address and job" is "my job"."""
    joined, own = (_JOINED_EN, _MY_EN) if lang == "en" else (_JOINED_ZH, _MY_ZH)
    lead = found[0] if (found := own.match(topic)) else ""
    parts = filter(None, joined.split(topic))
    return [f"{lead}{one}" if slots_of_topic(f"{lead}{one}") else one for one in parts]


def _is_topic(part: str) -> bool:
    """Tell whether a further part of a list is a topic, not something told besides."""
    is_clause = _CLAUSE_EN.search(part) or part.count(" ") >= MAX_TOPIC_WORDS
    return not is_clause or bool(slots_of_topic(part))


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def _english_topic(sentence: str, *, is_whole: bool) -> str:
    """Return the topic that a sentence asks to forget. is_whole: it says nothing else."""
    match = ENGLISH.fullmatch(sentence)
    if match is None:
        return ""
    if person := match["person"] or match["name"]:
        is_bidden = (is_whole and match["name"]) or _BIDDEN_EN.search(sentence)
        return person if is_bidden and _is_person(person) else ""
    if own := match["own"]:
        is_slot = all(map(slots_of_topic, _parts(own, "en")))
        if is_slot and is_whole:
            return own
        if not re.match(_FORGET_EN, match["verb"], re.IGNORECASE):
            return ""
        if _BIDDEN_EN.search(sentence):
            return own if is_slot or _OWN.match(own) else ""
        # "Forget my idea" may mean "never mind".
        is_bidden = is_whole and not sentence.endswith("?")
        return own if is_bidden and all(map(_is_own, _parts(own, "en"))) else ""
    topic = match["topic"] or match["known"] or ""
    *_, last = re.split(", | - ", topic)
    return topic if last == topic or re.search(r"\b(?:and|or)\b|&", last) else ""


def _is_person(topic: str) -> bool:
    """Tell whether a topic is somebody, or what the user told of themselves."""
    return all(
        _own_person().fullmatch(one) or one.casefold() in first_names() or slots_of_topic(one)
        for one in _parts(topic, "en")
    )


def _is_own(topic: str) -> bool:
    """Tell whether a topic is a person around the user, or a word for several: "my family"."""
    return bool(_own_person().fullmatch(topic)) or _OWN.sub("", topic).casefold() in umbrellas()


@lru_cache(maxsize=256)
def slots_of_topic(topic: str) -> frozenset[str]:
    """Return the slots of the user that a topic names: "residence" for "my address"."""
    of_kin = [f"relation.{kin}.{one}" for kin in asked_kin(topic) for one in _OF_KIN]
    if not SPEAKER.search(topic):
        return frozenset()  # "work" may be anybody's
    asked = asked_slots(topic, [*known_slot_names(), *of_kin])
    if not topic.casefold().startswith(("my ", "our ", "我")):
        return asked
    bare = _OF_TEXTS_ZH.sub("", _OWN.sub("", topic)).removesuffix("的")
    slot = slot_for_alias(bare.casefold().replace(" ", "_"))
    named = frozenset([slot]) & known_slot_names()
    under, _ = umbrellas().get(bare.casefold(), (frozenset(), None))
    return asked | named | slots_of_word(bare) | under


def _chinese_topic(sentence: str, *, is_whole: bool) -> str:
    """Return the topic that a sentence asks to forget. is_whole: it says nothing else."""
    match = CHINESE.fullmatch(sentence)
    if match is None:
        return ""
    verb, what = match["done"] or match["verb"], match["taken"] or match["after"]
    is_willed = bool(_WILLED_ZH.search(sentence))
    is_slot = is_whole and all(map(slots_of_topic, _parts(what, "zh")))
    if _FORGOT_ZH.match(verb):
        is_asked = is_willed
    else:
        is_asked = not _OF_TEXTS_ZH.search(what) or bool(_OF_MEMORY_ZH.search(sentence))
    if is_slot and (is_asked or not _FORGOT_ZH.match(verb)):
        return what
    named = _FRAME_ZH.match(what) if is_asked else None
    if named:
        return named["topic"] if not _PASSAGE.match(named["topic"]) else ""
    is_asked = is_willed if is_whole else bool(_BIDDEN_ZH.search(sentence))
    if is_whole and verb == "忘掉" and not _TOLD_ZH.match(sentence):
        bare = _OWN.sub("", what)
        is_own = kin_of_word(bare) or kin_of_word(what[1:]) or bare in umbrellas()
        if what.startswith("我") and is_own:
            return what
    return what if "忘" in verb and is_asked and what.startswith("我的") else ""


def _chinese_person(sentence: str, message: str) -> str:
    """Return the one person that a sentence asks to forget, else "".

    A pronoun stands for the one person whom the message names before it. 忘了阿泽吧，晚饭算五个人的
    leaves somebody out of a plan: beside other words it counts for somebody who left the user.
    """
    if _OTHERS_WORDS_ZH.search(sentence):
        return ""
    parts = [_PERSON_REQUEST.fullmatch(one) for one in _PARTS_ZH.split(sentence)]
    asked = {next(filter(None, one.groups())) for one in parts if one}
    if not asked:
        return ""
    before = message[: max(0, message.find(next(one[0] for one in parts if one)))]
    left = {next(filter(None, one.groups())) for one in _NAMED_ZH.finditer(before)}
    names = asked - _PRONOUNS
    if any(one not in left and not _NICKNAME_ONLY.fullmatch(one) for one in names):
        return ""
    by_verb = {one[group] for one in parts if one for group in ("forgot", "after")} - {None}
    if any(one not in left and not _says_no_more(message, one) for one in by_verb & names):
        return ""
    if asked & _PRONOUNS:
        names |= left | ({one["name"] for one in _ANYBODY_ZH.finditer(before)} if left else set())
    return names.pop() if len(names) == 1 else ""


def _says_no_more(sentence: str, person: str) -> bool:
    """Tell whether each part of a sentence asks to forget a person, or names the person."""
    return all(
        person in part or _PERSON_REQUEST.fullmatch(part) or _ASIDE_ZH.fullmatch(part)
        for part in _PARTS_ZH.split(sentence)
    )


def _named(topic: str) -> str:
    """Return a topic without quotation marks, or "" if it names nothing."""
    topic = topic.strip(" '\"“”「」")
    bare = _OWN.sub("", topic)
    has_words = frozenset(search_terms(bare)) - HOLLOW
    return topic if has_words and normalised(bare) not in _NO_TOPIC else ""
