"""Records: the stored values, their checks and limits, and their text forms. Pure: no storage, no clock."""
