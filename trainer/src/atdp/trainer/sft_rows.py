"""Training rows from logged conversations, for supervised training.

Loss is on the text that the assistant wrote, with its end-of-turn token; everything else is
context. The chat template must be prefix-stable. Then the pieces of a conversation are independent:
they are tokenised one by one, and no token spans two of them.
"""

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from atdp.inference import ChatTemplate, Message, Tool
from atdp.trainer.errors import TrainingError
from atdp.trainer.linearize import Row
from atdp.trainer.trajectory import TrainingTrajectory


def conversation_row(
    messages: Sequence[Message], tools: Sequence[Tool], template: ChatTemplate, tokenizer: Tokenizer
) -> Row:
    """Return one conversation as a row.

    Raises:
        TrainingError: the template is not prefix-stable for it, so that there is no exact loss
            mask; or it has no message of the assistant.
    """
    tokens: list[int] = []
    trained: list[bool] = []
    tokenised = ""

    def extend(text: str, *, train: bool) -> None:
        nonlocal tokenised
        if not text.startswith(tokenised):
            raise TrainingError(
                "the chat template changes earlier turns when later ones are added; "
                "use a prefix-stable template"
            )
        ids = tokenizer.encode(text[len(tokenised) :], add_special_tokens=False).ids
        tokens.extend(ids)
        trained.extend([train] * len(ids))
        tokenised = text

    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            extend(
                template.render(messages[:number], tools, add_generation_prompt=True), train=False
            )
            extend(template.render(messages[: number + 1], tools), train=True)
    if not tokens:
        raise TrainingError("the conversation has no assistant message")
    return Row(
        tokens=np.array(tokens, np.int64),
        trained=np.array(trained, bool),
        logprobs=np.zeros(len(tokens), np.float32),
    )


def rendered_texts(trajectories: Sequence[TrainingTrajectory], template: ChatTemplate) -> list[str]:
    """Return the conversations as the model sees them, to train a tokenizer on."""
    return [template.render(t.messages, t.tools) for t in trajectories if t.messages]
