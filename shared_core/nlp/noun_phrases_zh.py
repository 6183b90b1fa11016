"""Find Chinese noun phrases that may denote one unnamed person. Pure.

Chinese has no spaces. A clause is split into its subject, which ends at the first predicate, and
what follows a verb or classifier for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from shared_core.nlp.rules import load_rules, load_things

HAN: Final = "[\u4e00-\u9fff·A-Za-z]"
# Words before the subject.
WHEN: Final = (
    r"(?:[今昨明前后去][天年晚早]|上个?(?:周|星期|月)|这个?(?:周|星期|月)|周[一二三四五六日天末]|星期."
    r"|早上|上午|中午|下午|晚上|刚才|刚刚|最近|现在|目前|如今|以前|小时候|后来|其实|听说|据说|原来|\d{1,4}年"
    r"|\d{1,2}月|\d{1,2}[日号]|那(?:个?时候?|天|年|段时间|会儿)"
    r"|每天|经常|有时候?|但是?|不过|而且|所以|因为|[，, ]){0,12}"
)
LEAD: Final = re.compile(
    rf"{WHEN}(?:(?:我们?|大家|他们|有人)?(?:都|也|还)?(?:觉得|认为|发现|听说|相信|希望|以为|怀疑|估计|感觉|记得)(?:了|过)?{WHEN})?"
)
# The start of a predicate.
PREDICATE: Final = (
    r"(?:是|很|太|真|最|挺|蛮|好(?!友)|特别|非常|比较|有点|都|也|还|又|再|就|才|不|没|已|正|刚|快|要|会|能"
    r"|可以|应该|必须|今[年天]|昨天|明天|去年|前天|最近|现在|叫|姓|名叫|在|住|来|去|到|从|给|把|被|让|对|跟"
    r"|和|比|说|讲|问|告诉|喜欢|爱(?!豆)|讨厌|想|有|当|做|买|卖|吃|喝|看|玩|打|搬|换|走了|去世|死于|出生|得了|带|送|借|骂"
    r"|开车|用|毕业|结婚|离婚|怀孕|辞职|退休|去世|涨|敲门|[两三四五六七八九十\d]|了|过|着|总|常|每|一[直个起下]"
    r"|属|像|需|擅长|从事|进球|找|请|约|病|哭|笑|坏|熟|碎|完|掉|丢|停|上(?:班|学|小学|初中|中学|高中|大学|幼儿园))"
)
# The start of a clause without a subject of its own.
NO_SUBJECT: Final = re.compile(
    PREDICATE.replace("好(?!友)", "好")
    + r"|[开出进回下走死得](?!国|租|纳|口)|上(?!司|级|海)|学(?!生|长|姐|妹|弟|霸)"
    r"|[她他它你您§咱]|我|谢谢|哈|嗯|哦|请|为|觉得|知道|记|感|怎|什么|谁|哪|多|如果|虽然|当然|只|更|忽然|突然|终于|准备|打算|帮"
)
UP_TO_PREDICATE: Final = re.compile(rf"(?P<phrase>{HAN}{{1,10}}?)(?={PREDICATE}|[，,。！!]|\Z)")
OWNED: Final = re.compile(
    rf"(?:我们?|咱们?|[她他你您](?:们)?|§)(?:家|公司|单位|学校|班)?(?P<of>的)?(?P<phrase>{HAN}{{1,10}}?)"
    rf"(?={PREDICATE}|[，,。！!]|\Z)"
)
# After 我, the start of a predicate about the user: 我觉得, 我工作很忙.
OF_SPEAKER: Final = re.compile(
    r"(?:也|都|还|就|才|又|再|只|很|太|真|最|不|没|想|要|会(?!计)|能|可|该|得|必|是|有|在|从|对(?![象手])|把|被|给|跟|和|让|比|向|为|用"
    r"|去|来|到|回|住|搬|换|买|卖|吃|喝|看|听|读|写|说|讲|问|做|当|玩|打|开|学(?![生长姐妹弟霸])|教(?!练|授|父|母)|喜欢|爱|讨厌|恨|怕|觉"
    r"|知|认|记|忘|感|希|打算|准备|决|开始|继续|养|带|送|收|找|请|帮|约|见|遇|碰|参|加|离|结|毕|辞|退|出|进|上(?![司级])|下(?!属)"
    r"|起|睡|跑|走|坐|站|叫|姓|属|今|昨|明|前[天年]|去年|刚|正|已|曾|一直|从小|小时|平时|经常|常|总|每|最|其实|同意"
    r"|早|晚|现|目|如今|后来|\d|妈的|擅|负责|需|愿|应|支持|欣赏|崇拜|采|拜|关|了|生病|生气|出生|陪|等|穿|戴|洗|借|丢|们"
    r"|发(?!小)|失|加|熬|迷|运动|旅|游|种|挂|花|赚|挣|存|欠|赢|输|犯|掉|摔|撞|受|骑|驾|拍|画|唱|跳|弹|煮|炒|烤|切|订|定|预"
    r"|申|报|考|拿|放|拉|推|扔|捡|抽|戒|减|增|瘦|胖|变|成|习惯|尝|试|努|承|答|反|拒|原|担|害|羡|佩|尊|信|相|宁|更|偏|较|特|非"
    r"|十分|挺|蛮|暂|通|[一两三四几这那哪什怎为因所虽如若即依仍越何谁](?!哥|姐|弟|妹|叔|伯|姨|舅|姑)|大[学概约多]|中午|周|星期|每|或"
    r"|怀|查|饿|渴|累|困|热|冷|疼|痛|难|高兴|开心|快|慢|忙|穷|年|个|名字|身|体|心|头|胃|眼|牙|脚|手|左|右|家|自|本人|俩|口味"
    r"|跟|搞|弄|整|修|装|建|设|写|编|译|背|抄|念|吵|骂|哭|笑|飞|游|滑|爬|逛|追|演|练|锻|健|减|养|治|吸|呼|咬|闻|摸|抱|倒|升|老觉|以|交|休|单身|多|好(?![友兄])|马上|安排|惊|提|无|過|量|国|膝|亲(?![戚人爸妈哥姐弟妹]))"
)
PERSON_ENDING: Final = re.compile(
    r"(?:[师员工长友事学邻东徒伴侣客贼侠]|[医学新]生|先生|老板|大夫|护士|教练|教授|前台|保[姆安镖]|上司|领导|助[理手]"
    r"|秘书|经理|同桌|室友|舍友|司机|阿姨|大[爷妈叔姐哥]|[叔姨姑舅伯婶嫂哥姐弟妹公婆爷奶爸妈][夫父]?|警察|法官|歌手|演员"
    r"|主[任播管]|总监|偶像|对象|前任|情人|恋人|孩|总|人|家|手|者|[夫妻娘父母爹豆]|哥们|老[大外])\\Z"
)
CLASSIFIED: Final = re.compile(
    rf"(?<![两三四五六七八九十几些是\d当做])(?P<one>[一那这某另])?(?P<kind>[个位名])(?!月|人信息|星期|小时)"
    rf"(?P<phrase>{HAN}{{1,8}}?)(?={PREDICATE}|[，,。！!吗呢吧]|\Z)"
)
PREDICATIVE: Final = re.compile(
    r"(?:是|当|做|成为|变成|[当做成]了)(?:一?[个位名])?[^我你您他她的]{0,4}\Z"
)
NAMED: Final = re.compile(r"[，,]?(?:名?叫做?|是|名字[是叫])?§")
WITH_PERSON: Final = re.compile(
    rf"(?:认识|遇到|遇见|见到|见过|碰到|碰见|采访|拜访|读到|想起|聊到|聊起|提到|说起|谈到|谈起|嫁给|娶|关于|崇拜|和|跟|与"
    rf"|[^送]给|听说)(?:了|过)?(?P<phrase>{HAN}{{1,8}})"
)
LIKED: Final = re.compile(
    rf"(?:知道|喜欢|爱|讨厌|看|读|听|欣赏|粉|追|恨|想|找|见|问|请|约)(?:了|过|着|完)?(?P<phrase>{HAN}{{2,8}})"
)
SOMEBODY: Final = re.compile(r"有(?:一?[个位名])?人|某人|有[个位名]|别人|人家")
# Characters of transcribed foreign names.
FOREIGN: Final = re.compile(
    r"(?:[阿埃艾爱安昂奥巴贝比彼波伯勃布达戴德迪丁杜多厄恩法菲费芬弗福夫盖冈哥戈格古哈海汉赫亨华惠霍吉加杰卡凯坎康考柯科克库夸拉莱兰"
    r"朗劳勒雷黎里利莉林琳隆卢鲁路露伦罗洛马玛迈麦曼梅门蒙米密莫默姆穆娜纳奈南内尼妮诺欧帕潘佩皮普奇乔切琼丘瑞若萨塞赛桑"
    r"瑟沙莎舍圣施史什斯丝司思苏索塔泰坦汤唐特滕蒂廷图托瓦威韦维温文沃乌伍西希夏谢辛休修雅亚扬耶伊因尤约泽扎詹兹·]){3,}"
)


def chinese_phrases(clause: str) -> Iterator[str]:
    """Yield the phrases of a Chinese clause that may denote one unknown person.

    clause: with § in place of known people.
    """
    text = LEAD.sub("", clause, count=1)
    yield from (match[0] for match in SOMEBODY.finditer(text))
    yield from _owned(text)
    if not NO_SUBJECT.match(text) and (subject := UP_TO_PREDICATE.match(text)):
        phrase = subject["phrase"]
        thing = is_thing(phrase) and subject.end() < len(text)
        if not thing and not _begins_with_thing(phrase, text):
            yield phrase
    for match in load_rules("zh").person_noun.finditer(text):
        if not PREDICATIVE.search(text[: match.start()]) and not NAMED.match(text, match.end()):
            yield match[0]
    for match in CLASSIFIED.finditer(text):
        is_predicate = PREDICATIVE.search(text[: match.start()]) or NAMED.match(text, match.end())
        if not is_predicate and (match["kind"] != "个" or not is_thing(match["phrase"])):
            yield match["phrase"]
    for match in WITH_PERSON.finditer(text):
        phrase = match["phrase"]
        if phrase[0] not in "我你您她他它咱这那哪谁什" and not _begins_with_thing(phrase, phrase):
            yield phrase
    for match in LIKED.finditer(text):
        if is_name(match["phrase"]):
            yield match["phrase"]


def is_thing(phrase: str) -> bool:
    """Tell whether the last word of a noun phrase denotes a thing, a place or several people."""
    if phrase.endswith(("们", *load_things().zh)) and not phrase.endswith("哥们"):
        return True
    return bool(re.search(rf"(?:{load_rules('zh').no_person.pattern})\Z", phrase))


def is_name(phrase: str) -> bool:
    """Tell whether the object of a verb begins with a name, judged by its characters."""
    if _begins_with_thing(phrase, phrase):
        return False
    return bool(_surnamed().match(phrase)) or bool(FOREIGN.match(phrase)) or "·" in phrase


def _owned(text: str) -> Iterator[str]:
    """Yield the possessions of somebody: 我的理发师, 我同事, §的同桌."""
    for match in OWNED.finditer(text):
        phrase = match["phrase"]
        owner_speaks = not match["of"] and bool(OF_SPEAKER.match(phrase))
        rest = text[match.start("phrase") :]
        if owner_speaks or is_thing(phrase) or _begins_with_thing(phrase, rest):
            continue
        bare = len(phrase) > 1 and not match[0].startswith("§")
        if match["of"] or bare or PERSON_ENDING.search(phrase):
            yield phrase


def _begins_with_thing(phrase: str, text: str) -> bool:
    """Tell whether a phrase is a thing with its predicate attached: 桔子熟了."""
    thing = next((one for one in _things() if text.startswith(one)), "")
    if not thing:
        return False
    rest = phrase[len(thing) :]
    return not rest or not PERSON_ENDING.search(phrase)


@lru_cache
def _things() -> tuple[str, ...]:
    """Return the inanimate nouns of two or more characters, longest first."""
    return tuple(sorted((one for one in load_things().zh if len(one) > 1), key=len, reverse=True))


@lru_cache
def _surnamed() -> re.Pattern[str]:
    """Return the pattern of a full name of two or three characters, up to where a name may end."""
    surname = load_rules("zh").surname.pattern
    return re.compile(rf"(?:{surname}|鲁)[\u4e00-\u9fff]{{1,2}}(?=的|了|\Z|[，,。！!])")
