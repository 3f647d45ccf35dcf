"""Rules for statements that overtake others: a newer sentence reports a change of the same matter.

The rules are English and use words alone. They prefer missing an update to hiding a statement that still holds: past
events, questions, wishes, matters of other people and mere differences overtake nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from factmem.patterns import lazy_pattern
from factmem.recall.text.analysis import analyse

__all__ = ["EVERYDAY", "Clause", "clauses", "clues", "matters", "may_be_overtaken", "overtakes"]

_MOST_WORDS: Final = 80
"""Maximum number of words of a statement that one sentence can overtake."""

_LEAST_SHARE: Final = 0.5
"""Least share of the older statement's words in its overtaken sentences."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SPLIT: Final = lazy_pattern(
    r"(?<=[.!?…;])\s+|\n+|,\s+(?=(?:and|but|so) )|,\s+(?=(?:(?:and|but|so|because|since)\s+)?(?:i|we|my|"
    r"our|it|he|she|they)\b)"
    r"|(?<!\s)\s++(?=(?:but|because)\s)|(?<!\s)\s++(?=since (?:i|we|my|our|the|he|she|they)\b)"
    r"|(?<!\s)\s++[-–—]++\s++",
    re.IGNORECASE,
)
_OPENERS: Final = lazy_pattern(
    r"^(?:(?:oh|ah|hey|hi|so|well|anyway|actually|btw|by the way|and|but|because|also|yes|yeah|no|ok|okay|guess what|"
    r"(?:good|bad|big|great) news|news|update|fyi|change of plans?|plans? changed|sadly|unfortunately|"
    r"finally|luckily|"
    r"recently|lately|now|currently|these days|nowadays|(?:last|this) \w+|today|yesterday|i (?:think|guess|believe)|"
    r"(?:it )?turns out|as of \w+|from now on|in the end|just so you know|wow|haha|thanks)\b[,:;!.]*\s*)+",
    re.IGNORECASE,
)
_SPELLINGS: Final = (("avour", "avor"), ("olour", "olor"), ("entre ", "enter "))
_UNREAL: Final = lazy_pattern(
    r"\b(?:if|would|wish|might|maybe|perhaps|could|should|imagine|dream(?:ed|ing|t)? (?:of|about)|considering|"
    r"want(?:ed|s)? to|wanna|almost (?:\w+ed|went|got|quit)|used to|grew up|was born|were born|"
    r"thinking (?:of|about)|back when|"
    r"when i was|as a (?:kid|child)|someday|one day)\b"
)
_THERE: Final = frozenset({"there"})
_SELF: Final = lazy_pattern(r"^(?:my (?:wife|husband|partner|family|girlfriend|boyfriend) and i|i|we)\b")
_THEY: Final = lazy_pattern(r"^(?:they|someone|somebody|the (?:boss|company|office|school|team|landlord))\b(?!')")
_VERB: Final = lazy_pattern(
    r"\b(?:is|are|was|were|has|have|had|got|gets|will|went|goes|moved|moves|grew|costs?|lives?|works?|takes?|starts?|"
    r"started|begins?|ended|changed|rose|dropped|fell|increased|doubled|became|becomes|said|says|broke|died|passed|"
    r"stopped|quit|switched|joined|left|isn't|aren't|doesn't|don't|can't|no longer|now|just|finally|shrank|"
    r"runs?)\b|'s\b"
)
_POSSESSED: Final = lazy_pattern(r"^(?:my|our|the|his|her|their|a|an|this|that)\s+")
_UNTOLD: Final = _words("new old current next present own actual")
"""Words that distinguish no two matters."""

_PERSONS: Final = frozenset(
    analyse(
        "brother sister mother mom mum father dad son daughter wife husband partner girlfriend boyfriend "
        "friend friends "
        "cousin aunt uncle grandma grandpa grandmother grandfather colleague coworker neighbour neighbor roommate "
        "flatmate boss manager kid kids child children parents niece nephew teacher client buddy bestie"
    )
)
EVERYDAY: Final = frozenset(
    analyse(
        "euro euros dollar dollars time times week day month year minute hour people percent kg pound "
        "mile km point bit "
        "now new just last next lot thing things way one today tomorrow really good great finally still "
        "also get got go "
        "going gone went make made take took start started begin plan planning change changed move moved "
        "switch switched "
        "quit stop stopped cancel cancelled canceled anymore longer instead every each around about ago since day "
        "want know think say said tell feel need let try keep back never always usually currently nowadays lately "
        "morning evening night weekend early late love like enjoy another other trip subscription membership habit"
    )
)

