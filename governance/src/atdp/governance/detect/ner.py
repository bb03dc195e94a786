"""Names, places and organisations in prose, by a trained model that the policy names.

`atdp:names` is the model of this package. `spacy:PACKAGE_OR_PATH` and `transformers:PATH` run a
model of the user through Presidio's own recognizers, which map its labels to entities. Nothing is
downloaded: a model that is not installed is refused when the policy is compiled. Presidio's
recognizer for transformers hides a failed inference and returns nothing; here the failure is an
error, so that the record does not pass.
"""

import importlib
import importlib.util
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from atdp.governance.detect.detector import DetectedSpan
from atdp.governance.detect.presidio_recognizers import recognizer_classes
from atdp.governance.errors import DetectorError, PolicyError
from atdp.governance.names import NameModel, shipped_model

_LANGUAGE: Final = "en"
_MAY_HOLD: Final = re.compile(r"[^\W\d_a-z]|[0-9]")
"""A capital, a letter beyond ASCII or a digit."""
_SHIPPED: Final = "atdp:names"
_KINDS: Final = f"{_SHIPPED}, spacy:PACKAGE_OR_PATH or transformers:PATH"


class EntityFinder(Protocol):
    """A trained model that finds entities in a text."""

    @property
    def entities(self) -> frozenset[str]:
        """All entities that it can find."""
        ...

    def find(self, text: str) -> Iterable[tuple[int, int, str, float]]:
        """Return start, end, entity and score of each finding.

        It raises an exception when the model fails; it never returns some of the findings.
        """
        ...


class NerDetector:
    """The detector of a trained model."""

    context: frozenset[str] = frozenset()
    entity: str | None = None
    best_score = 1.0

    def __init__(self, finder: EntityFinder, entities: Iterable[str], name: str) -> None:
        """`entities`: those that the policy wants; `name`: the model as the policy names it."""
        self._finder = finder
        self._entities = frozenset(entities)
        self._rule = f"ner:{name.partition(':')[0]}"

    def scan(self, text: str) -> Sequence[DetectedSpan]:
        """Return the model's findings of the policy's entities."""
        return sorted(
            DetectedSpan(start, end, entity, score, self._rule)
            for start, end, entity, score in self._finder.find(text)
            if entity in self._entities and end > start
        )


class ShippedNames:
    """The model of this package.

    A text of small ASCII letters alone is read only when it holds a word of the name lists.
    """

    def __init__(self, model: NameModel) -> None:
        self._model = model
        self.entities = frozenset(model.entities)

    def find(self, text: str) -> Iterable[tuple[int, int, str, float]]:
        """Return the model's findings."""
        if _MAY_HOLD.search(text) is None and not self._model.has_listed_name(text):
            return ()
        return [(each.start, each.end, each.entity, each.score) for each in self._model.spans(text)]


class SpacyNames:
    """A spaCy pipeline, run by Presidio's `SpacyNlpEngine` and `SpacyRecognizer`."""

    def __init__(self, model: str) -> None:
        if importlib.util.find_spec(model) is None if _is_name(model) else not Path(model).is_dir():
            raise PolicyError(f"the spaCy model {model!r} is neither installed nor a folder")
        recognizer_classes()
        engines: Any = importlib.import_module("presidio_analyzer.nlp_engine")
        predefined: Any = importlib.import_module("presidio_analyzer.predefined_recognizers")
        self._engine = engines.SpacyNlpEngine([{"lang_code": _LANGUAGE, "model_name": model}])
        try:
            self._engine.load()
        except Exception as error:
            raise PolicyError(f"the spaCy model {model!r} cannot be loaded: {error}") from error
        self.entities = frozenset(self._engine.get_supported_entities())
        self._recognizer = predefined.SpacyRecognizer(supported_entities=sorted(self.entities))

    def find(self, text: str) -> Iterable[tuple[int, int, str, float]]:
        """Return the pipeline's entities under Presidio's names."""
        artifacts = self._engine.process_text(text, _LANGUAGE)
        results = self._recognizer.analyze(text, sorted(self.entities), artifacts)
        return [(each.start, each.end, each.entity_type, float(each.score)) for each in results]


class TransformersNames:
    """A token classification model of transformers, run by Presidio's recognizer for it."""

    def __init__(self, folder: str) -> None:
        if not Path(folder).is_dir():
            raise PolicyError(f"transformers:{folder} is not a folder with a saved model")
        recognizer_classes()
        module: Any = importlib.import_module(
            "presidio_analyzer.predefined_recognizers.ner.huggingface_ner_recognizer"
        )
        # It was imported while torch and transformers were hidden.
        module = importlib.reload(module)
        logging.getLogger("presidio-analyzer").disabled = True
        try:
            recognizer = module.HuggingFaceNerRecognizer(
                model_name=folder, device="cpu", aggregation_strategy="first"
            )
        except Exception as error:
            raise PolicyError(f"transformers:{folder} cannot be loaded: {error}") from error
        labels = recognizer.ner_pipeline.model.config.id2label.values()
        self.entities = frozenset(
            recognizer.label_mapping.get(label, label)
            for label in map(recognizer._normalize_label, labels)
        )
        self._recognizer = recognizer
        self._pipeline = recognizer.ner_pipeline = _WatchedPipeline(recognizer.ner_pipeline)

    def find(self, text: str) -> Iterable[tuple[int, int, str, float]]:
        """Return the model's entities under Presidio's names.

        Raises:
            DetectorError: the model failed on a part of the text.
        """
        self._pipeline.failure = None
        results = self._recognizer.analyze(text, sorted(self.entities))
        if self._pipeline.failure is not None:
            raise DetectorError(f"the model failed: {self._pipeline.failure}")
        return [(each.start, each.end, each.entity_type, float(each.score)) for each in results]


class _WatchedPipeline:
    """A pipeline that remembers the class of its last error, which its caller hides."""

    def __init__(self, pipeline: Callable[[str], Any]) -> None:
        self._pipeline = pipeline
        self.failure: str | None = None

    def __call__(self, text: str) -> Any:
        try:
            return self._pipeline(text)
        except Exception as error:
            self.failure = type(error).__name__
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipeline, name)


def ner_detector(model: str, entities: Iterable[str]) -> NerDetector:
    """Return the detector of the model that a policy names.

    Raises:
        PolicyError: there is no such model here, or it cannot find one of the entities.
    """
    kind, _, where = model.partition(":")
    finder: EntityFinder
    if model == _SHIPPED:
        finder = ShippedNames(shipped_model())
    elif kind == "spacy" and where:
        finder = SpacyNames(where)
    elif kind == "transformers" and where:
        finder = TransformersNames(where)
    else:
        raise PolicyError(f"ner: unknown model {model!r}; name {_KINDS}")
    if unknown := sorted(set(entities) - finder.entities):
        raise PolicyError(
            f"ner: {model} does not find {', '.join(unknown)}; "
            f"it finds {', '.join(sorted(finder.entities))}"
        )
    return NerDetector(finder, entities, model)


def _is_name(model: str) -> bool:
    return model.isidentifier()
