"""Redaction of secrets, before anything is sent, journalled or stored.

Two tables of rules find them. `TOKEN_RULES` know secrets by their own form: issued tokens, key blocks, URLs, card and
account numbers. `PHRASE_RULES` know them by their surroundings: ``password: …``, ``my PIN is …``, ``Authorization:
Bearer …``. There, a value is redacted if it is quoted or looks like a secret; after "password is" also a plain word
that ends the clause and is not among the words that people say about passwords.

A rule has hints, of which one must occur before its pattern is tried: ordinary prose has none, and costs one search
for all of them. Every pattern is linear: an unbounded run is either possessive and last, or cannot start inside another
run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import attrs

from factmem.abc import Conversation, Message
from factmem.patterns import LinearPattern, any_of, lazy_pattern
from factmem.wording import Span

__all__ = [
    "PHRASE_RULES",
    "TOKEN_RULES",
    "Redacted",
    "RedactedSecret",
    "SecretRule",
    "Span",
    "matches",
    "placeholder",
    "redact",
    "redact_conversation",
    "without_placeholders",
]

"""Start and end of a part of a text, in characters."""

_SHORTEST_TOKEN: Final = 16


@attrs.frozen
class SecretRule:
    """A rule that finds one kind of secret.

    Attributes:
        kind: the kind, shown in the placeholder.
        hints: pattern of the texts of which one must occur for the rule to be tried; made of these texts.
        find: yields the spans of such secrets in a text.
        folded: look for the hints in the lower-cased text.
        long: whether such a secret is in a word of at least 16 characters; the rule is skipped in texts of shorter
            words.
    """

    kind: str
    hints: LinearPattern = attrs.field(converter=any_of)
    find: Callable[[str], Iterable[Span]]
    folded: bool = attrs.field(default=False, kw_only=True)
    long: bool = attrs.field(default=False, kw_only=True)


def matches(
    pattern: re.Pattern[str], is_secret: Callable[[str], bool] | None = None
) -> Callable[[str], Iterator[Span]]:
    """Return a finder of a pattern's named group ``secret``, or of its whole match if there is no such group."""
    group = "secret" if "secret" in pattern.groupindex else 0

    def find(text: str) -> Iterator[Span]:
        for match in pattern.finditer(text):
            if is_secret is None or is_secret(match[group]):
                yield match.span(group)

    return find


def _token(kind: str, hints: str, pattern: str, is_secret: Callable[[str], bool] | None = None) -> SecretRule:
    """Return the rule of a token.

    Args:
        kind: the kind of the secret.
        hints: separated by spaces.
        pattern: a regular expression in which ``~`` stands for a token's character; no letter or digit may precede it.
        is_secret: a further condition on a match.
    """
    token = pattern.replace("~", "[A-Za-z0-9_-]")
    compiled = lazy_pattern(rf"(?<![A-Za-z0-9])(?:{token})", re.ASCII)
    return SecretRule(kind, tuple(hints.split()), matches(compiled, is_secret), long=True)


_PEM_BEGIN: Final = lazy_pattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END: Final = lazy_pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PUTTY_BEGIN: Final = lazy_pattern(r"PuTTY-User-Key-File-\d:")
_PUTTY_END: Final = lazy_pattern(r"Private-MAC:[ \t]*[0-9a-fA-F]*")
_CUT_BODY: Final = lazy_pattern(r"(?:\s|\\[nr]|[A-Za-z0-9+/=]{16,}+|(?:Proc-Type|DEK-Info|Version|Comment):[^\n]*+)*+")


def _blocks(begin: re.Pattern[str], end: re.Pattern[str]) -> Callable[[str], Iterator[Span]]:
    def find(text: str) -> Iterator[Span]:
        at = 0
        while opened := begin.search(text, at):
            closed = end.search(text, opened.end())
            if closed is None:  # no later block is closed either: what looks like a body goes with each
                yield from ((cut.start(), _cut_end(text, cut.end())) for cut in begin.finditer(text, opened.start()))
                return
            yield opened.start(), closed.end()
            at = closed.end()

    return find


def _cut_end(text: str, start: int) -> int:
    body = _CUT_BODY.match(text, start)
    return body.end() if body and body[0].strip() else start


