"""Words that stand for others: related words and topics, the same for every store.

*Related words* mean much the same: a query for a *vehicle* also finds a *car*, at a lower weight. A table that ships
with factmem holds the digests of the 15,000 most frequent English stems and, for each, at most twenty others with near
vectors. ``.ci/make_related_words.py`` makes it. Weights are multiples of 1/256, so that sums of them are exact.

*Topics* relate the words by which people ask for a fact to those by which concepts are named and described: "Where does
Ann live?" asks for a `home_city`, and "Who is her boss?" for a `manager`. Beyond synonyms, a topic relates an activity
to its place, its cost or its people. A fact is indexed by the topics of its keyword and description beside its words; a
word of a query occurs wherever one of its topics does. Statements have no topics.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from factmem.recall.text.analysis import analyse

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Term", "term_of", "topics_of"]

_STEP: Final = np.float32(1 / 256)


@attrs.frozen(eq=False)
class Term:
    """A term of a query, with the terms that stand for it.

    Attributes:
        number: Its number; see `factmem.recall.index.outline_codec.term_numbers`.
        numbers: The numbers of itself, of related terms and of its topics.
        weights: Weight of an occurrence of each; 1 for the term itself.
    """

    number: int
    numbers: NDArray[np.uint64]
    weights: NDArray[np.float32]


def term_of(number: int, topics: Sequence[int] = ()) -> Term:
    """Return a term with those that stand for it.

    Args:
        number: Its number.
        topics: The numbers of its topics, which count as much as itself.
    """
    term = _known(number)
    if not topics:
        return term
    return Term(
        term.number,
        np.append(term.numbers, np.array(topics, np.uint64)),
        np.append(term.weights, np.ones(len(topics), np.float32)),
    )


def _known(number: int) -> Term:
    terms = _table().terms
    own = np.array([number], np.uint64)
    at = int(terms.searchsorted(own[0]))
    if at == len(terms) or terms[at] != own[0]:
        return Term(number, own, np.ones(1, np.float32))
    return _related(at)


@attrs.frozen(kw_only=True, eq=False)
class _Table:
    """The stems, ascending, and the beginning of each one's related stems."""

    terms: NDArray[np.uint64]
    starts: NDArray[np.intp]
    related: NDArray[np.uint16]
    weights: NDArray[np.uint8]


@functools.lru_cache(maxsize=4096)
def _related(at: int) -> Term:
    """Return the term of a stem of the table; the cache holds nothing of any store."""
    table = _table()
    part = slice(table.starts[at], table.starts[at + 1])
    return Term(
        int(table.terms[at]),
        np.append(table.terms[at], table.terms[table.related[part]]),
        np.append(np.float32(1), table.weights[part] * _STEP),
    )


@functools.cache
def _table() -> _Table:
    file = resources.files("factmem.recall.text").joinpath("related_words.npz")
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as kept:
        return _Table(
            terms=kept["terms"],
            starts=np.append(0, np.cumsum(kept["counts"], dtype=np.intp)),
            related=kept["related"],
            weights=kept["weights"],
        )


