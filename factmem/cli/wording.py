"""What the library says to programmers, in the words of the command line."""

from __future__ import annotations

from typing import Final

from factmem.errors import FactMemError

__all__ = ["in_words", "sentence"]

_ON_THE_COMMAND_LINE: Final = (
    (", or open the memory with future=FuturePolicy.HOLD (at $.timestamp)", ", or leave it out to say now"),
    ("see list()", "`list` shows them"),
    ("hand in its next_page (at $.page)", "give the one that the page before names"),
    ("is base_url right?", "is its address right?"),
    ("look at the model's name and base_url", "look at the model's name and address"),
    ("set the key's environment variable or pass api_key=", "set the key's environment variable"),
    (": try later or raise timeout=", ": try later"),
    ("ask a larger model, set another mode=, or allow more tries=", "ask a larger model"),
    ("set another mode=, lower max_chars or look at the model's name", "look at the model's name"),
    ("ask about less at once (max_chars=) or allow longer answers (max_tokens=)", "hand in less at once"),
    ("key=SecretKey(...) or Passphrase(...), or one of key_env=", "one of key_env="),
)
"""What an error says, and what people should read instead."""


def in_words(error: FactMemError) -> str:
    """Return what an error says, for people who do not call functions."""
    text = str(error)
    for said, meant in _ON_THE_COMMAND_LINE:
        text = text.replace(said, meant)
    return text


def sentence(error: FactMemError) -> str:
    """Return what an error says, as a sentence that another one may follow."""
    text = in_words(error)
    return text if text.endswith((".", "?", "!")) else f"{text}."
