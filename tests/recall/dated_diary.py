"""A diary of three years, in messages to an assistant: events that differ only by date, among everyday talk.

The author moves to Porto, starts a job, goes to a wedding, adopts a dog and sits an exam; dinners, trips, films, books,
runs, presents and visits to the dentist recur in much the same words. Lines that begin with ``>`` are the assistant's.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from factmem import Conversation, Message

__all__ = ["NOW", "conversations"]

NOW: Final = dt.datetime(2026, 11, 18, 15, 30, tzinfo=dt.UTC)
"""A Wednesday, a week before Thanksgiving."""

_DIARY: Final = """
2023-08-20
We had dinner at the Blue Lantern with Jonas's parents.
I finished reading The Overstory.
> A wonderful book. Which tree stayed with you?
2023-09-10
We spent the weekend in Bruges and rented bicycles.
I ran eight kilometres along the canal.
2023-10-08
Dinner is hardly ever before nine at our place.
Jonas is allergic to hazelnuts.
I would love to run the Berlin marathon one day.
2023-10-20
Jonas gave me a rain jacket for our anniversary.
My favourite café here is the Tinnen Pot, for its terrace.
2023-10-31
We watched Nosferatu with the neighbours.
I carved a pumpkin that looked like our landlord.
> That must have been quite a face.
2023-11-24
We had dinner at Aunt Greet's, turkey with chestnuts.
My cousin Wout talked about his start-up all night.
2023-12-03
We had dinner at the Indian place by the station.
I taught the children upstairs to play chess.
2023-12-26
Jonas gave me a wool scarf.
We had dinner at my mother's, rabbit with prunes.
The tree lost all its needles already.
2024-01-01
We watched the fireworks from the roof of the library.
I want to drink less coffee.
2024-01-17
I saw the dentist: she filled a molar.
The old boiler is making a noise again.
> Have it bled before you call anybody.
2024-02-15
We had dinner at Chez Odette and shared a chocolate fondue.
Jonas wrote me a poem about our first flat.
2024-02-28
We watched Anatomy of a Fall.
My grandmother turned ninety.
> Congratulations to her!
2024-03-09
I ran ten kilometres in the rain.
I finished reading Piranesi.
2024-03-22
Jonas gave me running shoes for my birthday.
We watched the fireworks at the spring fair.
I ordered a blue dress for the spring.
2024-04-01
We spent four days in Ostend with Elin and her boyfriend.
We had dinner at the Fisherman's Rest, mussels for everybody.
2024-05-05
I bought a second-hand cargo bicycle for the groceries.
Jonas has an interview with a university in Portugal.
> Fingers crossed for Jonas.
2024-05-20
We had dinner at Elin's, asparagus with eggs.
I dislike films with too much blood.
2024-06-16
We watched Perfect Days at the open-air cinema.
Jonas got the post in Porto, so we are going to move there in September.
2024-06-30
My favourite café here is the Simon Says, for its iced tea.
I ordered a tent with two rooms.
2024-07-07
I ran twelve kilometres to the lake and back.
We spent a week in the Ardennes with a tent.
2024-07-21
We had dinner in the garden with the neighbours.
My passport has to be renewed.
2024-07-22
We watched the fireworks for the national day.
2024-08-11
We spent ten days in Slovenia, mostly at Lake Bohinj.
I finished reading Middlemarch by the water.
> Eight hundred pages on a holiday, respect.
2024-08-30
I sold the piano to a schoolteacher from Aalst.
We had a farewell dinner at the Blue Lantern with eleven friends.
My favourite café here is the Labath, for its cardamom buns.
2024-09-14
We moved to Porto today, with forty boxes and two plants.
The flat is on the fourth floor and has no lift.
2024-09-29
My favourite café here is the Moustache, for its quiet corner.
Our landlady is called Dona Amélia.
2024-10-03
I saw the dentist: my first visit to one here.
2024-10-20
We had dinner at Tasca Zé with Jonas's new colleagues.
I ran nine kilometres along the Douro.
2024-10-21
Jonas gave me a cast-iron pan for our anniversary.
2024-11-01
We watched The Orphanage with popcorn and a blanket.
The children downstairs were dressed as bats.
2024-11-29
We had dinner at the American neighbours', turkey with pecan pie.
I am learning Portuguese with an app.
> Try talking to the baker as well.
2024-12-08
We watched Fanny and Alexander, all five hours.
I found a yoga class round the corner.
2024-12-27
Jonas gave me a fountain pen.
We had dinner at home, cod with potatoes, as they do here.
2025-01-02
We watched the fireworks from the bridge, with all of Porto.
I want to learn how to surf.
2025-01-21
I saw the dentist: he took out a wisdom tooth.
I have an interview at Lumen next week.
> Good luck, and mind the swelling.
2025-02-03
Today was my first day at Lumen, everybody is kind.
I commute by metro, the yellow line.
2025-02-16
We had dinner at Cantina 32 and shared a banana cheesecake.
Jonas bought tickets for a fado night.
2025-03-15
I ran half a marathon in Matosinhos.
I finished reading The Book of Disquiet.
My manager at Lumen is called Rita.
2025-03-22
Jonas gave me a raincoat for my birthday.
My favourite café here is the Combi, for its filter coffee.
2025-03-30
We had dinner at Jonas's boss's house.
We watched I'm Still Here.
My favourite pastry is the Jesuíta.
2025-04-21
We spent four days in Lisbon with my mother.
We had dinner at a tavern in Alfama, grilled sardines.
2025-05-10
I bought a used surfboard from a student.
Elin asked me to make the cake for the wedding.
> Three tiers are easier than they look.
2025-05-25
I ordered flour and eleven lemons.
2025-06-08
The wedding is in two weeks and I still have no dress.
We watched Aftersun at the cinema in Batalha.
2025-06-15
I ordered a green dress for the wedding.
Elin wants three tiers of lemon cake.
2025-06-22
The wedding was wonderful, Elin danced until four.
I made a speech and cried in the middle of it.
2025-06-24
We watched the fireworks for Saint John's from the Ribeira.
2025-07-13
We spent a week in Galicia on the pilgrims' path.
I ran seven kilometres before breakfast each day.
2025-08-17
We spent twelve days in the Azores and saw whales.
I finished reading Moby-Dick on the ferry.
> Of course you did.
2025-09-07
We had dinner at the harbour in Leixões.
I ran ten kilometres with a colleague.
2025-09-28
I saw the dentist: a cleaning, nothing else.
We are on a list for adopting a dog.
2025-10-11
We adopted a dog today, a brown mongrel, and called her Pixel.
She is afraid of the vacuum cleaner.
2025-10-20
Jonas gave me a book of maps for our anniversary.
I ordered a basket and a lead.
2025-11-01
We watched The Others with all the lights on.
Pixel ate the pumpkin.
2025-11-28
We had dinner at Rita's, turkey with sweet potatoes.
I take Pixel to the park before work every morning.
2025-12-14
I finished reading The Garden of Forking Paths.
The oven broke, and we ate cold soup.
> A good week for gazpacho, then.
2025-12-27
Jonas gave me a ceramic lamp.
We had dinner at Elin's, a vegetarian roast.
2026-01-01
We watched the fireworks from the beach at Foz, Pixel hid under a towel.
I want to take the Portuguese exam this year.
2026-01-30
I saw the dentist: he fitted a crown.
I signed up for the exam, level B2.
2026-02-15
We had dinner at Almeja and shared a passion fruit pavlova.
Jonas painted a watercolour of Pixel for me.
2026-02-27
I dream of the exam at night.
We watched Flow twice.
2026-03-08
I ran fifteen kilometres to Espinho.
I finished reading Blindness, in Portuguese.
> That is a serious step for your exam.
2026-03-22
Jonas gave me a kite for my birthday.
My favourite café here is the Mesa 325, for its toast.
2026-03-29
I bought a rain barrel for the balcony.
We had dinner at a new ramen place with Rita and her husband.
2026-04-06
We spent four days in the Gerês mountains with Pixel.
We had dinner at a mill, roast kid.
2026-04-26
I ran eleven kilometres against the wind.
My mother has a new hip.
2026-05-09
I study two hours each evening, mostly the subjunctive.
We watched Tabu with subtitles in Portuguese.
> Watch it again without them.
2026-05-23
The exam was today, the listening part was brutal.
I slept for twelve hours.
2026-05-30
I saw the dentist: a chipped tooth.
2026-06-07
I passed the exam with distinction!
We had dinner at Cafeína to celebrate.
2026-06-24
We watched the fireworks for Saint John's from a boat.
2026-06-28
We spent a weekend in Aveiro and ate too many sweet eggs.
I ran six kilometres with Pixel on a leash.
2026-07-05
We had dinner at a beach bar with Elin, who is expecting a baby.
Where would you hang a watercolour?
> Away from the window.
2026-07-19
I bought an electric piano.
We watched Past Lives on the terrace.
2026-08-16
We spent two weeks in Norway, on the Lofoten.
I finished reading Kristin Lavransdatter.
2026-09-06
I ran a whole marathon, four hours and nine minutes!
My knee hurts when I climb stairs.
> Give it two weeks of rest.
2026-09-20
I saw the dentist: he says I grind my teeth.
We had dinner at the Yeatman with a view of the river.
2026-10-03
I ordered a dress in Madrid's colours.
2026-10-04
We spent the weekend in Coimbra for a conference of Jonas's.
I finished reading Flights.
2026-10-18
Rita is leaving Lumen, and I shall lead the team.
We had dinner at Tasca Zé with the whole team.
2026-10-21
Jonas gave me a head torch for our anniversary.
My favourite café here is the Época, for its porridge.
2026-10-25
I bought winter boots.
My Portuguese teacher is called Inês.
2026-11-01
We watched Possession, and regretted it.
I bought a standing desk.
2026-11-07
I ran five kilometres, the knee is fine.
We spent the weekend in Braga.
2026-11-11
We had dinner at Inês's, roast chestnuts.
I fixed the dripping tap.
2026-11-14
We had dinner at a Georgian place, dumplings.
I finished reading Austerlitz.
2026-11-15
We watched a documentary on octopuses.
Pixel stole a whole loaf of bread.
2026-11-16
I had an interview with a newspaper about our team.
The metro was on strike.
2026-11-17
I bought a train ticket to Madrid.
We had dinner at home, lentil soup.
2026-11-18
I saw the dentist: she polished the crown.
I spilled coffee on the keyboard.
> Turn it upside down, and let it dry for a day.
"""


def conversations() -> list[Conversation]:
    """Return the diary, one conversation per day, its messages a minute apart."""
    days = list[tuple[str, list[Message]]]()
    for line in _DIARY.split("\n"):
        if line[:4].isdecimal():
            days.append((line, []))
        elif line:
            day, messages = days[-1]
            at = dt.datetime.fromisoformat(f"{day}T09:00").replace(tzinfo=dt.UTC) + dt.timedelta(minutes=len(messages))
            role = "assistant" if line.startswith("> ") else "user"
            messages.append(Message(content=line.removeprefix("> "), role=role, id=str(len(messages)), timestamp=at))
    return [Conversation(messages=messages, id=day) for day, messages in days]