def _is_card_number(text: str) -> bool:
    """Return whether digits are a payment card's, by the issuer's prefix, the length and the Luhn sum."""
    number = text.replace(" ", "").replace("-", "")
    return _issued(number) and _luhn(number)


def _issued(number: str) -> bool:
    length, two, four = len(number), int(number[:2]), int(number[:4])
    if two in (34, 37):
        return length == 15
    if two in (36, 38, 39) or 3000 <= four <= 3059:
        return length == 14
    if number[0] == "4":
        return length in (13, 16, 19)
    if 51 <= two <= 55 or 2221 <= four <= 2720:
        return length == 16
    return length >= 16 and (two in (62, 65) or four == 6011 or 3528 <= four <= 3589 or 6440 <= four <= 6499)


def _luhn(number: str) -> bool:
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in number[-2::-2])
    return (doubled + sum(int(digit) for digit in number[-1::-2])) % 10 == 0


def _is_iban(text: str) -> bool:
    """Return whether a text is an international bank account number, by its length and check sum (ISO 13616)."""
    number = text.replace(" ", "")
    if not 15 <= len(number) <= 34:
        return False
    return int("".join(str(int(char, 36)) for char in number[4:] + number[:4])) % 97 == 1


def _has_digit(text: str) -> bool:
    return any(char.isdigit() for char in text)


_SHAPE_HINTS: Final = (
    "gsk_ r8_ pplx- xai- hvs. dapi doo_v1_ dop_v1_ dor_v1_ shpat_ shpca_ shppa_ shpss_ sq0atp- sq0csp- lin_api_ ntn_ "
    "PMAK- AGE-SECRET-KEY-1 AKCp"
)
_SHAPE: Final = (
    r"(?:gsk_|r8_|pplx-|xai-|hvs\.|dapi|do[opr]_v1_|shp(?:at|ca|pa|ss)_|sq0(?:atp|csp)-|lin_api_|ntn_|PMAK-"
    r"|AGE-SECRET-KEY-1|AKCp)~{20,}+"
)
# Both start with a class of characters instead of a lookbehind, so that the search skips prose quickly.
_CARD: Final = lazy_pattern(
    r"[3-6](?<![A-Za-z0-9+_.-].)(?:\d{3}(?P<by>[ -]?)\d{4}(?P=by)\d{4}(?P=by)\d{4}"
    r"|\d{3}(?P<gap>[ -]?)\d{6}(?P=gap)\d{4,5}|\d{12}|\d{18})(?!\w|[.-]\d)",
    re.ASCII,
)
_IBAN: Final = lazy_pattern(
    r"[A-Z](?<![A-Za-z0-9].)[A-Z]\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])", re.ASCII
)
# A US social security number; no area 000, 666 or 900 and above, no group 00 and no serial 0000 is issued.
_SOCIAL_SECURITY: Final = lazy_pattern(
    r"[0-8](?<![A-Za-z0-9+_.-].)\d{2}(?<!000)(?<!666)-(?!00)\d{2}-(?!0000)\d{4}(?!\w|[.-]\w)", re.ASCII
)
_URL_PASSWORD: Final = lazy_pattern(
    r"(?<![A-Za-z0-9])[A-Za-z0-9+.-]{2,20}://[^\s/?#@:]{0,256}+:(?P<secret>[^\s/]{1,256})@(?=[\w\[])"
)

