"""Templates filled with invented values: labelled texts.

A template has slots (`{name}`) and choices (`[Hi|Hello|]`, which may be nested).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from governance.ner.values import InventedValues
from governance.ner.word_lists import word_list

from atdp.governance.evaluation.labelled_texts import LabelledSpan, LabelledText

_FOLDER: Final = Path(__file__).parent
_CHOICE: Final = re.compile(r"\[([^\[\]]*)\]")
_SLOT: Final = re.compile(r"\{(\w+)\}")
_LABELS: Final[Mapping[str, str]] = {
    "name": "PERSON", "first": "PERSON", "last": "PERSON",
    "city": "LOCATION", "country": "LOCATION", "state": "LOCATION", "place": "LOCATION",
    "address": "STREET_ADDRESS", "street": "STREET_ADDRESS", "zip": "POSTAL_CODE",
    "org": "ORGANIZATION", "nrp": "NRP", "nrps": "NRP", "title": "TITLE",
    "date": "DATE_TIME", "birth": "DATE_TIME", "time": "DATE_TIME", "dateiso": "DATE_TIME",
    "age": "AGE", "phone": "PHONE_NUMBER", "email": "EMAIL_ADDRESS", "url": "URL",
    "thingstreet": "STREET_ADDRESS", "smallstreet": "STREET_ADDRESS", "smallname": "PERSON",
    "smallcity": "LOCATION", "capitalname": "PERSON", "capitalcity": "LOCATION",
    "lastfirst": "PERSON", "capitallastfirst": "PERSON", "monthyear": "DATE_TIME",
    "wordname": "PERSON", "smalltitle": "TITLE", "day": "DATE_TIME",
    "card": "ID_NUMBER", "account": "ID_NUMBER", "ident": "ID_NUMBER", "ip": "IP_ADDRESS",
}  # fmt: skip
"""The entity of each slot. Other slots hold text that is not personal."""


def joined(*texts: LabelledText) -> LabelledText:
    """Return one text with the spans of all."""
    whole = ""
    spans: list[LabelledSpan] = []
    for each in texts:
        spans += (
            LabelledSpan(span.start + len(whole), span.end + len(whole), span.entity)
            for span in each.spans
        )
        whole += each.text
    return LabelledText(whole, tuple(spans))


def read_templates(name: str) -> tuple[str, ...]:
    """Return the templates of a file, one a line. They write line breaks as in Python."""
    lines = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line.replace("\\n", "\n").replace("\\t", "\t") for line in lines if line)


@dataclass(slots=True)
class TemplateFiller:
    """Fills templates with the values of one generator."""

    values: InventedValues
    makers: Mapping[str, Callable[[], str]] = field(init=False)

    def __post_init__(self) -> None:
        """Name the maker of each slot's values."""
        values, rng = self.values, self.values.rng
        self.makers = {
            "name": values.name, "first": values.first, "last": values.last, "city": values.city,
            "country": values.country, "state": values.state, "place": values.place,
            "address": values.address, "street": values.street, "zip": values.postcode,
            "org": values.organisation, "nrp": values.nationality, "nrps": values.nationals,
            "title": values.honorific, "date": values.date, "birth": values.birthday,
            "time": values.clock, "age": values.age, "phone": values.phone, "card": values.card,
            "account": values.account, "ident": values.identity_number, "ref": values.reference,
            "email": lambda: values.pooled("email"), "url": self._url,
            "ip": lambda: values.pooled("ipv4", "en_US"),
            "dateiso": self._time_stamp,
            "user": self._user_name,
            "year": lambda: str(rng.randint(1990, 2026)),
            "amount": lambda: rng.choice(word_list("amounts")),
            "job": lambda: rng.choice(word_list("jobs")),
            "product": lambda: rng.choice(word_list("products")),
            "code": lambda: rng.choice(word_list("codes")),
            "thingstreet": values.thing_street, "day": values.day_of_month,
            "wordname": lambda: f"{rng.choice(word_list('word_names'))} {values.last()}",
            "smalltitle": lambda: values.honorific().lower(),
            "smallstreet": lambda: rng.choice([values.street, values.address])().lower(),
            "smallname": lambda: values.name().lower(), "smallcity": lambda: values.city().lower(),
            "capitalname": lambda: values.name().upper(),
            "lastfirst": values.last_first,
            "capitallastfirst": lambda: values.last_first().upper(),
            "monthyear": lambda: f"{rng.randint(1, 12):02}/{rng.randint(20, 39)}",
            "capitalcity": lambda: values.city().upper(),
            **values.thing_makers(),
        }  # fmt: skip

    def _url(self) -> str:
        host = self.values.pooled("domain_name", "en_US")
        return self.values.rng.choice(
            [f"https://www.{host}/", host, f"www.{host}", f"http://{host}"]
        )

    def _time_stamp(self) -> str:
        seconds = self.values.rng.randrange(1_800_000_000)
        return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()

    def _user_name(self) -> str:
        values = self.values
        return f"{values.first()}_{values.last()}_{values.digits('####')}".lower()

    def fill(self, template: str) -> LabelledText:
        """Return the template with one choice made everywhere and every slot filled."""
        rng = self.values.rng
        while True:
            chosen = _CHOICE.sub(lambda match: rng.choice(match[1].split("|")), template)
            if chosen == template:
                break
            template = chosen
        pieces: list[LabelledText] = []
        end = 0
        for match in _SLOT.finditer(template):
            value = self.makers[match[1]]()
            entity = _LABELS.get(match[1])
            spans = (LabelledSpan(0, len(value), entity),) if entity and value else ()
            pieces += LabelledText(template[end : match.start()]), LabelledText(value, spans)
            end = match.end()
        return joined(*pieces, LabelledText(template[end:]))