_NEGATED: Final = lazy_pattern(
    r"\b(?:not|never|no longer|\w+n't|cannot|without|stopped|quit|gave up|given up|ditched)\b"
)
_PAST: Final = lazy_pattern(
    r"^(?:just |finally |also |already |recently )*(?:was|were|had|went|did|said|saw|took|met|ate|made|"
    r"found|came|felt|"
    r"thought|told|gave|heard|lost|read|spent|wrote|watched|flew|drove|ran|swam|rode|slept|won|used|got|left|bought|"
    r"(?!need|feed|breed|speed|exceed|succeed)[a-z]+ed)\b"
)
_TRANSITION: Final = lazy_pattern(
    r"^(?:'ve |have |has )?(?:just |finally |also |already |recently |since )*"
    r"(?:moved|relocated|switched|started|adopted|settled|become|became|been promoted|got promoted|joined|changed)\b"
)
_CUE: Final = lazy_pattern(
    r"\b(?:now|nowadays|these days|lately|any ?more|no longer|instead|from now on|new|change[ds]?|changing|moved|"
    r"resched\w+|postponed|extended|shortened|shifted|put (?:off|back)|pushed|delayed|brought forward|"
    r"raised|lowered|increased|decreased|reduced|cut|rose|grew|grown|"
    r"shrank|shrunk|doubled|dropped|fell|went (?:up|down)|gone (?:up|down)|switched|upgraded|updated|"
    r"renamed|actually|"
    r"turns out|by now|already|correction|(?:up|down) to|bumped|expanded)\b"
)
_PLANNED: Final = lazy_pattern(
    r"\b(?:going to|plan(?:s|ned|ning)?\b|will|flying to|booked|hoping to|about to|heading to)\b"
)

_PLACE_STOP: Final = lazy_pattern(
    r"[,.!;:(]|\b(?:with|for|since|because|and|but|last|this|next|on|where|when|now|who|which|ago|after|"
    r"before|by|again|at|right|for|"
    r"so|too|as|from|yesterday|today|a (?:few|couple|year|month|week)|(?:two|three|four|five|six|"
    r"\d+) (?:years?|months?|weeks?))\b",
    re.IGNORECASE,
)
_HOME: Final = lazy_pattern(
    r"\b(?:live|lives|living|based|moved|relocated|settled|resettled)\s+"
    r"(?:(?:back|out|over|away|down|up|here|together|alone|currently|recently|now)\s+)*(?:in|to|into|at|"
    r"near|outside)\s+",
    re.IGNORECASE,
)
_DWELLINGS: Final = frozenset(
    analyse("flat apartment house dorm dormitory cottage studio room condo building place bungalow farmhouse loft home")
)
_NO_HOMES: Final = frozenset(
    analyse(
        "team department role desk project tear position table couch sofa company job office section "
        "group class topic "
        "bed floor top side front end level stage phase world moment past present fear peace harmony "
        "dream chair platform "
        "system server cloud tool app software harmony car van tent different another that it them this"
    )
)

_SETS: Final = {
    "diet": (
        r"\b(?:vegan|vegetarian|pescatarian|carnivore|omnivore|keto|flexitarian)\b",
        r"\b(?:eat|eating|eats) (?:meat|fish|everything|dairy|plant[- ]based)\b",
    ),
    "relationship": (
        r"\b(?:single|engaged|married|divorced|widowed|separated)\b(?! to (?:help|work|do))",
        (
            r"\bgot (?:engaged|married|divorced)\b|\bbroke up\b|\b(?:dating|seeing) (?:someone|somebody|a)\b|"
            r"\bhave a (?:boyfriend|girlfriend)\b"
        ),
    ),
}
_SET_PATTERNS: Final = {name: lazy_pattern("|".join(forms)) for name, forms in _SETS.items()}
_STATES_ME: Final = lazy_pattern(
    r"^(?:'m|am|'re|are|is|'s|'ve|have|has|got|just|finally|eat|eats|started|now|went|go|became|turned|broke)\b"
)

