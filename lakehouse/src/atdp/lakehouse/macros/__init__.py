"""SQL functions of every connection, as SQL files; created in the order of `connection.MACROS`."""
