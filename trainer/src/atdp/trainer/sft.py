"""A supervised run: governed conversations → rows → a published version.

How training is done: sft.py.
"""

import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from tokenizers import Tokenizer

from atdp.inference import TURN_END, ChatTemplate, default_template, train_tokenizer
from atdp.trainer.base import already_published, identity, newest
from atdp.trainer.errors import SourceError
from atdp.trainer.model import load_model, new_model, save_model, save_tokenizer
from atdp.trainer.options import Progress, Told, TrainOptions, TrainResult, reasons
from atdp.trainer.position import Position
from atdp.trainer.registry import Lineage, WeightRegistry
from atdp.trainer.run_name import settings_hash, unpublished_name
from atdp.trainer.sft_loop import SftRules, conversation_row, rendered_texts, supervise
from atdp.trainer.source import TrajectorySource


def imitate(
    options: TrainOptions,
    registry: WeightRegistry,
    source: TrajectorySource,
    on_progress: Progress,
    on_begin: Told,
) -> TrainResult:
    """Train a new model, or one that exists, to write what was logged; publish it.

    Raises SourceError when there is no conversation to learn from.
    """
    base = newest(registry, options) if options.from_version is not None else None
    rules = SftRules(
        steps=options.steps, batch=options.batch, learning_rate=options.rate, seed=options.seed
    )
    new = (asdict(options.shape), options.vocabulary)
    settings = settings_hash(
        asdict(replace(rules, steps=0)), options.selection, identity(base) if base else new
    )
    if (done := already_published(options, registry, settings)) is not None:
        return done
    name = options.run_name or unpublished_name(registry, options.model, "sft", base, settings)
    on_begin(f"run {name}, " + (f"from {base.model} {base.version}" if base else "a new model"))
    poll = source.poll(Position())
    told = [
        t
        for t in poll.trajectories
        if any(message.get("role") == "assistant" for message in t.messages)
    ]
    if not told:
        raise SourceError(
            f"no governed conversation to learn from ({reasons(poll.refused)}); import or record some first"
        )
    with tempfile.TemporaryDirectory(prefix="atdp-tokenizer-") as scratch:
        if base is None:
            tokenizer_from = Path(scratch)
            template = ChatTemplate(default_template(), eos_token=TURN_END)
            trained = train_tokenizer(rendered_texts(told, template), options.vocabulary)
            save_tokenizer(trained, tokenizer_from, context=options.shape.context)
            model = new_model(options.shape, trained, seed=options.seed)
        else:
            tokenizer_from = base.path
            model = load_model(base.path)
        template, tokenizer = _language(tokenizer_from)
        rows = [conversation_row(t.messages, t.tools, template, tokenizer) for t in told]
        metrics = supervise(
            model, rows, rules, on_step=lambda n, figures: on_progress(n, options.steps, figures)
        )
        lineage = Lineage(
            run_id=name,
            kind="sft",
            parent=base.version if base else None,
            snapshots=poll.snapshots,
            policy_versions=tuple(sorted({t.policy for t in told if t.policy})),
            trained_on={t.key: t.task for t in told},
            config={"settings": settings, **options.to_json(), **asdict(rules)},
            metrics=metrics,
        )
        published = registry.publish(
            options.model,
            lambda path: save_model(model, path, tokenizer_from=tokenizer_from),
            lineage,
        )
    return TrainResult(
        published=published,
        steps=options.steps,
        trajectories_used=len(told),
        set_aside={},
        refused=poll.refused,
        metrics=metrics,
    )


def _language(directory: Path) -> tuple[ChatTemplate, Tokenizer]:
    settings = json.loads((directory / "tokenizer_config.json").read_text())
    template = ChatTemplate(settings.get("chat_template") or default_template(), eos_token=TURN_END)
    return template, Tokenizer.from_file(str(directory / "tokenizer.json"))
