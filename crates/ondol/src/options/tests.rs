//! What is read and what is refused.

use super::*;

#[test]
fn later_options_win_and_ext4_words_keep_their_meaning() {
    let o = Options::parse("data=journal,ro,rw,commit=0,dirty=1M,errors=continue,noload,noatime").unwrap();
    assert_eq!(
        (o.journal.data, o.image.read_only, o.journal.commit_seconds, o.journal.dirty_bytes),
        (Some(DataMode::Journal), false, Some(5), Some(1 << 20))
    );
    assert_eq!(
        (o.image.on_error, o.image.recovery, o.image.atime),
        (Some(OnError::Continue), false, Some(Atime::Never))
    );
}

#[test]
fn what_cannot_be_taken_is_refused_by_name() {
    assert_eq!(Options::parse("sparkle"), Err(OptionError::Unknown("sparkle".into())));
    for (word, said) in [
        (
            "journal=remapped",
            "mount option `journal=remapped`: the value must be classic, compressed, swap, scalable, remap or batch",
        ),
        ("commit=abc", "mount option `commit=abc`: the value must be a number of seconds"),
        ("data=", "mount option `data=`: the value must be writeback, ordered or journal"),
        ("fsync=none", "mount option `fsync=none`: the value must be prefix or file"),
        ("checkpoint_threads=0", "mount option `checkpoint_threads=0`: the value must be a number from 1 to 64"),
        (
            "nvm_model=fast",
            "mount option `nvm_model=fast`: the value must be read=300ns+write=100ns+bandwidth=2G, or off",
        ),
        ("cache=much", "mount option `cache=much`: the value must be a size such as 64M"),
    ] {
        assert_eq!(Options::parse(word).unwrap_err().to_string(), said);
    }
    assert!(Options::parse("data=fast").unwrap_err().to_string().contains("ordered"));
}

#[test]
fn every_name_is_known() {
    for name in OPTION_NAMES {
        let word = if name.ends_with('=') { format!("{name}?") } else { name.to_owned() };
        assert!(!matches!(Options::parse(&word), Err(OptionError::Unknown(_))), "{name}");
    }
}

#[test]
fn what_is_fixed_reads_back() {
    let o = Options::parse(
        "data=journal,fsync=file,journal=compressed,journal_size=16M,zeroing,errors=continue,commit=9,\
         dirty=1M,cache=8M,checkpoint_threads=7,device=disk,grpid,sb=32768,noload,nvm=/p,\
         nvm_model=read=300ns+bandwidth=2G",
    )
    .unwrap();
    assert_eq!(Options::parse(&o.fixed()), Ok(o));
    let defaults = Options::parse(&Options::default().fixed()).unwrap();
    assert_eq!(defaults.fixed(), Options::default().fixed());
}

#[test]
fn sizes_have_binary_suffixes() {
    assert_eq!(parse_size("4G"), Some(4 << 30));
    assert_eq!(parse_size("512"), Some(512));
    assert_eq!(parse_size("1MiB"), Some(1 << 20));
    assert_eq!(parse_size("99999999T"), None);
    assert_eq!(parse_size("x"), None);
}
