"""Settings of the lake: its catalog and its warehouse.

The default is a SQLite catalog and a folder in the home. Other places are a matter of
configuration, for example

    ATDP_CATALOG_URI=https://catalog.example/api  ATDP_WAREHOUSE=s3://lake/atdp
    ATDP_CATALOG__TYPE=rest  ATDP_CATALOG__CREDENTIAL=id:secret
    ATDP_CATALOG__S3__ENDPOINT=https://…

`ATDP_CATALOG__<PROPERTY>` is any pyiceberg property: lower-cased, `__` is a dot and `_` a hyphen
(`ATDP_CATALOG__S3__ACCESS_KEY_ID` is `s3.access-key-id`).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sqlalchemy import URL, make_url

from atdp.lakehouse.errors import CatalogError
from atdp.runtime import Home

_PREFIX = "ATDP_CATALOG__"


@dataclass(frozen=True, kw_only=True, slots=True)
class LakeSettings:
    """The catalog in which tables are registered, and the location of their files."""

    uri: str
    """SQLAlchemy URL of a SQL catalog (sqlite:///, postgresql+psycopg2://) or http(s) URL of a REST
    catalog."""

    warehouse: str
    """Root of the tables' locations: `file:///…` or `s3://bucket/prefix`."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further pyiceberg properties; they may hold credentials, so they are not in the repr."""

    @classmethod
    def from_env(cls, home: Home, environ: Mapping[str, str] | None = None) -> Self:
        """Return the settings of the environment, else the SQLite catalog and warehouse of `home`.

        Raises:
            CatalogError: the home's path cannot be written as a location.
        """
        env = os.environ if environ is None else environ
        extra = {
            name.removeprefix(_PREFIX).lower().replace("__", ".").replace("_", "-"): value
            for name, value in env.items()
            if name.startswith(_PREFIX)
        }
        catalog = URL.create("sqlite", database=str(home.catalog_db))
        return cls(
            uri=env.get("ATDP_CATALOG_URI") or catalog.render_as_string(),
            warehouse=env.get("ATDP_WAREHOUSE") or _location(home.warehouse),
            properties=extra,
        )

    @property
    def sqlite_file(self) -> str | None:
        """The path of the catalog's file when it is SQLite, else None."""
        return make_url(self.uri).database if self.uri.startswith("sqlite:") else None


def _location(folder: Path) -> str:
    """Return the location of a folder.

    Iceberg does not percent-encode locations (`Path.as_uri` does), so a few characters have no
    form.
    """
    if set("#?;") & set(str(folder)):
        raise CatalogError(
            f"{folder} cannot hold a warehouse: '#', '?' and ';' have no form in a location; "
            "move the home"
        )
    return f"file://{folder}"
