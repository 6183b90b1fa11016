"""What the stand-ins for a language model answer."""

import asyncio

from every_case import every_case
from google.adk.events.event import Event
from google.adk.flows.llm_flows.contents import _present_other_agent_message
from google.adk.models.llm_request import LlmRequest
from google.genai.types import ModelContent, UserContent
from langchain_core.messages import AIMessage, HumanMessage

from adk_memory import OfflineModel
from langgraph_store import OfflineChatModel
from shared_core.context.offline_answer import NOTHING, QUOTED, offline_answer
from shared_core.extraction.forget_requests import EVERYTHING

SHOWN = "<MEMORIES>\n- where is my cat\n- I remember: rain\n- Ana lives in Porto.\n</MEMORIES>"


@every_case(
    "Where do I live?", "where do i live", "whats my wifes name", "so, where?", "我住哪",
    "wat is my name", "do u know my birthday", "hey, who am i", "have i got any pets",
    "我是做什么的", "我有几个孩子", "我属什么的", "它在哪里？",
)  # fmt: skip
def test_a_question_gets_the_first_memory_that_tells_something(message):
    assert offline_answer([SHOWN, message]).endswith("Ana lives in Porto.")


@every_case(
    "I moved to Porto.", "my wifes name is Ana", "what a day, I quit my job", "你知道吗，我搬家了",
    "my name is Tom", "when i was a kid i lived in oslo", "what i like most is chess",
    "我妈问我什么时候结婚", "我知道怎么做红烧肉", "我多少有点社恐",
    # They only speak of forgetting.
    "I forgot my keys", "don't forget the milk", "forget it", "我忘了带伞", "别忘了买菜",
)  # fmt: skip
def test_any_other_message_is_noted(message):
    assert offline_answer([SHOWN, message]) in ("Noted.", "好的，记住了。")


@every_case(
    ("I live in Graz/if only I lived in Bonn/where do i live", "I live in Graz"), ("who am I", ""),
    ("who is Kim/who is Kim", ""), ("tell me a joke/can you tell me a joke", ""),
    ("tea/thanks, what is the capital of France?", ""), ("我以前住苏州/我住哪儿", ""),
    ("I like tea. I live in Rome. Where do I live?", "I live in Rome."), ("how old am i", ""),
    ("i moved to rome/I used to live in Oslo/i moved to bed/where do I live", "i moved to rome"),
    ("I work at Shell/I joined Tesco/I worked at Aldi before/where do I work", "I joined Tesco"),
    ("我住在上海/上周搬到北京了/我以前住苏州/我住哪儿", "上周搬到北京了"),
    ("im 34/how old am i again", "im 34"), ("my wife is Ana/wife name", "my wife is Ana"),
    ("I live in Rome/my town", "I live in Rome"), ("我有两个孩子/我几个娃来着", "我有两个孩子"),
    ("我生日五月三号/生日", "我生日五月三号"), ("my kid is Mia/kids names", "my kid is Mia"),
    ("I live in Rome/please forget my address/where do I live", ""),
    ("Theo bakes/forget what I said about Theo/who is Theo?", ""),
    ("我是老师/我是做什么的", "我是老师"), ("我以前住苏州/我以前住哪", "我以前住苏州"),
)  # fmt: skip
def test_a_question_is_answered_by_what_the_user_said_last_in_its_thread(texts, quoted):
    tags = "<PAST_CONVERSATIONS>\n" * 50_000 + "<MEMORIES>\n</MEMORIES>"
    said = [tags, *texts.split("/")]
    is_chinese = not texts.isascii()
    expected = QUOTED[is_chinese] + quoted if quoted else NOTHING[is_chinese]
    thread = [AIMessage("I live in Bern"), *map(HumanMessage, said)]
    assert expected == OfflineChatModel().invoke(thread).text
    planner = _present_other_agent_message(Event(author="p", content=ModelContent("I am so old")))
    contents = [ModelContent("I live in Bern"), planner.content, *map(UserContent, said)]
    request = LlmRequest(contents=contents)
    reply = asyncio.run(anext(OfflineModel().generate_content_async(request)))
    assert expected == reply.content.parts[0].text


@every_case(
    "please forget what I told you about peanuts",
    "I moved to Porto. Forget everything I said about Leeds.",
    "can you forget everything I said about Theo?", "忘掉我说过的关于花生的事", "请把阿泽的事忘了",
)  # fmt: skip
def test_a_request_to_forget_gets_a_promise_without_the_topic(message):
    answer = offline_answer([SHOWN, message])
    assert answer in ("I'll forget what I find about that.", "好，找到的相关内容我会忘掉。")
    assert answer.isascii() == message.isascii()


