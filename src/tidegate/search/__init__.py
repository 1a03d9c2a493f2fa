"""Search: the words of a text in any language, and the ranking of matches. Pure."""
