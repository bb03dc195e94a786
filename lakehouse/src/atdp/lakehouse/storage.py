"""Storage: the file system under a table's location, local or S3, as pyarrow sees it with the catalog's properties."""

from pyarrow.fs import FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from atdp.lakehouse.errors import CatalogError


def filesystem_of(table: Table) -> FileSystem:
    """The file system of the table's files, with the credentials of the catalog's configuration.

    Raises:
        CatalogError: the table's FileIO is not pyarrow's.
    """
    if not isinstance(table.io, PyArrowFileIO):
        raise CatalogError(
            f"the files of {'.'.join(table.name())} are reached by {type(table.io).__name__}, which cannot list or scan; "
            "set ATDP_CATALOG__PY_IO_IMPL=pyiceberg.io.pyarrow.PyArrowFileIO"
        )
    scheme, netloc, _ = PyArrowFileIO.parse_location(table.location(), table.io.properties)
    found: FileSystem = table.io.fs_by_scheme(scheme, netloc)
    return found


def path_in_filesystem(location: str) -> str:
    """The path of a location inside its file system (`/tmp/x` for `file:///tmp/x`, `bucket/key` for `s3://bucket/key`)."""
    return PyArrowFileIO.parse_location(location)[2]


def is_local(location: str) -> bool:
    """Whether a location is a path of this machine, which DuckDB can read by itself."""
    return PyArrowFileIO.parse_location(location)[0] == "file"
