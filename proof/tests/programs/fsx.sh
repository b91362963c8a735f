#!/usr/bin/env bash
#: about random operations on one file against a copy in memory: fsx, with mappings, holes, copies
#: needs fsx=cargo:fsx
#: version cargo install --list --root "$(dirname "$(command -v fsx)")/.." | grep '^fsx ' | tr -d :
#: size 128M
#: seconds 300
. "$COMMON"

weights='close_open = 1
invalidate = 1
truncate = 4
fsync = 1
fdatasync = 1
posix_fallocate = 2
punch_hole = 3
sendfile = 3
posix_fadvise = 1
copy_file_range = 3'
# Aligned, fsx allocates ranges of no bytes, which are refused everywhere.
printf 'flen = 262144\n[weights]\n%s\n' "$weights" >bytes.toml
printf 'flen = 1048576\n[opsize]\nalign = 4096\nmax = 131072\n[weights]\n%s\n' "${weights/posix_fallocate = 2/}" >blocks.toml
printf 'flen = 4000000\nnomsyncafterwrite = true\n[opsize]\nmax = 20000\n[weights]\n%s\n' "$weights" >wide.toml
done=0
seeds=$((5 * SCALE))
[ -z "$SHORT" ] || seeds=1
for seed in $(seq "$SEED" $((SEED + seeds - 1))); do
    for config in bytes blocks wide; do
        fsx -q -S "$seed" -N 8000 -f $config.toml -P "$HOST" "$MNT/$config-$seed" || {
            echo "fsx -S $seed -f $config.toml ended with $?"
            exit 1
        }
        done=$((done + 8000))
        rm "$MNT/$config-$seed"
    done
done
echo "$done operations"
