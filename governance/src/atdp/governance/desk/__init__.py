"""The policy desk: drafts, approvals and activations of policies over the register."""
