"""The local stack: one machine's broker and services, started, watched and stopped together."""
