"""Records: the stored values, their checks and limits, as values and as text. Pure; no storage, no clock."""