_WORK: Final = lazy_pattern(
    r"\b(?:work|works|working|employed) (?:as|at|for|in)\b|\b(?:job|career) (?:is|as|at)\b|\bhave a job\b|"
    r"\bnew job (?:as|at|with|in)\b"
)
_NEW_WORK: Final = lazy_pattern(
    r"\b(?:quit|left|lost|resigned from) (?:my|our|the|his|her|that) (?:\w+ )?(?:job|position|company)\b|"
    r"\bgot (?:fired|laid off)\b|"
    r"\bwas (?:fired|laid off)\b|\b(?:started|got|took|found|accepted|landed|have|begun|began) (?:my|a|the|"
    r"his|her) (?:\w+ )?new "
    r"(?:\w+ )?(?:job|position|role)\b(?! [a-z]*(?:appl|interview|search|offer|hunt))|\b(?:now work|"
    r"started working) (?:as|at|for)\b|\bwork (?:as|at|for) .*\bnow\b|"
    r"\bretired\b|\bchanged jobs\b|\bgot promoted\b|\bwas promoted\b"
)

_GONE: Final = lazy_pattern(
    r"(?<!n't )(?<!not )(?<!never )\b(?:no longer|stopped(?! (?:and|by|at|for|to|in)\b)|quit|gave up|"
    r"given up|done with|got rid of|sold|cancell?ed|broke up with|ditched|called off|"
    r"went off|deleted|unsubscribed from|dropped out of|traded in|(?:switched|changed|moved|migrated|went|converted)"
    r"(?: \w+){0,3} from|instead of|replaced|gave away|retired from|lost interest in)\s+(?P<what>[^,;.!]{2,60})"
    r"|(?:(?<!\w)\w+n't|not|never)\s+(?P<not>[^,;.!]{2,60}?)\s+any ?(?:more|longer)\b"
)
_END_OF_OBJECT: Final = lazy_pattern(
    r"\b(?:and|for|because|since|in|on|last|this|when|after|before|from|ago)\b|(?= (?:at|with)\b)|"
    r"(?<!go)(?<!going) to\b"
)
_WHERE: Final = lazy_pattern(r"^ (?:at|with) (.+)")
_DEAD: Final = lazy_pattern(r"^(?:(?:has |have )?(?:died|passed away)|is gone|was put down)\b")

_COPULA: Final = lazy_pattern(r"^(?:is|are|'s)(?: now| currently| actually)? (?P<value>.+)|^costs? (?P<cost>.+)")
_FAVOURITE: Final = lazy_pattern(r"^(?P<value>.{2,40}?) (?:is|are)(?: now)? my (?:new )?(?P<what>favou?rite .+)")
_ONLY_ONE: Final = frozenset(
    analyse(
        "number address email manager boss rent price salary password birthday major budget deadline "
        "username landlord "
        "therapist doctor dentist wage nickname"
    )
)
_ONE_WORD: Final = frozenset(analyse("number address email password username"))
"""Attributes whose values may differ although they share a word."""

_PASSING: Final = frozenset(analyse("part thing moment memory aspect one bit"))
_LOOSE: Final = lazy_pattern(
    r"^(?:so|very|really|such|too|quite|not|always|the best|when|that|still|also|going|doing)\b"
)

_NUMERALS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_NUMBERS: Final = {word: str(number) for number, word in enumerate(_NUMERALS.split())} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "hundred": "100",
    "twice": "2",
    "once": "1",
}
_WEEKDAY: Final = lazy_pattern(r"\b(mon|tues|wednes|thurs|fri|satur|sun)days?\b")
_DATE: Final = lazy_pattern(
    r"\b(january|february|march|april|june|july|august|september|october|november|december|(?<=in )may|may(?= \d))"
    r"(?:\s+(\d{1,2}))?\b|\b(\d{1,2})(?:st|nd|rd|th)\b"
)
_CLOCK: Final = lazy_pattern(
    r"\b(\d{1,2}:\d\d)\b|\b(\d{1,2})\s?(?:am|pm|o'clock)\b|\bat (\d{1,2}|noon|midnight)\b(?![.,]?\d)"
)
_NUMBER: Final = lazy_pattern(r"\d+(?:[.,:\-]\d+)*|\b[a-z]+\b")
_COUNTED: Final = lazy_pattern(
    rf"^(?:only |just |now )*(?:'ve got|'ve|have|have got|has|own|are|'re) (?:only |just |now |already )*"
    rf"(\d+|{'|'.join(_NUMBERS)}) (?:little |big |small |old |new )?([a-z]+)"
)
_EXCLUSIVE: Final = _words("live wake weigh earn commut drive")
_LINKED: Final = _words("prefer use take pay studi rent date sleep eat drink wear teach watch")


