"""Which turns ask to forget a topic, and which texts are about it."""

import pytest
from every_case import every_case
from growth import grows_in_line
from turns import said

from shared_core.extraction import forget_topics
from shared_core.extraction.forget_requests import ForgetRequest, forget_requests, topic_request
from shared_core.extraction.forget_topics import (
    facts_told,
    is_about,
    topic_among,
    topic_told,
    turns_to_forget,
)

ASKED = {
    "Forget what I said about Theo": "Theo", "forget everything i told you about theo pls": "theo",
    "can you delete everything about my ex?": "my ex",
    "please forget what i said about the surgery.": "the surgery",
    "ok forget anything I mentioned about Marta, thanks": "Marta",
    "erase what you know about my brother": "my brother",
    "hey could you remove everything about my old job from your memory": "my old job",
    "delete all memories about Rex": "Rex", "wipe all you know about Anna please": "Anna",
    "forget the stuff about my knee": "my knee", "把阿泽的事忘了吧": "阿泽",
    "请把我说的关于阿泽的事都忘掉": "阿泽", "忘掉关于阿泽的一切": "阿泽",
    "忘了我说的阿泽的事吧": "阿泽", "帮我把我前男友的事情删掉": "我前男友",
    "删除我之前说过的关于面试的内容": "面试", "别再记得小雨的事了": "小雨",
    "能不能把我说过的有关手术的话全部删除？": "手术", "把關於阿澤的事忘掉": "阿澤",
    "请忘了阿泽的事": "阿泽", "帮我删除我说过的关于猫的内容": "猫",
    "delete what you have on Marta": "Marta", "delete all memories of Rex": "Rex",
    "remove the part i told you about Marta": "Marta",
    "delete the stuff about Marta from your memory": "Marta",
    'forget everything about "Marta"': "Marta", "please forget about my brother": "my brother",
    "Could you forget about my ex-husband.": "my ex-husband",
    "please forget about Sophie": "Sophie", "drop my salary from memory": "my salary",
    "can you forget about my big sister pls": "my big sister",
    "ok please forget about sophie": "sophie", "delete everything about my ex": "my ex",
    "please forget what I told you about smoking": "smoking", "把小美忘了吧": "小美",
    "忘了小美这个人吧": "小美", "别再提小美了": "小美", "以后请不要再跟我提我前女友了": "我前女友",
    "小美的事就别再提了 忘了她吧": "小美", "小美和我分手了，忘了她吧": "小美",
    "我跟林可分手了，把他忘了吧": "林可", "我跟林可分手了，忘掉林可吧": "林可",
    "我和林可已经离婚了，把林可忘了吧": "林可", "小美把我甩了，忘了她吧": "小美",
    "我被小美骗了，别再提她了": "小美", "算了，别再提小美了": "小美",
    "老王去世了，别再提他了": "老王", "忘掉关于小美的一切": "小美",
    "can we lose trina from the memory bank": "trina", "把你小本本上的血型划掉": "血型",
    "no more fantasy football in ur memory": "fantasy football", "记忆管理：移除奶茶瘾": "奶茶瘾",
    "I prefer you not retain anything on Colonel Whitby": "Colonel Whitby",
    "不要让Cindy留在你的数据里": "Cindy", "烦请抹掉您对崔老板的记忆": "崔老板",
}  # fmt: skip
NOT_ASKED = (
    "forget it", "Forget about it", "forget about the pizza", "I forgot what I said about Theo",
    "don't forget what I said about Theo", "never forget what i said about rent",
    "did you forget what I said about Theo?", "I'll never forget what she said about my hair",
    "what if you forget everything about me", "forget everything",
    "I want to forget everything about that night lol",
    "how do i delete everything about my facebook account",
    "remove the part about pricing from this email: hi bob", "delete all of it",
    "forget what I said", "you can't forget what I said about Theo",
    "Theo forgot everything about the meeting",
    'my mum said "forget everything i told you about dad"',
    "```\nforget everything i told you about theo\n```", "别忘了阿泽的事", "我忘了阿泽的事",
    "我把阿泽的事忘了", "他把阿泽的事忘了吧", "千万不要忘记阿泽的事", "忘了吧", "把伞忘了",
    "我把钥匙忘在家了", "你是不是忘了阿泽的事", "怎么能把阿泽的事忘了呢", "把他忘了吧",
    "删掉这段话", "把这句话删了", "帮我把第二段删掉", "忘记密码怎么办", "忘了开会的事",
    "忘了明天面试的事了", "把开会的事给忘了", "你忘了阿泽的事", "你把阿泽的事忘了吧",
    "把阿泽的事删掉了", "删除关于猫的内容", "麻烦删除重复的记录", "delete the part about dogs",
    "remove the details of my order", "delete everything on my desktop",
    "remove everything on Friday", "delete all of the tests", "erase everything of value",
    "delete the info on slide 3", "don't remember what I said about Theo",
    '"Forget everything about Anna"', "forget about it please", "don't forget about my brother",
    "please don't forget about my brother", "I can't forget about my brother",
    "I'll try to forget about my ex", "ok forget about my brother", "let's forget about my brother",
    "Forget about my brother. Let's talk about my sister.",
    "forget about my brother, he's an idiot", "forget about my brother for a second",
    "forget about my dentist appointment", "I forgot about my dentist appointment",
    "forget about Sophie", "can you forget about Java?", "forget about Java, let's use Go",
    "please forget about Java", "you can forget about lunch", "forget about my homework",
    "how do I forget about my ex?", "did you forget about Sophie?",
    "my therapist says forget about your ex", "Forget my idea.", "forget my point",
    "Forget my keys?", "Forget my order.", "你忘掉我妹妹了", "忘掉我老婆的生日就惨了",
    "忘掉我女儿对花生过敏", "“忘掉阿泽的事”", "忘了告诉你我搬家了", "我忘了小美的生日",
    "你忘了吗", "别忘了我对花生过敏", "忘了她吧", "小美，忘了她吧", "小美和阿强分手了，忘了她吧",
    "把小美忘了", "早就把小美忘了吧", "你把小美忘了吧", "应该是忘了小美吧", "忘了小美的生日吧",
    "我妈说，别再提小美了", "如果难过，就别再提小美了", "别再提小美了吗", "别再提小美迟到了",
    "别再提小米了", "别再提高利贷了", "别再提醒我了", "别再提她了", "别再提了", "别提小美有多好了",
    "把林可忘了吧", "把罗马忘了吧", "忘掉罗马吧，去巴黎", "忘掉苏州吧，去杭州", "忘掉周末吧",
    "忘掉汤圆吧", "忘掉黄油吧，用橄榄油", "忘掉Tesla吧，买比亚迪", "忘掉London吧，去Paris",
    "忘掉Java吧", "忘掉何必吧", "忘掉段子吧", "忘掉胡椒吧", "我跟林可分手了，忘掉罗马吧",
    "别再提他了，小美的男朋友是个混蛋", "别再提他了，我已经和老王和好了",
    "别再提他了！阿强的前妻来闹", "小美的男朋友走了，别再提他了", "小美离婚了，别再提他了",
    "我跟小美分手了，阿强很难过，忘了他吧", "别再提小雪了，都化了", "别再提小麦了，我过敏",
    "小暑的事别再提了", "小雨的事别再提了", "小考的事别再提了", "小菜的事别再提了",
    "小船的事别再提了", "小结的事别再提了", "别再提阿胶了", "别再提阿斗了", "别再提小舅了",
    "别再提小姑了", "别再提小三了", "别再提小费了", "别再提小镇了", "You can forget about my mom.",
    "Forget about my kids", "Forget about my boss!", "Forget about my dog.",
    "forget about my brother", "Forget about my ex-husband.",
    "i cant remember what i told you about marek", "note to self: forget theo", "别记恨阿泽",
    "text marek: forget what i told you about nora", "不用记得豆豆的生日 我自己记", "我删了林可",
    "remove marek from our netflix plan", "i wish someone would wipe my memory of theo",
    "don't forget Anna", "Do not forget Bob!", "make sure you don't forget Theo",
    "I don't want you to forget Theo", "don't delete Anna", "do not erase Anna from your memory",
    "dont delete my allergies", "Please never delete my medication list", "别忘了小王",
    "千万别忘了阿强", "不要忘了我妹妹", "别删小王", "别把小王从记忆里删掉", "我忘不了小美",
    "please remember Anna", "pls keep Anna in your notes", "记住小王",
    "undo: you took Theo out of your notes, please remember Theo again",
    "did you forget what I told you about Sam?", "have you forgotten my wife?",
    "why did you delete my notes about Rome?", "你忘了小王吗",
    "If I ask you to delete Tom from memory, what happens?",
    "what happens when I say take Anna out of your memory?",
    "did I tell you about Anna? she forgot me", "help me forget Julia, any tips?",
    "我想把阿强忘了", "教我忘掉阿强", "帮我把小王从名单里删掉",
    "remove any mention of my divorce from the bio", "忘了阿泽吧，晚饭算五个人的",
    "forget about my work", "delete my address from this letter", "did you forget my address?",
    "forget my work, let's go to the beach", "忘记我的工作吧，咱们聊聊猫", "帮我把简历里的地址删掉",
    "I forgot what I just said", "你忘了我刚才说的话", "forget about work for a second",
    "please don't bring up Sarah when you talk to my mom", "不要跟我妈提我怀孕的事",
    "don't bring Tom up to the attic", "stop mentioning Anna to my mom in the emails",
    "leave Anna out of this", "don't drop Theo", "ok forget my mom, what should I cook",
    "把我的电话删掉", "把我讲的笑话忘掉", "把我同事忘了吧", "忘掉这件事", "忘掉今天的事",
    "把我说错的部分删掉", "forget everything about yesterday",
    "translate: please erase Anna from your memory", "简历里别写我的年龄，删掉",
)  # fmt: skip


