//! What is wrong with a chunk.

/// Why the value of a chunk's key cannot be used, or a chunk cannot be made into one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// Chunks cannot have this size.
    #[error("chunks of {bytes} bytes: their size is a power of two from 4096 to 65536")]
    Size {
        /// The size in bytes.
        bytes: u64,
    },
    /// A buffer for a chunk has not the size of one.
    #[error("chunk {number}: a buffer of {bytes} bytes for a chunk of {size}")]
    Buffer {
        /// The chunk.
        number: u64,
        /// Bytes of the buffer.
        bytes: u64,
        /// Bytes of a chunk.
        size: u64,
    },
    /// The value is shorter than its header, or longer than any.
    #[error("chunk {number}: {bytes} bytes are stored, which no chunk has")]
    Length {
        /// The chunk.
        number: u64,
        /// Bytes of the value.
        bytes: u64,
    },
    /// The value has another version than this program knows.
    #[error("chunk {number}: version {version} of the format is not known")]
    Version {
        /// The chunk.
        number: u64,
        /// The version.
        version: u8,
    },
    /// The checksum does not fit: damage, or the chunk of another place or volume.
    #[error("chunk {number}: its checksum is wrong")]
    Checksum {
        /// The chunk.
        number: u64,
    },
    /// A field of the header has a value that has no meaning.
    #[error("chunk {number}: {field} {value} has no meaning")]
    Header {
        /// The chunk.
        number: u64,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u16,
    },
    /// A chunk that was stored as it is, is not as long as one.
    #[error("chunk {number}: {bytes} bytes are stored as they are, of {size}")]
    Raw {
        /// The chunk.
        number: u64,
        /// Bytes that are stored.
        bytes: u64,
        /// Bytes of a chunk.
        size: u64,
    },
    /// What was compressed is broken.
    #[error("chunk {number}: it cannot be decompressed: {what}")]
    Compressed {
        /// The chunk.
        number: u64,
        /// What the decoder says.
        what: String,
    },
}
