"""Polarity: whether a sentence states what it mentions, denies it, asks for it, or quotes somebody else.

The rules are those of English sentences, clause by clause. A clause ends at a comma, a colon, a bracket, a dash, at
"but" and its kin, and at "and" before a new subject.

- *Quoted*: it stands between quotation marks or behind ``>``, unless the marks only set off a name ("Rex"), or the
  speaker quotes themselves ("I said ...").
- *Asked*: it stands in a clause that asks. A request asks for nothing that is unknown ("can you book 12 seats?"), and
  what a question takes for granted is stated ("where can I walk my dog Rex?").
- *Denied*: an odd number of negations bears on it: "not", "never", "no longer", "instead of", "used to", "from ... to".
  Negations of verbs of thinking and saying are sorted ("don't forget that I ..." states). A list goes on being
  denied up to its "or"; a contrast does not ("not in Oslo, in Bergen").
- *Unclear*: it is supposed ("if I lived in Oslo"), doubted ("it claims that", "..., right?"), or denied in a language
  whose grammar is not known here.

`Leaning` tells what the concept is about: a dislike, an allergy or a former home is stated by a denial.
"""

from __future__ import annotations

import bisect
import enum
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from factmem.detection.passages import STOPS, Passage, Word, word_set, words_of
from factmem.stemming import stemmer

__all__ = ["Leaning", "Stance", "negations_in", "stance_of"]


class Stance(enum.IntEnum):
    """Stance of a passage towards a value, the best first."""

    STATED = 0
    UNCLEAR = 1
    DENIED = 2
    ASKED = 3
    QUOTED = 4
    NOT_SAID = 5