TOKEN_RULES: Final[tuple[SecretRule, ...]] = (
    SecretRule("private key", ("PRIVATE KEY",), _blocks(_PEM_BEGIN, _PEM_END)),
    SecretRule("private key", ("PuTTY-User-Key-File-",), _blocks(_PUTTY_BEGIN, _PUTTY_END)),
    _token("aws key", "AKIA ASIA ABIA ACCA A3T", r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("github token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"gh[opsru]_~{30,}+|github_pat_~{22,}+"),
    _token(
        "gitlab token",
        "glpat- gldt- glft- glsoat- glrt- glcbt- glimt- glptt- glagent- gloas- GR1348941",
        r"(?:gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-|GR1348941)[A-Za-z0-9_.-]{20,}+",
    ),
    _token("slack token", "xox xapp-", r"(?:xox[abceoprs]|xapp)-~{10,}+"),
    _token("slack webhook", "hooks.slack.com", r"hooks\.slack\.com/[a-z]{5,20}/(?P<secret>[A-Za-z0-9_/]{20,}+)"),
    _token("stripe key", "k_live_ k_test_ whsec_", r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,}+|whsec_[A-Za-z0-9+/=]{20,}+"),
    _token("anthropic key", "sk-ant-", r"sk-ant-~{16,}+"),
    _token("openai key", "sk-", r"sk-~{20,}+", _has_digit),
    _token("google key", "AIza", r"AIza~{35,}+"),
    _token("google token", "GOCSPX- ya29. 1//0", r"(?:GOCSPX-|ya29\.|1//0)[A-Za-z0-9_.-]{20,}+"),
    _token("huggingface token", "hf_", r"hf_[A-Za-z0-9]{20,}+"),
    _token("npm token", "npm_", r"npm_[A-Za-z0-9]{30,}+"),
    _token("pypi token", "pypi-", r"pypi-~{32,}+"),
    _token("sendgrid key", "SG.", r"SG\.~{16,64}\.~{16,}+"),
    _token("twilio key", "AC SK", r"(?:AC|SK)[a-f0-9]{32}(?![A-Za-z0-9])"),
    _token("azure key", "AccountKey= AccessKey=", r"\w{0,20}(?:Account|Access)Key=(?P<secret>[A-Za-z0-9+/]{20,}+=*+)"),
    _token("azure signature", "sig=", r"sig=(?P<secret>[A-Za-z0-9%+/=]{30,}+)"),
    _token("discord token", "MD MT Mj Mz ND NT Nj Nz OD OT", r"[MNO][DTjz]~{21,26}\.~{6}\.~{27,}+"),
    _token("telegram token", ":AA", r"(?:bot)?(?P<secret>\d{8,10}:AA~{32,}+)"),
    _token("mailchimp key", "-us", r"[a-f0-9]{32}-us\d{1,2}(?![0-9])"),
    _token("api key", _SHAPE_HINTS, _SHAPE),
    _token("json web token", "eyJ", r"(?<![_-])eyJ~{8,}+\.~{8,}+(?:\.[A-Za-z0-9_.-]*+)?"),
    SecretRule("url password", ("://",), matches(_URL_PASSWORD)),
    SecretRule("card number", tuple("0123456789"), matches(_CARD, _is_card_number)),
    SecretRule("iban", tuple("0123456789"), matches(_IBAN, _is_iban)),
    SecretRule("social security number", ("-",), matches(_SOCIAL_SECURITY)),
)
"""Rules for secrets with a form of their own, tried in this order; of two that overlap, the first gives the kind."""


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

_PASSWORD_IS: Final = lazy_pattern(rf"{_PASSWORD}{_ABOUT}(?:{_SIGN}|{_IS})(?:{_QUOTED}|{_BARE})", re.IGNORECASE)
_KEY_IS: Final = lazy_pattern(rf"{_HUMP}{_KEY}{_ABOUT}(?:{_SIGN}|{_IS})(?:{_QUOTED}|{_BARE})", re.IGNORECASE)
_IS_PASSWORD: Final = lazy_pattern(
    rf"(?<!\S)(?P<secret>[^\s\[\]]{{5,64}}) is (?:my|our|the)(?: [\w-]{{1,20}}){{0,2}}? {_PASSWORD}", re.IGNORECASE
)
_OPTION: Final = lazy_pattern(
    r"--(?:password|passwd|token|api-key|secret)[ =](?P<secret>[^\s\"'<>${}\[]{4,256})", re.IGNORECASE
)
_CODE_IS: Final = lazy_pattern(
    rf"(?<!\w){_CODE}{_ABOUT}(?:{_SIGN}|{_IS}| )(?P<secret>\d{{3,8}})(?![\w-]|[.,:/]\d| ?(?:%|digit))", re.IGNORECASE
)
_SOCIAL_SECURITY_IS: Final = lazy_pattern(
    rf"(?<!\w)(?:ssn|social security(?: (?:number|no\.?|#))?){_ABOUT}(?:{_SIGN}|{_IS}| )"
    r"(?P<secret>\d{3}[ -]?\d{2}[ -]?\d{4})(?![\w-])",
    re.IGNORECASE,
)
_BEARER: Final = lazy_pattern(r"(?<!\w)bearer[ \t]{1,3}(?P<secret>[A-Za-z0-9._~+/-]{16,}+=*+)", re.IGNORECASE)
_BASIC: Final = lazy_pattern(
    r"authorization[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?(?:basic|token)[ \t]{1,3}(?P<secret>[A-Za-z0-9+/_.-]{8,}+=*+)",
    re.IGNORECASE,
)

_SAID_OF_PASSWORDS: Final = lazy_pattern(
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
_PLACEHOLDER: Final = lazy_pattern(
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
    """Return whether an ordinary word is a password: it ends the clause, and is not said about passwords."""
    word = value.rstrip(".!?:")
    ends_clause = value[-1] in ".!?" or rest.lstrip(" \t")[:1] in ("", "\n", ",", ";", ")")
    return ends_clause and len(word) >= 4 and word.isalpha() and not _SAID_OF_PASSWORDS.fullmatch(word)


def _is_password(value: str, rest: str | None) -> bool:
    return rest is None or _looks_secret(value) or _is_plain_password(value, rest)


def _is_key(value: str, rest: str | None) -> bool:
    return _looks_issued(value)


def _values(pattern: re.Pattern[str], is_secret: Callable[[str, str | None], bool]) -> Callable[[str], Iterator[Span]]:
    """Return a finder of the value behind a keyword.

    ``is_secret`` decides about a value and the text behind it, which is None behind a quoted value.
    """

    def find(text: str) -> Iterator[Span]:
        for match in pattern.finditer(text):
            quoted = match["bare"] is None
            start, end = match.span("quoted" if quoted else "bare")
            value = text[start:end]
            if not _PLACEHOLDER.match(value) and is_secret(value, None if quoted else text[end : end + 8]):
                yield start, end - (not quoted and value[-1] in ".,;:")

    return find


PHRASE_RULES: Final[tuple[SecretRule, ...]] = (
    SecretRule("bearer token", ("bearer",), matches(_BEARER, _looks_issued), folded=True),
    SecretRule("basic auth", ("authorization",), matches(_BASIC), folded=True),
    SecretRule("password", ("--",), matches(_OPTION), folded=True),
    SecretRule(
        "password",
        (
            *("passw", "passph", "passc", "passk", "pwd", "kennwort", "contraseña", "mot de passe", "senha", "пароль"),
            *("密码", "密碼", "パスワード", "비밀번호"),
        ),
        _values(_PASSWORD_IS, _is_password),
        folded=True,
    ),
    SecretRule("password", ("passw", "passc", "passph"), matches(_IS_PASSWORD, _looks_secret), folded=True),
    SecretRule(
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
    SecretRule("social security number", ("ssn", "social security"), matches(_SOCIAL_SECURITY_IS), folded=True),
    SecretRule("pin", ("pin ", "pin:", "cvv", "cvc", "otp", "passcode", " code"), matches(_CODE_IS), folded=True),
)
"""Rules for secrets that their surroundings announce. They are tried after `TOKEN_RULES`, in this order."""


_RULES: Final[tuple[SecretRule, ...]] = (*TOKEN_RULES, *PHRASE_RULES)
_HINTS: Final = LinearPattern("|".join(rule.hints.pattern for rule in _RULES if not rule.folded))
_FOLDED_HINTS: Final = LinearPattern("|".join(rule.hints.pattern for rule in _RULES if rule.folded))
"""Hints of all rules; ordinary prose holds none."""
_FIRST_PHRASE: Final = len(TOKEN_RULES)
_REPEATABLE: Final = lazy_pattern(r"(?=\S*\d)(?=\S*[^\W\d])\S{6,}$")
"""A word with a letter and a digit, which nobody repeats by chance."""
_MOST_REPEATED: Final = 50
_PLACEHOLDERS: Final = lazy_pattern(r"\[redacted: [a-z ]{1,40}\]")


@attrs.frozen(kw_only=True)
class RedactedSecret:
    """A secret that was found, without its text.

    Attributes:
        kind: its kind: ``password``, ``aws key``, ….
        start: offset of its placeholder in the redacted text, in characters.
        end: offset of the placeholder's end.
    """

    kind: str
    start: int
    end: int


@attrs.frozen
class Redacted:
    """A text without its secrets.

    Attributes:
        text: the text, with a `placeholder` for each secret.
        findings: the secrets, in the order of the text.
    """

    text: str = attrs.field(repr=False)
    findings: tuple[RedactedSecret, ...] = ()


@attrs.frozen
class _Hit:
    start: int
    end: int
    rank: int


def placeholder(kind: str) -> str:
    """Return the text that replaces a secret: ``[redacted: aws key]``."""
    return f"[redacted: {kind}]"


def without_placeholders(text: str) -> str:
    """Return a redacted text without its placeholders."""
    return _PLACEHOLDERS.sub(" ", text)


def redact(text: str) -> Redacted:
    """Replace the secrets in a text by placeholders with their kinds.

    Known secrets are issued tokens by their form, whole private key blocks, passwords in URLs, card and account numbers
    by their check sums, US social security numbers, and values announced by phrases like "password is". An announced
    value is redacted wherever it is repeated. It takes time linear in the text, some ten microseconds for an ordinary
    message, and neither logs nor raises.

    Example:
        >>> redact("my password is hunter2!").text
        'my password is [redacted: password]'
    """
    hits = _hits(text)
    return _replaced(text, hits + _repeats(text, _announced([(text, hits)]))) if hits else Redacted(text)


def redact_conversation(conversation: Conversation) -> Conversation:
    """Return a conversation without the secrets in its messages; the same object if there are none.

    A secret that one message announces is redacted in the others too. See `redact`.
    """
    found = [(message.content, _hits(message.content)) for message in conversation.messages]
    if not any(hits for _, hits in found):
        return conversation
    announced = _announced(found)
    messages = tuple(
        _with_content(message, _replaced(text, hits + _repeats(text, announced)))
        for message, (text, hits) in zip(conversation.messages, found, strict=True)
    )
    return attrs.evolve(conversation, messages=messages)


def _with_content(message: Message, redacted: Redacted) -> Message:
    return attrs.evolve(message, content=redacted.text) if redacted.findings else message


def _hits(text: str) -> list[_Hit]:
    lowered = text.lower()
    if not (_HINTS.occurs_in(text) or _FOLDED_HINTS.occurs_in(lowered)):
        return []
    longest = max(map(len, text.split()), default=0)
    return [
        _Hit(start, end, rank)
        for rank, rule in enumerate(_RULES)
        if (longest >= _SHORTEST_TOKEN or not rule.long) and rule.hints.occurs_in(lowered if rule.folded else text)
        for start, end in rule.find(text)
    ]


def _announced(found: Iterable[tuple[str, list[_Hit]]]) -> dict[str, int]:
    """Return the secrets that only their surroundings reveal, with their rules: repetitions must be searched for."""
    phrases = (
        (text[hit.start : hit.end], hit.rank) for text, hits in found for hit in hits if hit.rank >= _FIRST_PHRASE
    )
    telling = ((secret, rank) for secret, rank in phrases if _REPEATABLE.match(secret))
    return dict(itertools.islice(telling, _MOST_REPEATED))


def _repeats(text: str, secrets: Mapping[str, int]) -> list[_Hit]:
    return [
        _Hit(match.start(), match.end(), rank)
        for secret, rank in secrets.items()
        for match in re.finditer(re.escape(secret), text)
    ]


def _replaced(text: str, hits: list[_Hit]) -> Redacted:
    parts: list[str] = []
    findings: list[RedactedSecret] = []
    length = at = 0
    for hit in _merged(sorted(hits, key=lambda hit: (hit.start, hit.rank))):
        before, stand_in = text[at : hit.start], placeholder(_RULES[hit.rank].kind)
        start = length + len(before)
        findings.append(RedactedSecret(kind=_RULES[hit.rank].kind, start=start, end=start + len(stand_in)))
        parts += (before, stand_in)
        length, at = start + len(stand_in), hit.end
    return Redacted("".join((*parts, text[at:])), tuple(findings))


def _merged(hits: list[_Hit]) -> list[_Hit]:
    """Unite overlapping hits, so that no part of a secret is left. The first rule gives the kind."""
    merged: list[_Hit] = []
    for hit in hits:
        if merged and hit.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = _Hit(last.start, max(last.end, hit.end), min(last.rank, hit.rank))
        else:
            merged.append(hit)
    return merged
