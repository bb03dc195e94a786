"""The filter of content for the events of one trajectory.

The messages of a whole context are filtered before they are compared with the context held, which
has filtered messages. The results are kept from one observation to the next, so that only new
messages cost something.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from atdp.schemas import Body, EventId, Governance, Message, contributed_messages
from atdp.sdk.content_filter import ContentFilter
from atdp.sdk.content_rules import RecorderRules
from atdp.sdk.content_texts import RECORDED_BY_REDACT, redact_is_running
from atdp.sdk.envelope import Extras
from atdp.sdk.errors import RedactionFailed
from atdp.sdk.json_text import json_text
from atdp.sdk.messages import as_messages
from atdp.sdk.observations import ShownContext, Tools


class TrajectoryContent:
    """Filters what a trajectory records; used in the turn of an event only."""

    def __init__(self, rules: RecorderRules, inherited: Governance | None) -> None:
        """Filter by the recorder's rules; `inherited` is the stamp of the trajectory's events."""
        self._rules = rules
        self._inherited = inherited
        self._applied = rules.current
        self._messages: dict[Message, Message] = {}
        """The messages shown last as given, each as it is written."""
        self._shown_tools: tuple[str, Any, frozenset[str]] | None = None
        """JSON of the definitions shown last as given, as they are written, kinds withheld."""
        self._withheld: dict[Message, frozenset[str]] = {}
        """The messages from which something was withheld, as they are written, with the kinds. They
        stay, because the context held is sent again after a loss."""
        self._content = ContentFilter(self._applied)
        self._is_shown = False
        """True once the messages of the event at hand have been filtered."""

    def filtered(
        self, build: Callable[[EventId], Body], extras: Extras
    ) -> Callable[[EventId], Body]:
        """Return a function that builds a body as it may be written, and changes `extras` so.

        It raises `RedactionFailed` where a function of `redact` fails, or records an event itself.
        """
        if not self._rules.current:
            return build
        inside = redact_is_running()

        def body(event_id: EventId) -> Body:
            if inside:
                raise RedactionFailed(RECORDED_BY_REDACT)
            return self._body(lambda: build(event_id), extras)

        return body

    def _body(self, build: Callable[[], Body], extras: Extras) -> Body:
        rules = self._rules.current
        if rules is not self._applied:
            self._applied, self._messages, self._shown_tools = rules, {}, None
        content = self._content = ContentFilter(rules)
        self._is_shown = False
        built = build()
        if self._is_shown:
            body = self._note_withheld(built)
        else:
            body = content.body(built)
            for message in contributed_messages(body):
                self._remember(message, content.withheld)
        content.extras(extras, self._inherited)
        return body

    def shown(self, shown: ShownContext) -> ShownContext:
        """Return a context as it may be written, while `filtered` builds the observation of it."""
        if not self._rules.current:
            return shown
        self._is_shown = True
        given, known = as_messages(shown.messages), self._messages
        self._messages = {}
        for message in given:
            self._messages[message] = known.get(message) or self._filtered(message)
        return ShownContext(
            [self._messages[message] for message in given],
            self._tools(shown.tools),
            shown.is_whole,
        )

    def _note_withheld(self, observation: Body) -> Body:
        """Note what was withheld from the messages that an observation sends, and return it."""
        for message in contributed_messages(observation):
            self._content.withheld |= self._withheld.get(message, frozenset())
        return observation

    def _filtered(self, message: Message) -> Message:
        content = ContentFilter(self._applied)
        written = content.message(message)
        self._remember(written, content.withheld)
        return written

    def _remember(self, written: Message, kinds: set[str]) -> None:
        if kinds:
            self._withheld[written] = self._withheld.get(written, frozenset()) | kinds

    def _tools(self, tools: Tools | None) -> Tools | None:
        if tools is None:
            return None
        text = json_text([tools] if isinstance(tools, Mapping | str) else list(tools))
        if self._shown_tools is None or self._shown_tools[0] != text:
            own = ContentFilter(self._applied)
            value = own.json_value(json.loads(text), "tool_definitions")
            self._shown_tools = (text, value, frozenset(own.withheld))
        self._content.withheld |= self._shown_tools[2]
        written: Tools | None = self._shown_tools[1]
        return written
