"""The file system under a table's location, local or S3.

It is pyarrow's file system with the credentials of the catalog's properties.
"""

from pyarrow.fs import FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from atdp.lakehouse.errors import CatalogError


def filesystem_of(table: Table) -> FileSystem:
    """Return the file system of the table's files.

    Raises:
        CatalogError: the table's FileIO is not pyarrow's.
    """
    if not isinstance(table.io, PyArrowFileIO):
        raise CatalogError(
            f"the files of {'.'.join(table.name())} are read through {type(table.io).__name__}, "
            "which cannot list or scan them; "
            "set ATDP_CATALOG__PY_IO_IMPL=pyiceberg.io.pyarrow.PyArrowFileIO"
        )
    scheme, netloc, _ = PyArrowFileIO.parse_location(table.location(), table.io.properties)
    filesystem: FileSystem = table.io.fs_by_scheme(scheme, netloc)
    return filesystem


def path_in_filesystem(location: str) -> str:
    """Return the path of a location inside its file system.

    That is `/tmp/x` for `file:///tmp/x` and `bucket/key` for `s3://bucket/key`.
    """
    return PyArrowFileIO.parse_location(location)[2]


def is_local(location: str) -> bool:
    """Return whether a location is a path of this machine, which DuckDB can read directly."""
    return PyArrowFileIO.parse_location(location)[0] == "file"
