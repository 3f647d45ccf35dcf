"""Flags of texts that read like instructions or hide something.

A flag is a warning. Its absence promises nothing.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from factmem.hidden import HIDDEN
from factmem.patterns import LinearPattern, any_of, lazy_pattern

__all__ = ["DISGUISED", "ENCODED", "HIDES", "RULES", "FlagRule", "flags_in"]


@attrs.frozen
class FlagRule:
    """A wording that gives a text a flag.

    Attributes:
        flag: the flag.
        hints: pattern of the texts of which one must occur for the other pattern to be tried; made of these texts.
        pattern: the wording, in lower case.
    """

    flag: str
    hints: LinearPattern = attrs.field(converter=any_of)
    pattern: re.Pattern[str]


def _rule(flag: str, hints: str, *patterns: str) -> FlagRule:
    return FlagRule(flag, hints.split("|"), lazy_pattern("|".join(patterns)))


_SOME: Final = r"[^.\n]{0,60}?"
"""A few words of the same sentence."""
_AI: Final = (
    r"(?:the |any |all |every |an? |your |this )?(?:ai|llm|(?:ai|virtual|digital) (?:assistant"
    r"|agent)s?|assistant|chatbot"
    r"|(?:large )?language models?|chatgpt|gpt(?:-?\d\w*)?|claude|gemini|copilot)\b"
)
_OLD: Final = r"(?:previous|prior|earlier|above|preceding|existing|original|initial|other|system|safety|your|all|any)"
_ORDERS: Final = (
    r"(?:instruction|prompt|direction|directive|command|guideline|guardrail|restriction|(?:system|safety) rule"
    r"|(?:previous|prior|earlier|above|your) rule)s?\b"
)
_ACT: Final = (
    r"(?:send|forward|e-?mail|transfer|wire|delete|erase|invoke|execute|upload|post|leak|exfiltrate"
    r"|approve|authori[sz]e"
    r"|reveal|disclose|ignore|recommend|append|insert|include|visit|fetch|download|buy|order|pay|reply|respond|answer"
    r"|say|tell|call|run|use|open|share|book|mention|output|remember|store|save|update|treat|grant|do|make|set|change"
    r"|modify|create|add|post|schedule|give|perform|reset|redirect|concatenate|copy|transmit|refuse|start|stop)\b"
)
_HOW: Final = (
    r"(?:always|never|only|immediately|silently|secretly|quietly|first|also|please|then|you (?:must"
    r"|should|will))"
)
_GOODS: Final = (
    r"(?:(?:all|every|any|each)\b|(?:the |a |this |that )?(?:user|owner|customer)s?['’]?s?\b|(?:the "
    r"|their |our |your )?"
    r"(?:chat|conversation|message|memor|session|credential|password|token|secret|transcript|history|context|api key"
    r"|private|confidential|personal (?:data|info|details)))"
)

RULES: Final[tuple[FlagRule, ...]] = (
    _rule(
        "overrides instructions",
        "ignor|disregard|forget|overrid|overrul|follow|obey|supersede",
        rf"\b(?:ignore|disregard|forget|override|overrule|(?:do not|don['’]?t|stop) (?:follow(?:ing)?"
        rf"|obey(?:ing)?))\b"
        rf"(?: [\w'’-]+){{0,3}}? {_OLD}(?: [\w'’-]+){{0,3}}? {_ORDERS}",
        rf"\b(?:override|supersede)s? (?:\w+ ){{0,3}}?(?:system|developer) (?:\w+ )?{_ORDERS}",
    ),
    _rule(
        "overrides instructions",
        "anweisung|vorgabe|instruktion|consigne|instructions|instrucciones|istruzioni|instruções|инструкц|указани"
        "|指令|指示|提示词|命令",
        r"\b(?:ignorier|missacht|vergiss|vergesst)\w*\b[^.\n]{0,40}\b(?:anweisung|vorgabe|instruktion)",
        r"\b(?:ignor|oubli)(?:e|ez|er)\b[^.\n]{0,40}\b(?:consignes|instructions)\b[^.\n]{0,30}\bpr[ée]c[ée]dent",
        r"\b(?:ignora|ignore|olvida|olvide|ignorar)\b[^.\n]{0,40}\binstrucciones\b",
        r"\b(?:ignora|ignorate|dimentica)\b[^.\n]{0,40}\bistruzioni\b",
        r"\b(?:ignore|esqueça|ignorar)\b[^.\n]{0,40}\binstruções\b",
        r"\b(?:про)?(?:игнорир|забудь)\w*[^.\n]{0,40}(?:инструкц|указани)",
        r"(?:忽略|无视|無視|忘记|忘掉)[^。\n]{0,12}(?:指令|指示|提示词|命令)",
        r"(?:指示|命令|指令)[^。\n]{0,8}(?:無視|忘れ)",
    ),
    _rule(
        "changes the role",
        "you are now|you're now|do anything now|developer mode|jailb|unrestricted|freed from|no safety|no ethical"
        "|act as |full access|rights|privileges|permissions",
        r"\byou(?: are|['’]re) now (?:(?:in|an?|the|my) )?(?:dan\b|\w+ mode\b|unrestricted|jailbroken"
        r"|unfiltered|root|admin)",
        r"\bdo anything now\b",
        r"\bdeveloper mode (?:is )?(?:enabled|activated|on\b)",
        r"\b(?:an?|fully) (?:unrestricted|jailbroken|unfiltered|uncensored) (?:ai|assistant|model|mode|agent)\b",
        r"\bfreed? from (?:all|any|your) (?:\w+ )?(?:limitation|restriction|guideline|rule)s\b",
        r"\b(?:you|ai|assistant|model|agent)\b[^.\n]{0,30}\bno (?:safety|ethical|content) "
        r"(?:guidelines|restrictions|rules|filters|limits)\b",
        r"\bact as (?:an? |the )?(?:system |database )?(?:admin|administrator|root"
        r"|superuser)\b[^.\n]{0,20}\bfull access\b",
        r"\b(?:the|this|your) (?:ai |user['’]?s? )?(?:assistant|agent|model|bot) (?:now )?(?:has|is"
        r" granted|was granted) "
        r"(?:\w+ ){0,2}(?:administrator|admin|root|full|unrestricted|unlimited)\b",
    ),
    _rule(
        "wants secrets",
        "system prompt|instructions|credential|password|api key|secret|private key|token",
        r"\b(?:reveal|print|output|repeat|leak|disclose|exfiltrate|dump|divulge)\b[^.\n]{0,40}\b(?:system prompt"
        r"|(?:your|hidden|secret|internal) instructions|credentials|passwords|api keys?|private keys?"
        r"|access tokens)\b",
    ),
    _rule(
        "addresses the assistant",
        "assistant|chatbot|language model|llm|chatgpt|gpt|claude|gemini|copilot| ai|ai agent",
        rf"(?:^|[\n.!?\[\]<>*#(:;/\"'-] ?)(?:\w+ )?(?:note|todo|to-do|task|instructions?|message|memo"
        rf"|attention|reminder"
        rf"|notice|directive|order)s?[ :-]{{1,3}}(?:\w+ )?(?:to|for) {_AI}",
        rf"\b(?:dear|attention|hey|hello|important),?:? (?:all |any )?(?:ai|llm|(?:ai|virtual) (?:assistant|agent)s?"
        rf"|language models?)\b[^.\n]{{0,80}}\b(?:must|should|please|need to|{_ACT})",
        rf"\b(?:ai (?:assistant|agent)s?|llms?|the (?:ai )?assistant|language models?)(?: reading (?:this|it)\w*)? "
        rf"(?:must|shall|is to|are to|is required to|has to|should (?:always|immediately|now|first|never))"
        rf"(?: \w+)? {_ACT}",
        rf"\bif you(?: are|['’]re) (?:an? |the )?(?:ai|llm|(?:ai |virtual )?(?:assistant|agent)|language"
        rf" model)\b[^.\n]"
        rf"{{0,40}}(?:{_HOW}|{_ACT})",
    ),
    _rule(
        "interrupts the task",
        "before you|message from me|do the following|new task|new instructions|instead, you|your real",
        r"\bbefore you (?:can |may )?(?:solve|continue|proceed|complete|answer|reply|respond|finish)\b[^.\n]{0,60}"
        r"\b(?:do the following|you must|make sure to)\b",
        r"\bmessage from (?:me|your (?:user|owner|developer|creator|administrator|admin"
        r"|operator))\b[^.\n]{0,60}\bto you\b",
        r"\b(?:your|the) (?:new|real|true|actual) (?:task|instructions?|objective|goal) (?:is|are)(?:"
        r" now)?:? (?:to )?"
        rf"(?:{_HOW} )?{_ACT}",
    ),
    _rule(
        "standing order",
        "from now on|from this point|going forward|henceforth|in all future|in every|directive|standing|permanent"
        "|memor|ab jetzt|désormais|a partir de ahora",
        rf"\b(?:from now on|from this (?:point|moment) (?:on|forward)|henceforth|going forward|in (?:all"
        rf"|every) (?:future|"
        rf"your|later|subsequent) \w+),? (?:and \w+ )?(?:the assistant |it is )?{_HOW}(?: \w+){{0,2}}? {_ACT}",
        rf"\b(?:from now on|henceforth),? {_ACT}{_SOME}\b(?:every|always|whenever|each time|without|to"
        rf" https?:|to \S+@)",
        rf"\balways {_ACT}[^.\n]{{0,200}}\b(?:in (?:every|all) (?:future |later )?(?:conversation|chat"
        rf"|session|response|answer"
        r"|repl|message)\w*|from now on)\b",
        r"\bas an? (?:[\w-]+ ){0,3}?(?:system|standing|permanent|persistent|core|global|top-level) (?:directive"
        r"|instruction|rule|order|command|policy)\b",
        r"\b(?:save|store|write|add|commit|record|persist|remember|update)\b[^.\n]{0,80}?\b(?:to|in|into"
        r"|as) (?:your|the "
        r"(?:assistant|agent|ai|model|bot)(?:['’]s)?) (?:[\w-]+ ){0,2}memor(?:y|ies)\b",
        r"\bab jetzt (?:immer|nie)\b|\bdésormais,? (?:toujours|jamais|tu (?:dois|vas))\b"
        r"|\ba partir de ahora,? (?:siempre|nunca|debes)\b",
    ),
    _rule(
        "waits for a trigger",
        "user|human|operator|customer|whenever|next time|somebody|someone|anyone|conversation|session",
        rf"\b(?:when(?:ever)?|every time|each time|as soon as|if|once|next time|after) (?:the |a |this"
        rf" )?(?:user|human"
        rf"|operator|owner|customer)s? (?:next |later |ever )?(?:asks?|says?|mentions?|types?|writes?"
        rf"|thanks|replies|agrees"
        rf"|confirms|talks|brings? up|inquires?|wants|greets)\b[^.\n]{{0,80}}?(?:,|\bthen|\byou\b) "
        rf"(?:{_HOW} )*{_ACT}",
        rf"\b{_ACT}{_SOME}\b(?:whenever|every time|each time|as soon as|the next time) (?:the |a"
        rf" )?(?:user|human|operator"
        r"|owner)\b",
        rf"\b(?:in|at) (?:the|your) (?:next|following|later) (?:conversation|session|chat)s?,? (?:{_HOW} )*{_ACT}",
    ),
    _rule(
        "sends data away",
        "http|www.|@",
        rf"\b(?:send|forward|post|upload|transmit|exfiltrate|leak|e-?mail|submit|bcc|copy|append|report|deliver)\b"
        rf"(?: \w+){{0,2}}? {_GOODS}[^\n]{{0,80}}?\b(?:to|at|via|through|on)\b[^\n]{{0,20}}?"
        rf"(?:https?://|www\.|\b[\w.+-]+@[\w-]+\.\w)",
        rf"\b(?:append|attach|encode|put|include)\b(?: \w+){{0,2}}? {_GOODS}[^\n]{{0,80}}\b(?:url|query|link|image)\b"
        r"[^\n]{0,60}https?://",
    ),
    _rule(
        "avoids the user's notice",
        "without|skip|bypass|disable|never ask|ask|tell|inform|notify|mention|alert",
        r"\b(?:approve|transfer|wire|execute|delete|export|pay|authori[sz]e|grant|forward|purchase)\b[^.\n]{0,60}"
        r"\bwithout (?:asking|telling|informing|notifying|checking|review|approval|confirmation|(?:any "
        r"|further |user "
        r"|operator |human |prior )+(?:review|approval|confirmation|consent|verification))",
        r"\b(?:skip|bypass|circumvent|disable|never ask(?: \w+){0,3} for|(?:do not|don['’]t) ask(?: \w+){0,3} for)\b"
        r"(?: [\w'’-]+){0,3}? (?:(?:user|operator|human|security|safety) (?:confirmation|approval"
        r"|checks?|filters?|reviews?"
        r"|verification|controls?)|(?:confirmation|approval|consent)\b)",
        r"\b(?:bypass|circumvent|disable) (?:every|all|any) (?:\w+ )?(?:check|filter|control|restriction"
        r"|safeguard)s?\b",
        r"\b(?:do not|don['’]t|never) (?:tell|inform|notify|alert|mention (?:this|it) to|reveal (?:this"
        r"|it) to|show (?:this"
        r"|it) to) (?:the |your )?(?:user|human|operator|owner)\b",
    ),
    _rule(
        "role marker",
        "<|im_|inst]|sys>>|system|developer|###|human:|assistant:|<important|<information|<admin|</",
        r"<\|[a-z_]{2,30}(?:\|>|:)",
        r"\[/?inst\]|<</?sys>>",
        r"</?(?:important|information|system|system[_-]?prompt|system[_-]?message|admin|developer"
        r"|instructions?|assistant"
        r"|conversation|document|memory|tool_results?|fact|statement)(?: [^<>\n]{0,200})?>",
        r"(?:^|[\n.!?\]] ?)\[?(?:system|developer|admin)(?: (?:message|prompt|override|notice|note"
        r"|update))?\]?: ?(?:you |ignore"
        r"|disregard|new |from now|always|never|the (?:user|assistant)|override|do not|don['’]t|important|act )",
        r"(?:^|\n)#{2,4} ?(?:system|instructions?|human|assistant|response):",
        r"\n\n(?:human|assistant): ",
    ),
    _rule(
        "tool call",
        "tool|function_call|invoke|recipient_name",
        r"<(?:tool_call|tool_use|function_calls?|invoke|antml:\w+|function=)\b",
        r"[\"'](?:tool_calls|function_call|tool_use|tool_name|recipient_name)[\"']\s*:",
        r"\bto=(?:functions|tools?)[.\w]*",
        r"\b(?:call|use|invoke|run|execute) (?:the|your) (?:[`\"'][a-z][\w.-]{2,40}[`\"']|[a-z]+_\w{2,40}) tool\b",
    ),
    _rule(
        "link that carries data",
        "![|<img|](http",
        r"!\[[^\]\n]{0,200}\]\(\s*https?://[^)\s]{1,500}[?&][\w.-]{1,40}=[^)\s]*",
        r"<img\b[^>\n]{0,200}\bsrc\s*=\s*[\"']?https?://[^\"'>\s]{1,500}[?&][\w.-]{1,40}=",
        r"\]\(\s*https?://[^)\s]{1,500}[?&/=](?:\{|%7b|<|\[)[^)\n]{0,100}\)",
    ),
)

_HINTS: Final = LinearPattern("|".join(rule.hints.pattern for rule in RULES))
"""Hints of all rules; ordinary texts hold none."""

HIDES: Final = "hidden characters"
"""Flag of a text with characters that models read or terminals obey, and people do not see."""
ENCODED: Final = "encoded text"
"""Flag of a text that holds another one in base64 or hexadecimal digits."""
DISGUISED: Final = "disguised letters"
"""Flag of a text with words of look-alike letters from several scripts."""

_SMUGGLED: Final = lazy_pattern(
    "[\u202d\u202e]|[\u200b-\u200d\u2060-\u2064\ufeff]{4}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3}"
    "|\U000e0001|(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0020-\U000e007f]"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]"
)
_BLOB: Final = lazy_pattern(r"(?<![\w+/=])(?:[A-Za-z0-9+/]{4}){8,}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?(?![\w+/])")
_DIGITS: Final = lazy_pattern(r"(?<!\w)(?:[0-9a-fA-F]{2}){20,}(?!\w)")
_MIXED: Final = lazy_pattern(
    "[a-z][\u0430-\u044f\u0451-\u045f\u03b1-\u03c9]+[a-z]|[\u0430-\u044f][a-z]+[\u0430-\u044f]"
)
_SPACES: Final = lazy_pattern(r"[ \t]{2,}|\r\n?")
_LONG_WORD: Final = LinearPattern("[A-Za-z0-9+/]{32}")
"""Part of every encoded text."""
_DEEPEST: Final = 2


def flags_in(*texts: str) -> tuple[str, ...]:
    """Return the flags of some texts, each once; none for ordinary texts.

    Two kinds of texts are flagged. The first gives orders to an assistant, in English and in the plainest wordings of
    some other languages: to override its instructions, to wait for a trigger, to send data away, to keep the user in
    the dark. The second hides something: invisible and control characters, encoded text, role markers, tool calls,
    images whose address carries data.

    It takes time linear in the text, some ten microseconds for an ordinary message, and neither logs nor raises. An
    author who knows the rules can avoid every flag: protection against planted words is the task of `factmem.Origin`,
    to which flags only add.
    """
    return tuple(dict.fromkeys(flag for text in dict.fromkeys(texts) for flag in _flags(text)))


def _flags(text: str, depth: int = 0) -> Iterator[str]:
    lowered, ascii_only = text.lower(), text.isascii()
    if not ascii_only:
        if _MIXED.search(lowered):
            yield DISGUISED
        lowered = unicodedata.normalize("NFKC", HIDDEN.sub("", text)).lower()
    if not (ascii_only and text.replace("\n", "").isprintable()) and _SMUGGLED.search(text):
        yield HIDES
    plain = _SPACES.sub(_one, lowered) if _has_unusual_spaces(lowered) else lowered
    if _HINTS.occurs_in(plain):
        for rule in RULES:
            if rule.hints.occurs_in(plain) and rule.pattern.search(plain):
                yield rule.flag
    if _LONG_WORD.occurs_in(text):
        for inner in _decoded(text):
            yield ENCODED
            if depth < _DEEPEST:
                yield from _flags(inner, depth + 1)


def _has_unusual_spaces(text: str) -> bool:
    """Return whether `_SPACES` may match in a text."""
    return "  " in text or "\t" in text or "\r" in text


def _one(spaces: re.Match[str]) -> str:
    return "\n" if spaces[0][0] == "\r" else " "


def _decoded(text: str) -> Iterable[str]:
    """Return the texts that are encoded in a text. Encoded data that is not text, such as an image, is left out."""
    blobs = (_from_base64(found[0]) for found in _BLOB.finditer(text))
    digits = (bytes.fromhex(found[0]) for found in _DIGITS.finditer(text))
    return [words for data in (*blobs, *digits) if (words := _words(data)) is not None]


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


def _words(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if " " in text.strip() and text.replace("\n", " ").isprintable() else None
