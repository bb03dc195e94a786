"""The broker of the local stack: its jars, its Java runtime and its process."""
