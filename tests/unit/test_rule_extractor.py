"""What the rules read out of plain statements, in both languages."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typed_lines
from every_case import every_case
from growth import grows_in_line
from turns import said

from shared_core.core.domain import FactDraft
from shared_core.extraction.rule_reader import read_turn
from shared_core.nlp.discourse import DiscourseState
from shared_core.nlp.rules import load_rules

ENGLISH = typed_lines.with_slots([
    ("en.name.my-name-is", "Hello! My name is Orla.", "Orla"),
    ("en.name.my-name-is", "my name is orla", "Orla"),
    ("en.name.call-me", "Please call me Dee.", "Dee"),
    ("en.name.called", "I go by Ferris", "Ferris"),
    ("en.name.changed", "I've legally changed my name to Ona Reed.", "Ona Reed"),
    ("en.name.here", "Hi, it's Ivo here again", "Ivo"),
    ("en.name.bare-here", "Hey, Ivo here.", "Ivo"), ("en.name.i-am", "Hi, I'm Odile.", "Odile"),
    ("en.age.years", "I am 41 years old", "41"), ("en.age.number", "I turned 52 last week.", "52"),
    ("en.age.year-old", "I'm a 29-year-old nurse.", "29"),
    ("en.age.decade", "I'm in my early thirties.", "early thirties"),
    ("en.job.i-am", "I'm a landscape gardener in Kent.", "landscape gardener"),
    ("reader.en.job", "As a court interpreter, I travel a lot.", "court interpreter"),
    ("en.job.work-as", "I work at Brill as an editor.", "editor"),
    ("en.job.field", "I work in logistics.", "logistics"),
    ("en.employer.work-at", "I currently work for Halden Print.", "Halden Print"),
    ("en.employer.work-at", "I work at a small bakery.", "a small bakery"),
    ("en.employer.role-at", "I'm a welder at Norsk Verft.", "Norsk Verft"),
    ("en.employer.joined", "I just joined Corvid Maps as an analyst.", "Corvid Maps"),
    ("en.employer.moved-to", "I moved from Bosch to Siemens last May", "Siemens"),
    ("reader.en.employer", "I switched from Bosch to Tarn & Co", "Tarn & Co"),
    ("en.work-city.in", "I'm currently working in Leeds.", "Leeds"),
    ("en.work-city.in", "I work in Leeds three days a week.", "Leeds"),
    ("en.residence.live-in", "I live in Porto, near the river.", "Porto"),
    ("en.residence.live-in", "We've been living in New Delhi since 2020", "New Delhi"),
    ("en.residence.lower-case", "i live in tarnby", "tarnby"),
    ("en.residence.moved-to", "We relocated from Lyon to Ghent.", "Ghent"),
    ("en.origin.from", "I'm originally from Tartu.", "Tartu"),
    ("reader.en.origin", "I grew up in Dakar", "Dakar"),
    ("en.origin.demonym", "I'm Norwegian, by the way", "Norwegian"),
    ("en.birthday.is", "My birthday is on 9 October.", "9 October"),
    ("en.email.is", "My work email is o.reed@post.example.", "o.reed@post.example"),
    ("en.allergy.to", "I'm severely allergic to latex.", "latex"),
    ("en.allergy.have", "I have a bad walnut allergy", "walnut"),
    ("en.trait.i-am", "I'm left-handed.", "left-handed"),
    ("en.trait.i-am", "Since I'm a vegetarian, skip the ham.", "vegetarian"),
    ("en.trait.illness", "I have asthma", "asthma"),
    ("en.marital.i-am", "I'm divorced now.", "marital_status", "divorced"),
    ("en.marital.got", "I got married last year", "marital_status", "married"),
    ("en.trait.abstains", "I don't smoke.", "smoke"),
    ("en.trait.pronouns", "My pronouns are they/them", "they/them"),
    ("en.language.speak", "I speak Danish fluently.", "Danish"),
    ("en.language.native", "My native language is Urdu", "Urdu"),
    ("reader.en.education", "I graduated from Lund University.", "Lund University"),
    ("en.education.now", "I study chemistry at Leiden.", "Leiden"),
    ("reader.en.education", "I have a PhD in botany.", "PhD in botany"),
    ("reader.en.education", "I majored in philosophy", "philosophy"),
    ("en.activity.learning", "I've been learning Finnish lately.", "Finnish"),
    ("en.activity.smokes", "I smoke.", "smoke"),
    ("en.activity.plays", "I play the cello in my free time", "the cello"),
    ("en.activity.sings", "I sing in a gospel choir.", "in a gospel choir"),
    ("en.like.prefer-one", "I prefer rye to wheat", "rye"),
    ("en.like.prefer", "I prefer window seats over aisle seats.", "window seats"),
    ("en.like.rather", "I'd rather cycle than drive", "cycle"),
    ("en.like.love", "I really love pickled herring!", "pickled herring"),
    ("en.like.love", "I'm into letterpress printing these days", "letterpress printing"),
    ("en.like.only", "I only drink oat milk.", "oat milk"),
    ("en.like.what", "Window seats are what I like best.", "Window seats"),
    ("reader.en.tool", "I use Fedora on my laptop.", "Fedora"),
    ("en.rule.make-sure", "Make sure the summary never exceeds a page.",
     "Make sure the summary never exceeds a page"),
    ("en.like.hobby", "My hobby is beekeeping.", "beekeeping"),
    ("en.dislike.hate", "I can't stand marzipan", "marzipan"),
    ("en.dislike.hate", "Not a fan of open offices.", "open offices"),
    ("en.dislike.abstain", "I never eat pork.", "pork"),
    ("en.dislike.cannot", "I cannot eat gluten.", "gluten"),
    ("en.favourite.my", "My favorite color is teal.", "favourite.colour", "teal"),
    ("en.favourite.is-my", "Dune is my favourite book", "favourite.book", "Dune"),
    ("en.rule.always", "Always use metric units.", "Always use metric units"),
    ("en.rule.i-never", "I never take calls before noon", "never take calls before noon"),
    ("en.rule.no-meetings", "No meetings on Mondays", "No meetings on Mondays"),
    ("en.relation.name-is", "My sister is called Runa.", "relation.sister", "Runa"),
    ("en.relation.apposition", "My husband Pavel cooks.", "relation.husband", "Pavel"),
    ("en.relation.apposition", "My boss, Ms. Okafor, is on leave", "relation.boss", "Ms. Okafor"),
    ("en.relation.is-my", "Runa is my sister.", "relation.sister", "Runa"),
    ("en.relation.who-is", "My boss is Maria.", "relation.boss", "Maria"),
    ("en.relation.who-is", "My dentist is Dr. Lee", "relation.dentist", "Dr. Lee"),
    ("en.relation.name-is", "My daughter is called 灿灿.", "relation.daughter", "灿灿"),
    ("en.relation.apposition", "My wife 李娜 cooks.", "relation.wife", "李娜"),
    ("en.name.my-name-is", "My name is 王伟.", "王伟"),
    ("en.residence.live-in", "I live in 上海.", "上海"),
    ("en.employer.work-at", "I work at 华为.", "华为"), ("en.like.love", "I love 火锅", "火锅"),
    ("en.name.my-name-is", "My name is Иван", "Иван"),
    ("en.relation.have", "We have a beagle called Biscuit", "relation.dog", "Biscuit"),
    ("en.relation.age", "My son is nine.", "relation.son.age", "nine"),
    ("en.relation.decade", "My boss is in his late 50s", "relation.boss.age", "late 50s"),
    ("en.relation.year-old", "I took my 6-year-old daughter along", "relation.daughter.age", "6"),
    ("en.relation.place", "My brother lives in Quito.", "relation.brother.place", "Quito"),
    ("en.rule.from-now-on", "From now on, only answer in Dutch.",
     "From now on, only answer in Dutch"),
    ("en.rule.do-not", "Don't text me after 9 pm.", "Don't text me after 9 pm"),
    ("en.rule.remind", "Remind me to water the ferns every Sunday",
     "Remind me to water the ferns every Sunday"),
    ("en.rule.answer-style", "Please keep your answers short.", "keep your answers short"),
    ("en.rule.whenever", "Whenever I mention a recipe, use grams.",
     "Whenever I mention a recipe, use grams"),
])  # fmt: skip

CHINESE = typed_lines.with_slots([
    ("zh.name.called", "大家好，我叫苏禾。", "苏禾"), ("zh.name.call-me", "叫我阿Ken就行", "阿Ken"),
    ("zh.name.nickname", "大家都叫我小满", "小满"), ("zh.name.i-am", "你好，我是顾清", "顾清"),
    ("zh.age.years", "我今年四十二岁了。", "四十二岁"), ("zh.age.number", "我今年36", "36"),
    ("zh.age.aged", "我三十出头", "三十出头"), ("zh.name.addressed", "请叫我张三丰老师", "张三丰"),
    ("zh.age.of-a", "我是一名18岁的女生", "18岁"), ("zh.age.of-a", "我是18岁男学生", "18岁"),
    ("zh.job.aged", "我是一名18岁的男学生", "男学生"),
    ("zh.job.i-am", "我是一名儿科医生。", "儿科医生"),
    ("zh.job.at", "我在海风出版社当编辑。", "编辑"), ("reader.zh.job", "我是做外贸的", "外贸"),
    ("reader.zh.job", "我在松果科技做后端开发", "后端开发"),
    ("zh.name.changed", "我改名叫王方了", "王方"),
    ("zh.employer.at", "我在松果科技做后端开发，已经六年了。", "松果科技"),
    ("zh.employer.at", "我目前在海风出版社上班。", "海风出版社"),
    ("zh.employer.kind", "我在一家做灯具的小工厂上班", "做灯具的小工厂"),
    ("zh.tool.use", "我用的是ThinkPad", "ThinkPad"),
    ("zh.employer.switched", "我上周跳槽到松果科技了！", "松果科技"),
    ("zh.employer.joined", "我刚入职松果科技", "松果科技"),
    ("zh.residence.live", "我现在住在绍兴。", "绍兴"), ("zh.work-city.in", "我在青岛工作", "青岛"),
    ("zh.residence.moved", "我们去年从苏州搬到了泉州。", "泉州"),
    ("zh.origin.from", "我老家在绵阳。", "绵阳"), ("zh.origin.native", "我是东北人", "东北"),
    ("reader.zh.birthday", "我的生日是10月9日。", "10月9日"),
    ("zh.email.is", "我的邮箱是su.he@post.example", "su.he@post.example"),
    ("zh.allergy.to", "我对乳胶严重过敏。", "乳胶"), ("zh.allergy.noun", "我花粉过敏", "花粉"),
    ("zh.trait.verb", "我吃素。", "吃素"), ("zh.trait.noun", "我是左撇子", "左撇子"),
    ("zh.marital.verb", "我结婚了", "marital_status", "结婚了"),
    ("zh.trait.illness", "我有哮喘", "哮喘"), ("zh.language.speak", "我会说一点德语。", "德语"),
    ("zh.language.native", "我的母语是粤语", "粤语"),
    ("zh.education.at", "我就读于兰州大学。", "兰州大学"),
    ("zh.education.graduated", "我毕业于兰州大学", "兰州大学"),
    ("zh.education.student-of", "我是兰州大学的学生", "兰州大学"),
    ("zh.activity.learning", "我最近在学二胡。", "二胡"),
    ("zh.favourite.my", "我最喜欢的颜色是墨绿。", "favourite.colour", "墨绿"),
    ("zh.favourite.is-my", "《城南旧事》是我最喜欢的书", "favourite.book", "《城南旧事》"),
    ("zh.like.love", "我特别喜欢钓鱼！", "钓鱼"),
    ("zh.like.love", "我和老公都喜欢看话剧", "看话剧"),
    ("zh.like.hooked", "最近迷上了木工", "木工"), ("zh.like.only", "我只喝白开水", "白开水"),
    ("zh.like.hobby", "我的爱好是集邮", "集邮"), ("zh.like.prefer", "我习惯早起", "早起"),
    ("zh.dislike.hate", "我讨厌榴莲。", "榴莲"),
    ("zh.dislike.hate", "我不太喜欢热闹的地方", "热闹的地方"),
    ("zh.dislike.abstain", "我从不喝酒", "酒"),
    ("zh.dislike.no-taste", "相声我实在欣赏不来", "相声"),
    ("zh.rule.from-now-on", "以后请用中文回答我。", "以后请用中文回答我"),
    ("zh.rule.always", "一定要先问我再付款", "一定要先问我再付款"),
    ("zh.rule.every-time", "每次开会都要提醒我带电脑", "每次开会都要提醒我带电脑"),
    ("zh.rule.limit", "周报千万不要超过一页", "周报千万不要超过一页"),
    ("zh.rule.do-not", "别再给我推荐网红店", "别再给我推荐网红店"),
    ("zh.rule.time", "我每周一不开会", "每周一不开会"),
    ("zh.rule.answer-language", "请用英语和我交流", "用英语和我交流"),
    ("reader.zh.rule", "回答请尽量简短", "回答请尽量简短"),
    ("zh.relation.name-is", "我儿子叫东东。", "relation.son", "东东"),
    ("zh.relation.apposition", "我老板贺总很忙", "relation.boss", "贺总"),
    ("zh.relation.who-is", "我老板是王芳。", "relation.boss", "王芳"),
    ("zh.relation.who-is", "我老板是Maria。", "relation.boss", "Maria"),
    ("zh.relation.is-my", "沈月是我的闺蜜", "relation.friend", "沈月"),
    ("zh.relation.pet", "奶糖是我养的橘猫", "relation.cat", "奶糖"),
    ("zh.relation.have", "我有一只猫叫奶糖", "relation.cat", "奶糖"),
    ("zh.relation.age", "我女儿今年六岁了", "relation.daughter.age", "六岁"),
    ("zh.relation.age", "我孩子三岁半", "relation.child.age", "三岁半"),
    ("zh.relation.named-age", "我女儿朵朵今年六岁", "relation.daughter.age", "六岁"),
    ("zh.relation.named-age", "我儿子小宇昨天满八岁了。", "relation.son.age", "八岁"),
    ("zh.relation.apposition", "我儿子小宇昨天满八岁了。", "relation.son", "小宇"),
    ("zh.name.changed", "我把名字改成李沐了", "李沐"),
    ("zh.relation.place", "我姐姐住在大理", "relation.sister.place", "大理"),
])  # fmt: skip

RETRACTIONS = typed_lines.with_slots([
    ("en.employer.no-longer", "I no longer work at Halden Print.", "Halden Print"),
    ("en.employer.never", "I never worked at Barclays.", "Barclays"),
    ("en.employer.never", "I haven't ever worked for Halden Print.", "Halden Print"),
    ("en.employer.quit", "I quit my job at Halden Print", "Halden Print"),
    ("en.employer.left", "I left Siemens in June", "Siemens"),
    ("en.employer.left-name", "I've just left Halden Print.", "Halden Print"),
    ("en.employer.left-name", "I quit Acme last week.", "Acme"),
    ("en.employer.left-name", "I left Acme for Corvid Maps", "Acme"),
    ("en.employer.no-longer-at", "I'm no longer at Acme.", "Acme"),
    ("en.employer.no-longer-at", "I am not with Acme anymore", "Acme"),
    ("en.employer.jobless", "I lost my job last week.", ""),
    ("en.residence.no-longer", "I don't live in Porto any more", "Porto"),
    ("en.trait.no-longer", "I'm no longer vegan.", "vegan"),
    ("en.trait.not-any-more", "I am not a vegetarian any more", "vegetarian"),
    ("en.marital.no-longer", "I'm not married anymore", "marital_status", "married"),
    ("en.relation.died", "My dog Rex died last week", "relation.dog", "Rex"),
    ("en.activity.stopped", "I gave up learning Finnish", "Finnish"),
    ("en.like.no-longer", "I don't like olives any more.", "olives"),
    ("en.like.used-to", "I used to love opera", "opera"),
    ("en.like.gave-up", "I stopped eating meat.", "meat"),
    ("en.dislike.used-to", "I used to hate cheese", "cheese"),
    ("zh.employer.left", "我已经从松果科技离职了。", "松果科技"),
    ("zh.employer.left-it", "我离开了腾讯。", "腾讯"),
    ("zh.employer.left-it", "我上个月离开松果科技了", "松果科技"),
    ("zh.employer.no-longer", "我不在海风出版社上班了", "海风出版社"),
    ("zh.employer.never", "我从来没在海风出版社上过班", "海风出版社"),
    ("zh.employer.never", "我从没在松果科技工作过。", "松果科技"),
    ("zh.employer.gone", "我已经不在华为了", "华为"), ("zh.employer.jobless", "我上个月离职了", ""),
    ("zh.residence.no-longer", "我不住在绍兴了", "绍兴"),
    ("zh.trait.no-longer", "我不吃素了", "吃素"),
    ("zh.marital.no-longer", "我不再单身了", "marital_status", "单身"),
    ("zh.relation.died", "我的狗旺财去世了", "relation.dog", "旺财"),
    ("zh.like.used-to", "我以前很喜欢滑雪", "滑雪"),
    ("zh.like.no-longer", "我不再喜欢钓鱼了", "钓鱼"),
    ("zh.like.not-now", "我不喜欢钓鱼了", "钓鱼"),
])  # fmt: skip

IMPLIED = [
    ("en.trait.eats-again", "I eat meat again.", "vegetarian"),
    ("en.trait.eats-again", "I've started eating meat again", "vegan"),
    ("zh.trait.eats-again", "我又吃肉了", "吃素"),
    ("zh.trait.eats-again", "我现在又开始吃肉了。", "素食者"),
]

STATEMENTS = [
    ("My name is Orla.", "User's name is Orla."),
    ("I work at Halden Print.", "User works at Halden Print."),
    ("I no longer work at Halden Print.", "User no longer works at Halden Print."),
    ("I'm an editor.", "User is an editor."), ("I'm a night owl", "User is a night owl."),
    ("I turned 52.", "User is 52 years old."), ("I love my garden", "User likes their garden."),
    ("I don't like to cook", "User does not like to cook."),
    ("I'd rather cycle than drive", "User would rather cycle than drive."),
    ("My favourite bands are Can and Neu", "User's favourite bands are Can and Neu."),
    ("My mom is called Ida.", "User's mother is called Ida."),
    ("Please never book meetings on Fridays.",
     "Rule from the user: never book meetings on Fridays."),
    ("Never call me at night", "Rule from the user: Never call them at night."),
    ("Always cite sources when I ask for facts.",
     'Rule from the user: "Always cite sources when I ask for facts".'),
    ("我叫苏禾", "用户叫苏禾。"), ("我女儿叫灿灿。", "用户的女儿叫灿灿。"),
    ("我今年36", "用户36岁。"), ("我从不喝酒", "用户从不喝酒。"),
    ("别再给我推荐网红店", "用户定的规则：别再给用户推荐网红店。"),
    ("我已经从松果科技离职了", "用户不再在松果科技工作。"),
]  # fmt: skip


TUESDAY = datetime(2026, 3, 10, 10, tzinfo=UTC)


def facts(text: str, *, reader: bool = False, **more: Any) -> list[FactDraft]:
    return list(read_turn(said("e1", text, TUESDAY, **more), DiscourseState(), reader=reader).facts)


def read(text: str) -> list[tuple[str, str, str]]:
    return [(fact.operation, fact.slot, fact.value) for fact in facts(text)]


@every_case(*ENGLISH, *CHINESE, *typed_lines.ENGLISH, *typed_lines.CHINESE)
def test_a_plain_statement_becomes_a_fact(pattern, text, slot, value):
    is_trained = pattern.startswith("reader.")
    found = {(one.operation, one.slot, one.value, one.pattern.startswith("reader.") or one.pattern)
             for one in facts(text, reader=is_trained)}  # fmt: skip
    assert ("assert", slot, value, is_trained or pattern) in found


@every_case(*RETRACTIONS)
def test_the_end_of_a_fact_becomes_a_retraction(pattern, text, slot, value):
    found = [(fact.pattern, fact.operation, fact.slot, fact.value) for fact in facts(text)]
    assert [(pattern, "retract", slot, value)] == found


@every_case(
    "I left Acme's office at five.", "I left Acme at six.", "I left Acme early.",
    "I left Siemens a voicemail.", "I left Google Maps open.", "I left Acme out of the list.",
    "I left Acme to pick up my son.", "I left Acme for lunch.", "I left Berlin.",
    "I left New York in June.", "I left Germany last year.", "I left Anna.",
    "I left Tom at the station.", "I left Monday.", "I left the Acme party.", "I left home.",
    "I quit smoking.", "I quit Python for good.", "I quit Twitter last week.",
    "I'm no longer with Tom.", "I'm no longer at home.", "I'm no longer at Heathrow.",
    "I'm no longer at Berlin.", "I'm not at Acme today.", "I'm not at Acme right now.",
    "I left Acme, but came back.", "I left Church.", "I left Aunt May.", "我离开了家",
    "我离开了北京", "我离开北京了", "我离开了公司", "我离开了分公司", "我离开了这家公司",
    "我离开了医院", "我离开了招商银行", "我离开腾讯大厦了", "我离开了苹果店", "我离开了她",
    "我不在家了", "我离开了小王", "我离开了他的公司",
    # How one does not work takes no employer back.
    "I never work at night.", "I never worked with Excel.", "我没在家工作过", "我没在华为工作",
)  # fmt: skip
def test_leaving_a_place_a_person_or_for_the_day_ends_no_employment(text):
    assert [] == [fact for fact in read(text) if fact[1] == "employer"]


@every_case("我18岁的学生很可爱", "我有一个18岁的学生", "我18岁的学生", "My 18-year-old student.")
def test_the_age_of_a_student_is_not_that_of_their_teacher(text):
    assert [] == [fact for fact in read(text) if fact[1] in ("age", "job")]


@every_case(
    ("I never worked at Barclays.", True), ("I no longer work at Barclays.", False),
    ("我没在华为上过班", True), ("我不在华为上班了", False),
)  # fmt: skip
def test_what_never_was_is_told_from_what_is_over(text, denies):
    assert [denies] == [fact.denies for fact in facts(text)]


@every_case(
    "My boss is Moroccan.", "My wife is Brazilian.", "My son is Catholic.", "My boss is IT",
    "My brother is English.", "My cousin is Portuguese", "My aunt is Christian.", "我爸是马来人",
    "我妈是余杭人", "我爸是石匠", "我妹是高中生", "我爸是高工", "我哥是任性的",
)  # fmt: skip
def test_what_somebody_is_is_not_their_name(text):
    assert [] == [fact for fact in facts(text) if fact.slot.count(".") == 1]


@every_case(*typed_lines.RETRACTIONS)
def test_a_rule_of_style_is_withdrawn(pattern, text, value):
    found = {(fact.pattern, fact.operation, fact.slot, fact.value) for fact in facts(text)}
    assert (pattern, "retract", "rule", value) in found


@every_case(*typed_lines.SILENT)
def test_a_line_of_the_same_words_fills_no_slot(slot, text):
    assert [] == [(fact.value, fact.pattern) for fact in facts(text) if fact.slot == slot]


@every_case(*IMPLIED)
def test_what_ends_by_what_one_does_again(pattern, text, value):
    found = facts(text)
    assert {(pattern, "retract", "trait")} == {(f.pattern, f.operation, f.slot) for f in found}
    assert value in {fact.value for fact in found}


@every_case("I eat meat.", "Do I eat meat again?", "我吃肉", "我又吃肉了吗？")
def test_eating_meat_alone_ends_nothing(text):
    assert [] == [fact for fact in facts(text) if fact.slot == "trait"]


def test_every_pattern_of_the_rule_files_has_an_utterance_above():
    patterns = {pattern.id for name in ("en", "zh") for pattern in load_rules(name).patterns}
    typed = [*typed_lines.ENGLISH, *typed_lines.CHINESE, *typed_lines.RETRACTIONS]
    named = {row[0] for row in [*ENGLISH, *CHINESE, *RETRACTIONS, *IMPLIED, *typed]}
    assert patterns == {one for one in named if not one.startswith("reader.")}


def test_the_documentation_names_every_slot_that_a_sentence_can_end():
    page = Path(__file__).parents[2] / "docs" / "reference" / "extraction.md"
    text = page.read_text(encoding="utf-8")
    part = text.split("## How a fact ends")[1].split("\n## ")[0]
    never = next(line for line in part.splitlines() if "not by the rules" in line)
    rules = [load_rules(name) for name in ("en", "zh")]
    ended = {one.slot for rule in rules for one in rule.patterns if one.operation == "retract"}
    names = {slot.replace("{kin}", "<kin>") for slot in ended}
    assert all(f"`{name}`" in part and f"`{name}`" not in never for name in names)


@every_case(*STATEMENTS)
def test_a_statement_stands_alone_and_speaks_of_the_user(text, statement):
    assert [statement] == [fact.statement for fact in facts(text)]


@every_case(
    ("My name is Zhu and I work at Google, I love spicy food",
     [("name", "Zhu"), ("employer", "Google"), ("like", "spicy food")]),
    ("我叫小朱，在谷歌工作，喜欢吃辣", [("name", "小朱"), ("employer", "谷歌"), ("like", "吃辣")]),
    ("I live in Ghent and work at Tarn & Co", [("residence", "Ghent"), ("employer", "Tarn & Co")]),
    ("我儿子叫东东，今年五岁", [("relation.son", "东东"), ("relation.son.age", "五岁")]),
    ("我有一个儿子，叫东东", [("relation.son", "东东")]),
    ("I'm vegan, can you find a bistro?", [("trait", "vegan")]),
    ("我不吃香菜，你有什么推荐？", [("dislike", "香菜")]),
    ("Suggest a gift, because I love tea", [("like", "tea")]),
    ("My cousin Runa moved to Bergen",
     [("relation.cousin", "Runa"), ("relation.cousin.place", "Bergen")]),
)  # fmt: skip
def test_each_clause_of_a_sentence_is_read(text, expected):
    assert sorted(expected) == sorted((slot, value) for _, slot, value in read(text))


@every_case(
    ("I'm allergic to peanuts and shellfish.", ["peanuts", "shellfish"]),
    ("I love hiking, swimming and baking bread", ["hiking", "swimming", "baking bread"]),
    ("I speak Danish and a little Dutch", ["Danish", "Dutch"]),
    ("We have two cats, Miso and Soba", ["Miso", "Soba"]), ("我会说法语和德语", ["法语", "德语"]),
    ("我喜欢钓鱼、下棋、种花", ["钓鱼", "下棋", "种花"]),
    ("我有两只猫，奶糖和芝麻", ["奶糖", "芝麻"]), ("I love rock and roll", ["rock and roll"]),
)  # fmt: skip
def test_an_enumeration_becomes_one_fact_each(text, values):
    assert values == [value for _, _, value in read(text)]


@every_case(
    ("I used to love coffee but now I prefer green tea",
     [("retract", "like", "coffee"), ("assert", "like", "green tea")]),
    ("以前最爱打牌，现在只玩数独", [("retract", "like", "打牌"), ("assert", "like", "数独")]),
    ("I resigned from Halden Print and joined Corvid Maps in May.",
     [("retract", "employer", "Halden Print"), ("assert", "employer", "Corvid Maps")]),
    ("我从松果科技离职了，现在在海风出版社上班",
     [("retract", "employer", "松果科技"), ("assert", "employer", "海风出版社")]),
)  # fmt: skip
def test_an_update_ends_the_old_and_states_the_new(text, expected):
    assert expected == read(text)


READ = {
    "a value ends where the aside begins": [
        ("I love hiking because it clears my head.", [("like", "hiking")]),
        ("I like jazz, especially in the evening", [("like", "jazz")]),
        ("I love tea so much, thanks!", [("like", "tea")]),
        ("我喜欢徒步，因为能散心", [("like", "徒步")])],
    "the same fact is drawn once from a turn":
        [("I love tea. Really, I love tea!", [("like", "tea")])],
    "a short form does not replace the full name of the same turn":
        [("我叫林晓雨，叫我晓雨就行", [("name", "林晓雨")])],
    "a sentence of more than four hundred characters is left alone":
        [("I love " + "very " * 80 + "old maps", [])],
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_what_is_read_of_a_text_alone(case):
    for text, facts_read in READ[case]:
        assert [("assert", *fact) for fact in facts_read] == read(text)


@every_case("我在上海上班，住在苏州", "我住在苏州，在上海上班")
def test_where_one_works_is_not_where_one_lives(text):
    found = {("assert", "residence", "苏州"), ("assert", "work_city", "上海")}
    assert found == set(read(text))


@every_case("我在杭州工作", "我叫陈思远，在杭州工作。", "I work in Leeds.")
def test_where_one_works_is_no_home(text):
    assert "residence" not in {slot for _, slot, _ in read(text)}


@every_case(
    ("I have a son called Tim and a daughter called Eve", True),
    ("I have two kids, Anna (7) and Ben (9)", True),
    ("我有一个儿子叫东东，还有一个女儿叫小红", True), ("我有一个儿子叫小明和一个女儿叫小红", True),
    ("I moved to Bern last year but came back to Lyon in March", True),
    ("我去年搬到泉州，后来又回到绍兴了", True), ("I have a son called Tim", False),
    ("We have two cats, Miso and Soba", False), ("My husband Pavel and I cook.", False),
    ("我有一个儿子叫东东", False), ("From now on never verify my identity", False),
)  # fmt: skip
def test_what_was_read_in_part_wants_a_model(text, wants):
    assert read_turn(said("e1", text), DiscourseState()).unread is wants


def test_one_marital_status_holds_at_a_time():
    texts = ["I am single", "I'm married", "I'm divorced now", "我单身", "我结婚了", "我离婚了"]
    found = {(fact.slot, fact.functional) for text in texts for fact in facts(text)}
    assert found == {("marital_status", True)}


@every_case("agent", "tool", "system")
def test_only_the_user_speaks_about_the_user(role):
    assert facts("My name is Orla.", role=role) == []


def test_two_daughters_are_two_facts_of_a_slot_with_many_values():
    found = facts("My daughters are called Ann and Mia.")
    assert [(fact.slot, fact.value, fact.functional) for fact in found] == [
        ("relation.daughter", name, False) for name in ("Ann", "Mia")
    ]


@every_case(
    ("I live in Porto", "profile", True), ("I love tea", "preference", False),
    ("My favourite colour is teal", "preference", True), ("Never call me at night", "rule", False),
    ("My son is nine", "profile", True),
)  # fmt: skip
def test_the_slot_decides_the_type_and_whether_one_value_holds(text, fact_type, functional):
    assert [(fact_type, functional)] == [(fact.fact_type, fact.functional) for fact in facts(text)]


def test_both_languages_name_a_relation_alike():
    assert facts("My daughter is called Nora")[0].slot == facts("我女儿叫朵朵")[0].slot


def test_each_sentence_is_read_in_its_own_language():
    found = facts("I live in Porto. 我喜欢钓鱼。")
    assert [(fact.language, fact.value) for fact in found] == [("en", "Porto"), ("zh", "钓鱼")]


@pytest.mark.parametrize("unit", ["I love tea. ", "I like tea and ", "我喜欢吃辣，", '"I ', "my "])
def test_a_text_on_one_line_takes_in_line_with_its_length(unit):
    assert grows_in_line(facts, unit * (16_000 // len(unit)))
