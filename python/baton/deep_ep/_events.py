"""Events, as DeepEP's calls take and return them. On CPU ranks work is done when a call returns, and there is nothing to wait for."""
from typing import Any, Optional

import torch


class EventHandle:
    """What the current stream has been given until now."""

    def __init__(self, is_on_gpu: Optional[bool] = None) -> None:
        if is_on_gpu is None:
            is_on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
        self.event = torch.cuda.current_stream().record_event() if is_on_gpu else None

    def current_stream_wait(self) -> None:
        """The current stream goes on behind it."""
        if self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)

    def __repr__(self) -> str:
        return f"<baton.deep_ep.EventHandle: {'work is done when a call returns' if self.event is None else self.event}>"


class EventOverlap:
    """An event, or none, and tensors to keep until somebody has waited for it. As a context: waits at its end."""

    def __init__(self, event: Optional[EventHandle] = None, extra_tensors: Optional[tuple] = None) -> None:
        self.event, self.extra_tensors = event, extra_tensors

    def current_stream_wait(self) -> None:
        """The current stream goes on behind the event."""
        assert self.event is not None, "there is an event only with async_finish"
        self.event.current_stream_wait()

    def __enter__(self) -> "EventOverlap":
        return self

    def __repr__(self) -> str:
        return f"<baton.deep_ep.EventOverlap: {'no event' if self.event is None else self.event}>"

    def __exit__(self, *_: Any) -> None:
        if self.event is not None:
            self.current_stream_wait()