@attrs.frozen(eq=False)
class Clause:
    """A sentence, or a part of one.

    Attributes:
        text: The words, in lower case but for names.
        subject: Stems of its subject; ``self`` for the speaker.
        rest: The words after the subject, in lower case.
        stems: All stems.
        size: Number of words.
    """

    text: str
    subject: frozenset[str]
    rest: str
    stems: frozenset[str]
    size: int

    @property
    def mine(self) -> bool:
        """Whether it is about the speaker."""
        return "self" in self.subject

    @property
    def owned(self) -> bool:
        """Whether it is about a possession of the speaker."""
        return self.text.lower().startswith(("my ", "our ")) and not self.subject & _PERSONS

    @functools.cached_property
    def content(self) -> frozenset[str]:
        """The stems of its matter, without numbers and days."""
        return frozenset(stem for stem in self.stems - EVERYDAY if not stem[0].isdigit() and stem not in _NUMBERS)

    @functools.cached_property
    def values(self) -> dict[str, frozenset[str]]:
        """The weekdays, dates, times of day and numbers in it."""
        text = self.text.lower()
        days = frozenset(_WEEKDAY.findall(text))
        dates = frozenset("".join(found) for found in _DATE.findall(text))
        clocks = frozenset("".join(found) for found in _CLOCK.findall(text))
        left = _CLOCK.sub(" ", _DATE.sub(" ", text))
        numbers = frozenset(
            _NUMBERS.get(found, found) for found in _NUMBER.findall(left) if found[0].isdigit() or found in _NUMBERS
        )
        found = {"day": days, "date": dates, "clock": clocks, "number": numbers}
        return {kind: held for kind, held in found.items() if held}

    @functools.cached_property
    def unreal(self) -> bool:
        """Whether it is about a wish, a condition or a time long ago."""
        return _UNREAL.search(self.text.lower()) is not None

    @functools.cached_property
    def counted(self) -> dict[str, str]:
        """The counted nouns, with their numbers."""
        found = _COUNTED.search(self.rest)
        if found is None:
            return {}
        number, noun = found.groups()
        return {stem: _NUMBERS.get(number, number) for stem in analyse(noun)}

    @functools.cached_property
    def state(self) -> bool:
        """Whether it describes a state or a plan, and not an event."""
        return not self.unreal and (not _PAST.search(self.rest) or _TRANSITION.search(self.rest) is not None)


def clauses(text: str) -> tuple[Clause, ...]:
    """Return the clauses of a statement, without questions."""
    text = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for british, american in _SPELLINGS:
        text = text.replace(british, american)
    return tuple(filter(None, (_clause(part) for part in _SPLIT.split(text) if not part.rstrip().endswith("?"))))


def _clause(part: str) -> Clause | None:
    text = _OPENERS.sub("", part.strip()).strip(" .!…,;")
    size = len(text.split())
    if size < 2:
        return None
    lowered = text.lower()
    if found := _SELF.match(lowered):
        subject, rest = frozenset({"self"}), lowered[found.end() :].strip()
    else:
        verb = _VERB.search(lowered)
        if lowered.startswith("there "):
            subject, rest = _THERE, lowered[6:].strip()
        elif verb is None:
            subject, rest = frozenset(), lowered
        else:
            named = _POSSESSED.sub("", lowered[: verb.start()])
            subject, rest = frozenset(analyse(named)) - _UNTOLD, lowered[verb.start() :].strip()
    return Clause(text, subject, rest, frozenset(analyse(text)), size)


def may_be_overtaken(said: Sequence[Clause]) -> bool:
    """Return whether a statement describes a state, and is short enough to be overtaken by one sentence."""
    return 0 < sum(clause.size for clause in said) <= _MOST_WORDS and any(clause.state for clause in said)


def overtakes(newer: Sequence[Clause], older: Sequence[Clause]) -> bool:
    """Return whether a later statement of the same person overtakes an earlier one.

    Args:
        newer: The later statement.
        older: The earlier one; at least half of its words must be overtaken.
    """
    if not may_be_overtaken(older):
        return False
    after = [clause for clause in newer if not clause.unreal]
    gone = sum(clause.size for clause in older if clause.state and any(_ends(later, clause) for later in after))
    return gone > 0 and gone >= _LEAST_SHARE * sum(clause.size for clause in older)


def _ends(later: Clause, earlier: Clause) -> bool:
    rules = (_moved, _other_of_a_set, _other_work, _abandoned, _other_attribute, _other_amount, _now_otherwise)
    return any(rule(later, earlier) for rule in rules)


