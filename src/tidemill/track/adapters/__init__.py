"""Callbacks for training frameworks. A framework is imported when its callback is made."""

from tidemill.track.adapters.huggingface import huggingface_callback
from tidemill.track.adapters.lightning import lightning_callback

__all__ = ["huggingface_callback", "lightning_callback"]
