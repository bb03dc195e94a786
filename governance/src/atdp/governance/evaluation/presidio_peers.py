"""Plain Presidio as a peer: its own analyzer with the entities of a policy.

`presidio patterns` has Presidio's pattern recognizers, with the context words that raise their
scores; spaCy's tokenizer alone is needed, and no model. Where spaCy's English model is installed,
`presidio <model>` adds its named entities, as Presidio does by default. A result counts from the
score 0.4 on: below it Presidio reports nearly every number as a driver's licence.
"""

import importlib
import importlib.util
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from atdp.governance.detect.presidio_recognizers import recognizer_classes
from atdp.governance.evaluation.labelled_texts import LabelledSpan

MIN_SCORE: Final = 0.4
_MODELS: Final = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")
_MODEL_ENTITIES: Final = ("PERSON", "LOCATION", "ORGANIZATION", "NRP", "DATE_TIME")


class PresidioPeer:
    """One `AnalyzerEngine`. `name` stands in the rows of the evaluation."""

    def __init__(self, name: str, engine: Any, entities: Sequence[str]) -> None:
        self.name = name
        self._engine = engine
        supported = set(engine.get_supported_entities("en"))
        self._entities = sorted(supported.intersection(entities))

    def find(self, text: str) -> Sequence[LabelledSpan]:
        """Return the analyzer's results for a text."""
        results = self._engine.analyze(
            text, language="en", entities=self._entities, score_threshold=MIN_SCORE
        )
        return [LabelledSpan.of(each.start, each.end, each.entity_type) for each in results]


def presidio_peers(entities: Sequence[str]) -> Iterator[PresidioPeer]:
    """Yield Presidio with patterns alone, and with spaCy's English model where one is installed."""
    # Loads Presidio without torch, and without its log messages and downloads.
    recognizer_classes()
    presidio: Any = importlib.import_module("presidio_analyzer")
    engines: Any = importlib.import_module("presidio_analyzer.nlp_engine")
    registry = presidio.RecognizerRegistry(supported_languages=["en"])
    registry.load_predefined_recognizers(languages=["en"])
    registry.remove_recognizer("SpacyRecognizer")
    yield PresidioPeer(
        "presidio patterns",
        presidio.AnalyzerEngine(
            registry=registry, nlp_engine=_tokenizing_engine(engines), supported_languages=["en"]
        ),
        entities,
    )
    model = next((name for name in _MODELS if importlib.util.find_spec(name)), None)
    if model is not None:
        provider = engines.NlpEngineProvider(
            nlp_configuration={
                "nlp_engine_name": "spacy",
                "models": [{"lang_code": "en", "model_name": model}],
            }
        )
        engine = presidio.AnalyzerEngine(
            nlp_engine=provider.create_engine(), supported_languages=["en"]
        )
        yield PresidioPeer(f"presidio {model}", engine, (*entities, *_MODEL_ENTITIES))


def _tokenizing_engine(engines: Any) -> Any:
    """Return an engine whose lemmas are the lower-case words.

    Presidio's own engine without a model has empty lemmas, which switches context words off.
    """
    spacy: Any = importlib.import_module("spacy")
    logging.getLogger("presidio-analyzer").disabled = True

    spacy.Language.component("atdp_lower_case_lemmas", func=_with_lower_case_lemmas)
    model = spacy.blank("en")
    model.add_pipe("atdp_lower_case_lemmas")
    engine = engines.SpacyNlpEngine(models=[{"lang_code": "en", "model_name": "en"}])
    engine.nlp = {"en": model}
    return engine


def _with_lower_case_lemmas(document: Any) -> Any:
    for token in document:
        token.lemma_ = token.lower_
    return document
