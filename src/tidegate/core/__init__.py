"""The core: sessions, the gate, the five verbs. Nothing above this layer touches storage."""
