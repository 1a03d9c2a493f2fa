"""Whether an audit chain holds, in the plainest form: what `tidegate audit verify` must agree with."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from tidegate.audit.chain import Entry, Place, chain


def first_break(entries: Iterable[Entry], place: Place | None, secret: bytes | None = None) -> int | None:
    """The sequence number at which the chain stops holding, or None when all of it holds."""
    last: Entry | None = None
    form: Place | None = None  # the earlier form, until the first entry of the present one
    for entry in entries:
        if entry.hash == chain(entry.event, last, place, secret).hash:
            form = place
        expected = chain(entry.event, last, form, secret)
        in_place = entry.sequence == expected.sequence and entry.previous == expected.previous
        if not (in_place and hmac.compare_digest(entry.hash.encode(), expected.hash.encode())):
            return expected.sequence
        last = entry
    return None
