"""Sign-in by OIDC: tokens of trusted issuers become principals."""