_SUBJECTS: Final = word_set(
    "i we he she they it you who i'm i've i'd i'll we're we've we'd we'll he's she's it's they're"
)
_OWN: Final = word_set("my our mine ours")
_NOT: Final = word_set(
    "not never no nor neither none nobody nothing without cannot dont doesnt didnt isnt arent wasnt werent wont"
    " cant hardly barely nowhere non ain't aint ex-"
)
_UNBEARABLE: Final = ("can't stand", "cannot stand", "couldn't stand", "can't bear", "cannot bear", "can't abide")
_HARMLESS: Final = (
    *("not only", "not just", "not merely", "no doubt", "no problem", "no worries", "no matter", "no question"),
    *(
        "never mind",
        "not to mention",
        "no less than",
        "no more than",
        "no fewer than",
        "not more than",
        "not less than",
    ),
    *(
        "nothing beats",
        "nobody beats",
        "nothing better than",
        "why not",
        "can't wait",
        "cannot wait",
        "can not wait",
        "no later than",
        "not later than",
        "no earlier than",
    ),
    *("can't help", "don't worry", "do not worry", "nothing but", "none other than", "if not", "whether or not"),
    *("not bad", "can't complain", "won't lie", "not gonna lie", "not going to lie", "no idea why"),
    *("couldn't be happier", "can't believe", "cannot believe", "couldn't believe", "never been better", "no rush"),
    *("can't go wrong", "no thanks", "no thank", "not exceed", "not exceeding", "not to exceed", "without fail"),
    *_UNBEARABLE,
    *("without doubt", "without question", "not long ago", "no biggie", "no pressure", "don't mind"),
)
"""Phrases with a negation that denies nothing behind it."""
_INSTEAD: Final = (
    *("no longer", "instead of", "rather than", "other than", "anything but", "except for", "apart from", "far from"),
    *(
        "not any more",
        "used to",
        "stopped being",
        "moved away from",
        "moved out of",
        "got rid of",
        "gave up",
        "give up",
    ),
    *("fired by", "fired from", "laid off by", "laid off from", "turned down", "turn down", "broke up with"),
    *("false that", "false to", "wrong that", "wrong to", "untrue that", "a lie", "incorrect that", "incorrect to"),
    *("nothing like", "not any more", "opposed to", "aside from", "all but"),
)
"""Phrases that deny what follows."""
_ENDED: Final = word_set(
    "formerly previously former except unlike excluding quit quitting stopped stop cancelled canceled cancel sold"
    " replaced abandoned drop dropped ditch ditched unsubscribed deleted removed lost refused rejected resigned"
    " divorced"
)
"""Words that say of what follows that it is over, or is not so."""
_LEFT_BY: Final = word_set("i we i've we've have had just recently he she they finally already has")
_CHANGES: Final = word_set(
    "moved move moving switched switch changed change went go migrated migrate upgraded upgrade downgraded downgrade"
    " renamed relocated increased increase raised cut rescheduled postponed pushed transferred reduced bumped lowered"
    " grew"
)
_DISLIKED: Final = word_set(
    "hate hated hates hating dislike disliked dislikes detest loathe despise avoid avoiding avoids abhor allergic"
    " intolerant sick tired overrated worst terrible awful disgusting unlike skip"
)
_FORGOTTEN: Final = word_set(
    "forget forgot tell told mention mentioned mind realise realised realize realized remember regret regretted"
    " care overlook miss ignore doubt know knew known"
)
"""Verbs that leave true what follows them, denied or not."""
_BELIEVED: Final = word_set(
    "think thought believe say said guess suppose mean want wanted need feel expect recall wish claim agree see"
    " be let have like"
)
"""Verbs whose denial denies what follows them."""
_SUPPOSED: Final = word_set(
    "if unless whether suppose supposing imagine imagining pretend pretending assuming hypothetically wish wished"
    " might considering tried allegedly supposedly dreaming dreamt dreamed lest"
)
_SUPPOSED_BY: Final = (
    *(
        "thinking of",
        "thinking about",
        "think about",
        "thought about",
        "thought of",
        "looked at",
        "not sure",
        "no idea",
        "as if",
        "would have",
        "could have",
    ),
    *(
        "people think",
        "they think",
        "they say",
        "some say",
        "tempted to",
        "dream of",
        "almost",
        "nearly",
        "for example",
        "for instance",
        "what if",
        "say that",
    ),
)
_CLAIMS: Final = word_set(
    "claims claim claimed claiming pretends alleges alleged insinuates supposedly rumours rumors rumour thinks"
    " believes assumes"
)
_COPULAS: Final = word_set("is was are were isn't wasn't aren't weren't would might could")
_BACK: Final = word_set("it them there him her")
_WRONG: Final = word_set("wrong incorrect false untrue outdated obsolete")
_WRITTEN: Final = word_set(
    "page mail email e-mail letter message site website document text article post note file ad tool result pdf"
    " sms spam form profile system assistant bot ai chatgpt model screenshot wiki report"
)
_FORWARD: Final = word_set(
    "plan goal wish dream idea intent intention consider trip destin travel next futur target hope want interest"
    " aspir desir option candid"
)
_ASKING: Final = word_set(
    "do does did am is are was were should could can would will have has had what where who when why how which"
    " whose whom what's where's who's how's isn't aren't don't doesn't didn't wasn't weren't shouldn't couldn't"
    " can't won't wouldn't haven't hasn't shall may whats hows"
)
_INVERTED: Final = word_set(
    "do does did am is are was were should could can would will have has had shall don't isn't aren't"
)
_OF_QUESTIONS: Final = word_set("what where who when why how which whose what's where's who's how's whats")
_AFTER_AUXILIARY: Final = word_set("i we my our you he she they it this that there the your his her")
_FILLERS: Final = word_set(
    "so and but hey hi hello well ok okay please also or oh then um hmm actually btw thanks sorry again"
)
_OF_KNOWING: Final = word_set(
    "tell explain check find show know remind confirm look say guess see verify think recommend suggest describe"
    " help believe remember recall ask answer list define compare believe imagine"
)
_ORDERS: Final = word_set("get have book order reserve take make set change switch use schedule keep add")
_PROPOSALS: Final = ("shall we", "how about", "what about", "why don't", "why not")
_TAGS_OF_DOUBT: Final = word_set(
    "right correct no true isn't don't aren't wasn't is am are do does did was were didn't doesn't huh"
)
_DOUBTED: Final = word_set(
    "true right correct scam real legit legitimate fake lie false wrong accurate spam joke so phishing"
)
_BREAKS: Final = word_set(
    "but however although though while whereas because since yet so which despite plus hence therefore"
) | frozenset(',;:()–—-[]…|/"“”')
_PAST: Final = word_set(
    "former previous past old ex earlier last histor prior origin born birth childhood quit left end cancel"
)
_AGAINST: Final = word_set(
    "dislik hate avoid allergi allerg intoler restrict exclud forbidden not never no without ban refus unwant"
    " cannot don't doesn't can't block opt disabl remov limit taboo except fear phobia annoy"
)
_LIKING: Final = word_set("favourit favorit like love prefer prefere enjoy hobbi interest want fan")
_REPORTS: Final = word_set(
    "says said say wrote writes write claims reads read states stated told replied goes texted mailed asked asks"
)
_SPEAKERS: Final = word_set("i we i've i'd")
_NAMING: Final = word_set(
    "called named titled is are as song book film movie motto nickname alias title word name handle username"
    " project label tag team band play game known at in for my the to of and"
)
_NEGATED_ABROAD: Final = word_set(
    "nicht kein keine keinen keinem keiner nie niemals pas jamais aucun aucune plus nunca jamas tampoco non mai"
    " nessun nessuna nao não nenhum nem niet geen nooit inte aldrig ikke aldri ingen nie niemal не нет никогда ни"
    " нельзя no ne sin ohne sans senza sem zonder utan bez без ei"
)
_NEGATED_UNSPACED: Final = (
    "不",
    "没",
    "沒",
    "無",
    "无",
    "别",
    "非",
    "未",
    "ない",
    "ません",
    "なく",
    "않",
    "아니",
    "못",
    "안 ",
)
_FAR: Final = 40
"""Maximum number of words between a mention and what bears on it."""


