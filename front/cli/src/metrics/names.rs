//! What counters are called in Prometheus, and what they mean.

/// What kind of number it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It grows as long as the mount lives.
    Counter,
    /// It is what it is now.
    Gauge,
}

/// In what unit the server has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// As it is shown.
    Same,
    /// Nanoseconds, shown as seconds.
    Nanoseconds,
    /// Blocks, shown as bytes.
    Blocks,
}

/// One counter.
pub(crate) struct Name {
    /// As in `ondol::Counters`.
    pub(crate) counter: &'static str,
    pub(crate) metric: &'static str,
    pub(crate) kind: Kind,
    pub(crate) unit: Unit,
    pub(crate) help: &'static str,
}

const fn counter(counter: &'static str, metric: &'static str, help: &'static str) -> Name {
    Name { counter, metric, kind: Kind::Counter, unit: Unit::Same, help }
}

const fn seconds(counter: &'static str, metric: &'static str, help: &'static str) -> Name {
    Name { counter, metric, kind: Kind::Counter, unit: Unit::Nanoseconds, help }
}

const fn gauge(counter: &'static str, metric: &'static str, help: &'static str) -> Name {
    Name { counter, metric, kind: Kind::Gauge, unit: Unit::Same, help }
}

const fn space(counter: &'static str, metric: &'static str, help: &'static str) -> Name {
    Name { counter, metric, kind: Kind::Gauge, unit: Unit::Blocks, help }
}