def _same_subject(later: Clause, earlier: Clause) -> bool:
    if later.mine or earlier.mine:
        return later.mine and earlier.mine
    few, many = sorted((later.subject, earlier.subject), key=len)
    return bool(few) and few <= many and not (many - few) & _PERSONS


def _moved(later: Clause, earlier: Clause) -> bool:
    """Return whether the home changed."""
    if not _same_subject(later, earlier):
        return False
    old, new = _home(earlier), _home(later)
    if not old or not new or old & new:
        return False
    named = lazy_pattern(r"\bmoved|relocated|settled|\bnow\b|back")
    return bool(old & _DWELLINGS) == bool(new & _DWELLINGS) or (
        named.search(later.rest) is not None and _named(earlier, old) and _named(later, new)
    )


def _home(clause: Clause) -> frozenset[str]:
    found = _HOME.search(clause.text)
    if found is None:
        return frozenset()
    rest = clause.text[found.end() :]
    stop = _PLACE_STOP.search(rest)
    place = frozenset(analyse(rest[: stop.start()] if stop else rest))
    return frozenset() if place & _NO_HOMES else place


def _named(clause: Clause, place: frozenset[str]) -> bool:
    names = re.findall(r"(?<=\s)[A-Z]\w+", clause.text)
    return bool(frozenset(analyse(" ".join(names))) & place)


def _other_of_a_set(later: Clause, earlier: Clause) -> bool:
    """Return whether a value of an exclusive set changed: a diet, a relationship."""
    if not _same_subject(later, earlier) or not _STATES_ME.search(later.rest) or not _STATES_ME.search(earlier.rest):
        return False
    for pattern in _SET_PATTERNS.values():
        old, new = frozenset(pattern.findall(earlier.rest)), frozenset(pattern.findall(later.rest))
        if old and new and not old & new and not _NEGATED.search(earlier.rest) and not _NEGATED.search(later.rest):
            return True
    return False


def _other_work(later: Clause, earlier: Clause) -> bool:
    """Return whether a job was left or changed."""
    return (
        _same_subject(later, earlier)
        and _WORK.search(earlier.rest) is not None
        and _NEW_WORK.search(later.rest) is not None
        and not _named_again(later, earlier)
    )


def _named_again(later: Clause, earlier: Clause) -> bool:
    """Return whether the later clause names the matter of the earlier one, without leaving it."""
    return bool(later.content & earlier.content - frozenset(analyse("work job"))) and not _NEGATED.search(later.rest)


def _abandoned(later: Clause, earlier: Clause) -> bool:
    """Return whether a state or habit was given up."""
    if _NEGATED.search(earlier.rest):
        return False
    if _DEAD.search(later.rest):
        return earlier.mine and bool(later.subject & earlier.content) and "have" in earlier.text.lower().split()
    found = _GONE.search(later.text.lower())
    if found is None or not (_same_subject(later, earlier) or (later.mine and earlier.owned)):
        return False
    object_, *tail = _END_OF_OBJECT.split(found["what"] or found["not"], maxsplit=1)
    swapped = found[0].startswith("replaced")
    if not swapped and any(
        not frozenset(analyse(where)) - EVERYDAY <= earlier.content for where in _WHERE.findall(" ".join(tail))
    ):
        return False  # only there or with them
    what = [stem for stem in analyse(object_) if stem not in EVERYDAY and stem not in _NUMBERS][:2]
    return bool(what) and frozenset(what) <= earlier.content


def _other_attribute(later: Clause, earlier: Clause) -> bool:
    """Return whether a single-valued attribute changed: a favourite, a number, a manager."""
    old, new = _attribute(earlier), _attribute(later)
    if old is None or new is None or old[0] != new[0] or not old[0] or old[0] & _PERSONS - _ONLY_ONE:
        return False
    if _LOOSE.match(old[1]) or _LOOSE.match(new[1]) or old[1] == new[1]:
        return False
    if not old[0] & _ONE_WORD and frozenset(analyse(old[1])) & frozenset(analyse(new[1])):
        return False
    if any("favo" in stem for stem in old[0]):
        return not old[0] & _PASSING
    if not old[0] & _ONLY_ONE:
        return False
    typed = earlier.values.keys() & later.values.keys()
    return bool(typed) or bool(old[0] & _ONE_WORD) or (_capital(earlier.text, old[1]) and _capital(later.text, new[1]))


