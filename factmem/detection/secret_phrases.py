"""Secrets that only their surroundings tell: ``password: …``, ``my PIN is …``, ``Authorization: Bearer …``.

What follows a telling word is redacted if it is quoted or looks like a secret; after "password is" also
a plain word that ends the clause and is none of the words that people say about passwords.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from factmem.detection.secret_tokens import Rule, Span, matches

__all__ = ["PHRASE_RULES"]

_PASSWORD: Final = (
    r"(?:pass(?:word|wd|phrase|code|key)s?|(?<![a-z])pwd|passwort|kennwort|contraseña|mot de passe|senha|пароль"
    r"|密码|密碼|パスワード|비밀번호)"
)
# At the start of a word, or of a hump in camelCase.
_HUMP: Final = r"(?-i:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))"
_KEY: Final = (
    r"(?:(?:api|access|auth|secret|private|account|client|encryption|signing|licen[cs]e|master|refresh|bot|session"
    r"|deploy)\\?[ _-]?(?:access\\?[ _-]?)?(?:key|token|secret)|secret|token)"
    r"(?:_[a-z0-9_]{1,24})?"
)
_CODE: Final = (
    r"(?:pin|cvv2?|cvc|passcode|otp|(?:door|gate|alarm|garage|lock|safe|security|access|entry|verification|unlock|pin)"
    r" code)(?: number)?"
)
_ABOUT: Final = r"(?: (?:for|to|of|on|at|in)(?: [^\s.,;:!?]{1,24}){1,5}?)?"
_SIGN: Final = r"[\"'`*\]]{0,3}[ \t]{0,4}(?::=|=>|={1,3}|:)[ \t]{0,4}(?:\*{1,2}[ \t]?)?"
_IS: Final = r"(?:(?: is now| is still| is| was| ist| est| es| é):?[ \t]{1,3}|[ \t]?(?:是|は|는)[ \t]?)"
_QUOTED: Final = r"[\"'`“](?P<quoted>[^\"'`”\s),;+][^\"'`”\n]{2,126}[^\"'`”\s])[\"'`”]"
_BARE: Final = r"(?P<bare>[^\s\"'`“”<>(){}\[\]|,;*]{4,256}+)(?![(\[])"

_PASSWORD_IS: Final = re.compile(rf"{_PASSWORD}{_ABOUT}(?:{_SIGN}|{_IS})(?:{_QUOTED}|{_BARE})", re.IGNORECASE)
_KEY_IS: Final = re.compile(rf"{_HUMP}{_KEY}{_ABOUT}(?:{_SIGN}|{_IS})(?:{_QUOTED}|{_BARE})", re.IGNORECASE)
_IS_PASSWORD: Final = re.compile(
    rf"(?<!\S)(?P<secret>[^\s\[\]]{{5,64}}) is (?:my|our|the)(?: [\w-]{{1,20}}){{0,2}}? {_PASSWORD}", re.IGNORECASE
)
_OPTION: Final = re.compile(
    r"--(?:password|passwd|token|api-key|secret)[ =](?P<secret>[^\s\"'<>${}\[]{4,256})", re.IGNORECASE
)
_CODE_IS: Final = re.compile(
    rf"(?<!\w){_CODE}{_ABOUT}(?:{_SIGN}|{_IS}| )(?P<secret>\d{{3,8}})(?![\w-]|[.,:/]\d| ?(?:%|digit))", re.IGNORECASE
)
_BEARER: Final = re.compile(r"(?<!\w)bearer[ \t]{1,3}(?P<secret>[A-Za-z0-9._~+/-]{16,}+=*+)", re.IGNORECASE)
_BASIC: Final = re.compile(
    r"authorization[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?(?:basic|token)[ \t]{1,3}(?P<secret>[A-Za-z0-9+/_.-]{8,}+=*+)",
    re.IGNORECASE,
)

_SAID_OF_PASSWORDS: Final = re.compile(
    r"accepted|active|alphanumeric|asked|authentication|available|back|best|better|blank|blocked|"
    r"boolean|both|broken|cached|changed|cleared|complex|complicated|compromised|confidential|"
    r"correct|correctly|created|crucial|default|deleted|different|difficult|disabled|done|easy|"
    r"either|empty|enabled|encoded|encrypted|enough|entered|essential|exactly|exposed|expired|fine|"
    r"forgotten|generated|given|good|great|guessable|hacked|hard|hashed|here|hidden|important|"
    r"impossible|incorrect|incorrectly|insecure|invalid|kept|leaked|long|longer|lost|mandatory|"
    r"masked|missing|necessary|needed|never|none|nothing|null|obsolete|okay|optional|outdated|over|"
    r"password|perfect|plaintext|private|properly|protected|public|random|really|recommended|"
    r"rejected|required|reset|resets|reused|right|safe|salted|same|saved|secret|secure|secured|"
    r"security|sensitive|sent|shared|short|shown|simple|stolen|stored|string|strong|stronger|"
    r"sufficient|temporary|terrible|text|that|then|there|this|tied|unavailable|unchanged|unique|"
    r"unknown|unsafe|updated|used|useful|useless|user|username|valid|varchar|verified|vital|"
    r"vulnerable|weak|weaker|what|where|working|wrong|your|yours",
    re.IGNORECASE,
)
_PLACEHOLDER: Final = re.compile(
    r"(?:your|my|the|some|enter|insert|example|placeholder|changeme|none|null|redacted)(?:$|[^a-z0-9])"
    r"|[$%{<\[]|https?:|(.)\1{3,}$|x{3,}|\.{3}",
    re.IGNORECASE,
)


def _looks_secret(value: str) -> bool:
    letters = any(char.isalpha() for char in value)
    if any(char.isdigit() for char in value):
        return letters or value.isdigit()
    return letters and any(char in "!@#$%^&*+=~?" for char in value[:-1])


def _looks_issued(value: str) -> bool:
    return len(value) >= 8 and any(char.isdigit() for char in value) and not re.search(r"\s", value)


def _is_plain_password(value: str, rest: str) -> bool:
    """Whether a word that looks like any other is one: it ends the clause, and nobody says it of passwords."""
    word = value.rstrip(".!?:")
    ends_clause = value[-1] in ".!?" or rest.lstrip(" \t")[:1] in ("", "\n", ",", ";", ")")
    return ends_clause and len(word) >= 4 and word.isalpha() and not _SAID_OF_PASSWORDS.fullmatch(word)


def _is_password(value: str, rest: str | None) -> bool:
    return rest is None or _looks_secret(value) or _is_plain_password(value, rest)


def _is_key(value: str, rest: str | None) -> bool:
    return _looks_issued(value)


def _values(pattern: re.Pattern[str], is_secret: Callable[[str, str | None], bool]) -> Callable[[str], Iterator[Span]]:
    """Return a finder of what follows a telling word.

    ``is_secret`` judges it by itself and by what comes next, which is None after a quoted value.
    """

    def find(text: str) -> Iterator[Span]:
        for match in pattern.finditer(text):
            quoted = match["bare"] is None
            start, end = match.span("quoted" if quoted else "bare")
            value = text[start:end]
            if not _PLACEHOLDER.match(value) and is_secret(value, None if quoted else text[end : end + 8]):
                yield start, end - (not quoted and value[-1] in ".,;:")

    return find


PHRASE_RULES: Final[tuple[Rule, ...]] = (
    Rule("bearer token", ("bearer",), matches(_BEARER, _looks_issued), folded=True),
    Rule("basic auth", ("authorization",), matches(_BASIC), folded=True),
    Rule("password", ("--",), matches(_OPTION), folded=True),
    Rule(
        "password",
        (
            *("passw", "passph", "passc", "passk", "pwd", "kennwort", "contraseña", "mot de passe", "senha", "пароль"),
            *("密码", "密碼", "パスワード", "비밀번호"),
        ),
        _values(_PASSWORD_IS, _is_password),
        folded=True,
    ),
    Rule("password", ("passw", "passc", "passph"), matches(_IS_PASSWORD, _looks_secret), folded=True),
    Rule(
        "secret",
        (
            "_key",
            "-key",
            "api key",
            "apikey",
            "access key",
            "key:",
            "key=",
            "key is",
            'key"',
            "key'",
            "token",
            "secret",
        ),
        _values(_KEY_IS, _is_key),
        folded=True,
    ),
    Rule("pin", ("pin ", "pin:", "cvv", "cvc", "otp", "passcode", " code"), matches(_CODE_IS), folded=True),
)
"""Tried after `TOKEN_RULES`, in this order."""