_TOPICS: Final = """
    residence: live living home house flat apartment address city town village reside resident residence based hometown
    origin: born birthplace grew native hometown nationality citizen citizenship passport country
    birth: born birth birthday birthdate age old
    workplace: office workplace desk onsite remote remotely hybrid home campus
    occupation: job profession occupation career role title position living employer employed employment employee work
    superior: boss manager report supervisor supervise superior leader lead head chief charge line
    colleague: team colleague coworker teammate crew squad staff member department
    responsibility: owner own belong responsible responsibility charge maintain maintainer lead accountable steward
    food: eat food diet dietary meal dish cook cooking cuisine vegan vegetarian serve menu ingredient lunch dinner feed
    catering: cook cooking food catering caterer chef kitchen meal serve
    aversion: allergy allergic intolerance intolerant restriction avoid reaction tolerate cannot can't won't forbidden
    drink: drink coffee tea beverage beer wine café cup bar sip brew
    illness: ill illness disease condition sick diagnosis diagnosed health suffer symptom ailment
    medication: medicine medication drug pill tablet dose prescription prescribe prescribed treatment
    doctor: doctor physician practitioner gp dentist surgeon therapist specialist clinic medic
    spouse: wife husband spouse partner married marry wedding anniversary
    child: child children kid son daughter baby offspring
    sibling: brother sister sibling
    parent: mother father parent mum mom dad
    pet: pet animal dog cat puppy kitten
    leisure: hobby pastime leisure spare free fun enjoy weekend interest passion relax unwind
    sport: sport exercise gym run workout training team play athletic fitness
    language: language tongue speak spoken talk fluent
    programming: programming language code coded written write implement implemented program developed built
    editor: editor ide code edit program write
    tool: tool software program app application use
    computer: computer laptop machine device operating system desktop hardware
    contact: contact phone call telephone number reach mobile ring email mail dial write
    emergency: emergency accident urgent emergencies wrong
    beginning: start begin beginning join joined began first opening open launch commence kickoff hired since
    ending: end ending finish deadline due last expire expiry expiration until close over complete till
    schedule: schedule timetable date day time hour weekday calendar clock appointment slot
    duration: length long last duration period lasting
    frequency: often frequency interval every regularly frequently
    clothing: shirt clothes clothing wear dress suit outfit shoe jacket trousers garment
    size: size big large small fit measure dimension
    weight: weight weigh heavy kilo kilogram pound
    height: height tall high
    commute: commute travel transport ride journey
    vehicle: car vehicle drive automobile van truck motorbike driving
    parking: park parking car vehicle garage
    capacity: seat seating capacity people guest fit hold room space accommodate attendee participant crowd
    place: venue place location hall held site building event
    event: retreat offsite conference event party workshop gathering summit celebration
    meeting: meeting standup meet together gather sync call catch
    money: budget money cost spend spending price pay afford expense fund financial
    price: price cost fee charge rate expensive tariff subscription pay
    income: salary wage pay earn income paid compensation
    payment: payment pay invoice bill billed card settle bill
    bank: bank account iban savings
    speech: speaker talk lecture keynote speech present presenter presentation
    internet: wifi wireless network internet online connect connection
    secret: password pin login credential passphrase access unlock code
    release: deploy deployment release ship launch rollout production publish
    alerting: call page pager alert incident wake outage down break broken duty rota
    storage: database store storage persist data record save keep kept
    hosting: host hosting server cloud hosted region datacenter run
    copies: replica instance copy node running
    maximum: limit maximum max most largest biggest highest cap upper quota
    minimum: minimum min least lowest smallest
    permission: allow allowed permit permitted permission bring okay welcome
    ban: block blocked forbid forbidden ban banned prohibited disallowed restricted limits
    file: file upload attachment document attach
    freeze: freeze merge merged land frozen
    style: style format formatter formatting layout lay convention lint
    check: test check verify pass broke
    license: license licence legal reuse rights terms
    repository: repository repo git source code branch
    documentation: documentation docs wiki document manual handbook guide
    iteration: sprint iteration cycle
    education: school study university college degree student education graduate class course teacher
    travel: travel trip holiday vacation fly flight journey visit destination
    lodging: hotel stay accommodation lodging sleep night overnight
    flight: flight airline fly plane airport
    music: music song band listen instrument
    film: film movie watch series show cinema
    reading: book read author novel
    colour: colour color paint shade
    customer: customer client account buyer
    supplier: supplier vendor provider provide deliver company
    delivery: deliver delivery ship shipping parcel package courier arrive
    insurance: insurance insured insurer policy cover coverage
    sleep: sleep bed bedtime wake rest
    goal: goal aim target objective achieve aspiration
    fear: fear afraid scared phobia
    gift: gift present give christmas happy delight wish
    entry: visa permit entry enter border apply permission
    departure: departure depart leave leaving start begin set
    arrival: arrival arrive reach land come
    sights: sight sightseeing attraction landmark see visit tour
    teaching: teacher tutor professor instructor lecturer lesson teach taught
    pupils: pupil student class classroom classmate child children
    friend: friend buddy mate companion acquaintance
    religion: religion religious faith belief church pray worship
    appearance: hair eye face beard look appearance
    eyesight: glasses lenses eyesight vision see optician
    operation: surgery operation operated hospital
    vaccination: vaccination vaccine vaccinated jab shot immunise
    smoking: smoke smoker smoking cigarette tobacco
    tone: tone voice manner communicate communication address formal polite
    pronouns: pronoun pronouns gender call refer
    restaurant: restaurant dine dining dinner eat table
    dessert: dessert cake sweet pudding chocolate
    shoes: shoe boot sneaker feet foot footwear
    luggage: luggage baggage suitcase bag carry pack
    seating: seat aisle window row sit
    rail: train rail railway station platform
    currency: currency money coin exchange euro dollar
    loyalty: loyalty member membership frequent points
    rent: rent rented renting lease tenant landlord landlady flat monthly
    keys: key lock unlock door spare
    burglary: alarm burglar siren security intruder
    repair: plumber electrician craftsman mechanic repair fix fixes broken leak
    revenue: revenue sales turnover income sell sold
    competitor: competitor competition rival compete
    discount: discount reduction rebate cheaper off percent
    refund: refund return returns warranty guarantee money-back
    subscription: subscription plan tier package edition product bought
    usage: licence seats users employees use
    churn: churn leave cancel cancellation lose quit risk
    invoice: invoice bill billing billed charge
    opening: opening open hours closed closing
    milestone: milestone deadline due deliverable delivery
    uptime: uptime availability sla downtime reliable
    address: url endpoint link address domain website port
    retention: retention retain keep kept delete deleted purge
    timeout: timeout wait seconds slow
    framework: framework library stack built
    browser: browser chrome firefox web
    pipeline: pipeline ci build automation
    monitoring: monitoring monitor log logs dashboard metrics
    branching: branch trunk main merge
    approval: approve approver approval sign review reviewer
    warehouse: warehouse depot stock inventory pallet
    machine: forklift truck crane machine lifting vehicle
    naming: nickname called name known
    shopping: shop buy grocery purchase bought
    temperature: temperature warm cold degree heating heat
    backup: backup restore
    contract: contract agreement sign renew renewal
    notice: notify notification inform message alert
    urgency: priority urgent important
    progress: status state progress stage
    cause: reason why cause
    helper: support help helpdesk assist
    garden: garden plant grow flower
    rubbish: rubbish trash garbage waste bin recycling
"""


def topics_of(terms: Iterable[str]) -> list[str]:
    """Return the topics of terms, in order, without repetitions, each in a form that no term has."""
    return list(dict.fromkeys(topic for term in terms for topic in _topic_table().get(term, ())))


@functools.cache
def _topic_table() -> Mapping[str, tuple[str, ...]]:
    topics: dict[str, list[str]] = {}
    for line in _TOPICS.strip().splitlines():
        topic, words = line.strip().split(": ")
        for term in dict.fromkeys(analyse(words)):
            topics.setdefault(term, []).append(f"#{topic}")
    return {term: tuple(of) for term, of in topics.items()}