@attrs.frozen(kw_only=True)
class Leaning:
    """The bearing of a concept on the polarity of what is said about it.

    Attributes:
        stems: the stems of its keyword and its description.
        against: whether its values are what somebody does not want, or cannot have.
        past: whether its values may be over.
        liking: whether its values are liked.
        forward: whether its values may be plans.
        loose: whether its values are sentences, which tell of supposing and asking themselves.
    """

    stems: frozenset[str] = frozenset()
    against: bool = False
    past: bool = False
    liking: bool = False
    forward: bool = False
    loose: bool = False

    @classmethod
    def of(cls, *texts: str, loose: bool = False) -> Leaning:
        """Return the leaning of a concept with some texts: its keyword and its description."""
        stem = stemmer()
        words = [word.text for text in texts for word in words_of(text.replace("_", " ").replace("-", " "))]
        stems = frozenset(stem(word) for word in words) | frozenset(words)
        return cls(
            stems=stems,
            against=bool(stems & _AGAINST),
            past=bool(stems & _PAST),
            liking=bool(stems & _LIKING),
            forward=bool(stems & _FORWARD),
            loose=loose,
        )


def stance_of(passage: Passage, first: int, last: int, leaning: Leaning) -> Stance:
    """Return how a passage holds the words from one position to another.

    Args:
        passage: the passage.
        first: position of the first word.
        last: position of the last word.
        leaning: the leaning of the concept.
    """
    clause = _Clause(passage, first, last, leaning)
    if clause.is_quotation():
        return Stance.QUOTED
    if (asked := clause.asked()) is not Stance.STATED:
        return asked
    if passage.is_fenced(first):
        return Stance.UNCLEAR
    if passage.is_foreign:
        return Stance.UNCLEAR if clause.is_denied_abroad() else Stance.STATED
    denied = clause.denied()
    return denied if denied is not Stance.STATED else clause.supposed()


