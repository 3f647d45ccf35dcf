"""Updates of one person, in chronological order, and small talk. No rule was changed for them."""

from __future__ import annotations

from typing import Final

__all__ = ["CHAT", "UNSEEN"]

UNSEEN: Final = (
    ("I live near the harbour in Bergen.", "We moved to Trondheim in August."),
    ("I live alone in a studio.", "I live in a shared house now, with four others."),
    ("I'm working as a librarian.", "I resigned from my job at the library."),
    ("I work for a small law firm.", "I have a new job, I work for the city now."),
    ("My favourite author is Agatha Christie.", "My favorite author is Ursula Le Guin these days."),
    ("My favourite season is summer.", "Autumn is my favourite season now."),
    ("The bus ticket is 2.40.", "The bus ticket is 2.90 now."),
    ("My salary is 41,000 a year.", "My salary went up to 46,000."),
    ("The book club is on Wednesday evening.", "The book club was moved to Sunday."),
    ("We're getting the keys on April 2.", "It got delayed, we're getting the keys on April 20."),
    ("My phone number ends with 77.", "I changed my phone number, it ends with 31 now."),
    ("I don't eat meat, I'm a vegetarian.", "I'm vegan now."),
    ("I eat fish twice a week.", "I no longer eat fish."),
    ("We have three chickens.", "We have five chickens now."),
    ("I have a parrot.", "I gave away the parrot, it was too loud."),
    ("We're planning to renovate the kitchen this year.", "We called off the kitchen renovation."),
    ("I'm going to run the marathon in May.", "I'm going to run the half marathon instead."),
    ("Our class has 21 pupils.", "Our class has 24 pupils now."),
    ("We use Trello to plan our sprints.", "We switched from Trello to Linear."),
    ("I listen to music on Spotify.", "I cancelled Spotify and bought a record player."),
    ("I'm engaged to Paul.", "We got married on Saturday!"),
    ("I swim on Tuesdays.", "I quit swimming because of my shoulder."),
    ("I go to bed at 11.", "I go to bed at 9:30 now."),
    ("My boss is Karen.", "My new boss is Miguel."),
)

CHAT: Final = (
    "Good morning! How was your weekend?",
    "Haha, that is so true.",
    "The weather has been awful all week, rain and more rain.",
    "I watched a documentary about whales last night, it was beautiful.",
    "Did you finish the report?",
    "I'm so tired, the neighbours had a party until four.",
    "My mother called, she says hello.",
    "That new bakery around the corner has amazing rolls.",
    "Do you have any tips for growing tomatoes?",
    "I lost my keys again, third time this month.",
    "We played board games all evening.",
    "Thanks, that helps a lot!",
    "The kids built a castle out of boxes.",
    "I might try that soup recipe tomorrow.",
    "Traffic was a nightmare today.",
    "I finished the second book of the series, no spoilers please.",
    "What do you think about the election?",
    "My back hurts from sitting all day.",
    "The concert was loud but great.",
    "Let me know when you are free for a call.",
)
