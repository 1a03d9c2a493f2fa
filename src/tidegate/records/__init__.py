"""Records: what is kept, its checks and its limits, as values and as text. Pure; no storage, no clock."""
