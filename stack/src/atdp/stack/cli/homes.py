"""The home that a verb reads. It must exist: a verb that reads never creates one."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atdp.runtime import Home


def existing_home() -> "Home":
    """Return the home of `$ATDP_HOME` (else `./.atdp`).

    With a catalog elsewhere (`ATDP_CATALOG_URI`) the home may be missing so far.

    Raises:
        HomeUnusable: there is no such home, or it belongs to another user.
    """
    from atdp.runtime import Home
    from atdp.stack.errors import HomeUnusable, home_closed

    home = Home.from_env()
    if not home.root.is_dir() and not os.environ.get("ATDP_CATALOG_URI"):
        raise HomeUnusable(
            f"There is no home {home.root}. `atdp up` makes one; ATDP_HOME or --home names another."
        )
    if home.root.is_dir() and not os.access(home.root, os.R_OK | os.X_OK):
        raise home_closed(home.root)
    return home
