"""Streaming speech recognition with monotonic chunkwise attention."""
