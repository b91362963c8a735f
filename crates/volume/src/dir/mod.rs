//! Names: directories as linear blocks and as htrees, and the operations on them.
