//! How a file system is made.

use crate::size;
use clap::Args;
use ondol::{DataMode, JournalEngine, Usage};
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Args)]
pub(crate) struct Mkfs {
    /// Size of the file system; a file is made this large, an existing one keeps its size without it, and in a pool it
    /// takes what is free
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub(crate) size: Option<u64>,
    /// Volume label, up to 16 bytes
    #[arg(short = 'L', long, value_name = "LABEL")]
    pub(crate) label: Option<String>,
    /// Block size in bytes: 1024, 2048 or 4096
    #[arg(short = 'b', long, value_name = "BYTES")]
    pub(crate) block_size: Option<u32>,
    /// Number of inodes
    #[arg(short = 'N', long, value_name = "NUMBER")]
    pub(crate) inodes: Option<u32>,
    /// Features to turn on, or off with ^, separated by commas
    #[arg(short = 'O', long, value_name = "FEATURES")]
    pub(crate) features: Option<String>,
    /// Journal engine that the image asks for: classic, compressed, swap or remap (the last two in a pool) [default:
    /// compressed; in a pool remap]
    #[arg(long, value_name = "ENGINE")]
    pub(crate) journal: Option<JournalEngine>,
    /// Data mode that the image asks for: journal, ordered or writeback [default: journal; with `classic`, ordered]
    #[arg(long, value_name = "MODE")]
    pub(crate) data: Option<DataMode>,
    /// Size of the journal [default: by the size of the volume]
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub(crate) journal_size: Option<u64>,
    /// Copy what is in this directory into it, with owners, modes, times, links, attributes and ACLs
    #[arg(short = 'd', long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// UUID of the file system: one as it is written, random or clear [default: random]
    #[arg(short = 'U', long, value_name = "UUID")]
    pub(crate) uuid: Option<Uuid>,
    /// Percent of the blocks that only root may use, up to 50, with two decimals
    #[arg(short = 'm', long, value_name = "PERCENT", default_value = "5")]
    pub(crate) reserved: Percent,
    /// What it is for: floppy, small, default, news, big, huge, largefile or largefile4; of several, separated by
    /// commas, the last counts. Decides the size of blocks and the number of inodes [default: by the size of the
    /// volume]
    #[arg(short = 'T', long, value_name = "USAGE", value_parser = usage)]
    pub(crate) usage: Option<Usage>,
    /// Bytes of the volume for each inode
    #[arg(short = 'i', long, value_parser = size::parse, value_name = "BYTES")]
    pub(crate) bytes_per_inode: Option<u64>,
    /// In object storage: bytes that are stored, compressed and looked up as one, a power of two from 4K to 64K. Larger
    /// ones suit large files that are written once [default: 4K]
    #[arg(long, value_parser = size::parse, value_name = "SIZE", hide = !ondol::HAS_BUCKETS)]
    pub(crate) chunk: Option<u64>,
    /// Taken and ignored: nothing is said of what went well
    #[arg(short = 'q', long = "quiet")]
    _quiet: bool,
    /// Make it even where there is something already, which is then lost
    #[arg(short = 'F', long)]
    pub(crate) force: bool,
    /// Image file, block device, or nvm:POOL for the image in an NVM pool
    pub(crate) target: PathBuf,
}

/// The UUID that a file system is to have; `None` for a random one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uuid(pub(crate) Option<[u8; 16]>);

impl FromStr for Uuid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no UUID: write one with hyphens, random, or clear for zeros");
        match text {
            "random" => return Ok(Self(None)),
            "clear" => return Ok(Self(Some([0; 16]))),
            _ => {}
        }
        let parts: Vec<&str> = text.split('-').collect();
        if !parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) {
            return Err(wrong());
        }
        let digits = parts.concat();
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let value = u128::from_str_radix(&digits, 16).map_err(|_| wrong())?;
        Ok(Self(Some(value.to_be_bytes())))
    }
}

/// A share in hundredths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Percent(pub(crate) u16);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let value = (digits(whole) && digits(rest) && rest.len() <= 2)
            .then(|| whole.parse::<u16>().ok()?.checked_mul(100)?.checked_add(format!("{rest:0<2}").parse().ok()?))
            .flatten();
        value.filter(|share| *share <= 5000).map(Self).ok_or_else(|| {
            format!("`{text}` is no share that can be reserved: write a number from 0 to 50, with up to two decimals")
        })
    }
}

/// The last of a list of types.
fn usage(text: &str) -> Result<Usage, String> {
    let known =
        |name: &str| Usage::of(name).ok_or_else(|| format!("`{name}` is no usage: choose {}", listed(&Usage::NAMES)));
    let found: Vec<Usage> = text.split(',').map(known).collect::<Result<_, _>>()?;
    found.last().copied().ok_or_else(|| format!("choose {}", listed(&Usage::NAMES)))
}

fn listed(names: &[&str]) -> String {
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    format!("{} or {last}", others.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_and_shares_are_read_as_mke2fs_reads_them() {
        let uuid = |text: &str| text.parse::<Uuid>().map(|uuid| uuid.0);
        let bytes = [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(uuid("12345678-9ABC-def0-0102-030405060708"), Ok(Some(bytes)));
        assert_eq!(uuid("random"), Ok(None));
        assert_eq!(uuid("clear"), Ok(Some([0; 16])));
        for wrong in [
            "",
            "time",
            "123456789abcdef0010203040506070809",
            "1234567-89abc-def0-0102-030405060708",
            "+2345678-9abc-def0-0102-030405060708",
        ] {
            assert!(uuid(wrong).is_err(), "{wrong}");
        }
        let share = |text: &str| text.parse::<Percent>().map(|percent| percent.0).ok();
        for (text, hundredths) in
            [("0", Some(0)), ("1", Some(100)), ("0.5", Some(50)), ("12.34", Some(1234)), ("50", Some(5000))]
        {
            assert_eq!(share(text), hundredths, "{text}");
        }
        for wrong in ["", ".", "50.01", "51", "-1", "1.234", "x", "1.", "700"] {
            assert_eq!(share(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn of_several_usages_the_last_counts() {
        assert_eq!(usage("news,big"), Ok(Usage::of("big").unwrap()));
        assert!(usage("news,sparkle").unwrap_err().contains("`sparkle` is no usage"));
        Usage::NAMES.iter().for_each(|name| assert!(Usage::of(name).is_some(), "{name}"));
    }
}
