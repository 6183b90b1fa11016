"""Uris with a mistake are refused by name, with the way out, and no password is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from every_case import every_case

from shared_core import InvalidInput
from shared_core.settings import load_settings

HERE = Path.cwd()


@every_case(
    ("mysql://u:geheim@h/db", "MySQL is not supported"),
    ("mysql+pymysql://u:ge heim@h/db", "oceanbase://user@tenant#cluster"),
    ("postgresql+psycopg://u:geheim@h/db", "write 'postgresql://'"),
    ("OceanBase://u:geheim@h/db", "write 'oceanbase://'"),
    ("SEEKDB:///data", "'seekdb:///data'"),
    ("sqlite:///x", "unknown form: take 'embedded'"),
    ("embedded://memory", f"'embedded://{HERE}/memory'"),
    ("embedded:memory", f"'embedded://{HERE}/memory'"),
    ("./memory", f"'embedded://{HERE}/memory'"),
    ("~/memory", f"'embedded://{Path.home()}/memory'"),
    ("seekdb:memory", f"'seekdb://{HERE}/memory'"),
    ("embedded:///", "root of all files"),
    ("postgresql://u:***@h/db", "stars"),
    ("oceanbase://root@shop#east:********@h/db", "stars"),
    ("host=h password=*** user=u", "stars"),
    ("postgresql://h/db?user=u&password=***&sslmode=require", "stars"),
    ("postgresql://u:ge@heim@h:5432/db", "'@' as %40"),
    ("postgresql://u:ge/heim@h/db", "'/' as %2F"),
    ("postgresql://u:g@e/heim@h/db", "'/' as %2F"),
    ("postgresql://u:ge/he?im@h/db", "'/' as %2F"),
    ("postgresql://u:ge%heim@h/db", "'%' as %25"),
    ("postgresql://u:ge heim@h/db", "a blank as %20"),
    ("oceanbase://u:ge\theim@h/db", "a blank as %20"),
    ("host=h password=ge heim user=u", "goes in quotes"),
    ("host=h password=ge heim", "goes in quotes"),
)
def test_a_mistake_is_named_with_the_way_out(uri: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        load_settings(uri)
    assert said in str(refused.value)
    assert "heim" not in str(refused.value)


@every_case(
    "embedded", "embedded:///data/my memory", "seekdb:///data/my memory?database=app",
    "seekdb:///my folder@home/x", "seekdb://host/db?ssl_ca=/my certs/ca@x.pem",
    "seekdb://u:p/w@host/db?ssl_ca=/my certs/ca@x.pem", "postgresql://",
    "postgresql:///db?host=/tmp&user=a@b", "postgresql://u:p%40%2F%3F@h:5433/db?sslmode=require",
    "postgresql://u:p?top_k=1@h1,h2:5433/db", "postgresql://u:a:b#c*@[::1]:5432,[::2]/db",
    "postgresql://u:%2A@h1:1,h2:2/db?options=-c%20a=b@c",
    "oceanbase://root@shop#east:p@w/d:#@h:2881/db?ssl_ca=/ca@x.pem",
    "host = h password = 'with a blank' user = u", "host=h password=with\\ a\\ blank user=u",
    "password=*a* host=h",
)  # fmt: skip
def test_what_is_read_as_it_is_meant_is_left_alone(uri: str) -> None:
    assert uri == load_settings(uri).uri
