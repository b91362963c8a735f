//! Models of NVM by name: what `--nvm-model` gives to targets that have one.

use crate::BenchError;
use crate::target::{Kind, Target};

/// A kind of NVM, as far as the model of the medium goes: what it takes **beyond** the memory that stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    /// What it is like.
    pub(crate) about: &'static str,
    /// As the mount option `nvm_model=` takes it.
    pub(crate) model: &'static str,
    /// Where the numbers are from.
    pub(crate) source: &'static str,
    /// What is assumed where sources are silent.
    pub(crate) assumed: &'static str,
}

/// All of them, the fastest first.
pub(crate) const PRESETS: [Preset; 5] = [
    Preset {
        name: "dram",
        about: "memory that keeps its contents, at no cost",
        model: "off",
        source: "none: the memory of this machine as it is",
        assumed: "nothing",
    },
    Preset {
        name: "nvdimm",
        about: "one NVDIMM-N: DRAM that flash saves when power fails",
        model: "bandwidth=23464000000",
        source: "JEDEC's NVDIMM-N has DRAM on the memory bus; Micron's of 32 GB is DDR4-2933: 2,933 million transfers \
                 of 8 bytes a second",
        assumed: "latencies are those of this machine's memory",
    },
    Preset {
        name: "cxl",
        about: "memory behind a CXL link of eight lanes",
        model: "read=150ns+write=150ns+bandwidth=31500000000",
        source: "arXiv 2405.14209: three CXL cards have 2 to 5 times the latency of local DRAM; PCIe 5.0: eight lanes \
                 of 32 GT/s, 128b/130b, 31.5 GB/s in a direction",
        assumed: "local DRAM takes 100 ns, and the card 2.5 times as much; a write-back takes the same way; reads and \
                  writes share a rate",
    },
    Preset {
        name: "xpoint",
        about: "one module like Intel's Optane DC, of 3D XPoint",
        model: "read=200ns+bandwidth=2300000000",
        source: "Izraelevitz et al., arXiv 1903.05714: a random load takes 305 ns, some three times local DRAM's; a \
                 module reads 6.6 GB/s and writes 2.3 GB/s",
        assumed: "local DRAM takes 105 ns; a store is durable in the memory controller's queue (ADR), so that a fence \
                  waits for nothing more; reads share the rate of writes, as journals mostly write",
    },
    Preset {
        name: "pcm",
        about: "phase-change memory, as papers expected it",
        model: "read=50ns+write=1us+bandwidth=1G",
        source: "Chen, Gibbons and Nath, CIDR 2011: 64 bytes are read in some 50 ns and written in some 1 µs; \
                 papers/1 has 1 GiB/s for its slower memory",
        assumed: "both come on top of this machine's memory; lines of one fence are written side by side",
    },
];

/// The preset of this name.
///
/// # Errors
/// There is none; the text names those that there are.
pub(crate) fn preset(name: &str) -> Result<&'static str, String> {
    let names = PRESETS.map(|preset| preset.name);
    let known = names.into_iter().find(|known| *known == name);
    known.ok_or_else(|| format!("there are {}; a target's nvm_model= takes other numbers", names.join(", ")))
}

/// A target with the model of this name, if it has NVM without one of its own.
pub(crate) fn modelled(target: &str, name: Option<&str>) -> String {
    let preset = PRESETS.into_iter().find(|preset| Some(preset.name) == name && preset.model != "off");
    match preset {
        Some(Preset { model, .. }) if has_nvm(target) && !target.contains(",nvm_model=") => {
            format!("{target},nvm_model={model}")
        }
        _ => target.to_owned(),
    }
}

/// The targets of a run with the model of this name.
///
/// # Errors
/// `Usage` if no target has NVM.
pub(crate) fn all_modelled(targets: &[String], name: Option<&str>) -> Result<Vec<String>, BenchError> {
    if name.is_some() && !targets.iter().any(|target| has_nvm(target)) {
        let how = "no target has NVM: name one in a pool (lib:nvm:NAME), or with pool=SIZE";
        return Err(BenchError::Usage(format!("--nvm-model: {how}")));
    }
    Ok(targets.iter().map(|target| modelled(target, name)).collect())
}

/// Whether an image lies in NVM or has some in front of it.
fn has_nvm(target: &str) -> bool {
    match target.parse::<Target>().map(|target| target.kind) {
        Ok(Kind::Lib(image) | Kind::Fuse(image)) => {
            let named = image.options.split(',').any(|option| option.starts_with("nvm="));
            ondol::pool_of(&image.path).is_some() || image.pool.is_some() || named
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol::Options;

    #[test]
    fn presets_are_models() {
        for preset in PRESETS {
            let options = Options::parse(&format!("nvm_model={}", preset.model)).expect("a mount option");
            assert_eq!(options == Options::default(), preset.name == "dram", "{}", preset.name);
            assert_eq!(super::preset(preset.name), Ok(preset.name));
            assert!(!preset.source.is_empty() && !preset.assumed.is_empty());
        }
        let refusal = preset("optane").expect_err("no such name");
        assert!(refusal.contains("dram, nvdimm, cxl, xpoint, pcm"), "{refusal}");
    }

    #[test]
    fn what_has_nvm_gets_the_model() {
        let with = |target: &str| modelled(target, Some("xpoint"));
        let model = ",nvm_model=read=200ns+bandwidth=2300000000";
        for target in ["lib:nvm:a.pool", "fuse:nvm:a.pool,data=journal", "lib:a.img,pool=1G", "lib:/a.img,nvm=/a.pool"]
        {
            let text = with(target);
            assert_eq!(text, format!("{target}{model}"));
            text.parse::<Target>().expect("a target");
            assert_eq!(
                (modelled(target, None), modelled(target, Some("dram"))),
                (target.to_owned(), target.to_owned())
            );
        }
        for target in ["lib:a.img", "kernel:ext4", "tmpfs", "lib:nvm:a.pool,nvm_model=bandwidth=1G"] {
            assert_eq!(with(target), target);
        }
    }

    #[test]
    fn a_model_without_nvm_is_refused() {
        let targets = ["lib:a.img", "tmpfs"].map(str::to_owned);
        assert_eq!(all_modelled(&targets, None).expect("no model"), targets);
        let refusal = all_modelled(&targets, Some("pcm")).expect_err("no NVM");
        assert!(refusal.is_usage() && refusal.to_string().contains("pool=SIZE"), "{refusal}");
    }
}
