"""The learning algorithms as pure functions: advantages, policy losses, diagnostics."""
