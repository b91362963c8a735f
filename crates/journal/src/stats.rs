//! What an engine counts.

ondol_env::counters! {
    /// Counters of an engine since it was opened. Only engines that log whole blocks tell why transactions were
    /// committed, and which blocks were `kept` or `dead`.
    pub struct EngineStats, "";
    commits: Counter, Number, "Transactions committed.";
    handles: Counter, Number, "Operations that became part of a transaction.";
    journal_blocks: Counter, Blocks, "Blocks written to the journal, or that the lines of a log in NVM fill.";
    images: Counter, Number, "Block images of transactions, wherever they were written.";
    staged_blocks: Counter, Blocks, "Block images written home, before their transaction counted.";
    staged_early_blocks: Counter, Blocks, "Blocks of new data written home before the commit began.";
    kept_blocks: Counter, Blocks, "Blocks of new data that nobody had written when their commit began.";
    staging_ns: Counter, Nanoseconds, "Time that operations spent on writing new data home.";
    dead_blocks: Counter, Blocks, "Blocks that were freed before their commit and never written.";
    passed_bytes: Counter, Bytes, "Bytes of new data written home past the cache and the journal.";
    data_runs: Counter, Number, "Writes of new data to its home; what lies together and was written at once is one.";
    commits_asked: Counter, Number, "Transactions committed because somebody waited for it.";
    commits_age: Counter, Number, "Transactions committed because they were old.";
    commits_dirty: Counter, Number, "Transactions committed because much in them had to be written.";
    commits_kept: Counter, Number, "Transactions committed because they kept much in memory.";
    commits_promises: Counter, Number, "Transactions committed because much journal space was promised.";
    early_flushes: Counter, Number, "Commits that had to flush data first, beside the flush that makes them count.";
    compress_ns: Counter, Nanoseconds, "Time spent on compressing.";
    compress_in_bytes: Counter, Bytes, "Bytes of what was compressed or stored: tables and images.";
    compress_out_bytes: Counter, Bytes, "Bytes that this took in the journal.";
    stored_blocks: Counter, Blocks, "Block images that were not tried to be compressed.";
    zeroed_blocks: Counter, Blocks, "Journal blocks zeroed after their transactions were home.";
    checkpoint_blocks: Counter, Blocks, "Blocks written home by checkpoints.";
    swapped_blocks: Counter, Blocks, "Blocks that checkpoints brought home without copying them.";
    foreground_checkpoints: Counter, Number, "Checkpoints that made an operation wait.";
    foreground_commits: Counter, Number, "Commits that an operation had to do itself to get journal space.";
    stall_ns: Counter, Nanoseconds, "Time that operations waited for journal space or for memory.";
    revokes: Counter, Number, "Revoke records written.";
    log_lines: Counter, Number, "Lines of 64 bytes that a log in NVM has taken.";
    log_voided: Counter, Number, "Records that commits of a log in NVM did not wait for.";
    dirty_bound: Gauge, Bytes, "Bytes that may wait before they are written.";
    uncommitted_bytes: Gauge, Bytes, "Bytes of blocks or records that no commit has made durable.";
    uncommitted_ns: Gauge, Nanoseconds, "How long the oldest of what no commit has made durable has waited.";
    unflushed_bytes: Gauge, Bytes, "Bytes of file data written in place that no flush covers.";
    not_home_bytes: Gauge, Bytes, "Bytes of block images that are in the journal and not home.";
    journal_used_blocks: Gauge, Blocks, "Blocks of the journal, or of the log in NVM, in use.";
    journal_ring_blocks: Gauge, Blocks, "Blocks of the journal, or of the log in NVM.";
    buffer_used_blocks: Gauge, Blocks, "Blocks of NVM beside the log that file data has.";
    buffer_blocks: Gauge, Blocks, "Blocks of NVM beside the log for file data.";
}
