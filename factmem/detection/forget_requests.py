"""Requests to forget: whether a passage asks for something to be forgotten."""

from __future__ import annotations

from typing import Final

from factmem.detection.passages import Passage, word_set
from factmem.detection.polarity import stance_of
from factmem.detection.stances import Leaning, Stance

__all__ = ["asks_to_forget"]

_FORGETS: Final = word_set(
    "forget forgot delet remov eras drop discard clear wipe scratch ignor disregard purg rid unrememb retract"
    " undo strike vergiss vergesst vergessen lösche losche lösch oublie oubliez efface supprime olvida olvide"
    " borra elimina dimentica cancella esquece esqueca apaga vergeet verwijder glöm radera glem slett zapomnij"
    " usuń забудь забудьте удали удалите"
)
_FORGETS_UNSPACED: Final = ("忘れ", "忘记", "忘掉", "忘記", "删除", "刪除", "消して", "잊어", "삭제")


def asks_to_forget(passage: Passage) -> Stance:
    """Return how a passage holds a request to forget."""
    places = [at for at, word in enumerate(passage.words) if word.stem in _FORGETS or word.text in _FORGETS]
    places += [at for at, word in enumerate(passage.words) if any(sign in word.text for sign in _FORGETS_UNSPACED)]
    texts = [word.text for word in passage.words]
    places += [
        at + 1
        for at, text in enumerate(texts[:-1])
        if (text in ("don't", "stop", "not", "longer") and texts[at + 1].startswith("remember"))
        or (text == "longer" and texts[at + 1] in ("save", "keep", "store"))
    ]
    held = []
    for at in places:
        stance = stance_of(passage, at, at, Leaning(loose=True))
        denies = texts[at].startswith("remember")
        held.append(
            {Stance.DENIED: Stance.STATED, Stance.STATED: Stance.NOT_SAID}.get(stance, stance) if denies else stance
        )
    return min(held, default=Stance.NOT_SAID)
