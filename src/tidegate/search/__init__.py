"""Search: the words of a text in any language, and the ranking of what matches. Pure."""
