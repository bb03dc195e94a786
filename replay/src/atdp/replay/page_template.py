"""The templates of the pages: all text from data is escaped, for HTML and for what acts on a page.

Markup that is inserted as it is comes from our own plots (`plot_frame.to_svg`).
"""

from collections.abc import Callable

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from atdp.schemas import escape_shown_value


def page_template(name: str, **filters: Callable[..., str]) -> Template:
    """Return a template of this part that has `filters` beside those of Jinja."""
    environment = Environment(
        loader=PackageLoader("atdp.replay", "templates"),
        autoescape=True,
        finalize=escape_shown_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template(name)