@every_case(("wipe all you know about me", "that much"), ("我说过的全部忘掉", "忘掉这么多"))
def test_a_request_to_forget_everything_gets_no_promise(message, answer):
    notice = f"<memories>\n- {EVERYTHING}\n</memories>"
    assert answer in offline_answer([notice, message])


def asked(question: str, *memories: str) -> str:
    """Return the answer to a question beside memories."""
    lines = "".join(f"- [2026, user] {memory}\n" for memory in memories)
    return offline_answer([f"<MEMORIES>\n{lines}</MEMORIES>", question])


@every_case(
    "whats the capital of france?", "do you know the capital of France?", "tell me a joke",
    "What's the weather like today?", "who won the world cup in 2018", "what time is it",
    "how do you boil an egg", "can you tell me who the president is?", "are you a robot?",
    "What is your name?", "who are you", "what does Jo eat?", "how old is mom", "法国的首都是哪里",
    "今天天气怎么样", "谁是美国总统", "你叫什么名字", "你是谁", "旺财几岁了", "妈妈生日几号",
)  # fmt: skip
def test_a_question_about_the_world_or_somebody_else_needs_a_memory_about_it(question):
    answer = asked(question, "hey, im tom and i work as a nurse in leeds", "我是护士，住在成都")
    assert answer in ("I remember nothing about that.", "这件事我不记得。")


@every_case(
    ("Who is vegan?", "My sister Jo is visiting, she's vegan."),
    ("what does Jo eat?", "my sister Jo is coming on Friday, she's vegan"),
    ("Do you remember which part leaks?", "Hi, the steam wand of my Aurelia leaks"),
    ("how old is mom", "my mother turned 60 last week"),
    ("What does my sister eat?", "Jo is vegan"),
    ("which city do I live in now?", "big news: we moved to Lisbon last week!"),
    ("where are we flying to?", "the trip to Kyoto is booked for May"),
    ("what do you know about me", "hey, im tom"), ("what do you remember?", "hey, im tom"),
    ("Where does Ada live?", "Ada 住在成都"), ("谁吃素？", "我妹妹小琳这周来玩，她吃素。"),
    ("旺财几岁了", "旺财三岁了，特别能吃"), ("妈妈生日几号", "我妈16号过生日"),
    ("猫叫什么", "我的猫叫豆豆"), ("我们要飞去哪里", "五一京都之行订好了"),
    ("我住哪", "上周搬到杭州了"), ("我吃不吃香菜", "香菜闻着就难受"),
    ("who is visiting me?", "my sister Jo is visiting on Friday"),
    ("what's my dog called?", "User's dog is called Biscuit."),
    ("what does my sister eat?", "my sister Jo is vegan"), ("我想去哪", "我想去京都"),
    ("where do we live?", "my sister and I moved to York"), ("我女儿几岁了", "我女儿叫灿灿，五岁"),
    ("谁来看我", "我妹妹小琳这周来看我"), ("where do i live", "I live in Graz but I wish I didn't"),
)  # fmt: skip
def test_a_memory_about_the_question_or_its_user_answers(question, memory):
    assert asked(question, memory).endswith(memory)
    assert asked(question, "忘掉我说过的关于旺财的事", memory).endswith(memory)


@every_case(
    ("which food am I allergic to?", "btw my girlfriend is called sophie"),
    ("where do i live?", "my sister moved to York"), ("我女儿几岁了", "我老公在银行上班"),
    ("Where do I live?", "My mother lives in Rome"), ("我对什么过敏？", "我女儿叫灿灿，五岁"),
    ("what's my dog called?", "my brother is called Theo"),
    *[("What am I allergic to?", said) for said in (
        "please forget what I told you about peanuts", "忘掉我说过的关于花生的事", "我记得：花生",
        "I'll forget what I find about that.", "好，找到的相关内容我会忘掉。")],
    *[("我住在哪", said) for said in (
        "要是我住在海边就好了", "我想住在海边", "if only i lived by the sea", "我住在哪来着",
        "I'd love to live in Rome", "imagine I lived in Rome. where would I work")],
)  # fmt: skip
def test_a_memory_that_states_nothing_about_the_question_is_not_quoted(question, memory):
    assert asked(question, memory) in ("I remember nothing about that.", "这件事我不记得。")
