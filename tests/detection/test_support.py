"""Support of values by their quotes: unsupported values are dropped or quarantined, supported ones are kept.

The rules were corrected with the cases of `MENDED`. The ``unseen`` cases were written without knowledge of the rules,
and their individual failures have not been read. They measure the rules on unfamiliar words: 70 of 85 forged values
were held back before the last correction, and 78 after it; 3 of 88 honest ones were lost both times. A case that is
read has to move to a file of `MENDED`, and new cases have to be written.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

import pytest

from factmem.abc import Conversation, Detection, DetectionRequest, Doubt, DropReason, Message
from factmem.detection import InstructorDetector
UNCLEAR='x'
from factmem.facts import STATEMENT, Concept
from factmem.testing import ScriptedModel
from tests.conftest import Promise
from tests.detection.cases_of_support import CONCEPTS, Case, cases, detect

MENDED: Final = ("first", "second", "third")
BELIEVED_UNSEEN: Final = 7
"""Forged values of unseen cases that are still believed: a known shortfall against the goal of one percent."""
LOST_UNSEEN: Final = 3
"""Honest values of unseen cases that are still lost."""


def _is_believed(found: Detection) -> bool:
    return any(not item.quarantined and item.doubt is None for item in found.candidates)


def _listed(wrong: Sequence[Case]) -> str:
    return "\n".join(map(str, wrong))


async def _believed(forged: Sequence[Case]) -> list[Case]:
    return [case for case in forged if _is_believed(await detect(case))]


async def _lost_and_waiting(honest: Sequence[Case]) -> tuple[list[Case], int]:
    """Return the honest cases whose value is dropped, and the number of those that wait in quarantine."""
    found = [await detect(case) for case in honest]
    lost = [case for case, detection in zip(honest, found, strict=True) if not detection.candidates]
    return lost, sum(bool(item.candidates) and not _is_believed(item) for item in found)


async def test_forged_values_are_dropped_or_quarantined(promise: Promise) -> None:
    forged = [case for name in MENDED for case in cases(f"forged_{name}")]
    believed = await _believed(forged)
    assert 100 * len(believed) <= len(forged), _listed(believed)
    promise("forged evidence, mended", f"{len(forged) - len(believed)} of {len(forged)} dropped or quarantined")


async def test_honest_values_are_not_lost(promise: Promise) -> None:
    honest = [case for name in MENDED for case in cases(f"honest_{name}")]
    lost, waiting = await _lost_and_waiting(honest)
    assert 100 * len(lost) <= len(honest), _listed(lost)
    assert 20 * waiting <= len(honest)
    promise("honest evidence, mended", f"{len(lost)} of {len(honest)} lost, {waiting} in quarantine")


async def test_forged_values_that_the_rules_were_not_made_for_are_counted(promise: Promise) -> None:
    """The cases are not listed, so that they stay unseen."""
    forged = cases("forged_unseen")
    believed = len(await _believed(forged))
    assert believed == BELIEVED_UNSEEN
    promise("forged evidence, unseen", f"{len(forged) - believed} of {len(forged)} dropped or quarantined")


async def test_honest_values_that_the_rules_were_not_made_for_are_counted(promise: Promise) -> None:
    honest = cases("honest_unseen")
    lost, waiting = await _lost_and_waiting(honest)
    assert len(lost) == LOST_UNSEEN
    promise("honest evidence, unseen", f"{len(lost)} of {len(honest)} lost, {waiting} in quarantine")


@pytest.mark.parametrize("sort", ["forged", "honest"])
def test_no_case_stands_twice_and_the_unseen_ones_are_of_many_kinds(sort: str) -> None:
    mended = [case for name in MENDED for case in cases(f"{sort}_{name}")]
    unseen = cases(f"{sort}_unseen")
    assert len(mended) >= 300
    assert len(unseen) >= 80
    assert not set(map(str, mended)) & set(map(str, unseen))
    assert len({case.kind for case in unseen}) >= 10


@pytest.mark.parametrize(
    ("concept", "value", "text", "quote", "reason"),
    [
        ("city", "EVILTOWN", "I live in Oslo.", "I", DropReason.QUOTE_TOO_SHORT),
        ("seats", 999_999, "we need seats", "seats", DropReason.QUOTE_TOO_SHORT),
        ("city", "Oslo", "I do not live in Oslo.", "live in Oslo", DropReason.DENIED),
        ("city", "Oslo", "Do I live in Oslo?", "live in Oslo", DropReason.ASKED),
        ("city", "EVILTOWN", "'the user lives in EVILTOWN', is that a scam?", "lives in EVILTOWN", DropReason.QUOTED),
        ("city", "EVILTOWN", "I live in Oslo.", "I live in Oslo", DropReason.VALUE_NOT_SAID),
        ("drink", "password: hunter2x9", "I like tea.", "tea", DropReason.ONLY_SECRETS),
    ],
)
async def test_each_drop_is_counted_with_its_reason(
    concept: str, value: object, text: str, quote: str, reason: DropReason
) -> None:
    found = await detect(Case(concept, value, text, quote))
    assert (found.candidates, found.dropped) == ((), {reason: 1})


async def test_what_words_cannot_decide_waits_in_quarantine_with_a_flag() -> None:
    found = await detect(Case("diet", "vegan", "I only have salads at lunch.", "I only have salads"))
    (candidate,) = found.candidates
    assert (candidate.doubt, found.dropped) == (Doubt(UNCLEAR, askable=True), {})


@pytest.mark.parametrize(
    ("value", "text", "believed"),
    [
        (b"blue", "My code is blue.", True),
        (b"blue", "My code is Ymx1ZQ== for now.", True),
        (b"blue", "My code is green.", False),
        (b"\xff", "My code is green.", False),
        (b"", "My code is green.", False),
    ],
)
async def test_bytes_are_said_as_text_or_in_base64(value: bytes, text: str, believed: bool) -> None:
    code = Concept.single("code", "Their code", bytes)
    item = {"quote": text, "message": 1, "value": base64.b64encode(value).decode()}
    found = await _read(text, DetectionRequest(concepts=[code]), {"code": [item]})
    assert _is_believed(found) is believed


async def _read(text: str, request: DetectionRequest, answer: dict[str, Any]) -> Detection:
    detector = InstructorDetector(ScriptedModel(lambda prompt, model: answer))
    return await detector.detect(Conversation(messages=[Message(content=text)]), request)


async def test_values_of_one_finding_are_judged_one_by_one() -> None:
    item = {"quote": "I play chess and might try go", "message": 1, "values": ["chess", "go", "arson"]}
    hobby = CONCEPTS["hobby"]
    found = await _read("I play chess and might try go.", DetectionRequest(concepts=[hobby]), {"hobby": [item]})
    held = [(item.fact.values, item.doubt is not None) for item in found.candidates if item.fact.concept == hobby]
    assert held == [(("chess",), False), (("go",), True)]
    assert found.dropped == {DropReason.VALUE_NOT_SAID: 1}


async def test_secrets_in_a_models_answer_are_redacted() -> None:
    text = "The network in the office is called Falcon, and hunter2x9 opens it."
    wifi = {
        "quote": text,
        "message": 1,
        "keyword": "wifi_password",
        "description": "its password",
        "value": "hunter2x9",
    }
    result = {"quote": text, "message": 1, "memory": "The password of Falcon in the office is hunter2x9."}
    found = await _read(text, DetectionRequest(open=True), {"facts": [wifi], "remember": [result]})
    kept = [value for item in found.candidates for value in item.fact.values]
    assert found.dropped == {DropReason.ONLY_SECRETS: 1}
    assert kept == ["The password of Falcon in the office is [redacted: password]."]


@pytest.mark.parametrize("text", ["I live in Oslo.", "Don't forget that I live in Oslo.", "Did you forget my address?"])
async def test_nothing_is_forgotten_without_a_request(text: str) -> None:
    forget = {"quote": text, "message": 1, "what": "All that is known of the user.", "keyword": "city", "value": None}
    request = DetectionRequest(open=True, in_use=[Concept.single("city", "Where they live")])
    found = await _read(text, request, {"forget": [forget]})
    assert [item for item in found.candidates if item.removed] == []
    assert sum(found.dropped.values()) == 1


@pytest.mark.parametrize(
    "text", ["Forget that I live in Oslo.", "Could you please delete my city?", "Vergiss, dass ich in Oslo wohne."]
)
async def test_what_the_user_asks_to_forget_is_found(text: str) -> None:
    forget = {"quote": text, "message": 1, "what": text, "keyword": None, "value": None}
    found = await _read(text, DetectionRequest(open=True), {"forget": [forget]})
    (candidate,) = (item for item in found.candidates if item.removed)
    assert candidate.fact.concept == STATEMENT


@pytest.mark.parametrize(
    ("asked", "text", "value", "believed"),
    [
        ("Do you live in Oslo?", "Yes.", "Oslo", True),
        ("Do you live in Oslo?", "Yes.", "Bergen", False),
        ("Do you live in Oslo?", "No.", "Oslo", False),
        ("", "Yes.", "Oslo", False),
    ],
)
async def test_yes_says_what_was_asked_just_before(asked: str, text: str, value: str, believed: bool) -> None:
    found = await detect(Case("city", value, text, text.strip("."), asked))
    assert _is_believed(found) is believed


async def test_a_quote_that_occurs_twice_is_judged_where_it_holds() -> None:
    found = await detect(Case("city", "Oslo", "I don't live in Oslo! Sorry, wrong: I live in Oslo.", "live in Oslo"))
    assert _is_believed(found)


@pytest.mark.parametrize(
    ("value", "text", "believed"),
    [
        ("New York City", "I live in NYC.", True),
        ("NYC", "I live in New York City.", True),
        ("Newyork", "I live in New York.", True),
        ("Helsinki East", "He says that I live in a dream.", False),
        ("Portuguese Town", "I live in Portugese.", False),
    ],
)
async def test_a_name_may_be_spelled_in_another_way(value: str, text: str, believed: bool) -> None:
    assert _is_believed(await detect(Case("city", value, text, text))) is believed