def negations_in(words: Iterable[Word]) -> int:
    """Return the number of negations in a text: "does not eat meat" has one."""
    texts = [word.text for word in words]
    harmless = _phrases(texts, _HARMLESS)
    single = sum(_is_not(text) for at, text in enumerate(texts) if at not in harmless)
    return single + len(_phrases(texts, ("used to", "instead of", "rather than"))) // 2


def _is_not(text: str) -> bool:
    return text in _NOT or text.endswith("n't")


def _phrases(texts: Sequence[str], phrases: Iterable[str]) -> set[int]:
    """Return the positions that belong to one of some phrases."""
    found: set[int] = set()
    for phrase, at in _starts(texts, _by_first(tuple(phrases))):
        found.update(range(at, at + len(phrase)))
    return found


def _starts(texts: Sequence[str], phrases: dict[str, list[list[str]]]) -> Iterator[tuple[list[str], int]]:
    for at, text in enumerate(texts):
        yield from ((phrase, at) for phrase in phrases.get(text, ()) if texts[at : at + len(phrase)] == phrase)


@functools.lru_cache(maxsize=32)
def _by_first(phrases: tuple[str, ...]) -> dict[str, list[list[str]]]:
    grouped: dict[str, list[list[str]]] = {}
    for phrase in phrases:
        grouped.setdefault(phrase.split()[0], []).append(phrase.split())
    return grouped