@every_case(*ASKED.items())
def test_a_request_names_its_topic(text, topic):
    [request] = forget_requests(text)
    assert (request.topic, request.is_whole) == (topic, True)


@every_case(*NOT_ASKED)
def test_forgetting_in_another_sense_is_no_request(text):
    assert forget_requests(text) == []


def test_a_request_beside_other_words_is_not_the_whole_turn():
    [request] = forget_requests("Forget what I said about Theo. Anyway, what's for dinner?")
    assert (request.topic, request.is_whole) == ("Theo", False)


@every_case(
    ("别再提小美了，我对花生过敏", False), ("别再提小美了 我对花生过敏", False),
    ("小美和我分手了，忘了她吧，我搬到苏州了", False), ("别再提小美了。我对花生过敏", False),
    ("别再提小美了，小美骗了我", True), ("好吧，别再提小美了，谢谢", True),
)  # fmt: skip
def test_each_part_of_a_whole_request_belongs_to_it(text, is_whole):
    [request] = forget_requests(text)
    assert (request.topic, request.is_whole) == ("小美", is_whole)


def test_a_pronoun_stands_for_the_person_whom_the_turn_names():
    [request] = forget_requests("我跟小美分手了。别再提她了")
    assert (request.topic, request.is_whole) == ("小美", False)


