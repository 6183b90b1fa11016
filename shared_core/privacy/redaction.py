"""Find secrets and personal numbers by form and checksum, and mask them or drop the text. Pure.

Text is redacted before it is stored or embedded, so no table, index, prompt or log holds a masked
secret. Each kind can be kept, masked, or make the whole text be dropped. A secret without a form is
found by the words around it (told_secrets).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final, Literal, get_args

from shared_core.core.domain import JsonValue
from shared_core.core.long_search import matches, within_reach
from shared_core.core.shown import shown
from shared_core.errors import InvalidInput
from shared_core.privacy.spoken_secrets import (
    KEY,
    PASSWORD,
    SecretSpan,
    is_key,
    is_password,
    span_at,
)
from shared_core.privacy.told_secrets import told_secrets

Mode = Literal["off", "mask", "drop"]
LEAD_CHARACTERS: Final = 32
"""Maximum distance between a number and the words that name it, in characters."""
_NEVER: Final = re.compile("(?!)")


def _always(_: object) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class _Kind:
    """A form of secret. Its pattern's named group is masked, or else the whole match.

    hints: lower-case strings; a text without any of them cannot hold this kind. is_valid: whether
    the matched text is one. lead: words before a number that make it a secret even if its
    check digit is wrong. is_secret: whether it is one in its context. find: matches() for a slow
    pattern.
    """

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    is_valid: Callable[[str], bool] = _always
    lead: re.Pattern[str] = _NEVER
    is_secret: Callable[[SecretSpan], bool] = _always
    default: Mode = "mask"
    strict: Mode = "drop"
    find: Callable[[re.Pattern[str], str], Iterator[re.Match[str]]] = re.Pattern.finditer


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """A redacted text. found: the kinds in it. dropped: the text must not be stored."""

    text: str
    found: tuple[str, ...] = ()
    dropped: bool = False


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def luhn(text: str) -> bool:
    """Tell whether digits have a valid check digit of ISO/IEC 7812-1, as payment cards do."""
    digits = [int(digit) for digit in _digits(text)]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def iban(text: str) -> bool:
    """Tell whether an IBAN has valid check digits of ISO 13616 (97 leaves 1)."""
    plain = re.sub(r"\s", "", text).upper()
    number = "".join(str(int(sign, 36)) for sign in plain[4:] + plain[:4])
    return int(number) % 97 == 1


def chinese_id(text: str) -> bool:
    """Tell whether a resident number has a birth date and a valid check sign of GB 11643."""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    try:
        date(int(text[6:10]), int(text[10:12]), int(text[12:14]))
    except ValueError:
        return False
    total = sum(int(digit) * weight for digit, weight in zip(text, weights, strict=False))
    return "10X98765432"[total % 11] == text[-1].upper()


def _token(text: str) -> bool:
    """Tell whether the header of a JSON Web Token (RFC 7519) is valid."""
    head = text.split(".")[0]
    try:
        named = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return False
    return isinstance(named, dict) and "alg" in named


_DIGITS: Final = tuple("0123456789")
_WIDE: Final = {
    code: plain
    for code in (0x3000, *range(0xFF0D, 0xFF5B), *range(0x1D7CE, 0x1D800))
    if re.fullmatch(r"[\w -]", plain := unicodedata.normalize("NFKC", chr(code)), re.ASCII)
}
"""Digits, letters and separators of other widths and styles, each with its plain form (NFKC)."""


def narrow(text: str) -> str:
    """Return a text of the same length with plain digits and Latin letters."""
    return text if text.isascii() else text.translate(_WIDE)


def _form(pattern: str) -> re.Pattern[str]:
    """Compile a pattern with ASCII word characters: in "密钥sk-..." a word starts at "sk-"."""
    return re.compile(pattern, re.ASCII)


_KINDS: Final[Mapping[str, _Kind]] = {
    "private_key": _Kind(
        ("-----begin",),
        _form(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:[^-]|-(?!----))*"
            r"(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
        ),
    ),
    "api_key": _Kind(
        ("sk-", "sk_", "rk_", "gh", "glpat", "npm_", "hf_", "xox", "akia", "asia", "aiza", "pypi-",
         "sg.", "ya29.", "ltai"),
        _form(
            r"\b(?:sk-(?:ant-|proj-|or-)?[\w-]{20,}|[sr]k_(?:live|test)_\w{16,}"
            r"|gh[pousr]_\w{36,}|github_pat_\w{60,}|glpat-[\w-]{20,}|npm_\w{36}|hf_\w{30,}"
            r"|xox[abprs]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{35}|pypi-[\w-]{50,}"
            r"|SG\.[\w-]{16,40}\.[\w-]{30,}|ya29\.[\w-]{30,}|LTAI\w{12,30})(?![\w-])"
        ),
    ),
    "jwt": _Kind(
        ("eyj",),
        _form(r"\beyJ[\w-]{8,2000}\.[\w-]{4,4000}\.[\w-]{10,1000}"), is_valid=_token
    ),
    "url_password": _Kind(
        ("://",),
        _form(
            r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,30}://[^\s:/@]{0,100}:"
            r"(?P<secret>[^\s/@]{1,200}(?:@[^\s/@?#,;]{1,100}){0,3})@"
        ),
    ),
    "password": _Kind(
        ("pass", "pw", "码", "碼", "口令", "密钥", "pin", "code", "comb", "otp", "cvv", "cvc",
         "safe", "duress", "seed", "recovery", "mnemonic", "phrase", "backup", "wallet", "暗号",
         "暗號", "密语", "安全词", "助记词", "助記詞", "短语", "短語", "种子词", "種子詞", "恢复词",
         "恢復詞", "备份词", "備份詞"),
        _form(within_reach(PASSWORD)), is_secret=is_password, find=matches,
    ),
    "credential": _Kind(
        ("key", "secret", "token", "bearer", "authorization"),
        _form(KEY), is_secret=is_key,
    ),
    "card": _Kind(
        _DIGITS,
        _form(r"(?<![\w.-])(?:2[2-7]|[3-6]\d)\d\d(?:[ -]?\d){9,15}(?![\w-]|\.\d)"),
        is_valid=luhn,
        lead=re.compile(
            r"(?:(?<![a-z])(?:visa|mastercard|amex|maestro|(?:credit|debit|bank|my|new|old) card"
            r"|card (?=n|#))|银行卡|信用卡|借记卡|卡号|銀行卡|卡號)"
            r"(?:[\s:：#,，-]|卡|号码?|號碼?|信息|是|为|\b(?:numbers?|no|num|details?|is|was)\b\.?)*$",
            re.IGNORECASE,
        ),
    ),
    "iban": _Kind(
        _DIGITS,
        _form(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b"), is_valid=iban,
    ),
    "chinese_id": _Kind(
        _DIGITS,
        _form(r"(?<!\w)[1-9]\d{16}[\dXx](?!\w)"), is_valid=chinese_id,
        lead=re.compile(
            r"(?:身份[证證証]|[证證証]件[号號]|\bID(?: card)?)"
            r"(?:[\s:：]|[号號][码碼]?|是|为|\b(?:number|no|is)\b\.?)*$"
        ),
    ),
    "us_ssn": _Kind(
        _DIGITS,
        _form(r"(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\w-])"),
    ),
    "email": _Kind(
        ("@",),
        _form(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b"), default="off", strict="mask"
    ),
    "phone": _Kind(
        _DIGITS,
        _form(
            r"(?<![\w.+-])(?:\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .-]?\d){6,12}"
            r"|1[3-9]\d(?:[ -]?\d{4}){2}|0\d{2,4}[ -]\d{3,4}[ -]?\d{3,4}"
            r"|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4})(?![\w-]|\.\d)"
        ),
        default="off", strict="mask",
    ),
}  # fmt: skip
_HINTED: Final = {
    name: re.compile("|".join(map(re.escape, kind.hints))) for name, kind in _KINDS.items()
}
"""Pattern of the hints of each kind, for a lower-case text."""
KINDS: Final = tuple(_KINDS)
"""All kinds, in the order they are searched."""
TOLD: Final = "password"
"""The kind of a secret that is told in passing, once the forms of all kinds have been searched."""
ROUNDS: Final = 8
"""Maximum number of times that a text is searched for secrets told in passing."""
UNMISTAKABLE: Final = frozenset({"private_key", "api_key", "jwt", "url_password"})
"""Kinds that nothing else looks like. A long number, in contrast, may be some id."""


@dataclass(frozen=True, slots=True)
class PrivacyPolicy:
    """What to do with each kind of secret: "off" keeps it, "mask" masks it, "drop" drops the text.

    session_logs: apply the policy to session logs too. By default they stay as they are: a
    framework reads them back, and the agent may need the number it was given.
    """

    modes: Mapping[str, Mode] = field(
        default_factory=lambda: {name: kind.default for name, kind in _KINDS.items()}
    )
    session_logs: bool = False

    def redact(self, text: str, kinds: Collection[str] = KINDS, before: str = "") -> Redaction:
        """Return the text with "[REDACTED: kind]" for each masked secret of these kinds.

        Redacting twice changes nothing more. before: the message before the text, which may name
        what a value opens.
        """
        found: list[str] = []
        low = narrow(text).lower()
        for name, mode in self.modes.items():
            if mode == "off" or name not in kinds or not _HINTED[name].search(low):
                continue
            kept = list(_without(_KINDS[name], name, text))
            if len(kept) > 1:
                found.append(name)
                text = "".join(kept)
        if self.modes[TOLD] != "off" and TOLD in kinds:
            shown_text = _without_told(text, before)
            found += [TOLD] if shown_text != text and TOLD not in found else []
            text = shown_text
        dropped = any(self.modes[name] == "drop" for name in found)
        return Redaction(text="" if dropped else text, found=tuple(found), dropped=dropped)

    def redact_value(self, value: JsonValue, kinds: Collection[str] = UNMISTAKABLE) -> JsonValue:
        """Return a JSON value without secrets of these kinds; by default ids stay as they are."""
        if isinstance(value, str):
            return self.marked(value, kinds)
        if isinstance(value, Mapping):
            return {key: self.redact_value(part, kinds) for key, part in value.items()}
        if isinstance(value, Sequence):
            return [self.redact_value(part, kinds) for part in value]
        return value

    def marked(self, text: str, kinds: Collection[str] = KINDS, before: str = "") -> str:
        """Return the redacted text, or only the mark for a dropped one."""
        done = self.redact(text, kinds, before)
        return _mark(done.found[0]) if done.dropped else done.text


PRESETS: Final[Mapping[str, PrivacyPolicy]] = {
    "default": PrivacyPolicy(),
    "off": PrivacyPolicy(dict.fromkeys(KINDS, "off")),
    "strict": PrivacyPolicy({name: kind.strict for name, kind in _KINDS.items()}, True),
}
"""Policies by name.

