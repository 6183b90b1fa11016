"""Generates labelled turns for the reader from our own frames and word lists.

A frame is a turn with its labels: "moved to [{city}] last month" in the section "# residence".
"[job:{job}]" labels another slot. "{city}" takes a word of values_<lang>.txt. Frames of
negatives_<lang>.txt hold no fact. Turns are joined, shortened and misspelt as people type.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from shared_core.nlp.text import Language

FOLDER: Final = Path(__file__).parent
FRAME_PART: Final = re.compile(r"\[(?:(\w+):)?([^\]]*)\]|\{(\w+)\}|([^\[{]+|[\[{])")
NUMBERS: Final[dict[str, Callable[[random.Random], str]]] = {
    "n": lambda rng: str(rng.choice([rng.randint(16, 89), rng.randint(18, 60)])),
    "n2": lambda rng: str(rng.randint(2, 15)),
    "n4": lambda rng: str(rng.randint(35, 47)),
    "d": lambda rng: str(rng.randint(1, 28)),
    "d1": lambda rng: str(rng.randint(1, 9)),
    "m": lambda rng: str(rng.randint(1, 12)),
    "yy": lambda rng: str(rng.randint(50, 99)),
    "yy2": lambda rng: f"{rng.randint(5, 25):02}",
    "yy3": lambda rng: str(rng.randint(26, 30)),
    "cm": lambda rng: str(rng.randint(150, 198)),
    "w": lambda rng: rng.choice("一二三四五六日"),
}
MONEY: Final[dict[Language, Sequence[str]]] = {
    "en": ["1200", "900", "$1,450", "£850", "€700", "2k", "65", "95", "1800 bucks", "48", "$22"],
    "zh": ["2600", "4500", "3千", "1900", "5800", "1万", "8000", "两千五", "1w5", "6800元", "9500"],
}
OPEN_CLASSES: Final = frozenset(
    ["first", "last", "name", "nick", "child", "pet_name", "company", "city", "school"]
)
"""Words of which some are made up, so that their list is not learned by heart."""
NO_STRAY: Final = frozenset(["kin", "kinf", "weekday", "month", "time"])
STRAY: Final = 0.05
"""Share of words replaced by any word, so that the words around must tell the slot."""
SYLLABLES: Final = [
    "ba",
    "be",
    "bri",
    "ca",
    "cho",
    "da",
    "del",
    "du",
    "el",
    "fa",
    "fen",
    "ga",
    "gri",
    "ha",
    "hel",
    "in",
    "ja",
    "jo",
    "ka",
    "kri",
    "la",
    "lo",
    "ma",
    "mi",
    "mor",
    "na",
    "ni",
    "or",
    "pa",
    "pel",
    "ra",
    "ri",
    "ro",
    "sa",
    "sel",
    "sha",
    "ta",
    "ti",
    "tor",
    "va",
    "vi",
    "wen",
    "xa",
    "ya",
    "zo",
]
NAME_CHARACTERS: Final = (
    "文明华英建国志强丽娟静怡欣雨涵子轩浩宇博思远佳琪梦瑶晨曦雪松"
    "海涛云飞阳光春秋月圆宁安康乐福瑞祥嘉俊杰宏伟"
)


ENGLISH_FILLERS: Final = """
the a of and to in is was that it for on with as at by this be are from or an they which you we
their its not but have had has were been there more when who what about up out so some would only
other into than then could these over after first also like just because really very most even
through still where how much any good new made many being before
"""
CHINESE_FILLERS: Final = (
    "的了是在和有也都就不这那与而及为从到对以着过很被把将于之其可会能要让但所更最"
)
CHINESE_PAIRS: Final = "一个 这个 那个 可以 因为 所以 但是 非常 没有 我们 自己"
FILLERS: Final[dict[Language, list[str]]] = {
    "en": ENGLISH_FILLERS.split(),
    "zh": [*CHINESE_FILLERS, *CHINESE_PAIRS.split()],
}
"""Words that stand between others in any text."""
EN_JOINTS: Final = [", ", ". ", " and ", " but ", ", and ", " so ", " - ", "! ", " ", " bc "]
ZH_JOINTS: Final = ["，", " ", "。", "，", "，而且", "，然后", "，但是", "；", ""]
FIRMS: Final = [" Labs", " Inc", " Group", " & Co", " Systems", " Foods", " Health"]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A turn and its spans (slot, start, end). No span: it holds no fact."""

    text: str
    spans: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Source:
    """The frames of each slot, the negatives, the words, and what stands around a statement."""

    frames: dict[str, list[str]]
    negatives: list[str]
    values: dict[str, list[str]]
    around: dict[str, list[str]]