@every_case(
    ("Theo", "theo's flat is damp", True), ("Theo", "We talked about theology.", False),
    ("my old job", "My old job was in Leeds.", True),
    ("my old job", "My new job is in Leeds.", False),
    ("smoking", "I used to smoke but I quit", True), ("smoke", "Smoking was a bad habit.", True),
    ("my running", "I stopped. I ran, and she runs.", True),
    ("my divorce", "We divorced in 2019.", True), ("training", "I take the train to work", False),
    ("training", "My trainings are on Monday.", True), ("parking", "The park is green.", False),
    ("housing", "My house is old.", False), ("dating", "The date is the 3rd.", False),
    ("fishing", "I eat fish.", False), ("cooking", "My brother is a cook.", False),
    ("nursing", "The nurse was kind.", False), ("timing", "What time is it?", False),
    ("boxing", "The box is heavy.", False), ("painting", "I bought paint.", False),
    ("swimming", "I swim on Sundays.", True), ("drinking", "I drink too much.", True),
    ("work", "He worked nights.", True), ("allergies", "My allergy is back.", True),
    ("work", "He is a worker.", False), ("work", "I work nights.", True),
    ("the police", "My insurance policy ended.", False), ("business", "I'm busy on Monday.", False),
    ("smoking", "The fire smoulders.", False), ("rob", "I was robbed in Rome.", False),
    ("Mark", "The test was marked.", False), ("Marta", "Martas Haus", True),
    ("阿泽", "阿泽下周来北京", True), ("Will", "It will rain.", False), ("Will", "Will rang", True),
    ("面试", "我有一个考试", False), ("will", "It will rain.", True),
)  # fmt: skip
def test_a_text_is_about_a_topic_if_it_holds_its_words(topic, text, expected):
    request = topic_request(topic)
    assert request is not None
    assert is_about(request, text) is expected


