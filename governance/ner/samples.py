"""Labelled text: templates filled with invented values, and text without any personal value.

A template has slots (`{name}`) and choices (`[Hi|Hello|]`, which may be nested). Filled templates
are joined, put in lower case, rid of punctuation and misspelt at random, as people write.
"""

import functools
import random
import re
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from governance.ner.values import InventedValues
from governance.ner.word_lists import word_list

FOLDER: Final = Path(__file__).parent
_SLOT_SHARE: Final = 0.22
_CHOICE: Final = re.compile(r"\[([^\[\]]*)\]")
_SLOT: Final = re.compile(r"\{(\w+)\}")
_LABELS: Final[Mapping[str, str]] = {
    "name": "PERSON", "first": "PERSON", "last": "PERSON",
    "city": "LOCATION", "country": "LOCATION", "state": "LOCATION", "place": "LOCATION",
    "address": "STREET_ADDRESS", "street": "STREET_ADDRESS", "zip": "POSTAL_CODE",
    "org": "ORGANIZATION", "nrp": "NRP", "nrps": "NRP", "title": "TITLE",
    "date": "DATE_TIME", "birth": "DATE_TIME", "time": "DATE_TIME", "dateiso": "DATE_TIME",
    "age": "AGE", "phone": "PHONE_NUMBER", "email": "EMAIL_ADDRESS", "url": "URL",
    "card": "ID_NUMBER", "account": "ID_NUMBER", "ident": "ID_NUMBER", "ip": "IP_ADDRESS",
}  # fmt: skip
"""The entity of each slot. Other slots hold text that is not personal."""


@dataclass(frozen=True, slots=True, order=True)
class SampleSpan:
    """Characters `start` (inclusive) to `end` (exclusive) of a text are of `entity`."""

    start: int
    end: int
    entity: str


@dataclass(frozen=True, slots=True)
class TextSample:
    """A text with its personal values, in order."""

    text: str
    spans: tuple[SampleSpan, ...] = ()

    def __add__(self, other: "TextSample") -> "TextSample":
        shift = len(self.text)
        moved = (
            SampleSpan(each.start + shift, each.end + shift, each.entity) for each in other.spans
        )
        return TextSample(self.text + other.text, (*self.spans, *moved))


def read_templates(name: str) -> tuple[str, ...]:
    """Return the templates of a file, one a line. They write line breaks as in Python."""
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
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
            "dateiso": lambda: values.pooled("iso8601", "en_US"),
            "user": self._user_name,
            "year": lambda: str(rng.randint(1990, 2026)),
            "amount": lambda: rng.choice(word_list("amounts")),
            "job": lambda: rng.choice(word_list("jobs")),
            "product": lambda: rng.choice(word_list("products")),
            "code": lambda: rng.choice(word_list("codes")),
        }  # fmt: skip

    def _url(self) -> str:
        host = self.values.pooled("domain_name", "en_US")
        return self.values.rng.choice(
            [f"https://www.{host}/", host, f"www.{host}", f"http://{host}"]
        )

    def _user_name(self) -> str:
        values = self.values
        return f"{values.first()}_{values.last()}_{values.digits('####')}".lower()

    def fill(self, template: str) -> TextSample:
        """Return the template with one choice made everywhere and every slot filled."""
        rng = self.values.rng
        while True:
            chosen = _CHOICE.sub(lambda match: rng.choice(match[1].split("|")), template)
            if chosen == template:
                break
            template = chosen
        filled = TextSample("")
        end = 0
        for match in _SLOT.finditer(template):
            value = self.makers[match[1]]()
            entity = _LABELS.get(match[1])
            spans = (SampleSpan(0, len(value), entity),) if entity and value else ()
            filled = filled + TextSample(template[end : match.start()]) + TextSample(value, spans)
            end = match.end()
        return filled + TextSample(template[end:])


# Noise


def in_lower_case(sample: TextSample) -> TextSample:
    """Return the text in lower case, where that keeps all positions."""
    lowered = sample.text.lower()
    return TextSample(lowered, sample.spans) if len(lowered) == len(sample.text) else sample


def in_upper_case(sample: TextSample) -> TextSample:
    """Return the text in capitals, where that keeps all positions."""
    upper = sample.text.upper()
    return TextSample(upper, sample.spans) if len(upper) == len(sample.text) else sample


def with_typing_errors(sample: TextSample, rng: random.Random) -> TextSample:
    """Return the text with some letters doubled or replaced, in place."""
    letters = list(sample.text)
    for at in range(1, len(letters)):
        if letters[at].isalpha() and letters[at].islower() and rng.random() < 0.03:
            letters[at] = rng.choice("abcdefghijklmnopqrstuvwxyz")
    return TextSample("".join(letters), sample.spans)


def without_punctuation(sample: TextSample) -> TextSample:
    """Return the text with a space in place of each full stop, comma and exclamation mark."""
    return TextSample(re.sub(r"[.,!?;](?=\s|$)", " ", sample.text), sample.spans)


# Text without personal values