#[rustfmt::skip]
pub(crate) const NAMES: &[Name] = &[
    counter("device_reads", "ondol_device_reads_total", "Read calls to the image's medium."),
    counter("device_bytes_read", "ondol_device_read_bytes_total", "Bytes read from the image's medium."),
    counter("device_writes", "ondol_device_writes_total", "Write calls to the image's medium; a vectored one is one."),
    counter("device_bytes_written", "ondol_device_written_bytes_total", "Bytes written to the image's medium."),
    counter("device_flushes", "ondol_device_flushes_total", "Flushes of the image's medium."),
    counter("nvm_bytes", "ondol_nvm_stored_bytes_total", "Bytes stored to NVM, through the caches or past them."),
    counter("nvm_copied_bytes", "ondol_nvm_copied_bytes_total", "Bytes copied to NVM past the caches."),
    counter("nvm_lines", "ondol_nvm_written_back_lines_total", "Cache lines written back to NVM."),
    counter("nvm_fences", "ondol_nvm_fences_total", "Fences behind stores to NVM."),
    counter("nvm_bytes_read", "ondol_nvm_read_bytes_total", "Bytes read from NVM."),
    counter("commits", "ondol_journal_commits_total", "Transactions committed."),
    counter("handles", "ondol_journal_operations_total", "Operations that became part of a transaction."),
    counter("journal_blocks", "ondol_journal_written_blocks_total", "Blocks written to the journal, or as many as the lines of a log in NVM fill."),
    counter("images", "ondol_journal_images_total", "Block images that transactions had."),
    counter("staged_blocks", "ondol_journal_staged_blocks_total", "Block images written home before their transaction counted."),
    counter("staged_early_blocks", "ondol_journal_staged_early_blocks_total", "Blocks of new data that were written home before the commit began."),
    counter("kept_blocks", "ondol_journal_kept_blocks_total", "Blocks of new data that nobody had written when their commit began."),
    seconds("staging_ns", "ondol_journal_staging_seconds_total", "Time that operations spent on writing new data home."),
    counter("dead_blocks", "ondol_journal_dead_blocks_total", "Blocks that were freed before their commit and never written."),
    counter("passed_bytes", "ondol_journal_passed_bytes_total", "Bytes of new data that operations wrote home past the cache and the journal."),
    counter("data_runs", "ondol_journal_data_runs_total", "Writes of new data to its home; what was written at once is one."),
    counter("commits_asked", "ondol_journal_commits_asked_total", "Transactions committed because somebody waited for it."),
    counter("commits_age", "ondol_journal_commits_age_total", "Transactions committed because they were old."),
    counter("commits_dirty", "ondol_journal_commits_dirty_total", "Transactions committed because much in them had to be written."),
    counter("commits_kept", "ondol_journal_commits_kept_total", "Transactions committed because they kept much in memory."),
    counter("commits_promises", "ondol_journal_commits_promises_total", "Transactions committed because much journal space was promised."),
    counter("stored_blocks", "ondol_journal_stored_blocks_total", "Block images that were not tried to be compressed."),
    counter("zeroed_blocks", "ondol_journal_zeroed_blocks_total", "Journal blocks zeroed after their transactions were home."),
    counter("early_flushes", "ondol_journal_early_flushes_total", "Commits that had to flush data first."),
    seconds("compress_ns", "ondol_journal_compress_seconds_total", "Time spent on compressing."),
    counter("compress_bytes_in", "ondol_journal_compress_input_bytes_total", "Bytes of what was compressed or stored."),
    counter("compress_bytes_out", "ondol_journal_compress_output_bytes_total", "Bytes that this took in the journal."),
    counter("checkpoint_blocks", "ondol_checkpoint_blocks_total", "Blocks written home by checkpoints."),
    counter("swapped_blocks", "ondol_checkpoint_swapped_blocks_total", "Blocks that checkpoints brought home without copying them."),
    counter("revokes", "ondol_journal_revokes_total", "Revoke records written."),
    counter("log_lines", "ondol_journal_log_lines_total", "Lines of 64 bytes that a log in NVM has taken."),
    counter("log_voided", "ondol_journal_voided_records_total", "Records that commits of a log in NVM did not wait for."),
    counter("foreground_commits", "ondol_stall_commits_total", "Commits that an operation had to do itself to get journal space."),
    counter("foreground_checkpoints", "ondol_stall_checkpoints_total", "Checkpoints that made an operation wait."),
    seconds("stall_ns", "ondol_stall_seconds_total", "Time that operations waited for journal space, or for memory that a checkpoint frees."),
    gauge("dirty_bound", "ondol_dirty_bound_bytes", "Bytes that may wait before they are written: what the device writes in a stated time, within limits."),
    gauge("uncommitted_bytes", "ondol_uncommitted_bytes", "Bytes of blocks, or of log records, that no commit has made durable."),
    Name { counter: "uncommitted_ns", metric: "ondol_uncommitted_age_seconds", kind: Kind::Gauge, unit: Unit::Nanoseconds, help: "How long the oldest of what no commit has made durable has waited." },
    gauge("unflushed_bytes", "ondol_unflushed_bytes", "Bytes of file data written in place that no flush covers."),
    gauge("not_home_bytes", "ondol_not_home_bytes", "Bytes of block images that are in the journal, or on their way there, and not home."),
    gauge("orphans", "ondol_orphans", "Inodes that are deleted and still in use, or being truncated."),
    space("journal_used_blocks", "ondol_journal_used_bytes", "Bytes of the journal, or of the log in NVM, in use."),
    space("journal_ring_blocks", "ondol_journal_size_bytes", "Bytes of the journal, or of the log in NVM."),
    space("buffer_used_blocks", "ondol_buffer_used_bytes", "Bytes of NVM beside the log that file data has."),
    space("buffer_blocks", "ondol_buffer_size_bytes", "Bytes of NVM beside the log for file data."),
    counter("cache_hits", "ondol_cache_hits_total", "Blocks that were in the cache."),
    counter("cache_misses", "ondol_cache_misses_total", "Blocks that were not in the cache."),
    space("cached_blocks", "ondol_cached_bytes", "Bytes of blocks in the cache."),
    gauge("cached_inodes", "ondol_cached_inodes", "Inodes in memory."),
    counter("view_lent_bytes", "ondol_view_lent_bytes_total", "Bytes of views of files that were lent as they are stored."),
    counter("view_copied_bytes", "ondol_view_copied_bytes_total", "Bytes of views of files that were copied."),
    counter("map_commits", "ondol_map_commits_total", "Commits of mapped files."),
    counter("map_commit_bytes", "ondol_map_commit_bytes_total", "Bytes that commits of mapped files wrote."),
    counter("map_commit_exchanges", "ondol_map_commit_exchanges_total", "Pages that commits of mapped files exchanged."),
    gauge("pinned_pages", "ondol_pinned_pages", "Pages of the pool that are read in place."),
    gauge("pinnable_pages", "ondol_pinnable_pages", "Pages of the pool that may be read in place at a time."),
    gauge("held_pages", "ondol_held_pages", "Pages of the pool that were overwritten or removed and are read in place still."),
    gauge("parted_pages", "ondol_parted_pages", "Pages of the pool that private copies have taken the place of."),
    gauge("transactions_replayed", "ondol_recovered_transactions", "Transactions that were replayed when the volume was opened."),
];