MAREK = "my brother is called marek/my brother lives in gdansk/i work at ikea"
WORK = "I work at Ikea/My mum works at Shell/The shower does not work/My work bores me"
HOME = "我住在南京路12号/我妈住在上海/我是护士/我的地址别告诉别人"


@every_case(
    (MAREK, "forget everything about marek", "01"), (MAREK, "forget what i said about ikea", "2"),
    (MAREK, "forget everything about my brother and please forget my job", "01"),
    (MAREK, "forget where my brother lives", "1"), (MAREK, "please forget my job and marek", "012"),
    (MAREK, "Forget what I told you about Marek, I live in Leeds now", "01"),
    (MAREK, "forget what I just said", "2"), (MAREK, "please forget my name", ""),
    (WORK, "please forget about my work", "03"), (HOME, "删掉我的地址", "03"),
    (HOME, "删除我的住址、工作", "02"), (HOME, "把我妈的事忘了吧", "1"),
    ("I bought a rose/My friend Rose moved/The sun rose", "Forget everything about Rose", "1"),
    ("mark my words/my colleague Mark is loud/top marks", "forget everything about Mark", "1"),
    ("Art is my uncle/I have an art class/Uncle Art smokes", "forget all you know about Art", "02"),
    ("I hope so/My boss Hope is kind/Hope sings", "please forget everything about Hope", "12"),
    ("We marry in April/April is my cousin", "forget what I said about April", "1"),
    ("Nora is a vet/Theo bakes/Ann sings", "Forget everything about Theo and Nora", "01"),
    ("小雨是我女朋友/今天下小雨/我和小雨去看海", "把小雨的事忘了吧", "02"),
    ("我同事叫高兴/我今天很高兴/高兴要调走了", "忘掉我说的高兴的事", "02"),
    ("我弟弟叫阿泽/我住在杭州/阿泽下周来看我", "把我弟弟的事忘了吧，我喜欢茶", "02"),
    ("我有糖尿病/我奶奶有哮喘/我住在杭州", "请忘掉我的病", "0"),
    ("my boss is Al/I am a manager/his boss is loud", "forget what I said about my boss", "0"),
    ("Theo is my ex-husband/my wife is Ann/Theo rang", "forget everything about my ex", "02"),
    ("my friend Rose sings/I met a friend/my friends ski", "forget everything about Rose", "0"),
    ("小美是我女朋友/我前女友叫林可/阿泽的女朋友来了", "把小美的事忘了吧", "0"),
    (WORK, "please forget where I work, that's private", "0"),
    ("My boss Greg shouts/I work at Shell/my mum is ill", "Forget my boss please", "0"),
    ("My boss is Greg/Been seeing a therapist/Greg shouts", "forget greg", "02"),
    ("I live in Malmo/I bank with Barclays", "where i live is none of your business, drop it", "0"),
    ("I'm allergic to peanuts/I hate peas", "the peanut thing, please lose it", "0"),
    ("我每天吃优甲乐/我住在杭州/我喜欢喝茶", "吃药那个别留了", "0"),
    ("我血压高/我养猫/我喜欢爬山", "身体方面的事都删了吧，不想留记录", "0"),
    ("I take sertraline/I'm allergic to nuts/I like tea", "Forget my health info", "01"),
    ("my mum is ill/Tom is my brother/my boss is Al", "forget what I said about my family", "01"),
    ("I love pizza/I live in Chelsea", "forget pizza", ""),
    ("我叫陈磊，今年36，老婆叫王芳/王芳在银行上班", "别记我手机号", ""),  # tells other facts
    ("My dog is called Rex/I love animals", "Forget what I said about animals", "1"),
    ("我的家人都在成都/我家狗叫豆豆", "把我家人的事忘了吧", "0"),
    ("my wife is Sara/I earn 42k/Sara is a nurse", "forget sara", "02"),
    ("我妹妹叫李婷/我养了条狗叫豆豆/我老板姓陈", "忘掉我妹妹", "0"),
    ("我妹妹叫李婷/我养了条狗叫豆豆/我老板姓陈", "把我宠物的事忘了吧", "1"),
)  # fmt: skip
def test_a_request_takes_the_turns_that_it_is_about_and_no_others(texts, request_, gone):
    turns = [said(str(place), text) for place, text in enumerate([*texts.split("/"), request_])]
    assert gone == "".join(sorted(turns_to_forget(turns, ()) - {turns[-1].event_id}))


