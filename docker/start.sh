#!/bin/sh
# Begin with what was compiled when the image was built. It is copied because a CPU of another kind
# compiles its own and keeps that beside it, and the image itself cannot be written to.
mkdir -p "$NUMBA_CACHE_DIR" && cp -Rn "$COMPILED/." "$NUMBA_CACHE_DIR"
exec cortado "$@"