@attrs.frozen
class _Clause:
    """The clause of a mention."""

    passage: Passage
    first: int
    last: int
    leaning: Leaning

    def _text(self, at: int) -> str:
        return self.passage.words[at].text if 0 <= at < len(self.passage.words) else ""

    def _texts(self, first: int, last: int) -> list[str]:
        return [word.text for word in self.passage.words[max(0, first) : max(0, last)]]

    def _breaks(self, at: int) -> bool:
        """Return whether a clause ends before or at the word at a position."""
        text = self._text(at)
        if text == "\n":
            following = self.passage.words[at + 1] if at + 1 < len(self.passage.words) else None
            return following is None or following.is_name or not following.text[:1].isalpha()
        if text == "instead":
            return self._text(at + 1) != "of"
        if text == "but" and self._text(at - 1) in ("anything", "nothing", "all", "everything", "none", "anywhere"):
            return False
        if text in _BREAKS or text in STOPS:
            return not self.passage.is_within_word(at)
        return text in ("and", "then") and self._text(at + 1) in _SUBJECTS | _OWN

    @functools.cached_property
    def _start(self) -> int:
        at = self.first
        while at > max(0, self.first - _FAR) and not self._breaks(at - 1):
            at -= 1
        return at

    @functools.cached_property
    def _end(self) -> int:
        """The position behind the clause."""
        at = self.last + 1
        while at < min(len(self.passage.words), self.last + _FAR) and not self._breaks(at):
            at += 1
        return at

    @functools.cached_property
    def _sentence(self) -> tuple[int, int]:
        """The positions of the first word of the sentence and of its last mark."""
        stops = self.passage.stops
        before, behind = bisect.bisect_left(stops, self.first), bisect.bisect_right(stops, self.last)
        first = stops[before - 1] + 1 if before else 0
        return first, stops[behind] if behind < len(stops) else len(self.passage.words)

    # Quotation

    def is_quotation(self) -> bool:
        found = self.passage.quotation_at(self.first)
        if found is None:
            return False
        passage = self.passage
        inner = [word for word in passage.words if found[0] <= word.start and word.end <= found[1] and not word.is_mark]
        before = [word.text for word in passage.words if word.end <= found[0] and not word.is_mark][-4:]
        if self._is_line(found):
            return True
        if not before:
            return not self._names(inner)
        if self.leaning.loose and before[-1] in _NAMING and not set(before) & _REPORTS:
            return False
        if set(before) & _REPORTS:
            return not set(before) & _SPEAKERS
        return not (before[-1] in _NAMING and self._covers(inner)) and not self._names(inner)

    def _is_line(self, span: tuple[int, int]) -> bool:
        return self.passage.text[span[0] : span[1]].lstrip().startswith(">")

    def _covers(self, inner: Sequence[Word]) -> bool:
        return 2 * (self.last - self.first + 1) >= len(inner)

    def _names(self, inner: Sequence[Word]) -> bool:
        """Return whether words between quotation marks are a name rather than a sentence."""
        texts = {word.text for word in inner}
        return len(inner) <= min(4, self.last - self.first + 2) and not texts & (
            _SUBJECTS | _INVERTED | {"my", "user", "user's", "your"}
        )

    # Questions

    def asked(self) -> Stance:
        """Return whether the clause asks: ASKED, UNCLEAR, or else STATED."""
        first, last = self._sentence
        opening = self._opening(first)
        marked = self._text(last) in ("?", "？")
        if self.leaning.loose and not marked:
            return Stance.STATED
        if not marked:
            asks = self._is_inverted(opening) and not self._requests(opening) and self._start <= opening
            return Stance.ASKED if asks else Stance.STATED
        if self.passage.is_foreign:
            return Stance.UNCLEAR
        return self._asked_with_mark(opening, last)

    def _asked_with_mark(self, opening: int, last: int) -> Stance:
        own = self._opening(self._start)
        if any(not word.is_mark for word in self.passage.words[self._end : last]):
            if self._asks_at(own) or (self._lacks_subject(own) and self._asks_at(opening) and own != opening):
                return self._unless_granted(opening)
            return Stance.UNCLEAR if self._is_doubted(self._end, last) else Stance.STATED
        return self._unless_granted(own if self._asks_at(own) else opening)

    def _unless_granted(self, opening: int) -> Stance:
        proposed = f"{self._text(opening)} {self._text(opening + 1)}" in _PROPOSALS
        first, last = self._sentence
        topic = (
            last - first <= 2 and self.passage.words[min(last, len(self.passage.words) - 1)].end < self.passage.quote[1]
        )
        if proposed or topic:  # "how about Friday?", "Olives? Can't stand them."
            return Stance.UNCLEAR
        if self._requests(opening) or self._is_granted(opening):
            return Stance.STATED
        return Stance.ASKED

    def _opening(self, at: int) -> int:
        while self._text(at) in _FILLERS or self._text(at) in (",", '"', "'", "¿", "-", "\n"):
            at += 1
        return at

    def _asks_at(self, at: int) -> bool:
        return self._text(at) in _ASKING

    def _is_inverted(self, at: int) -> bool:
        if self._text(at) in _OF_QUESTIONS:
            return self._text(at + 1) in _INVERTED or self._text(at).endswith("'s")
        return self._text(at) in _INVERTED and self._text(at + 1) in _AFTER_AUXILIARY

    def _lacks_subject(self, at: int) -> bool:
        return not set(self._texts(at, self.first)) & (_SUBJECTS | _OWN)

    def _requests(self, at: int) -> bool:
        """Return whether a sentence is a request: "could you please book ...", which states what is wanted."""
        if self._text(at) == "please":
            return True
        if self._text(at) not in word_set("can could would will may"):
            return False
        if self._text(at + 1) in ("i", "we"):
            return self._text(at + 2) in _ORDERS and self._text(at + 3) != "to"
        if self._text(at + 1) != "you":
            return False
        verb = (
            self._text(at + 2)
            if self._text(at + 2) not in ("please", "kindly", "also", "maybe")
            else self._text(at + 3)
        )
        return verb not in _OF_KNOWING

    def _is_granted(self, opening: int) -> bool:
        """Return whether a question takes the mention for granted: "where can I walk my dog Rex?"."""
        before = self._texts(max(opening, self.first - 6), self.first)
        owned = [at for at, text in enumerate(before) if text in _OWN]
        if (
            not owned
            or not self._asks_at(opening)
            or set(before[owned[-1] :]) & (_INVERTED | {"be", "called", "named"})
        ):
            return False
        follows_auxiliary = self._text(opening) in _INVERTED and self._text(opening + 1) in _OWN
        return not follows_auxiliary and len(before) - owned[-1] <= 5 and self._text(opening + 1) not in _OWN

    def _is_doubted(self, first: int, last: int) -> bool:
        """Return whether a last clause doubts what was said before: "..., right?", "..., is that true?"."""
        tail = [text for text in self._texts(first, last) if text[:1].isalnum()]
        tail = tail[1:] if tail[:1] == ["or"] else tail
        if len(tail) <= 3 and tail and tail[0] in _TAGS_OF_DOUBT:
            return True
        return len(tail) <= 7 and bool(set(tail) & _DOUBTED) and bool(set(tail) & {"that", "this", "it", "these", "am"})

    # Denial

    def is_denied_abroad(self) -> bool:
        """Return whether words of another language hold a negation near the mention."""
        near = self.passage.words[self._start : self._end]
        if any(word.text in _NEGATED_ABROAD or _is_not(word.text) for word in near):
            return True
        said = self.passage.text[near[0].start : near[-1].end] if near else ""
        return any(sign in said for sign in _NEGATED_UNSPACED)

    def denied(self) -> Stance:
        """Return whether the clause denies the mention: DENIED, UNCLEAR, or else STATED."""
        start = self._start_of_list()
        texts = self._texts(start, self.first)
        bearing = [self._bears(texts, at) for at in self._negations(texts)]
        if Stance.UNCLEAR in bearing:
            return Stance.UNCLEAR
        count = bearing.count(Stance.DENIED) + self._over(texts) + self._is_denied_behind() + self._is_cut_off()
        disliked = any(text in _DISLIKED for text in texts[-8:]) or bool(_phrases(texts, _UNBEARABLE))
        if self.leaning.against:
            behind = set(self._texts(self.last + 1, self._end)[:5])
            if behind & {"is", "are"} and behind & {"fine", "ok", "okay", "problem", "safe"}:
                return Stance.DENIED
            if _phrases(texts, ("don't mind", "do not mind", "fine with", "ok with", "okay with", "problem with")):
                return Stance.DENIED
            return Stance.DENIED if count % 2 and (disliked or self._denies_concept(texts)) else Stance.STATED
        if self.leaning.liking:
            count += disliked
        if count % 2 and self.leaning.past and self._over(texts):
            return Stance.STATED
        return Stance.DENIED if count % 2 else Stance.STATED

    def _denies_concept(self, texts: Sequence[str]) -> bool:
        stem = stemmer()
        return any(
            stem(text) in self.leaning.stems & _AGAINST
            for text in (*texts, *self._texts(self.last, self._end))
            if not _is_not(text)
        )

    def _negations(self, texts: Sequence[str]) -> Iterator[int]:
        harmless = _phrases(texts, _HARMLESS)
        longer = _phrases(texts, _INSTEAD)
        for at, text in enumerate(texts):
            if at in harmless or at in longer or not _is_not(text):
                continue
            if text == "no" and at + 1 < len(texts) and texts[at + 1] in _SUBJECTS | _OWN:
                continue  # "no I live in Oslo": an answer, without its comma
            if texts[-1] in ("before", "until", "till"):
                continue  # "I'm never up before 8"
            if texts[-1] == "than" and len(texts) > 1 and texts[-2] in ("more", "less", "fewer", "under", "over"):
                continue  # "we can't spend more than 1500": the number is said
            if text == "nor" and any(_is_not(other) for other in texts[:at]):
                continue
            yield at

    def _bears(self, texts: Sequence[str], at: int) -> Stance:
        """Return whether a negation at a position denies the mention behind."""
        behind = list(texts[at + 1 :])
        verb = next((text for text in behind if text not in _SUBJECTS and text not in ("really", "even", "ever")), "")
        subject = next((place for place, text in enumerate(behind) if text in _SUBJECTS), None)
        owned = next((place for place, text in enumerate(behind) if text in _OWN), None)
        if subject == 0 and texts[at] in ("nobody", "none", "no", "nothing"):
            return Stance.DENIED  # "nobody I know lives there"
        if verb == "forget":
            return Stance.STATED
        if subject is not None and (subject > 0 or texts[at] in ("nobody", "nothing", "none")):
            if verb in _FORGOTTEN or (texts[at] == "nobody" and set(behind[:subject]) & _FORGOTTEN):
                return Stance.UNCLEAR if set(behind) & {"if", "whether"} else Stance.STATED
            return Stance.DENIED if verb in _BELIEVED or subject == 1 else Stance.UNCLEAR
        if owned is not None and owned > 0 and len(behind) - owned <= 5 and verb not in _BELIEVED - {"like", "see"}:
            return Stance.STATED  # "I never take my dog Rex there": the dog is
        if owned == 0 and len(behind) > 1:
            return Stance.DENIED
        if "and" in behind and len(behind) - behind.index("and") > 1 and not _is_not(behind[behind.index("and") + 1]):
            return Stance.UNCLEAR
        return Stance.DENIED

    def _over(self, texts: Sequence[str]) -> bool:
        """Return whether words before the mention say that it is over, or not it: "used to", "instead of", "from"."""
        near = list(texts[-8:])
        if "than" in near[-4:] and "rather" in texts:
            return True
        if any(not set(near[at + len(phrase) :]) & {"and", "but"} for phrase, at in _starts(near, _by_first(_INSTEAD))):
            return True
        stem = stemmer()
        ended = [
            at + 1
            for at, text in enumerate(near)
            if (text in _ENDED and stem(text) not in self.leaning.stems)
            or (text == "left" and at and near[at - 1] in _LEFT_BY and "left" not in self.leaning.stems)
        ]
        if ended and not set(near[max(ended) :]) & {"and", "to", "for", "into", "with", "by", "because"}:
            return True
        return self._is_replaced(near)

    def _is_replaced(self, near: Sequence[str]) -> bool:
        """Return whether the mention is what something changes from: "moved from Oslo to Bergen"."""
        if "from" not in near[-3:] or "to" in near[-2:]:
            return False
        return bool(set(near) & _CHANGES) and ("to" in self._texts(self.last + 1, self.last + 8) or "moved" in near)

    def _is_denied_behind(self) -> bool:
        """Return whether the words behind the mention deny it: "Oslo is not my home", "12 is wrong"."""
        behind = self._texts(self.last + 1, self._end)[:5]
        copula = next((at for at, text in enumerate(behind[:2]) if text in _COPULAS), None)
        if copula is None:
            return False
        behind = behind[copula:]
        if behind[0] in ("isn't", "wasn't", "aren't", "weren't"):
            negated, rest = True, behind[1:]
        elif behind[0] in ("would", "might", "could") and "be" in behind[:3]:
            return bool(set(behind) & _WRONG)
        elif behind[0] in ("is", "was", "are", "were") and len(behind) > 1:
            negated, rest = (
                behind[1] in ("not", "never", "no"),
                behind[2:] if behind[1] in ("not", "never", "no") else behind[1:],
            )
        else:
            return False
        if rest[:1] == ["too"]:
            return True
        if not negated:
            return bool(rest) and rest[0] in _WRONG
        return bool(
            set(rest[:2])
            & (_OWN | {"where", "what", "enough", "the", "correct", "right", "true", "it", "who", "longer", "how"})
        )

    def _is_cut_off(self) -> bool:
        """Return whether a negation before a parenthesis bears on the mention: "I don't, as you know, live there"."""
        if self._text(self._start - 1) not in (",", ")", "–", "—") or not self._lacks_subject(self._start):
            return False
        at = self._start - 2
        while at > max(0, self._start - 12) and not self._breaks(at):
            at -= 1
        before = self._text(at - 1)
        return self._text(at) in (",", "(", "–", "—") and (
            before.endswith("n't") or before in ("not", "never", "cannot")
        )

    def _start_of_list(self) -> int:
        """Return the start of the clause, or that of the list which ends with "or" and which the mention is in."""
        start = self._start
        while self._text(start - 1) == "," and self._is_item(start):
            before = start - 1
            start = before
            while start > max(0, before - _FAR) and not self._breaks(start - 1):
                start -= 1
        return start

    def _is_item(self, start: int) -> bool:
        """Return whether a clause is an item of a list joined by "or"."""
        texts = self._texts(start, self._end)
        if len(texts) > 6 or set(texts) & (_SUBJECTS | _INVERTED | {"but", "not"}):
            return False
        return bool({"or", "nor"} & set(self._texts(start, self.last + 12)))

    # Supposition

    def supposed(self) -> Stance:
        """Return UNCLEAR if the mention is only supposed, wished or reported with doubt, else STATED."""
        texts = self._texts(self._start, self.first)
        if self._is_told_of_the_user() or self._is_taken_back():
            return Stance.UNCLEAR
        if self.leaning.loose or self.leaning.forward:
            return Stance.STATED
        if set(texts) & (_SUPPOSED | _CLAIMS) - {"might"} or "might" in texts[-4:]:
            return Stance.UNCLEAR
        return Stance.UNCLEAR if _phrases(texts, _SUPPOSED_BY) or self._is_for_some_day(texts) else Stance.STATED

    def _is_for_some_day(self, texts: Sequence[str]) -> bool:
        """Return whether the mention is a wish: "I'd love to be a doctor", "some day"."""
        wishes = bool(set(texts) & {"like", "love", "want", "hope", "wish", "dream"})
        behind = self._texts(self.last, self._end)
        some_day = bool(_phrases(behind, ("some day", "one day"))) or "someday" in behind
        return some_day or (wishes and bool(_phrases(texts, ("to be", "to become", "to live", "to move", "to own"))))

    def _is_told_of_the_user(self) -> bool:
        """Return whether something written tells who the user is: "the page says the user lives in ..."."""
        texts = self._texts(self._sentence[0], self.first)
        tells = bool(set(texts) & _WRITTEN) and bool(set(texts) & _REPORTS or _phrases(texts, ("according to",)))
        named = bool(_phrases(texts, ("the user", "the user's", "this user")))
        return tells and (named or bool(set(texts) & {"i", "i'm", "you", "you're"}))

    def _is_taken_back(self) -> bool:
        """Return whether the rest of the sentence takes the mention back: "... but I don't", "just kidding"."""
        behind = self._texts(self._end, min(self._sentence[1], self._end + 10))
        if set(behind) & {"kidding", "joking", "jk"} or _phrases(behind, ("or not", "not really")):
            return True
        if self.leaning.past or self.leaning.loose:
            return False
        said = self._texts(self._sentence[0], self.first)
        if said[:1] in (["until"], ["till"]) and set(said) & _SUBJECTS:
            return True
        had = set(self._texts(self._start, self.first)) & {"had", "was", "were"}
        if had and "now" in behind:
            return True
        ends = [text for text in behind if text[:1].isalnum()]
        if (
            not self.leaning.against
            and ends
            and ends[-1] in ("it", "them", "there", "him", "her")
            and any(map(_is_not, ends))
        ):
            return True
        return ends[:1] == ["but"] and len(ends) <= 4 and _is_not(ends[-1])