@every_case(
    "the peanut thing, please lose it", "吃药那个别留了", "我住哪你别记了",
)  # fmt: skip
def test_a_request_without_a_topic_of_its_own_is_read_as_a_whole(text):
    [request] = forget_requests(text)
    assert (request.topic, request.is_whole, request.is_read) == (text, True, True)


def test_where_the_judge_reads_a_request_its_words_count_too():
    [request] = forget_requests("Forget what I said about Theo")
    topic = topic_told(request, (), ["I like tea."], "Forget what I said about Theo")
    assert topic.has_text("Theo bakes bread.") and not topic.has_text("I like tea.")


def test_a_request_about_all_that_is_compared_is_refused_however_much_is_held(monkeypatch):
    compared = []

    def all_of(request, held):
        compared.append(held)
        return dict.fromkeys(held, 1.0)

    monkeypatch.setattr(forget_topics, "asked_to_forget", all_of)
    request = ForgetRequest(topic="the tea thing, please lose it", is_whole=True, is_read=True)
    texts = [f"I like tea {number}." for number in range(300)]
    assert topic_among(request, (), texts).is_all
    assert texts[:256] == [*compared[0]] and topic_among(request, (), texts[:4]).judged


@every_case(
    ("forget everything you know about me please", True), ("wipe all you know about me", True),
    ("Everything. Forget it all. I mean it, every last thing you have on me.", True),
    ("please lose everything you have on me", True), ("清空所有关于我的记录", True),
    ("forget everything about me", True), ("delete all my data please", True), ("全部忘掉", True),
    ("把你知道的关于我的事全忘了", True), ("the peanut thing, please lose it", False),
    ("forget everything about my family", False), ("吃药那个别留了", False),
    ("把我家里人的事都忘了吧", False),
)  # fmt: skip
def test_a_request_about_everything_takes_nothing_whatever_is_held(text, is_all):
    request = ForgetRequest(topic=text, is_whole=True, is_read=True)
    topic = topic_among(request, (), ["I like tea.", "I live in Leeds.", "我住在杭州。"])
    assert topic.is_all is is_all and not (is_all and topic.judged)


@pytest.mark.parametrize("unit", ["I go. ", "Forget me. ", "他来了。"])
def test_a_long_text_takes_in_line_with_its_length(unit):
    assert grows_in_line(forget_requests, unit * (48_000 // len(unit)))


@every_case(
    ("my address", "Noted, you live in Leeds.", True), ("my address", "Leeds is nice.", False),
    ("my address", "Your mum lives in Leeds.", False), ("my age", "Bus 34 is late.", False),
    ("where my mum lives", "Your mum lives in York.", True),
    ("where my mum lives", "You live in York.", False),
)  # fmt: skip
def test_who_repeats_a_fact_tells_it_of_the_one_it_is_about(topic, text, expected):
    told = facts_told([said("1", "I live in Leeds. I am 34. My mum lives in York.")])
    assert topic_among(topic_request(topic), told).has_text(text, "agent") is expected


@every_case("", "it", "the", "他", "?")
def test_a_topic_must_name_something(topic):
    assert topic_request(topic) is None
