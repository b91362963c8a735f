#!/usr/bin/env bash
#: about RocksDB: db_bench with sync writes, direct I/O and mappings, every checksum verified
#: needs db_bench=rocksdb-tools ldb=rocksdb-tools sst_dump=rocksdb-tools
#: version dpkg-query -W -f '${Version}' rocksdb-tools 2>/dev/null
#: size 2G
. "$COMMON"

n=$((30000 * SCALE))
bench() {
    local db="$1" order="$2"
    shift 2
    db_bench --db="$db" --benchmarks="$order" --num=$n --value_size=400 --threads=2 --seed="$SEED" --verify_checksum=1 \
        --write_buffer_size=2000000 --target_file_size_base=2000000 --compression_type=none --statistics=0 "$@" 2>&1
}
bench "$MNT/buffered" fillseq,overwrite,deleterandom,readrandom,compact,readseq,verifychecksum
bench "$MNT/sync" fillrandom,readrandom,compact,verifychecksum --sync=1 --num=$((3000 * SCALE))
bench "$MNT/direct" fillrandom,overwrite,readrandom,compact,verifychecksum \
    --use_direct_reads=1 --use_direct_io_for_flush_and_compaction=1
bench "$MNT/mapped" fillrandom,overwrite,readrandom,compact,verifychecksum --mmap_read=1 --mmap_write=1
for db in "$MNT"/{buffered,sync,direct,mapped}; do
    ldb --db="$db" checkconsistency
    sst_dump --file="$db" --command=verify
done
echo "4 databases, $(du -sm "$MNT" | cut -f1) MiB"
