"""The shapes of secrets that tell by themselves: issued tokens, key blocks, URLs, card and account numbers.

Each rule has hints, of which one must occur before its pattern is tried: ordinary prose has none, and
costs a few substring tests. Every pattern is linear: a run without a bound is either possessive and
last, or cannot start inside another run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import attrs

__all__ = ["TOKEN_RULES", "Rule", "Span", "matches"]

Span: TypeAlias = tuple[int, int]
"""Where a secret starts and ends in a text, in characters."""

_SHORTEST_TOKEN: Final = 16


@attrs.frozen
class Rule:
    """How one kind of secret is found.

    Attributes:
        kind: what stands in the place of such a secret.
        hints: texts of which one must occur for the rule to be tried.
        find: gives the secrets' places in a text.
        folded: the hints are looked for in the lower-cased text.
        word: how long a word at least holds such a secret, in characters; the rule is not tried in texts
            whose words are all shorter.
    """

    kind: str
    hints: tuple[str, ...]
    find: Callable[[str], Iterable[Span]]
    folded: bool = attrs.field(default=False, kw_only=True)
    word: int = attrs.field(default=0, kw_only=True)


def matches(
    pattern: re.Pattern[str], is_secret: Callable[[str], bool] | None = None
) -> Callable[[str], Iterator[Span]]:
    """Return a finder of a pattern's named group ``secret``, or of its whole match if it has none."""
    group = "secret" if "secret" in pattern.groupindex else 0

    def find(text: str) -> Iterator[Span]:
        for match in pattern.finditer(text):
            if is_secret is None or is_secret(match[group]):
                yield match.span(group)

    return find


def _token(kind: str, hints: str, pattern: str, is_secret: Callable[[str], bool] | None = None) -> Rule:
    """Return the rule of a token: a pattern in which ``~`` stands for one of its characters.

    Args:
        kind: what stands in the place of such a secret.
        hints: parted by spaces.
        pattern: a regular expression; it starts where no letter or digit stands before.
        is_secret: what else must be true of a match.
    """
    token = pattern.replace("~", "[A-Za-z0-9_-]")
    compiled = re.compile(rf"(?<![A-Za-z0-9])(?:{token})", re.ASCII)
    return Rule(kind, tuple(hints.split()), matches(compiled, is_secret), word=_SHORTEST_TOKEN)


_PEM_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PUTTY_BEGIN: Final = re.compile(r"PuTTY-User-Key-File-\d:")
_PUTTY_END: Final = re.compile(r"Private-MAC:[ \t]*[0-9a-fA-F]*")
_CUT_BODY: Final = re.compile(r"(?:\s|\\[nr]|[A-Za-z0-9+/=]{16,}+|(?:Proc-Type|DEK-Info|Version|Comment):[^\n]*+)*+")


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
    """Whether digits are a payment card's: an issuer's prefix, its length, and the Luhn sum."""
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
    """Whether a text is an international bank account number: its length and its check sum (ISO 13616)."""
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
# Both start with a class of characters, not with a look behind: that is what lets the search skip prose.
_CARD: Final = re.compile(
    r"[3-6](?<![A-Za-z0-9+_.-].)(?:\d{3}(?P<by>[ -]?)\d{4}(?P=by)\d{4}(?P=by)\d{4}"
    r"|\d{3}(?P<gap>[ -]?)\d{6}(?P=gap)\d{4,5}|\d{12}|\d{18})(?!\w|[.-]\d)",
    re.ASCII,
)
_IBAN: Final = re.compile(
    r"[A-Z](?<![A-Za-z0-9].)[A-Z]\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])", re.ASCII
)
_URL_PASSWORD: Final = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z0-9+.-]{2,20}://[^\s/?#@:]{0,256}+:(?P<secret>[^\s/]{1,256})@(?=[\w\[])"
)

TOKEN_RULES: Final[tuple[Rule, ...]] = (
    Rule("private key", ("PRIVATE KEY",), _blocks(_PEM_BEGIN, _PEM_END)),
    Rule("private key", ("PuTTY-User-Key-File-",), _blocks(_PUTTY_BEGIN, _PUTTY_END)),
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
    Rule("url password", ("://",), matches(_URL_PASSWORD)),
    Rule("card number", tuple("0123456789"), matches(_CARD, _is_card_number)),
    Rule("iban", tuple("0123456789"), matches(_IBAN, _is_iban)),
)
"""Tried in this order; where two overlap, the former gives the kind."""
