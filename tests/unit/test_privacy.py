"""Secrets are found by form and checksum; the privacy class of a text by its slot and words."""

import json
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
from every_case import every_case
from growth import grows_in_line
from long_forms import LONG
from turns import said

from benchmarks.train_told_secrets import figures
from shared_core import InvalidInput
from shared_core.context.assembler import memory_block
from shared_core.context.composition import Composition, ShownMemory
from shared_core.core.domain import FactDraft
from shared_core.models.embedders import UseEmbedder
from shared_core.nlp.rules import load_rules
from shared_core.nlp.text import language
from shared_core.privacy.classifier import (
    Prototypes,
    class_by_example,
    examples,
    margin_between,
    private_by_slot,
    private_by_words,
    prototype_texts,
    prototypes_of,
)
from shared_core.privacy.redaction import KINDS, PRESETS, PrivacyPolicy, privacy_policy
from shared_core.privacy.sanitizing import Intake, is_small_talk
from shared_core.privacy.told_secrets import shipped_weights

DEFAULT = PRESETS["default"]
EVERYTHING = PrivacyPolicy(dict.fromkeys(KINDS, "mask"))

SECRETS = [
    (kind, text, secret) for kind, rows in {
        "password": [
            ("recovery phrase: " + "WITCH COLLAPSE AGAIN ABOUT CAN ICE " * 4 + "AGAIN", "AGAIN"),
            ("seed phrase: 1. witch, 2. collapse\n3. practice", "collapse\n3. practice"),
            ('her password is "correct horse battery"', "correct horse battery"),
            ("my wallet words are witch this collapse feed. Bye", "feed"), ("暗号:“月亮河”", "河"),
            ("password for my gmail account is hunter2xx", "hunter2xx"), ("pin code: 4821", "4821"),
            ('{"user": "ann", "password": "hunter2xx"}', "hunter2xx"), ("my PIN is 4821.", "4821"),
            ("My password is hunter2 and my name is Ann.", "hunter2"), ('{"pin": "4821"}', "4821"),
            ("Passphrase = Blue Elephant for the wifi", "Elephant"), ("pwd=hunter2xx", "hunter2xx"),
            ("my seed phrase" + "\nabandon about able" * 4, "able"), ("验证码是 482913", "482913"),
            (r"{\"user_password\": \"hunter2xx\"}", "hunter2xx"), ("the CVV is 123, thanks", "123"),
            ("password: correct horse battery staple", "staple"), ("密码改成 qwe!23 了", "qwe!23"),
            ("My password is hunter2, don't tell.", "hunter2"), ("ＰＩＮ码：４８２１", "４８２１"),
            ("My PIN code for the card is 110001.", "110001"), ("我的密码就是abc12345", "abc12345"),
            ("my password's hunter2secret", "hunter2secret"), ('{"密码": "abc12345"}', "abc12345"),
            ('The password is "secret", really.', "secret"), ("dbPassword: hunter2xx", "hunter2xx"),
            ("The WLAN password: swordfish.", "swordfish"), ("恢复短语：苹果 香蕉 橘子 西瓜", "瓜"),
            ("我的密码是abc12345，别告诉别人", "abc12345"), ("我的取款密码4821，别说出去", "4821"),
            ("The PIN for my bank card is 48 21", "48 21"), ("口令：opensesame", "opensesame"),
            ("your verification code is 482913", "482913"), ("助记词是苹果 豆 米 橘", "橘"),
            ("export DB_PASSWORD=hunter2xx", "hunter2xx"), ("pw: grandma's pie 42 user: ann", "42"),
            ("user_password=hunter2xx&x=1", "hunter2xx"), ("My password is password.", "password."),
            ("seed phrase: army van jealous", "jealous"), ("密码是：abc12345", "abc12345"),
            ("my password is: hunter2xx", "hunter2xx"), ("密码是: abc12345", "abc12345"),
            ("我的PIN码是4821", "4821"), ("密码：蓝色大象", "大象"), ("My PIN's 4821", "4821"),
            ("我的pin是4821", "4821"), ("visa exp 04/27 cvv 987", "987")],
        "card": [("Pay with 4111 1111 1111 1111 please", "4111 1111 1111 1111"),
            ("卡号5500005555555559，谢谢", "5500005555555559"),
            ("银行卡号４１１１１１１１１１１１１１１１", "１１１１"),
            ("card ４１１１　１１１１　１１１１　１１１１", "１１１１"),
            ("my card is 4111 1111 1111 1112 exp 04/27", "1112"),  # mistyped
            ("卡号是6222021234567890128", "6222")],
        "iban": [
            ("Transfer it to DE89 3704 0044 0532 0130 00 today", "DE89 3704 0044 0532 0130 00")],
        "chinese_id": [("身份证号11010519491231002X", "11010519491231002X"),
            ("身份证110101199003071234 帮我填表", "110101199003071234")],
        "us_ssn": [("SSN 123-45-6789", "123-45-6789")],
        "api_key": [("use sk-proj-abcdefghijklmnopqrstuvwxyz012345", "sk-proj-"),
            ("export AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
            ("ghp_abcdefghijklmnopqrstuvwxyz0123456789 works", "ghp_"),
            ("密钥sk-proj-abcdefghijklmnopqrstuvwxyz012345不要泄露", "sk-proj-"),
            ("sk-" + "a1" * 110, "a1a1"),
            ("api_key=sk-proj-abcdefghijklmnopqrstuvwxyz012345", "sk-proj-")],
        "jwt": [("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijklmnop", "eyJ"),
            ("Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijklmnop", "eyJ")],
        "url_password": [("postgresql://ann:s3cret@db.example/x", "s3cret"),
            ("postgres://u:p@ss@h/db", "ss@")],
        "private_key": [
            ("-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----", "MIIB"),
            ("-----BEGIN PRIVATE KEY-----\nMIIB cut", "MIIB")],
        "email": [("Write to ann.lee+x@mail.example.com!", "ann.lee+x@mail.example.com"),
            ("邮箱ann@example.com，谢谢", "ann@example.com")],
        "phone": [("Call +44 20 7946 0958 tomorrow", "7946"),
            ("我的手机号是13812345678", "13812345678"), ("ring (415) 555-2671", "555-2671")],
        "credential": [
            ("https://example.com/?access_token=abc123def456&x=1", "abc123def456"),
            ("curl -H 'Authorization: Bearer abc123def456'", "abc123def456"),
            ("The API key for the shop is abc123def456", "abc123def456"),
            ("Authorization: Basic dXNlcjpwYXNzMQ==", "dXNlcjpwYXNzMQ"),
            ("x-api-key: abc-123-def-456", "abc-123-def-456"), ("apikey: 9f8e7d6c", "9f8e7d6c"),
            ("OPENAI_API_KEY=abc123def456", "abc123def456"),
            ('{"apiKey": "abc123def456"}', "abc123def456"),
            ("APIKEY是abc123def456请保密", "abc123def456"),
            ("Authorization: Bearer abc123…", "abc123"), ("api_key=abc123def456", "abc123def456"),
            ('secret_key = "k9f0aa11bb"', "k9f0aa11bb"), ("APIKEY是abc123def456", "abc123def456")],
    }.items() for text, secret in rows
]  # fmt: skip
HARMLESS = [
    "用信用卡付的，订单号 3214567890123456789", "身份证办好了，订单号123456789012345678",
    "My visa application number is 4001234567890", "I got a new card, parcel 5123456789012",
    "The bearer of this letter carries bearer bonds in a standard bearer's 19th-century style.",
    "My password's too short. The password's length is 12 characters, the password's 128-bit.",
    "Password: how do I change it? Password: I forgot it. Password: ask Ann. pw: forgot again",
    "password: must have a digit. Password: reset link sent. The gate is shut until 1930.",
    "The secret key is under the mat, and the access token is expired since 2024-05-01.",
    "Use bearer authentication: Authorization: Bearer <token> or Bearer YOUR_API_KEY.",
    "The security code is wrong, the error code is 4041, my zip code is 90210.", "密码忘了怎么办？",
    "api_key=None, client_secret=null, secret_key: str, apikey: undefined", "what is a seed phrase",
    "the garage door was 4711 kroner, the wifi's name is FritzBox7590", "build x11010519491231002X",
    "密码：忘了。密码：怎么改？密码：系统自动生成，口令：写在本子上", "-----BEGIN CERTIFICATE-----",
    "api_key = settings.api_key_2024 or os.environ['API_KEY_2024']", "我爱吃橘子，2019年搬到上海。",
    "Reset the password for the new account, it is in the letter.", "Order number 202603011230451.",
    "The password is hashed with bcrypt, and is always the same.", "I paid 4711 euros for the gate",
    "The pin is 1200 mm long and costs 12.50 euros; spin: 1234.", "the office alarm cost 88 euros",
    "pwd: /home/ann, and the session key is 2026-03-04T10:00.", "netflix went up to £10.99 a month",
    "https://example.com:8080/a?to=ben@example and ann@there", "Order 4111 1111 1111 1112 is late.",
    "eyJhIjpb" + "W1tb" * 40_000 + ".notatoken.atall1234567", "seed phrase\\nplease help\\nthanks",
    "The API key is v2-compatible. Access key: 2024-05-01.", "My PIN is wrong, and pin 13 is high.",
    "the code to my flat changed again and nobody told me", "eyJabcdefghijk.notatoken.atall1234567",
    "https://example.com/a:b@c and http://example.com", "My cat is 4 years old and weighs 5.25 kg.",
    "hash 0af4111111111111111fe and a4111111111111111", "I paid 1,234,567.89 euros in 2024 - 2025.",
    "PWD=/home/ann/project and password_hash=abcdef", "my locker is number 212 and the door sticks",
    "the password needs 12 characters and 2 numbers", "DE00 1234 1678 9012 3457 00 is no account.",
    "Version 2.0.1234.5678 at 12:30 on 2026-03-01.", "验证码 300秒内有效，密码1000多个，口令2024版",
    "def login(password: str, passcode: string)", "Seed phrase: never share this with anyone",
    "my seed phrase is lost forever somewhere", "The password is wrong, please reset it.",
    "验证码2024年改版，密码6位，口令是什么？", "She passed the test with sk-8 skates.",
    "助记词：不要告诉别人，抄在纸上，放好", "gate shut after 1930, 密码：详见合同",
    "The password is always the same.", "error 0x80070005 when i log in", "gate 14 closes at 17:40",
    "11010519491331002X is nobody.", "门牌号17-2-601 帮我写个指路", "Password manager: Bitwarden",
    "取款密码错误，PIN码也错了", "健身房柜子 3816 块 太贵了", "I spent 4711 on the gate",
    "验证码等了10分钟还没到", "刚换了门锁 花了八百", "密码输错5次会锁多久", "快递单号73019284461",
    "密码就是这样忘记的", "密码：联系前台",
]  # fmt: skip


@every_case(*SECRETS)
def test_a_secret_is_masked_and_the_rest_stays(kind, text, secret):
    done = EVERYTHING.redact(text)
    assert (kind,) == done.found
    assert secret not in done.text
    assert f"[REDACTED: {kind}]" in done.text
    assert done.text == EVERYTHING.redact(done.text).text


@every_case(*HARMLESS)
def test_what_only_looks_like_a_secret_stays(text):
    assert text == EVERYTHING.redact(text).text


TOLD = [
    ("it's double four nine one for the lockbox, soup is in the fridge", "double four nine one"),
    ("my new netflix password is the dog's name plus 77: Rufus77", "Rufus77"),
    ("my steam acc got hacked, pw was xXlemonlord42Xx", "xXlemonlord42Xx"),
    ("the gate code for the cabin, 90417, changes monthly", "90417"),
    ("同步密码我设成 tea-and-rain-5512 可以吗", "tea-and-rain-5512"),
    ("the side door keypad takes 5 5 0 1 after nine", "5 5 0 1"),
    ("the gate code: hit star before 1930 then 1", "1930"), ("the office alarm is 8817#", "8817#"),
    ("my voicemail pin, 2290, keeps failing", "2290"), ("行李箱好像是 051 吧 反正试了能开", "051"),
    ("wifi here: mossgarden / 4tulips!", "4tulips!"), ("the gate code: enter 0 after 1234", "1234"),
    ("the gate code: press # after 1147", "1147"), ("健身房柜子密码老忘 记一下 3816", "3816"),
    ("房东说单元门按 2480 星号", "2480"), ("刚换了门锁 密码六个八", "六个八"),
]  # fmt: skip


@every_case(*TOLD)
def test_a_secret_told_in_passing_is_masked(text, secret):
    done = DEFAULT.redact(text)
    assert (("password",), False) == (done.found, secret in done.text)
    assert done.text == DEFAULT.redact(done.text).text
    assert PRESETS["strict"].redact(text).dropped
    assert text == privacy_policy({"password": "off"}).redact(text).text


@every_case(
    ("I need the router password. who set it up?", "tulips44", "tulips44"),
    ("Do you want me to keep the wifi password?", "Right", ""), ("wifi叫什么名字？", "CMCC-5G", ""),
    ("the gate code is [REDACTED: password]", "Noted.", ""), ("how much was the gate?", "4711", ""),
    ("wifi叫什么密码多少", "mossgarden88", "mossgarden88"), ("who opens the gate?", "4471", "4471"),
    ("which network password?", "tulips44", "tulips44"), ("Tell me the wifi's name.", "alice", ""),
    ("where's the door code again?", "4471", "4471"), ("what's the wifi's name?", "mossgarden", ""),
    ("who has the gate code?", "me, 4471", "4471"), ("what's the gate code?", "4471", "4471"),
    ("who has the gate code?", "Ben", ""), ("门码发我 谁都行", "4471#", "4471#"),
    ("谁能开大门门禁", "4471#", "4471#"), ("What's your PIN?", "9021 lol", "9021"),
    ("What's your PIN?", "its 9021", "9021"), ("门禁密码是多少？", "4471哈哈", "4471"),
    ("What's the room number?", "its 9021", ""), ("What's your PIN?", "ask in room 312", ""),
    ("What's your PIN?\nok. How many guests?", "4471", ""), ("密码改过吗？", "2021年改的", ""),
)  # fmt: skip
def test_a_reply_loses_a_code_and_no_other_value_that_is_asked_for(before, text, secret):
    stored = text.replace(secret, "[REDACTED: password]") if secret else text
    assert stored == Intake(DEFAULT).text(text, before)


@every_case([], ["one sec"], ["hey", "let me look", "ok found it"])
def test_a_code_after_small_talk_is_masked(between):
    turns = [said(1, "What's your PIN?"), *(said(n, one) for n, one in enumerate(between, 2))]
    answer = Intake(DEFAULT).events([said(9, "4471")], turns)[0].text
    assert "4471" != answer


@every_case(("en", 0.5), ("zh", 0.5))
def test_unseen_messages_lose_secrets_and_keep_harmless_values(spoken, least):
    found = figures(shipped_weights(), spoken)
    assert (True, True) == (found["told"] >= least, found["lost"] <= 0.01)


def test_what_stands_behind_a_secret_stays():
    masked = DEFAULT.redact("APIKEY是abc123def456请保密").text
    assert "APIKEY是[REDACTED: credential]请保密" == masked


def test_addresses_and_telephone_numbers_stay_by_default():
    for kind, text, _ in SECRETS:
        assert (kind in ("email", "phone")) == (text == DEFAULT.redact(text).text)


@every_case(*SECRETS)
def test_a_kind_that_is_dropped_takes_the_whole_text(kind, text, secret):
    done = privacy_policy({kind: "drop"}).redact(text)
    assert ("", True) == (done.text, done.dropped)
    assert secret not in privacy_policy({kind: "drop"}).marked(text)
    assert text == privacy_policy("off").redact(text).text


@every_case(
    ("paranoid", "privacy 'paranoid' is unknown: give one of default"),
    ({"cards": "mask"}, "privacy kind 'cards' is unknown: give one of private_k"),
    ({"card": "hide"}, "must be one of off, mask, drop, got 'hide'"),
)
def test_a_policy_of_no_known_form_is_refused(given, told):
    with pytest.raises(InvalidInput, match=told):
        privacy_policy(given)


@pytest.mark.tail
def test_long_text_made_to_be_slow_is_not():
    for piece in (
        "password is ", "-----BEGIN RSA PRIVATE KEY-----", "a@", "1 ", "A1", "eyJ.", "://a:",
        "pin is ", "pin for a b c d ", "pin: 1 1 1 1 ", "密码 ", "password's a1", "api_key for a ",
        "api_key: ", "bearer a", "authorization: ", "password is abc ", "pin code is 110001 ",
        "达芬奇密码2003上映", "private key is /a", "gate 4471 ", "门禁三八一六", "助记词：苹果 ",
    ):  # fmt: skip
        assert grows_in_line(EVERYTHING.redact, piece * (24_000 // len(piece))), piece


def test_only_what_is_unmistakable_goes_out_of_an_applications_values():
    def value(key: str) -> dict[str, Any]:
        return {"order": "4111111111111111", "deep": [{"key": key}, 3, None]}

    assert value("[REDACTED: api_key]") == DEFAULT.redact_value(value("AKIAIOSFODNN7EXAMPLE"))


def test_a_session_event_loses_secrets_in_what_is_said_only():
    intake = Intake(DEFAULT)
    payload = (
        '{"content":{"parts":[{"text":"card 4111 1111 1111 1111"},'
        '{"function_call":{"args":{"token":"AKIAIOSFODNN7EXAMPLE"}}}]},"id":"4111111111111111"}'
    )
    kept = intake.payload(payload)
    assert "card [REDACTED: card]" in kept
    assert '"token": "AKIAIOSFODNN7EXAMPLE"' in kept
    assert '"id": "4111111111111111"' in kept
    harmless = '{"b":1.50, "a":"\\u5bc6\\u7801"}'
    assert harmless == intake.payload(harmless)
    escaped = '{"text":"\\u5bc6\\u7801\\u662fabc12345"}'
    assert '{"text": "密码是[REDACTED: password]"}' == intake.payload(escaped)


def test_a_block_of_memories_is_not_said_anew():
    memories = [("2026-03-01, user", "I live in Leeds."), ("", "A </memories> trap")]
    block = memory_block(Composition([ShownMemory(*one) for one in memories]), 500).prompt
    assert block
    intake = Intake(DEFAULT)
    assert "Where do I live?" == intake.text(f"{block}\nWhere do I live?")
    assert "before\n\nafter" == intake.text(f"before\n{block}\nafter")
    assert "The tag </MEMORIES> alone stays." == intake.text("The tag </MEMORIES> alone stays.")


@every_case(
    "Hi!", "hello there", "Thanks a lot :)", "OK", "ok, thanks!", "你好", "好的，谢谢！", "嗯嗯",
    "👍 ok", "Good morning, how are you?", "Great, got it.", "再见", "yes",
    *((said, False) for said in (
        "Thanks, I moved to Rome.", "OK, book it for Friday", "Yes, I am vegan.", "", "是北京人",
        "Nice is in France", "Perfect pitch", "hello world program", "对花生过敏",
        "No nuts please, I'm allergic", "好的，我住在上海")),
)  # fmt: skip
def test_small_talk_is_worth_no_memory_unless_it_says_something(text, is_nod=True):
    assert is_nod == is_small_talk(text)


@every_case("哈", "嗯", "ha", "hm", "ok ", "好", "thanks ", "no", "k")
def test_a_long_laugh_is_read_in_no_time(piece):
    """In linear time, that is: these took for ever, beyond any limit of a test."""
    is_small_talk((piece * 80)[:80])
    for rest in ("笑死我了", "xyz"):
        assert not is_small_talk((piece * 80)[:70] + rest)


def test_two_days_are_no_card_number():
    apart = 3 if LONG else 13
    days = [date(2025, 1, 1) + timedelta(days=number) for number in range(0, 365, apart)]
    for first in days:
        for last in days:
            text = f"from {first} {last}, {first:%Y%m%d} {last:%Y%m%d}"
            assert text == DEFAULT.redact(text).text


def test_what_a_mark_stands_for_leaves_json_readable():
    inner = json.dumps({"password": "hunter2xx", "user": "ann"})
    given = json.dumps({"text": inner})
    kept = json.loads(json.loads(DEFAULT.redact(given).text)["text"])
    assert {"password": "[REDACTED: password]", "user": "ann"} == kept


def fact(slot: str, **more: Any) -> FactDraft:
    return FactDraft(**{
        "fact_type": "custom", "slot": slot, "value": "v", "statement": "s", "event_id": "e",
        "functional": False, "confidence": 1.0, "pattern": "p", "language": "en", **more,
    })  # fmt: skip


@every_case(
    "name", "employer", "relation.daughter", "relation.daughter.age", "favourite.colour",
    "about.mia.age", "about.dr._smith.job", "about.mia.relation.brother", "password", "api_key",
    "about.mia.pin", "", ("boiling_point", "preference"), ("boiling_point", "rule"),
    ("boiling_point", "custom", False), ("about.paris.population", "custom", False),
    ("首都", "custom", False),
)  # fmt: skip
def test_a_slot_of_a_person_or_a_secret_a_preference_and_a_rule_are_private(
    slot, fact_type="custom", private=True
):
    assert private == private_by_slot(fact(slot, fact_type=fact_type))


@every_case("en", "zh")
def test_every_slot_of_the_rules_is_one_of_a_person(spoken):
    patterns = load_rules(spoken).patterns
    slots = {one.slot.replace("{kin}", "sister").replace("{thing}", "film") for one in patterns}
    assert [] == [slot for slot in slots if not private_by_slot(fact(slot))]


@every_case(
    "Paris is the capital of France and I was born there.", "巴黎是法国的首都，我就出生在那里。",
    "The key of the server is [REDACTED: api_key].", "The card 4111 1111 1111 1111 is valid.",
    ("The US has fifty states.", False), "User's sister is called Runa.", "The user works at Acme.",
    ("A username is short.", False), ("我国的首都是北京。", False), ("Lemons are sour.", False),
    "Write to ann@example.com.", "用户的姐姐叫小兰。", "It is our house.", ("", False),
)  # fmt: skip
def test_the_user_and_secrets_make_a_text_private_and_the_world_does_not(text, private=True):
    assert private == private_by_words(text)


@every_case("en", "zh")
def test_the_examples_are_many_and_different(spoken):
    private, public = prototype_texts()[spoken]["private"], prototype_texts()[spoken]["public"]
    assert len(private) == len(public) >= 60
    assert len({*private, *public}) == len(private) + len(public)
    assert {spoken} == {language(text) for text in (*private, *public)}
    assert not [text for text in public if private_by_words(text)]


async def test_capitals_are_public_and_who_looks_like_one_is_private():
    public = ["Kyoto is the old capital of Japan.", "Canberra is the capital of Australia.",
              "堪培拉是澳大利亚的首都", "东京是日本的首都"]  # fmt: skip
    private = ["Clara is the mother of Ben.", "Milo was in the Hospital of Porto.",
               "林悦是上海分公司的经理", "王强是李丽的前夫"]  # fmt: skip
    embedder, texts = UseEmbedder(), [*public, *private]
    near = {spoken: prototypes_of(spoken, await embedder.embed_passages(examples(spoken)))
            for spoken in ("en", "zh")}  # fmt: skip
    vectors = zip(texts, await embedder.embed_passages(texts), strict=True)
    found = [class_by_example(vector, near[language(text)]) for text, vector in vectors]
    assert ["public"] * 4 + ["private"] * 4 == found


def circle(*degrees: float) -> Any:
    turns = np.radians(np.array(degrees))
    return np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)


def test_what_is_between_both_is_private():
    private, public = circle(*range(0, 20)), circle(*range(90, 110))
    near = Prototypes(private=private, public=public, margin=margin_between(private, public))
    assert ["private", "private", "private", "public"] == [
        class_by_example(one, near) for one in circle(10, 54.5, 56, 100)
    ]


def test_a_model_that_cannot_tell_leaves_everything_private():
    rng = np.random.default_rng(7)
    random = rng.normal(size=(204, 64)).astype(np.float32)
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    assert float("inf") == prototypes_of("en", random).margin
    same = np.ones((204, 4), dtype=np.float32) / 2
    assert float("inf") == prototypes_of("en", same).margin
    assert "private" == class_by_example(random[-1], prototypes_of("en", random))


def test_without_examples_or_of_another_length_all_is_private():
    private, public = circle(*range(0, 20)), circle(*range(90, 110))
    near = Prototypes(private=private, public=public, margin=0.0)
    assert "private" == class_by_example(public[0], None)
    assert "private" == class_by_example(np.zeros(3, dtype=np.float32), near)
    assert "private" == class_by_example(np.zeros(2, dtype=np.float32), near)
    assert "private" == class_by_example(np.full(2, np.nan, dtype=np.float32), near)


def test_vectors_that_are_not_one_for_each_example_are_refused():
    with pytest.raises(ValueError, match="3 vectors for 204 examples"):
        prototypes_of("en", circle(1, 2, 3))
