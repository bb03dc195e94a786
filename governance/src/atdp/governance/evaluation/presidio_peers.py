"""Plain Presidio as a peer: its own analyzer with the entities of a policy.

`presidio patterns` has Presidio's pattern recognizers, with the context words that raise their
scores; spaCy's tokenizer alone is needed, and no model. Where spaCy's English model is installed,
`presidio <model>` adds its named entities, as Presidio does by default. A result counts from the
score 0.4 on: below it Presidio reports nearly every number as a driver's licence.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from atdp.governance.detect.presidio_recognizers import recognizer_classes
from atdp.governance.evaluation.labelled_texts import LabelledSpan

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpEngine
    from spacy.tokens import Doc

_MIN_SCORE: Final = 0.4
_MODELS: Final = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")
_MODEL_ENTITIES: Final = ("PERSON", "LOCATION", "ORGANIZATION", "NRP", "DATE_TIME")


class PresidioPeer:
    """One `AnalyzerEngine`. `name` stands in the rows of the evaluation."""

    def __init__(self, name: str, engine: "AnalyzerEngine", entities: Sequence[str]) -> None:
        self.name = name
        self._engine = engine
        self._entities = sorted(set(engine.get_supported_entities("en")).intersection(entities))

    def find(self, text: str) -> Sequence[LabelledSpan]:
        """Return the analyzer's results for a text."""
        results = self._engine.analyze(
            text, language="en", entities=self._entities, score_threshold=_MIN_SCORE
        )
        return [LabelledSpan.of(each.start, each.end, each.entity_type) for each in results]


def presidio_peers(entities: Sequence[str]) -> Iterator[PresidioPeer]:
    """Yield Presidio with patterns alone, and with spaCy's English model where one is installed."""
    # Loads Presidio without torch, and without its log messages and downloads.
    recognizer_classes()
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import NlpEngineProvider

    registry = RecognizerRegistry(supported_languages=["en"])
    registry.load_predefined_recognizers(languages=["en"])
    registry.remove_recognizer("SpacyRecognizer")
    engine = AnalyzerEngine(
        registry=registry, nlp_engine=_tokenizing_engine(), supported_languages=["en"]
    )
    yield PresidioPeer("presidio patterns", engine, entities)
    model = next(filter(find_spec, _MODELS), None)
    if model is not None:
        provider = NlpEngineProvider(
            nlp_configuration={
                "nlp_engine_name": "spacy",
                "models": [{"lang_code": "en", "model_name": model}],
            }
        )
        engine = AnalyzerEngine(nlp_engine=provider.create_engine(), supported_languages=["en"])
        yield PresidioPeer(f"presidio {model}", engine, (*entities, *_MODEL_ENTITIES))


def _tokenizing_engine() -> "NlpEngine":
    """Return an engine whose lemmas are the lower-case words.

    Presidio's own engine without a model has empty lemmas, which switches context words off.
    """
    import spacy
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    spacy.Language.component("atdp_lower_case_lemmas", func=_with_lower_case_lemmas)
    model = spacy.blank("en")
    model.add_pipe("atdp_lower_case_lemmas")
    engine = SpacyNlpEngine(models=[{"lang_code": "en", "model_name": "en"}])
    engine.nlp = {"en": model}
    return engine


def _with_lower_case_lemmas(document: "Doc") -> "Doc":
    for token in document:
        token.lemma_ = token.lower_
    return document