def _capital(text: str, value: str) -> bool:
    at = text.lower().find(value)
    return at >= 0 and text[at : at + 1].isupper()


def _attribute(clause: Clause) -> tuple[frozenset[str], str] | None:
    if found := _FAVOURITE.match(clause.text.lower()):
        return frozenset(analyse(found["what"])) - _UNTOLD, found["value"]
    if clause.mine or not (found := _COPULA.match(clause.rest)):
        return None
    return clause.subject, re.split(r"[,;:(]| and | but ", found["value"] or found["cost"])[0]


def _other_amount(later: Clause, earlier: Clause) -> bool:
    """Return whether a day, date, time or number of the same matter changed, with a word for the change."""
    if not _CUE.search(later.text.lower()) or _NEGATED.search(earlier.rest):
        return False
    kinds = [kind for kind in earlier.values if kind in later.values]
    if not any(not earlier.values[kind] & later.values[kind] for kind in kinds):
        return False
    shared = later.content & earlier.content
    if (later.stems & _PERSONS) - earlier.stems:
        return False
    if earlier.mine or earlier.subject == _THERE:
        if later.subject == earlier.subject and any(
            later.counted.get(noun, number) != number for noun, number in earlier.counted.items()
        ):
            return True
        said = earlier.content
        return later.subject == earlier.subject and bool(shared) and len(shared) >= 0.6 * len(said)
    if later.mine or later.subject <= {"they"} or _THEY.match(later.text.lower()):
        return bool(earlier.subject) and earlier.subject - EVERYDAY <= later.stems and bool(earlier.subject - EVERYDAY)
    if earlier.counted and later.counted and not earlier.counted.keys() & later.counted.keys():
        return False
    return _same_subject(later, earlier) and bool(earlier.subject & later.subject - EVERYDAY)


def _now_otherwise(later: Clause, earlier: Clause) -> bool:
    """Return whether the same verb or plan has another object, with a word for the change."""
    if not (later.mine and earlier.mine) or _NEGATED.search(earlier.rest) or _NEGATED.search(later.rest):
        return False
    text = later.text.lower()
    shared = later.content & earlier.content
    new, old = later.content - earlier.content, earlier.content - later.content
    if not new or not old:
        return False
    if re.search(r"\binstead\b(?! of)", text) and _PLANNED.search(text) and _PLANNED.search(earlier.rest):
        return bool(shared)
    if not re.search(r"\b(?:now|nowadays|these days|from now on|instead)\b", text):
        return False
    first = [
        next(iter(analyse(re.sub(r"^(?:'\w+|usually|always|now|mostly) ", "", item.rest))), "")
        for item in (earlier, later)
    ]
    if first[0] != first[1]:
        return False
    return first[0] in _EXCLUSIVE or (first[0] in _LINKED and bool(shared - {first[0]}))


_FAMILIES: Final = (
    "live living based moved relocated settled",
    "vegan vegetarian pescatarian carnivore omnivore keto flexitarian meat fish eat eating",
    "single engaged married divorced widowed separated dating broke boyfriend girlfriend",
    "work working job career employed retired quit fired laid resigned promoted position role",
)
_CLUES: Final = (
    "now nowadays lately these anymore longer instead new change changed changing rescheduled postponed "
    "pushed extended "
    "shortened shifted put delayed brought raised lowered increased decreased reduced cut rose grew grown "
    "shrank shrunk "
    "doubled dropped fell went gone switched upgraded updated renamed actually turns bumped expanded "
    "stopped quit gave "
    "given done rid sold cancelled canceled broke ditched called deleted unsubscribed traded migrated "
    "converted replaced "
    "retired lost died passed moved relocated settled live living based vegan vegetarian pescatarian "
    "carnivore omnivore "
    "keto flexitarian eat eating single engaged married divorced widowed separated dating boyfriend "
    "girlfriend fired laid "
    "promoted job resigned left favorite favourite number address email password username manager boss "
    "rent price salary "
    "birthday major budget deadline landlord therapist doctor dentist wage nickname cost"
)


@functools.cache
def matters() -> Mapping[str, frozenset[str]]:
    """Return, for each stem that a rule knows, the stems that an update of it may use instead."""
    families = [frozenset(analyse(family)) for family in _FAMILIES]
    return {stem: family for family in families for stem in family}


@functools.cache
def clues() -> frozenset[str]:
    """Return the stems of which every overtaking statement holds one."""
    return frozenset(analyse(_CLUES))
