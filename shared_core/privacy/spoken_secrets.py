"""Find passwords, codes and keys by the words around them. Pure.

"My PIN is 4821" holds one, "the pin is 5000 feet up" does not. A number that counts something is
not a code. A plain word in a sentence about passwords is not a password. Several plain words after
a label are one, unless most of them talk about passwords. A key must look like one.
Texts must be in plain-width digits and letters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from shared_core.nlp.text import CHINESE_FUNCTION_CHARACTERS, ENGLISH_STOP_WORDS, HAN

AROUND: Final = 60
"""Number of characters looked at on each side of a match."""

CODE: Final = (
    r"(?i:(?:(?<![a-z0-9])pin(?:[ -]?(?:code|number))?"
    r"|\b(?:verification|security|access|login|one-time|auth(?:entication)?) (?:pass)?code"
    r"|\b(?:otp|cvv|cvc))(?![a-z0-9_])"
    r"(?:\s++(?:for|to|of|on)(?:\s++[\w.@-]{1,40}){1,4}?|\\?[\"'”’])?"
    r"(?:['’]s\b|\s++(?:is|was)\b\s*+[:：]?|\s*+[=:：])(?:\s*+now\b)?\s*+\\?[\"'“‘]?"
    r"|(?:密码|口令|验证码|(?<![a-z0-9])pin码)\s?(?:就?是|为|改成了?|换成了?)?\s?[:：=]?\s?[「“]?"
    r"|(?<![a-z0-9])pin\s?(?:就?是|为|改成了?|换成了?)\s?[:：=]?\s?|\bcv[vc]\s++(?=\d{3,4}\b))"
    r"(?P<code>\d(?:[ -]?\d){2,11})(?![\w%°]|[.,]\d|-[A-Za-z])"
)
"""A number after the name of a PIN or a code."""
_ENTRY_CODE: Final = r"(?P<entry{n}>[#*]?\d(?:[ -]?\d){{2,11}}[#*]?)(?![\w%°]|[.,]\d|-[A-Za-z])"
_LOCKED: Final = (
    r"(?:garage|gate|door|entry|entrance|keypad|alarm|lock|lock-? ?box|key-? ?box|padlock|locker"
    r"|safe|vault|shed|lobby|elevator|parking|mailbox|suitcase|unlock|disarm|voicemail|sim)"
)
ENTRY: Final = (
    rf"(?i:\b{_LOCKED}(?:['’]s)?[ -](?:pass|pin[ -]?)?(?:code|combo|combination|pin)\b"
    r"(?:\s++(?:for|to|of|on)(?:\s++[\w'’-]{1,40}){1,4}?)?"
    r"(?:['’]s\b|\s++(?:is|was)\b(?:\s++now\b)?|\s*+[=:：])?\s*+)"
    + _ENTRY_CODE.format(n="")
    + r"|(?i:\b(?:pass)?(?:code|combo|combination)\s++(?:for|to|of|on)(?:\s++[\w'’-]{1,40}){0,3}?"
    rf"\s++{_LOCKED}(?:\s++(?:is|was)\b(?:\s++now\b)?|\s*+[=:：])\s*+)"
    + _ENTRY_CODE.format(n="_of")
    + r"|(?i:(?<![a-z0-9])pin\s++)(?P<entry_pin>\d{4,8})(?=\s++(?i:for|to|on)\b)"
    r"|(?:门禁|开门|开锁|门锁|大门|房门|单元门|入户|楼道|车库|地库|小区|电梯|取件|取货|信箱|报警器?|解锁"
    r"|(?:储物|寄存|更衣|保险|快递)[箱柜]|行李箱|密码锁)的?(?:密码|口令|码)"
    r"\s?(?:就?是|为|改成了?|换成了?)?\s?[:：=]?\s?" + _ENTRY_CODE.format(n="_zh")
)
"""The code of a door, a lock or an alarm, after or before the name of that thing."""
LONGEST_PASSWORD: Final = 100
"""Maximum characters of a password that is masked."""
_FUNCTION: Final = (
    rf"(?:(?:{'|'.join(sorted(ENGLISH_STOP_WORDS))}"
    r"|must|may|cannot|please|let|everyone|somebody|someone|nobody)(?:['’][a-z]{1,9})?"
    r"|[a-z]{1,20}n['’]t)"
)
"""A function word; it never belongs to a passphrase."""
_GOES_ON: Final = (
    r"(?:again|also|and|anyways?|as|at|bc|because|btw|but|by|can|cause|cuz|fyi|he{1,20}he{1,20}|lmao|ofc|rn|tho"
    r"|though|yeah|can|could|do|don['’]?t|everywhere|expires?|expired"
    r"|for|from|had|haha|has|have|here|i|if|i['’]?m|in|instead|is|it|it['’]?s|its|just|keep|lol"
    r"|mate|man|bro|dude|buddy|guys|sir|dear|honey"
    r"|my|never|not|now|o?k|okay|on|only|or|please|pls|plz|right|since|so|stays|thanks?|that|the"
    r"|then|there|this|thx|till?|to|today|tonight|too|unless|until|use|was|we|when|where|which"
    r"|while|who|will|with|works?|worked|would|you|your)"
)
"""A word that continues the sentence after a secret."""
_LABEL: Final = r"[\w-]{1,20} ?[:=]"
_LETTER: Final = "[A-Za-z\u00c0-\u024f]"
_PHRASE: Final = (
    rf"(?!(?i:{_FUNCTION})(?![\w'’-])){_LETTER}(?:{_LETTER}|['’-](?={_LETTER})){{0,40}}+"
    rf"(?:[ \t]{{1,4}}+(?!(?i:{_FUNCTION}|{_GOES_ON})(?![\w'’-])|{_LABEL})"
    rf"(?:{_LETTER}|\d)(?:{_LETTER}|\d|['’-](?={_LETTER})){{0,40}}+(?![@_/]))"
)
"""The next word of a passphrase, unless it is a function word."""
MOST_WORDS: Final = 33
"""Maximum words of a passphrase: the longest of a wallet (SLIP 39)."""
LEAST_WORDS: Final = 12
"""Minimum words of a whole seed phrase (BIP 39); fewer may be a sentence about it."""
_IN_SEEDS: Final = (
    "about|above|again|all|also|any|because|before|below|between|can|during|have|into|just|must"
    "|myself|off|only|over|own|same|such|that|then|there|they|this|under|until|very|what|when|where"
    "|you"
)
"""The words of grammar that the English list of BIP 39 has."""
_NO_SEED: Final = (
    rf"(?:{'|'.join(sorted(ENGLISH_STOP_WORDS - set(_IN_SEEDS.split('|'))))}|pls|thanks"
    r"|let|may|cannot|somebody|nobody|everyone|pass(?:word|code|phrase)|pwd|pin|login|username|email)"
)
"""A word of grammar, or a name of another secret, that no list of seed words has."""
_CHINESE_GRAMMAR: Final = (
    f"{''.join(sorted(CHINESE_FUNCTION_CHARACTERS - {'地'}))}"
    "不没未无無别勿谁誰什怎哪几幾被把给給让讓请請要可会會需须須应應已见見问問发發忘改换換设設输輸填"
    "错錯误誤对對位个個同用找查告说說跟记記"
)
_NUMBER: Final = r"(?:[#(]?\d{1,2}\s?[.):：、]?\s?|[-*•]\s?)?"
_SEED_WORD: Final = (
    rf"(?:(?!(?i:{_NO_SEED})(?!{_LETTER})|{_LABEL}){_LETTER}{{3,14}}+(?![\w'’@]|\.\w)"
    rf"|[{HAN}]{{1,4}}+(?![{HAN}]))"
)
_NEXT_SEED_WORD: Final = (
    r"(?:\s{0,4}[,，、;；/|·-]\s{0,4}|[ \t]{1,4}|[ \t]{0,4}\r?\n[ \t]{0,8}|\s{1,8}(?=[#(]?\d))"
    rf"{_NUMBER}{_SEED_WORD}"
)
_OPENING: Final = r"\s*+(?:\\?[\"'“‘「`(\[])?"
_CHINESE_SEED: Final = r"(?:助记词|助記詞|(?:恢复|恢復|备份|備份|种子|種子)(?:短语|短語|词|詞))"
_SEED_LABEL: Final = (
    r"(?:(?i:(?<![a-z])(?:seed|recovery|mnemonic|backup|wallet)[ _-]?(?:phrase|words|seed))"
    rf"|{_CHINESE_SEED})"
)
_SEED_LINK: Final = (
    r"(?:\\?[\"'”’])?(?:\s++(?i:for|to|of|on)(?:\s++[\w'’-]{1,40}){1,4}?)?"
    r"(?:\s?[(（][^()（）\n]{1,40}[)）])?"
    r"(?:\s*[:：=]|\s++(?i:is|are|was|were)\b(?:\s++now\b)?\s*[:：]?|\s?(?:就?是|为|為)\s?[:：]?"
    r"|(?=[ \t]{0,99}\n))"
)
SEED: Final = (
    rf"{_SEED_LABEL}{_SEED_LINK}{_OPENING}{_NUMBER}"
    rf"(?P<seed>{_SEED_WORD}(?:{_NEXT_SEED_WORD}){{2,{MOST_WORDS - 1}}}+"
    rf"(?:[ 、，](?![{_CHINESE_GRAMMAR}])[{HAN}]{{1,4}}+)?)"
    rf"|(?:{_SEED_LABEL}(?:[^\n:：=]{{0,60}}[:：=\n])?"
    rf"|(?i:(?<![a-z])(?:seed|mnemonic)){_SEED_LINK}){_OPENING}{_NUMBER}"
    rf"(?P<whole_seed>{_SEED_WORD}(?:{_NEXT_SEED_WORD}){{{LEAST_WORDS - 1},{MOST_WORDS - 1}}}+)"
)
"""The words of a wallet after their name: in a row, numbered, or line by line."""
PASSWORD: Final = (
    r"(?i:(?:pass(?:word|code|phrase|wd)|(?<![a-z0-9])pwd?(?!\s?[=:]\s?[~/])"
    r"|\b(?:wi-?fi|wlan|router|hotspot|login|laptop|netflix)['’]?s?[ -]pass)(?![a-z0-9_])"
    r"(?:\s++(?:for|to|of|on)(?:\s++[\w.@-]{1,40}){1,4}?|\\?[\"'”’])?"
    r"(?:(?P<label>(?:\s++(?:is|was)\b)?\s*+[=:：])|\s++(?:is|was)\b)(?:\s*+now\b)?\s*+)"
    rf"(?:(?(label)(?P<phrase>{_PHRASE}{{1,{MOST_WORDS - 1}}}+)|(?!))"
    r"|\\?[\"'“‘`](?P<quoted>[^\"'”’`\n]{2,99}[^\"'”’`\n\\])\\?[\"'”’`]"
    r"|(?P<secret>[^\s\"'“”‘’`,;，。；]{3,"
    f"{LONGEST_PASSWORD}"
    r"}))"
    r"|(?i:pass(?:word|code|phrase))['’]s\s+(?P<short>(?!\d{1,99}-)(?=\S{0,99}[\d@#$%^*_+=~])"
    r"[^\s\"'“”‘’`,;，。；]{6,"
    f"{LONGEST_PASSWORD}"
    r"})"
    r"|"
    + ENTRY
    + r"|"
    + CODE
    + r"|(?:密码|口令)\s++(?P<apart>(?=[!-~]{0,99}\d)(?=[!-~]{0,99}[A-Za-z])"
    r"[!#-&(-\[\]-~]{6,"
    f"{LONGEST_PASSWORD}"
    r"})"
    r"|(?:密码|口令|验证码|密钥)(?:\\?[\"'”’])?"
    r"(?:\s*+(?:就?是|为|改成了?|换成了?)\s*+[:：=]?|\s*+[:：=])\s*+(?:\\?[\"'“‘「])?"
    r"(?P<chinese>[!#-&(-\[\]-~]{3,"
    f"{LONGEST_PASSWORD}"
    r"})"
    r"|(?i:\b(?:safe|duress)[ -]?word\s*+[=:：]\s*+)"
    rf"(?P<phrase_of>{_PHRASE}{{0,{MOST_WORDS - 1}}}+)"
    rf"|{SEED}"
    rf"|(?:密码|密碼|口令|暗号|暗號|密语|安全词|{_CHINESE_SEED})\s?(?:就?是|为)?\s*+[:：=]\s*+[“‘「]?"
    rf"(?P<chinese_phrase>[{HAN}]{{2}}[{HAN}A-Za-z0-9]{{1,40}}+)"
)
"""A password or a code after its name."""
KEY: Final = (
    r"(?i:(?:api|secret|access|auth|private|client|refresh|bearer|encryption|signing|session|bot)"
    r"[ _-]?(?:key|secret|token)(?![a-z0-9_])"
    r"(?:\s++(?:for|to|of|on)(?:\s++[\w.@-]{1,40}){1,4}?|\\?[\"'”’])?"
    r"(?:['’]s\b|\s++(?:is|was)\b\s*+[:：]?|\s*+(?:[:=：]|是|为)[:：=]?)(?:\s*+now\b)?\s*+"
    r"|\bbearer\s++|\bauthorization(?:\\?[\"'])?\s*+[:=]\s*+(?:\\?[\"'])?(?:basic|token)\s++)"
    r"\\?[\"'“‘`]?(?P<secret>[^\s\"'“”‘’`,;&，。；…<>()\[\]{}\\\u3400-\u9fff]{6,4000})"
)
"""A text after the name of a key, or after the start of an HTTP authorization header."""

_TALK: Final = re.compile(
    rf"(?:{_FUNCTION}|also|always|another|blank|bool(?:ean)?"
    r"|changed|checked|compromised|correct|different|empty|encrypted|expired|false|fine"
    r"|forgotten|generated|going|gone|good|hard|hashed|hidden|incorrect|invalid"
    r"|kept|leaked|like|long|lost|missing|needed|never|none|nothing|null"
    r"|often|okay|old|one|optional|out|probably|protected|random|really"
    r"|required|reset|right|safe|salted|saved|secure|see|sent|set|shared|short|shown"
    r"|something|somewhere|still|stored|str(?:ing)?|strong|true"
    r"|undefined|unique|unknown|unset|used|usually|valid|verified|visible|weak|working|written"
    r"|wrong)[.,!?)\]}]*",
    re.IGNORECASE,
)
"""Words that follow "the password is" and "password:" in talk about passwords."""
_STATE: Final = re.compile(
    r"(?:another|anything|bad|broken|case-?sensitive|cheesy|clever|common|complex|crap"
    r"|default|down|easy|eight|enough|five|four|great|guessable|hers|his|horrible"
    r"|insane|insecure|known|lame|longer|mandatory|mine|necessary|new|obvious|off"
    r"|ok(?:ay)?|ours|outdated|personal|poor|predictable|private|public"
    r"|ready|ridiculous|rubbish|secret|sensitive|seven|shorter|silly|simple|six"
    r"|stale|stolen|stronger|stupid|ten|terrible|theirs|three|tough|twelve|twice"
    r"|two|unsafe|up|useless|weaker|weird|whatever|whichever|whoever|worthless|yours)"
    r"|[a-z-]{3,}(?:able|ed|ful|ible|ing|less|(?<!f)ly|ous|proof|sensitive|ive)"
)
"""More words that follow "the password is" in such talk: its quality or its owner."""
_PLAIN_WORD: Final = re.compile(r"(?P<word>[a-z]+(?:-[a-z]+)*)[.!?)\]}]*")
_ABOUT: Final = re.compile(
    r"(?:accounts?|admins?|applications?|asks?|attempts?|auto|call|case|characters?|chars?|check|choose"
    r"|click|contact|day|days|digits?|e?mails?|enters?|expires?|fails?|fields?|find|forgets?|forgot"
    r"|hints?|idea|ideas|keeps?|knows?|last|length|letters?|links?|logins?|look|lower|lowercase"
    r"|managers?|max(?:imum)?|min(?:imum)?|month|months|needs?|next|night|numbers?|pages?"
    r"|pass(?:word|code|phrase)s?|pick|polic(?:y|ies)|recover[a-z]*|remember|reminder|rules?|screen"
    r"|see|send|service|settings?|signs?|strength|symbols?|tell|text|times|told|tomorrow|tr(?:y|ies)"
    r"|upper|uppercase|users?(?:name)?|wants?|week|weeks|words?|write|wrote|year|years|yesterday)"
)
"""Words of talk about passwords: what they are made of, what one does with them, and when."""
_CHINESE_TALK: Final = re.compile(
    rf"[{_CHINESE_GRAMMAR}]|至少|最[长多少]|必[需须]|数字|字母|大小写|符号|长度|格式|强度|默认|初始|重置|过期|失效|泄露|失败|成功"
    r"|正确|保密|如下|加密|明文|账号|户|管理|安全|简单|复杂|登[录陆]|密码|口令|老样子|手机|邮[件箱]|短信"
    r"|身份证|知道|系统|自动|生成|更新|保留|暂时|建议|规则|提示|太[^阳平极空子]"
    r"|联系|聯繫|咨询|咨詢|参[考见照]|详|致电|扫码|扫描|私信|群里|前台|客服|房东|老板|店[员长]|管家|物业|待定|随机"
)
"""Characters of grammar, and words of talk about passwords."""
_CONTINUES: Final = re.compile(rf"{_GOES_ON}(?![\w'’-])")
_NEXT_LABEL: Final = re.compile(rf"[ \t]+{_LABEL}")
_NEXT_WORD: Final = re.compile(r"[ \t]+(?P<word>[a-z][\w'’-]*)")
_SEED_WORDS: Final = re.compile(rf"{_LETTER}+|[{HAN}]+")
_LABELLED: Final = re.compile(rf"[:：=]{_OPENING}{_NUMBER}$", re.ASCII)
_NAMELY: Final = re.compile(r"['’](?:s|re|ll|d)\b")
UNIT: Final = (
    r"(?i:\s?(?:[mcμk]?m|inch(?:es)?|m?v|ohms?|m?ah|k?w|watts?|feet|ft|yards?|miles?|percent|secs?|mins?"
    r"|(?:kilo|centi|milli)?met(?:er|re)s?|lit(?:er|re)s?|(?:kilo)?grams?|kilos?|k?g|lbs?|tons?|[kmg]b"
    r"|style|vintage|characters?|chars?|digits?|letters?|lines?|pages?|users?|steps|points|photos"
    r"|(?:us |canadian |australian )?dollars?|(?:swiss )?francs?|euros?|bucks|pounds?|quid|yen|yuan"
    r"|rmb|kron[aeo]r?|crowns|rupees?|pesos?|zloty|usd|eur|gbp|chf|jpy|cny|cents?"
    r"|people|times|bits?|bytes?|years?|months?|weeks?|days?|hours?|hrs|minutes?|seconds?|degrees)"
    r"(?![\w:=]|\s?[:=]))"
)
"""An English unit or currency that a number counts."""
_COUNTED: Final = re.compile(
    rf"{UNIT}"
    r"|\s?(?:[年月日号个位次天元块秒分小多版条字款种页篇集层遍倍米届章节件套项级万亿]|行(?![吗不了吧啊])"
    r"|名(?!字)|本(?!人|来)|世纪|周年|后才|以[内上下前后来]|之[前后]|左右|上映|出版|发[行布明]|播出|首播"
    r"|问世|改版|施行|诞生|成立)"
)
"""The unit that a number counts, or the sign of a year."""
_PIN_OF_METAL: Final = re.compile(
    r"\b(?:lapel|safety|bowling|hair|rolling|cotter|clevis|firing|drawing|push|tie|hat|enamel|gpio"
    r"|locator|map|dowel|ball|tent|hinge|grenade|cloth(?:es)?|collar|badge)[ -]$",
    re.IGNORECASE,
)
_SECRET_PLACE: Final = re.compile(
    r"\b(?:(?:un)?lock|cards?|bank(?:ing)?|atm|sim|phone|mobile|debit|credit|door|gate|garage|alarm|account"
    r"|login|secret|wallet|app|tablet|ipad|laptop|safe|vault|upi|voicemail|tell|share)\b",
    re.IGNORECASE,
)
"""What a PIN code unlocks. Without one of these, six digits are an Indian postal code."""
_BARE: Final = re.compile(r"(?:密码|口令)\s?[「“]?$")
_OWNED: Final = re.compile(
    r"(?:取款|支付|付款|登[录陆]|解锁|开机|开门|门锁|门禁|大门|锁屏|屏幕|卡|手机|电脑|平板|无线|网络|路由器|热点|保险[箱柜]"
    r"|行李箱|账[号户]|邮箱|微信|支付宝|交易|查询|提现|初始|默认|临时|新|旧|原|管理员|后台|服务器|数据库|会议|房间|车库|小区"
    r"|[箱柜锁门]|取件|入户|用户|系统|公司|办公室|前台|酒店|民宿|我|你|您|家里?|的|是|说|用|和|及|[^\u4e00-\u9fff])$|^$"
)
"""Words before 密码 that make it a password rather than part of a book title."""
_PART: Final = re.compile(r"\s?(?:开头|结尾|打头|格式|前缀|后缀|的(?:缩写|首字母|形式|组合))")
_STATED: Final = re.compile(r"(?:\b(?:is|was)(?:\s+now)?|['’]s)\s*$", re.IGNORECASE)
_TO_SUCCESS: Final = re.compile(
    r"\bto\s+(?:a\s|any\s|every\s|good|great|better|success|happiness|life|love|victory|growth"
    r"|longevity|peace|health|wealth|fame|\w+ing\b)",
    re.IGNORECASE,
)
_NO_KEY: Final = re.compile(
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|\d{4}-\d\d-\d\d(?:T[\d:.]+Z?)?"
    r"|(?:~|\.{1,2})/\S*|[A-Za-z]:\\\S*|/(?:[\w.-]{1,19}/)+[\w.-]{1,30}"
    r"|(?i:alt|altgr|ctrl|control|shift|cmd|command|option|win|meta|super|fn)\+\S{1,30}"
    r"|(?i:pkcs|rsa|dsa|ecdsa|ecc|sha|aes|hmac|md|utf|x|ed|hs|rs|es|curve|base)[-_#]?\d{1,5}"
    r"(?:[-_/](?i:\d{1,4}|[a-z]{2,6}))*|secp\d{3}[kr]1"
    r"|\d+-?(?:days?|bits?|hours?|minutes?|seconds?|characters?|chars?)(?:-\w+)?"
)
"""Names, dates, paths, keyboard shortcuts, formats and measures."""
_NUMBERED_WORD: Final = re.compile(r"[A-Za-z][a-z]{5,}\d{1,4}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSpan:
    """A possible secret and its context.

    form: the named group that matched. lead: the matched text before it. before, after: up to
    AROUND characters around.
    """

    secret: str
    form: str
    lead: str
    before: str
    after: str


def span_at(match: re.Match[str], text: str) -> SecretSpan:
    """Return the span of a match: its named group, or else all of it."""
    form = match.lastgroup or ""
    start, stop = match.span(match.lastgroup or 0)
    return SecretSpan(
        secret=text[start:stop],
        form=form,
        lead=text[match.start() : start],
        before=text[max(0, match.start() - AROUND) : match.start()],
        after=text[stop : stop + AROUND],
    )


def is_password(span: SecretSpan) -> bool:
    """Tell whether the text after the name of a password or a code is one."""
    if span.form.startswith("entry"):
        return not _COUNTED.match(span.after)
    if span.form == "apart":
        return not _NO_KEY.fullmatch(span.secret)
    if re.fullmatch(r"\d[\d -]*", span.secret):
        return _is_code(span)
    if _TALK.fullmatch(span.secret):
        return False
    if span.form == "chinese":
        return not _PART.match(span.after)
    if span.form.endswith("seed"):
        return _is_seed(span)
    if span.form.startswith("phrase"):
        return _is_phrase(span.secret)
    if span.form == "chinese_phrase":
        return not _CHINESE_TALK.search(span.secret)
    word = _PLAIN_WORD.fullmatch(span.secret)
    if span.form != "secret" or not word:
        return True
    if not _STATED.search(span.lead):
        ends = word["word"] != span.secret or _NEXT_LABEL.match(span.after)
        return bool(ends) or not _talks_on(word["word"], span.after)
    if _TALK.fullmatch(word["word"]) or _STATE.fullmatch(word["word"]):
        return False
    ends = word["word"] != span.secret
    return ends or not (_new_word(span.after) or _NAMELY.match(span.after))


def _is_phrase(phrase: str) -> bool:
    """Tell whether fewer than half of the words talk about passwords."""
    words = phrase.lower().split()
    talk = sum(_is_talk(word) for word in words)
    most = 2 * talk >= sum(not word.isdecimal() for word in words)
    return not most and not _ABOUT.fullmatch(words[0])


def _is_seed(span: SecretSpan) -> bool:
    """Tell whether the words after "seed phrase" are that phrase, and not a sentence about it.

    Without a colon or an equals sign they must be more, and end where the sentence ends.
    """
    words = _SEED_WORDS.findall(span.secret.lower())
    if len(words) >= LEAST_WORDS:
        return True
    talk = [bool(_is_talk(word) or _CHINESE_TALK.search(word)) for word in words]
    if 2 * sum(talk) >= len(words) or _ABOUT.fullmatch(words[0]):
        return False
    labelled = _LABELLED.search(span.lead) is not None
    return labelled or not (len(words) < 4 or talk[0] or _new_word(span.after))


def _talks_on(word: str, after: str) -> bool:
    """Tell whether a word after a label begins a sentence about the password."""
    if not _NEXT_WORD.match(after):
        return after[:2] in ("'t", "’t")
    return _new_word(after) or _is_talk(word) or _CONTINUES.fullmatch(word) is not None


def _is_talk(word: str) -> bool:
    return any(one.fullmatch(word) for one in (_TALK, _STATE, _ABOUT))


def is_key(span: SecretSpan) -> bool:
    """Tell whether the text after the name of a key looks like a key."""
    secret = span.secret.rstrip(".!?")
    prose = span.lead.lower().strip() == "bearer" and "authorization" not in span.before.lower()
    if prose and _NUMBERED_WORD.fullmatch(secret):
        return False
    return not _NO_KEY.fullmatch(secret) and not _TO_SUCCESS.search(span.lead) and _keylike(secret)


def _is_code(span: SecretSpan) -> bool:
    """Tell whether a number after the name of a code is one, and no count, year or postal code."""
    if _COUNTED.match(span.after) or (span.form == "code" and _is_other_pin(span)):
        return False
    if _BARE.search(span.lead) and not _OWNED.search(span.before):
        return False
    long = len(span.secret) > 5 and not span.secret.endswith("000")
    return long or not _STATED.search(span.lead) or not _new_word(span.after)


def _is_other_pin(span: SecretSpan) -> bool:
    """Tell whether a "pin" is made of metal, or an Indian postal code."""
    if re.match(r"pin[ -]?code", span.lead, re.IGNORECASE):
        context = f"{span.before} {span.lead} {span.after}"
        postal = re.fullmatch(r"[1-9]\d\d ?\d{3}", span.secret)
        return bool(postal) and not _SECRET_PLACE.search(context)
    return bool(re.match("pin", span.lead, re.IGNORECASE) and _PIN_OF_METAL.search(span.before))


def _new_word(after: str) -> bool:
    """Tell whether the next word belongs to the match before it."""
    following = _NEXT_WORD.match(after)
    return bool(following) and not _CONTINUES.match(after.lstrip())


def _keylike(secret: str) -> bool:
    """Tell whether a text mixes letters and digits as keys do, unlike words or names."""
    digits = sum(sign.isdigit() for sign in secret)
    parts = re.findall(r"[A-Za-z0-9]{6,}", secret)
    mixed = any(re.search(r"\d", part) and re.search(r"[A-Za-z]", part) for part in parts)
    long = any(len(part) >= 24 for part in parts) or (digits >= 3 and len(secret) >= 10)
    return mixed or long or secret.endswith("=") or secret.isdigit()
