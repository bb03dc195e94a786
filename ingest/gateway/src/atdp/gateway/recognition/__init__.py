"""The recognition of conversations whose client names no session: hints first, then messages."""
