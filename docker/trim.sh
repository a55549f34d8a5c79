#!/bin/sh
# Takes out of an environment what serving never runs: trim.sh FOLDER
set -eu
packages=$(echo "$1"/lib/python3*/site-packages)

# A quarter is symbols and tests. (What lies in *.libs was patched by its makers, and breaks when it
# is stripped.)
find "$packages" -name "*.so" -not -path "*.libs/*" -exec strip --strip-unneeded {} +
find "$packages" -path "$packages/n*" -type d -name tests -prune -exec rm -rf {} +

# FFmpeg's library does not load without three encoders of video, 30 MB, which nothing here runs.
# Each becomes a library of its name with the functions that are asked for, which do nothing.
list=$(mktemp)
nm -D --undefined-only "$packages"/av.libs/libavcodec-* | awk '{print $2}' | sort -u > "$list"
for encoder in "$packages"/av.libs/libx264-* "$packages"/av.libs/libx265-* "$packages"/av.libs/libSvtAv1Enc-*; do
    nm -D --defined-only "$encoder" | awk '{print $3}' | sort -u | comm -12 "$list" - \
        | sed 's/.*/void *&(void) { return 0; }/' \
        | gcc -shared -fPIC -s -Wl,-soname,"$(basename "$encoder")" -o "$encoder.new" -x c -
    mv "$encoder.new" "$encoder"
done
rm "$list"
