"""The core: sessions, the gate, the five verbs. Only this layer and below touch storage."""
