"""Permanent removal of a deleted version, with its entry (P9)."""

from __future__ import annotations

from datetime import datetime

from tidegate.audit.chain import Action, version_event
from tidegate.storage.base import OwnerCompartment, VersionId


def remove(owner_compartment: OwnerCompartment, at: datetime, session: str, version: VersionId) -> bool:
    """Remove the version, inside a transaction; return whether it existed."""
    removed = owner_compartment.purge_version(version)
    if removed is not None:
        owner_compartment.append(version_event(owner_compartment.place, at, session, Action.PURGE, removed))
    return removed is not None
