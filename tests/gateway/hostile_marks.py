"""What the hostile server marks its own text with, so that tests can look for it where it must not be."""

CANARY = "canary-7f3a"
