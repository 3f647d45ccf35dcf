"""Estimation of passphrases: whether a patient attacker with the key file would guess one."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

SHORTEST: Final = 16
"""Fewest characters of a passphrase, not counting what is easy to guess."""

SHORTEST_OF_THREE_KINDS: Final = 12
"""Fewest characters if three kinds are among them: lower case, upper case, digits, others."""

_WORTH: Final = 2
"""Characters that a common word, a repetition or a run counts for."""

_FEWEST_DIFFERENT: Final = 6

_COMMON: Final = """
correct horse battery staple correcthorsebatterystaple password passw0rd p@ssw0rd p@ssword passphrase passwort
motdepasse contraseña senha secret geheim letmein iloveyou welcome willkommen qwerty qwertz azerty asdfgh yxcvbn
zxcvbn 1q2w3e4r 1qaz2wsx q1w2e3r4 dragon monkey sunshine princess football baseball basketball master superman
batman shadow michael jessica ashley charlie admin administrator root login user guest default changeme example test
testing hello access trustno1 whatever freedom starwars pokemon computer internet google facebook microsoft apple
samsung factmem memory summer winter spring autumn january february march april june july august september october
november december monday tuesday wednesday thursday friday saturday sunday love money lorem ipsum dolor the quick
brown fox jumps over lazy dog to be or not that is question
"""
"""Common passwords and words of famous phrases."""

_RUNS: Final = """
abcdefghijklmnopqrstuvwxyz 01234567890 qwertyuiop qwertzuiop azertyuiop asdfghjkl zxcvbnm yxcvbnm
"""
"""Runs of the alphabet, of digits and of keyboards."""

_RUN_LENGTH: Final = 4
_REPEATED: Final = re.compile(r"(.{1,16}?)\1{2,}|(.{3,32})\2+")
_STAND_IN: Final = "\0" * _WORTH


def is_weak(words: str) -> bool:
    """Return whether a passphrase is too easy to guess for a key that lies beside the store.

    Common passwords and words of famous phrases, repetitions, and runs of the alphabet or keyboard count for two
    characters each.
    """
    text = unicodedata.normalize("NFC", words).strip()
    kinds = {_kind(character) for character in text}
    left = _without_the_guessable(text.casefold())
    shortest = SHORTEST_OF_THREE_KINDS if len(kinds) >= 3 else SHORTEST
    return len(left) < shortest or len(set(left)) < _FEWEST_DIFFERENT


def _without_the_guessable(text: str) -> str:
    text = _REPEATED.sub(lambda match: (match[1] or match[2]) + _STAND_IN, text[:1000])
    for run in sorted(_runs(), key=len, reverse=True):
        text = text.replace(run, _STAND_IN)
    for word in sorted(_COMMON.split(), key=len, reverse=True):
        if len(word) > _WORTH:
            text = re.sub(rf"\b{re.escape(word)}\b" if len(word) < _RUN_LENGTH else re.escape(word), _STAND_IN, text)
    return text


def _runs() -> set[str]:
    both = [*_RUNS.split(), *_RUNS[::-1].split()]
    return {
        run[start : start + length]
        for run in both
        for start in range(len(run))
        for length in range(_RUN_LENGTH, len(run) - start + 1)
    }


def _kind(character: str) -> str:
    if character.isdigit():
        return "digit"
    if character.islower():
        return "lower"
    return "upper" if character.isupper() else "other"
