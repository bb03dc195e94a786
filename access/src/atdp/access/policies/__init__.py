"""The decisions about policies: their entries in the register, their rules, and the fold."""
