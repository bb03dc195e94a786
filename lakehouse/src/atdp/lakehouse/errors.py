"""Errors of the lakehouse: one base; each class says which boundary failed and what its caller may do next.

Three fates: `CommitRefused` and `WriteTooOld` mean *reload and go on from the table's own
position*; `TopicChanged`, `PositionsLost` and `UndecodableRecord` mean *stop, a person decides*;
`QueryRefused`, `QueryFailed` and `DatasetError` go back to the user who asked.
"""


class LakehouseError(Exception):
    """Base of everything the lakehouse raises on purpose."""


class CatalogError(LakehouseError):
    """The catalog or warehouse cannot be opened, or a table in it is not one of ours."""


class CommitRefused(LakehouseError):
    """Another writer has committed these offsets: what was being written is a repetition.

    Reload and go on.
    """


class WriteTooOld(LakehouseError):
    """Data files lay uncommitted for so long that garbage collection may take them.

    Reload and write again.
    """


class TopicChanged(LakehouseError):
    """The topic is not the one whose offsets the table holds (recreated, or another cluster)."""


class PositionsLost(LakehouseError):
    """A table has rows, but no snapshot says up to which offsets; starting over would repeat them all."""


class UndecodableRecord(LakehouseError):
    """A record of the log cannot be read or stored; it is named and never skipped on its own.

    `index` is its place in the batch that was being decoded.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class SnapshotGone(LakehouseError):
    """A snapshot was asked for that has been expired."""


class QueryRefused(LakehouseError):
    """The statement, the caller or the purpose is not allowed."""


class QueryFailed(LakehouseError):
    """The statement is allowed but wrong: a name that does not exist, a type that does not fit, too slow, too big."""


class DatasetError(LakehouseError):
    """A dataset cannot be created or read under that name."""
