"""The login page: plain HTML without a script, in English or Chinese."""

from __future__ import annotations

from html import escape
from typing import Final, Literal
from urllib.parse import quote

Fault = Literal["", "wrong", "wait"]

TEXTS: Final = {
    "en": {
        "title": "pg-hippocampus",
        "token": "Token",
        "hint": "Make one in a terminal: hippocampus token create --app APP",
        "open": "Open",
        "wrong": "This token opens nothing. Check it, or create a new one.",
        "wait": "Too many attempts. Wait five seconds.",
    },
    "zh": {
        "title": "pg-hippocampus",
        "token": "令牌",
        "hint": "在终端里创建：hippocampus token create --app APP",
        "open": "进入",
        "wrong": "这个令牌无效。请检查，或新建一个。",
        "wait": "尝试次数过多，请等五秒。",
    },
}
PAGE: Final = """<!doctype html>
<html lang="{lang}"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; display: grid; place-items: center;
  min-height: 100vh; margin: 0; }}
form {{ width: min(26rem, 90vw); display: grid; gap: .75rem; }}
input, button {{ font: inherit; padding: .6rem .8rem; }}
.fault {{ color: light-dark(#a40000, #ff9c9c); margin: 0; }}
</style></head><body><main><form method="post" action="login?next={next}">
<h1>{title}</h1>{fault}
<label for="token">{token}</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<small>{hint}</small>
<button type="submit">{open}</button>
</form></main></body></html>"""


def login_page(wanted: str, accept_language: str, fault: Fault = "") -> str:
    """Return the page. wanted: the path to open after the login."""
    lang = "zh" if accept_language.lower().startswith("zh") else "en"
    texts = TEXTS[lang]
    line = f'<p class="fault" role="alert">{escape(texts[fault])}</p>' if fault else ""
    shown = {name: escape(text) for name, text in texts.items()}
    return PAGE.format(lang=lang, next=quote(wanted, safe=""), fault=line, **shown)
