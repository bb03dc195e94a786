"""The examples of policies, governed as the gate governs events."""