@functools.cache
def source_files(*, evaluation: bool) -> tuple[Path, ...]:
    """Return the Python files of the standard library, or of installed packages (evaluation)."""
    paths = sysconfig.get_paths()
    packages = word_list("evaluation_sources" if evaluation else "training_sources")
    folders = [Path(paths["purelib"]) / name for name in packages]
    if not evaluation:
        folders = [Path(paths["stdlib"]), *folders]
    files = [
        path
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
        if not {"site-packages", "test", "tests", "encodings", "idlelib"}
        & set(path.relative_to(folder).parts)
    ]
    return tuple(path for path in files if 2_000 < path.stat().st_size < 200_000)


@functools.lru_cache(maxsize=2_000)
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def source_text(rng: random.Random, *, evaluation: bool = False) -> str:
    """Return a piece of Python source, with its comments."""
    text = _source(rng.choice(source_files(evaluation=evaluation)))
    start = rng.randrange(max(1, len(text) - 300))
    start = text.find("\n", start) + 1
    return text[start : start + rng.choice([80, 200, 400, 800])]


@functools.cache
def doc_sentences() -> tuple[str, ...]:
    """Return sentences and headings of docstrings and comments of the standard library."""
    sentences: set[str] = set()
    for path in source_files(evaluation=False):
        for block in re.findall(r'"""(.{20,3000}?)"""|# (.{20,90})', _source(path), re.DOTALL):
            for sentence in re.split(r"(?<=[.:?!])\s+|\n\s*\n", block[0] or block[1]):
                plain = " ".join(sentence.split())
                if 15 < len(plain) < 200 and not re.search(r"[<>={}@]|by |Copyright|author", plain):
                    sentences.add(plain)
    return tuple(sorted(sentences))


class SampleGenerator:
    """An endless stream of labelled texts of one seed."""

    def __init__(self, seed: int, *, reserved: bool | None = False) -> None:
        self.filler = TemplateFiller(InventedValues(seed, reserved=reserved))
        self.rng = self.filler.values.rng
        self._templates = read_templates("training_templates")
        self._plain = read_templates("plain_templates")

    def __iter__(self) -> Iterator[TextSample]:
        while True:
            yield self.sample()

    def sample(self) -> TextSample:
        """Return one text: one to four pieces, mostly filled templates, with noise."""
        rng = self.rng
        sample = self._piece()
        while rng.random() < 0.35 and len(sample.text) < 600:
            gap = rng.choice([" ", " ", "\n", "\n\n"])
            sample = sample + TextSample(gap) + self._piece()
        noise = rng.random()
        if noise < 0.12:
            sample = in_lower_case(sample)
        elif noise < 0.15:
            sample = in_upper_case(sample)
        if rng.random() < 0.06:
            sample = without_punctuation(sample)
        if rng.random() < 0.08:
            sample = with_typing_errors(sample, rng)
        return sample

    def _piece(self) -> TextSample:
        rng = self.rng
        form = rng.random()
        if form < 0.56:
            return self.filler.fill(rng.choice(self._templates))
        if form < 0.66:
            return self._sentence_with_values()
        if form < 0.72:
            return self._salad()
        if form < 0.80:
            return TextSample(self._plain_text())
        if form < 0.88:
            return TextSample(rng.choice(doc_sentences()))
        return TextSample(source_text(rng))

    def _plain_text(self) -> str:
        """Return a sentence without values, at times with capitals as in a heading."""
        text = self.filler.fill(self.rng.choice(self._plain)).text
        if self.rng.random() < 0.15:
            text = text.title() if "`" not in text else text
        return text

    def _sentence_with_values(self) -> TextSample:
        """Return a sentence of a docstring in which one or two words became values.

        The words around a value are then no help, so that its own form has to be learned.
        """
        rng = self.rng
        words = rng.choice(doc_sentences()).split(" ")
        for _ in range(rng.choice([1, 1, 2])):
            words[rng.randrange(len(words))] = rng.choice(word_list("slots_in_sentences"))
        text = " ".join(words)
        return self.filler.fill(_without_template_marks(text))

    def _salad(self) -> TextSample:
        """Return unrelated words with values among them."""
        rng = self.rng
        words = [
            rng.choice(word_list("slots_in_salads"))
            if rng.random() < _SLOT_SHARE
            else rng.choice(rng.choice(doc_sentences()).split(" "))
            for _ in range(rng.randint(3, 12))
        ]
        text = rng.choice([" ", " ", ", "]).join(words)
        return self.filler.fill(_without_template_marks(text))


def _without_template_marks(text: str) -> str:
    """Return the text without brackets that a template would read, slots left."""
    return re.sub(r"[\[\]|]", "", re.sub(r"\{(?!\w+\})|(?<!\w)\}", "", text))


def heldout_samples(seed: int, count: int, *, reserved: bool | None) -> list[TextSample]:
    """Return texts of the templates that training does not use, a share of them in lower case."""
    filler = TemplateFiller(InventedValues(seed, reserved=reserved))
    rng = filler.values.rng
    templates = read_templates("heldout_templates")
    samples = []
    for at in range(count):
        sample = filler.fill(templates[at % len(templates)])
        samples.append(in_lower_case(sample) if rng.random() < 0.08 else sample)
    return samples
