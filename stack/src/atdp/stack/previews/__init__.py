"""Previews of policies on the stack: the question, the lake, and the way over HTTP."""
