"""Paraphrases: other words for what enumerations and settings often hold.

The table is short and general on purpose. A value that it does not know is not refused, but waits in quarantine, since
no list of words can decide about it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

import attrs

from factmem.detection.passages import words_of

__all__ = ["Paraphrase", "paraphrases_of"]

_TABLE: Final = """
vegetarian: -meat, veggie, meatless, meat-free, -eat animals
vegan: plant-based, plant based, -animal products, -dairy or meat
pescatarian pescetarian: only fish, fish but
omnivore everything: eat everything, eat anything, eat meat
gluten: celiac, coeliac
halal: muslim
kosher: jewish
alcohol drinker: beer, wine, drink
teetotal teetotaler nondrinker: -drink, -alcohol, sober
smoker: smoke, smoking, cigarettes, cigarette
nonsmoker: -smoke
daily: every day, each day, everyday, every morning, each morning, every evening, every night, once a day
weekly: every week, each week, once a week, every monday, every friday, every sunday, every saturday
biweekly fortnightly: every two weeks, every other week, every second week
monthly: every month, each month, once a month
quarterly: every quarter, every three months
yearly annual annually: every year, each year, once a year, per year
hourly: every hour
always: every time, all the time, without exception
never: -ever, -at all
rarely seldom: hardly ever, once in a while, almost never
often frequently: a lot, all the time, many times
morning mornings: before noon, before work, early, breakfast, sunrise, first thing
afternoon: after lunch
evening evenings: after work, after dinner, tonight
night: late, night owl, after midnight
dark: night mode, black background, black theme
light: bright, white background
male man: man, guy, boy, father, dad, husband, mr, he/him, brother, dude
female woman: woman, girl, lady, mother, mum, mom, wife, mrs, ms, she/her, sister
nonbinary: they/them, enby
married: my wife, my husband, my spouse, wedding anniversary, our wedding, got married, tied the knot
single unmarried: -married, -partner, -girlfriend, -boyfriend, bachelor, on my own
divorced: ex-wife, ex-husband, ex wife, ex husband, split up, divorce, separated
widowed: widow, widower, wife died, husband died, late wife, late husband
engaged: fiance, fiancee, proposed, getting married
relationship partnered: girlfriend, boyfriend, partner
parent: my son, my daughter, my kids, my children, our baby
student: study, studying, university, college, at school
employed: have a job, work for, work at, working at, work as
unemployed: -job, between jobs, laid off, looking for work, lost my job
retired: pension, stopped working, retirement
freelance freelancer contractor self-employed: self employed, my own clients, my own boss, my own business
remote: from home, home office, wfh, work anywhere
onsite office inoffice: in the office, commute, at the office, on site, at my desk in
hybrid: some days from home, days at home, half from home
beginner novice newbie: new to, just started, starting out, first time, -experience, never used, from scratch
intermediate: some experience, a year or two, know the basics, so so
advanced expert senior: years of experience, professionally, for a living, very experienced, for ten years, inside out
native: mother tongue, grew up speaking, first language
fluent: speak it well, like a native
high urgent critical top: asap, immediately, right away, important, urgently, urgent, critical, emergency, top priority
low: -urgent, -rush, -hurry, whenever, minor, -important, someday, nice to have, no rush, can wait
medium normal moderate: average, nothing special, standard, so so
formal: polite, politely, sir, professional, officially
informal casual: informal, relaxed, friendly, -formal, chatty, like a friend, laid back
short brief concise terse: -long, keep it short, to the point, a sentence or two, few words, -wordy, bullet points
long detailed verbose thorough: in depth, all the details, every detail, step by step, explain everything, at length
email mail: e-mail, mail me, inbox, write to me
phone call: ring me, call me, a call, telephone, give me a ring
sms text: text me, text message
chat messenger: slack, whatsapp, message me
car driving: drive, driving, my tesla, behind the wheel
bike bicycle cycling: cycle, bicycle, bike, cycling
train rail: by rail, trains, railway
public transit transport bus: bus, tram, metro, subway, underground
walk walking foot: on foot, walking, stroll
plane flight: fly, flying
window: look outside, see outside, view
aisle: legroom, get up easily
metric: kilometres, kilometers, celsius, km, kilos, kilograms, centimetres
imperial: miles, fahrenheit, pounds, feet, inches
owner own homeowner: bought, my own house, own our
renter rent tenant: landlord, renting, rented flat
cat: kitten, kitty
dog: puppy, labrador, poodle, terrier, retriever
s: small
m: medium
xl: extra large
small little: tiny, little, compact
large big: huge, biggest, largest, xl
hot spicy: chili, chilli, hotter
mild: -spicy
positive happy satisfied: love it, loved it, great, fantastic, wonderful, delighted, pleased, thrilled
negative unhappy dissatisfied angry: hate it, terrible, awful, disappointed, useless, furious, annoyed, fed up
neutral: so so, neither good nor bad, okay i guess
free basic: -pay, -paid, costs nothing
enterprise: company-wide, whole company, corporate, biggest
pro premium paid: paying for, paid plan, upgraded, subscription
done closed completed finished: shipped, finished, complete, delivered, wrapped up
progress started ongoing active: working on, started, halfway, ongoing, under way, underway
todo planned pending open: -started, -begun, -done, yet to, still have to
blocked: stuck, waiting for, held up
cancelled canceled: called off, scrapped, -happening
on enabled enable: turn on, switch on, switched on, turned on, activate
off disabled disable: turn off, switch off, switched off, turned off, deactivate, mute
introvert: shy, alone time, quiet person
extrovert: outgoing, love meeting people
lefthanded left: left-handed, left handed, lefty
righthanded right: right-handed, right handed
ios iphone apple: iphone, ipad, apple
android: pixel, samsung, galaxy
mac macos: macbook, imac
linux: ubuntu, debian, fedora, arch
windows: pc, thinkpad
economy: cheapest seat, coach
card: visa, mastercard, amex, credit card
cash: banknotes, coins
parttime: half days, part-time, part time, two days a week, three days a week
fulltime: full-time, full time, forty hours, 40 hours
yes: sure, of course, definitely, absolutely, yep, yeah, count me in
no: nope, nah, -want, no thanks
"""


@attrs.frozen
class Paraphrase:
    """Other words for a value.

    Attributes:
        words: the stems of the words.
        denied: whether the value holds where these words are denied.
    """

    words: tuple[str, ...]
    denied: bool = False


def paraphrases_of(words: Iterable[str]) -> tuple[Paraphrase, ...]:
    """Return the paraphrases of a value with some words; none if the table does not know one of them."""
    table = _table()
    return tuple(dict.fromkeys(one for word in words for one in table.get(word, ())))


@functools.cache
def _table() -> dict[str, tuple[Paraphrase, ...]]:
    table: dict[str, tuple[Paraphrase, ...]] = {}
    for line in _TABLE.strip().splitlines():
        names, _, rest = line.partition(":")
        phrases = tuple(map(_paraphrase, rest.split(",")))
        for name in names.split():
            table[name] = (*table.get(name, ()), *phrases)
    return table


def _paraphrase(text: str) -> Paraphrase:
    text = text.strip()
    stems = tuple(word.stem for word in words_of(text.removeprefix("-")) if not word.is_mark)
    return Paraphrase(stems, text.startswith("-"))
