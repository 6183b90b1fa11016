"""The language of texts for people."""

from every_case import every_case

from shared_core.core.locale import language_of, speaking, spoken_language, t


@every_case(
    ({}, "en"), ({"LANG": "en_GB.UTF-8"}, "en"), ({"LANG": "fr_FR.UTF-8"}, "en"),
    ({"LANG": "zh_CN.UTF-8"}, "zh"), ({"LANG": "zh_TW"}, "zh"),
    ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "en"),
    ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, "zh"),
    ({"LC_ALL": "C", "LC_MESSAGES": "zh_CN.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
    ({"LC_ALL": "", "LANG": "zh_CN.UTF-8"}, "zh"),
    ({"LC_ALL": "zh_CN.UTF-8", "LANG": "en_US.UTF-8"}, "zh"),
    ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh_CN:en"}, "zh"),
    ({"LANG": "C.UTF-8", "LANGUAGE": "zh_CN:en"}, "en"),
    ({"LANG": "en_US.UTF-8", "HIPPOCAMPUS_LANG": "zh"}, "zh"),
    ({"LANG": "zh_CN.UTF-8", "HIPPOCAMPUS_LANG": "en"}, "en"),
    ({"LANG": "zh_CN.UTF-8", "HIPPOCAMPUS_LANG": ""}, "zh"),
)  # fmt: skip
def test_the_language_is_chinese_only_where_the_environment_says_so(environment, expected):
    assert expected == language_of(environment)


def test_a_block_speaks_its_own_language(monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_LANG", "zh")
    with speaking("en"):
        assert "memory" == t("memory", "记忆")
        with speaking(None):
            assert "en" == spoken_language()
    assert "记忆" == t("memory", "记忆")
