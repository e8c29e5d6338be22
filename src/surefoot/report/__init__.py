"""Results made visible; nothing is decided here."""
