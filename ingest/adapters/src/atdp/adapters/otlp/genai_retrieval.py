"""Attributes of a retrieval."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from atdp.adapters.documents.remainder import remainder_json, restore_from
from atdp.adapters.documents.typed import (
    as_count,
    as_number,
    as_objects,
    as_text,
    without_none,
)
from atdp.adapters.otlp.attributes import structured
from atdp.schemas import Document, Retrieval


def read_retrieval(attributes: Mapping[str, Any]) -> Retrieval:
    """Return the query and the documents of a retrieval."""
    documents = as_objects(structured(attributes.get("gen_ai.retrieval.documents"))) or []
    top_k = as_number(attributes.get("gen_ai.request.top_k"))
    return Retrieval(
        query=as_text(attributes.get("gen_ai.retrieval.query.text")),
        index=as_text(attributes.get("gen_ai.data_source.id")),
        top_k=None if top_k is None else as_count(int(top_k), bits=32),
        documents=tuple(_read_document(each) for each in documents),
    )


def write_retrieval(retrieval: Retrieval) -> dict[str, Any]:
    """Return the attributes that a retrieval's fields say."""
    documents = [restore_from(_write_document(each), each.ext_json) for each in retrieval.documents]
    written = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.query.text": retrieval.query,
        "gen_ai.data_source.id": retrieval.index,
        "gen_ai.request.top_k": None if retrieval.top_k is None else float(retrieval.top_k),
        "gen_ai.retrieval.documents": documents or None,
    }
    return {key: value for key, value in written.items() if value is not None}


def _read_document(entry: Mapping[str, Any]) -> Document:
    document = Document(
        id=as_text(entry.get("id")),
        uri=as_text(entry.get("uri")),
        score=as_number(entry.get("score")),
        text=as_text(entry.get("content")),
    )
    return replace(document, ext_json=remainder_json(_write_document(document), dict(entry)))


def _write_document(document: Document) -> dict[str, Any]:
    return without_none(
        id=document.id, score=document.score, content=document.text, uri=document.uri
    )