@lru_cache
def load_source(lang: Language) -> Source:
    """Return what the generator of a language knows."""
    values = {}
    for line in read(f"values_{lang}.txt"):
        name, words = line.split(":", 1)
        values[name] = [word.strip() for word in words.split("|")]
    return Source(
        frames=sections(read(f"frames_{lang}.txt")),
        negatives=read(f"negatives_{lang}.txt"),
        values=values,
        around=sections(read(f"around_{lang}.txt")),
    )


def read(name: str) -> list[str]:
    """Return the lines of a file of this folder, without empty ones."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip()]


def sections(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the lines below each "# name"."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    name = ""
    for line in lines:
        if line.startswith("# "):
            name = line[2:].strip()
        else:
            found[name].append(line)
    return dict(found)


class Generator:
    """Makes labelled turns of a language; the same ones for the same seed."""

    def __init__(self, lang: Language, seed: int, vocabulary: Sequence[str] = ()) -> None:
        self._lang: Language = lang
        self._rng = random.Random(seed)
        self._source = load_source(lang)
        self._vocabulary = vocabulary
        self._slots = list(self._source.frames)
        self._weights = [len(self._source.frames[slot]) ** 0.6 for slot in self._slots]

    def turn(self) -> Labelled:
        """Return one labelled turn of one to three statements."""
        rng = self._rng
        count = rng.choices([1, 2, 3], [0.66, 0.25, 0.09])[0]
        parts = [self._part() for _ in range(count)]
        text, spans = "", []
        if rng.random() < 0.15:
            text = rng.choice(self._source.around["opener"]) + self._gap()
        for place, (said, found) in enumerate(parts):
            if place:
                text += self._joint()
            spans += [(slot, start + len(text), end + len(text)) for slot, start, end in found]
            text += said
        if rng.random() < 0.1:
            tail = rng.choice(self._source.around["tail"])
            text += tail if self._lang == "zh" else f" {tail}"
        if rng.random() < 0.12:
            text += self._joint() + rng.choice(self._source.around["question"])
            text += rng.choice(["", "?", "？"] if self._lang == "zh" else ["", "?", "??"])
        if rng.random() < 0.12:
            text += ("" if self._lang == "zh" else " ") + rng.choice(self._source.around["emoji"])
        return self.typed(Labelled(text, tuple(spans)))

    def _part(self) -> tuple[str, list[tuple[str, int, int]]]:
        rng, source = self._rng, self._source
        drawn = rng.random()
        if drawn < 0.38:
            return self._strayed(
                self._filled(rng.choice(source.negatives), "", labels=False)[0]
            ), []
        if drawn < 0.48 and self._vocabulary:
            return self._salad(), []
        slot = rng.choices(self._slots, self._weights)[0]
        return self._filled(rng.choice(source.frames[slot]), slot, labels=True)

    def _strayed(self, text: str) -> str:
        """Return a text without facts, at times with other words in it."""
        rng = self._rng
        if not self._vocabulary or rng.random() < 0.5:
            return text
        if self._lang == "en":
            words = text.split(" ")
            return " ".join(
                rng.choice(self._vocabulary) if len(one) > 3 and rng.random() < 0.3 else one
                for one in words
            )
        at = rng.randrange(len(text))
        return text[:at] + rng.choice(self._vocabulary) + text[at + rng.choice([0, 2]) :]

    def _salad(self) -> str:
        """Return words in a row that say nothing, some of them values of slots."""
        rng = self._rng
        names = [name for name in self._source.values if name not in NO_STRAY]
        words = []
        for _ in range(rng.randint(3, 14)):
            drawn = rng.random()
            if drawn < 0.45:
                words.append(rng.choice(FILLERS[self._lang]))
            elif drawn < 0.85:
                words.append(rng.choice(self._vocabulary))
            else:
                words.append(self.value(rng.choice(names)))
        return ("" if self._lang == "zh" else " ").join(words)

    def _gap(self) -> str:
        return self._rng.choice(["，", " ", "，", ""] if self._lang == "zh" else [" ", ", ", " "])

    def _joint(self) -> str:
        if self._lang == "zh":
            return self._rng.choice(ZH_JOINTS)
        return self._rng.choice(
            [", ", ". ", " and ", " but ", ", and ", " so ", " - ", "! ", " ", " bc "]
        )

    def _filled(
        self, frame: str, slot: str, *, labels: bool
    ) -> tuple[str, list[tuple[str, int, int]]]:
        """Return a frame with words in its places, and its spans."""
        if not labels:
            return re.sub(r"\{(\w+)\}", lambda match: self.value(match[1]), frame), []
        text, spans = "", []
        for match in FRAME_PART.finditer(frame):
            named, inner, plain, rest = match[1], match[2], match[3], match[4]
            if inner is not None:
                said = re.sub(r"\{(\w+)\}", lambda one: self.value(one[1]), inner)
                spans.append((named or slot, len(text), len(text) + len(said)))
                text += said
            else:
                text += self.value(plain) if plain else rest
        return text, spans

    def value(self, name: str) -> str:
        """Return a word of a list, or an invented one."""
        rng = self._rng
        if name in NUMBERS:
            return NUMBERS[name](rng)
        if name == "money":
            return rng.choice(MONEY[self._lang])
        words = self._source.values.get(name)
        if words is None:
            return "{" + name + "}"
        if name in OPEN_CLASSES and rng.random() < 0.25:
            return self._invented(name)
        if self._vocabulary and name not in NO_STRAY and rng.random() < STRAY:
            return rng.choice(self._vocabulary)
        word = rng.choice(words)
        return re.sub(r"\{(\w+)\}", lambda match: self.value(match[1]), word)

    def _invented(self, name: str) -> str:
        """Return a name that no list holds."""
        rng = self._rng
        if self._lang == "zh":
            size = 2 if name in ("nick", "child", "pet_name", "city") else rng.choice([1, 2])
            made = "".join(rng.choice(NAME_CHARACTERS) for _ in range(size))
            if name == "name":
                return rng.choice(self._source.values["surname"]) + made
            if name == "company":
                return made + rng.choice(["科技", "公司", "集团", "传媒", "物流", "医院", ""])
            if name == "school":
                return made + rng.choice(["大学", "中学", "学院", "小学"])
            return made
        made = "".join(rng.choice(SYLLABLES) for _ in range(rng.choice([2, 2, 3]))).capitalize()
        if name == "company" and rng.random() < 0.4:
            made += rng.choice(FIRMS)
        if name == "school":
            made += rng.choice([" High", " University", " College", " Elementary", " uni"])
        return made

    def typed(self, turn: Labelled) -> Labelled:
        """Return a turn with the habits of people who type."""
        return typed_zh(turn, self._rng) if self._lang == "zh" else typed_en(turn, self._rng)


SHORT: Final = {
    "you": "u", "your": "ur", "are": "r", "please": "pls", "because": "cuz", "with": "w",
    "and": "n", "really": "rly", "about": "abt", "people": "ppl", "though": "tho", "to": "2",
    "for": "4", "going to": "gonna", "want to": "wanna", "love": "luv", "months": "mths",
    "years": "yrs", "birthday": "bday", "favorite": "fav", "boyfriend": "bf",
    "girlfriend": "gf", "work": "wrk",
}  # fmt: skip
WORD: Final = re.compile(r"[A-Za-z']+|[^A-Za-z']")


def rewritten(turn: Labelled, pieces: Sequence[tuple[str, str]]) -> Labelled:
    """Return a turn whose text was rewritten piece by piece (old, new), with moved spans."""
    moved: list[int] = []
    text = ""
    for old, new in pieces:
        for at in range(len(old)):
            moved.append(len(text) + min(at, len(new)))
        text += new
    moved.append(len(text))
    spans = tuple((slot, moved[start], moved[end]) for slot, start, end in turn.spans)
    return Labelled(text, tuple(one for one in spans if one[2] > one[1]))


def typed_en(turn: Labelled, rng: random.Random) -> Labelled:
    """Return an English turn in lower case or upper, without apostrophes, with slips."""
    style = rng.random()
    plain, slips = rng.random() < 0.5, rng.random() < 0.25
    inside = {at for _, start, end in turn.spans for at in range(start, end)}
    pieces, at = [], 0
    for match in WORD.finditer(turn.text):
        word = new = match[0]
        if word[0].isalpha() and at not in inside:
            if plain:
                new = new.replace("'", "")
            elif new == "im":
                new = "I'm"
            elif new in ("dont", "cant", "ive", "whats", "isnt", "shes", "hes"):
                new = {"ive": "I've"}.get(new) or f"{new[:-1]}'{new[-1]}"
            if rng.random() < (0.12 if slips else 0.02):
                new = SHORT.get(new, new)
            if slips and len(new) > 3 and rng.random() < 0.1:
                new = slipped(new, rng)
        pieces.append((word, new))
        at += len(word)
    turn = rewritten(turn, pieces)
    if style < 0.5:
        return (
            Labelled(turn.text.lower(), turn.spans)
            if len(turn.text.lower()) == len(turn.text)
            else turn
        )
    text = re.sub(r"\bi\b", "I", turn.text)
    if style < 0.95:
        text = (
            text[:1].upper()
            + text[1:]
            + (rng.choice([".", "!", ""]) if text[-1:].isalnum() else "")
        )
    elif len(text.upper()) == len(text):
        text = text.upper()
    return Labelled(text, turn.spans)


def slipped(word: str, rng: random.Random) -> str:
    """Return a word with one wrong letter."""
    at = rng.randrange(1, len(word) - 1)
    how = rng.random()
    if how < 0.35:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if how < 0.7:
        return word[:at] + word[at + 1 :]
    return word[:at] + word[at] + word[at:]


TRADITIONAL: Final = str.maketrans(
    "这个们来时会说对学国开关东车马鸟鱼龙门问间听见觉话语读书写画长张两万亿从众体传价优伤伟侧债儿兰兴养内写军农决况冻净减几凤刘则刚创删别剧劝办动务劳势区医华协单卖卢卫厂厅历压厨县双发变号叶吗员响哑园围图圆场坏块坚坛声处备复够头夹夺奋奖妆妇妈娱婴孙宁宝实审宽对导寿将尔尝层岁岛岭币师帐带帮干应庆库废张归当录忆忧怀态总恋恶悬惊惯愿戏战户护报拟择担拥挂换据损摄摆数断无旧显晓暂术机杂权条来极构枪柜查标栏树样桥检楼欢气汉汤汇沟没测济浓涛润涨渐温湾湿满滨灭灯灵点炼热烟烦烧爱爷牵犹狗独猪猫环现电疗疯症皱盐监盖盘睁矿码础确离种积称稳穷窗竞笔筑签简类粮粤紧纪红约级纯纸线练组细织终绍经结给络绝统继绩绪续绿维综编缘网罗罚职联聪肠肤肾胆胜脏脑脸腊腾艺节芦苏苹范荐药获营虑虽补装见规视览觉触计订认讨让训议记讲许论设访证评识诉词译试诗话询详该误说请诸课谁调谈谢谱财责贤败货质购贵贷贸费贺资赏赛赞赵赶跃跑践踪车转轮软轻载较辅辆边达过运近还进远连迟适选递逻遗邮邻郑酱释里钟钱铁银销锁锅错键镇长闭问闲间闻阅队阳阴阵际陆陈险随难雾静韩页顶项顺须顾预领频题颜额风飞饭饮饰饱饼馆馒马驾驶验骑骗鱼鲜鸡鸭麦黄齐龄龟",
    "這個們來時會說對學國開關東車馬鳥魚龍門問間聽見覺話語讀書寫畫長張兩萬億從眾體傳價優傷偉側債兒蘭興養內寫軍農決況凍淨減幾鳳劉則剛創刪別劇勸辦動務勞勢區醫華協單賣盧衛廠廳歷壓廚縣雙發變號葉嗎員響啞園圍圖圓場壞塊堅壇聲處備復夠頭夾奪奮獎妝婦媽娛嬰孫寧寶實審寬對導壽將爾嘗層歲島嶺幣師帳帶幫幹應慶庫廢張歸當錄憶憂懷態總戀惡懸驚慣願戲戰戶護報擬擇擔擁掛換據損攝擺數斷無舊顯曉暫術機雜權條來極構槍櫃查標欄樹樣橋檢樓歡氣漢湯匯溝沒測濟濃濤潤漲漸溫灣濕滿濱滅燈靈點煉熱煙煩燒愛爺牽猶狗獨豬貓環現電療瘋症皺鹽監蓋盤睜礦碼礎確離種積稱穩窮窗競筆築簽簡類糧粵緊紀紅約級純紙線練組細織終紹經結給絡絕統繼績緒續綠維綜編緣網羅罰職聯聰腸膚腎膽勝臟腦臉臘騰藝節蘆蘇蘋範薦藥獲營慮雖補裝見規視覽覺觸計訂認討讓訓議記講許論設訪證評識訴詞譯試詩話詢詳該誤說請諸課誰調談謝譜財責賢敗貨質購貴貸貿費賀資賞賽贊趙趕躍跑踐蹤車轉輪軟輕載較輔輛邊達過運近還進遠連遲適選遞邏遺郵鄰鄭醬釋裡鐘錢鐵銀銷鎖鍋錯鍵鎮長閉問閒間聞閱隊陽陰陣際陸陳險隨難霧靜韓頁頂項順須顧預領頻題顏額風飛飯飲飾飽餅館饅馬駕駛驗騎騙魚鮮雞鴨麥黃齊齡龜",
)
"""Simplified characters and their traditional forms, enough for the words of our frames."""
CANTONESE: Final = {
    "不": "唔",
    "喜欢": "鍾意",
    "现在": "而家",
    "的": "嘅",
    "是": "係",
    "在": "喺",
    "没有": "冇",
    "吃": "食",
    "喝": "飲",
    "们": "哋",
    "这": "呢",
    "他": "佢",
}


def typed_zh(turn: Labelled, rng: random.Random) -> Labelled:
    """Return a Chinese turn in traditional characters, without marks, or half Cantonese."""
    style = rng.random()
    inside = {at for _, start, end in turn.spans for at in range(start, end)}
    pieces, at = [], 0
    while at < len(turn.text):
        old = new = turn.text[at]
        if style < 0.06 and at not in inside:
            for word in (turn.text[at : at + 2], old):
                if word in CANTONESE and not inside & set(range(at, at + len(word))):
                    old, new = word, CANTONESE[word]
                    break
        elif at not in inside and new == "，" and style > 0.75:
            new = rng.choice([" ", ",", "，"])
        elif at not in inside and new == "我" and style > 0.85 and rng.random() < 0.4:
            new = ""
        pieces.append((old, new))
        at += len(old)
    turn = rewritten(turn, pieces)
    if style < 0.16:
        return Labelled(turn.text.translate(TRADITIONAL), turn.spans)
    if style > 0.92:
        return Labelled(turn.text.rstrip("。") + "。", turn.spans)
    return turn