default: masks secrets and personal numbers, keeps e-mail addresses and phone numbers. strict: drops
a text with a secret, masks addresses and phone numbers, also in session logs.
"""


def privacy_policy(given: str | Mapping[str, str] | PrivacyPolicy | None) -> PrivacyPolicy:
    """Return the preset of this name, or the default policy with other modes for some kinds.

    Raises InvalidInput for an unknown preset, kind or mode.
    """
    if isinstance(given, PrivacyPolicy):
        return given
    if given is None or isinstance(given, str):
        preset = PRESETS.get("default" if given is None else given)
        if preset is None:
            raise InvalidInput(
                f"privacy {given!r} is unknown: give one of {', '.join(PRESETS)}, or a mapping"
                f" of kinds to modes"
            )
        return preset
    modes: dict[str, Mode] = dict(PRESETS["default"].modes)
    for name, mode in given.items():
        if name not in _KINDS:
            raise InvalidInput(
                f"privacy kind {shown(name)} is unknown: give one of {', '.join(KINDS)}"
            )
        if mode not in get_args(Mode):
            raise InvalidInput(
                f"privacy of {name!r} must be one of {', '.join(get_args(Mode))}, got {shown(mode)}"
            )
        modes[name] = mode  # type: ignore[assignment] # one of them
    return PrivacyPolicy(modes)


def _without(kind: _Kind, name: str, text: str) -> Iterator[str]:
    """Yield the text around the secrets of a kind, with marks in their place."""
    end = 0
    plain = narrow(text)
    for match in kind.find(kind.pattern, plain):
        start, stop = match.span(match.lastgroup or 0)
        secret = plain[start:stop]
        if secret.startswith("[REDACTED"):
            continue
        lead = plain[max(0, start - LEAD_CHARACTERS) : start]
        if not (kind.is_valid(secret) or kind.lead.search(lead)):
            continue
        if not kind.is_secret(span_at(match, plain)):
            continue
        yield text[end:start]
        yield _mark(name)
        end = stop
    yield text[end:]


def _without_told(text: str, before: str) -> str:
    """Return a text with marks in the place of the secrets that it tells in passing.

    A value that has one of the forms stays: its kind is off, or its rule has turned it down.
    """
    earlier = narrow(before)
    for _ in range(ROUNDS):  # a mark may tell what a value beside it is
        plain = narrow(text)
        told = told_secrets(plain, earlier)
        formed = bytearray(len(plain))
        for start, stop in _formed(plain) if told else ():
            formed[start:stop] = b"\1" * (stop - start)
        kept, end = [], 0
        for start, stop in told:
            if not any(formed[start:stop]):
                kept += [text[end:start], _mark(TOLD)]
                end = stop
        if not kept:
            break
        text = "".join([*kept, text[end:]])
    return text


def _formed(plain: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has the form of some kind, a secret or not."""
    low = plain.lower()
    for name, kind in _KINDS.items():
        if _HINTED[name].search(low):
            for match in kind.find(kind.pattern, plain):
                yield match.span(match.lastgroup or 0)


def _mark(name: str) -> str:
    return f"[REDACTED: {name}]"
