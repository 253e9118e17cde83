//! A compiled hook in the kernel: loaded, attached, and its maps read. Maps are read as bytes, which
//! the hook's folder turns into its record.

use std::fmt::Write;

use aya::maps::{Array, HashMap, MapData};
use aya::programs::Program;
use aya::{Btf, Ebpf, EbpfLoader};

/// A hook in the kernel. Its programs are attached by descriptors of this process: the kernel
/// detaches them when the process ends, however it ends.
pub(super) struct Object(Ebpf);

impl Object {
    /// Loads a compiled hook and attaches each of its programs to the BTF tracepoint that its
    /// section names. What the kernel refuses is said in a sentence.
    pub(super) fn load(elf: &[u8], btf: &Btf, netns: u32) -> Result<Self, String> {
        let mut loader = EbpfLoader::new();
        loader.btf(Some(btf)).override_global("scope_netns", &netns, true);
        let mut ebpf = loader.load(elf).map_err(|error| chain(&error))?;
        let names: Vec<String> = ebpf.programs().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            attach(&mut ebpf, &name, btf)?;
        }
        Ok(Self(ebpf))
    }

    /// Calls `take` with each key and value of a hash map.
    pub(super) fn each<const K: usize, const V: usize>(
        &self,
        map: &str,
        mut take: impl FnMut(&[u8; K], &[u8; V]),
    ) {
        let Some(map) = self.0.map(map) else { return };
        let Ok(map) = HashMap::<&MapData, [u8; K], [u8; V]>::try_from(map) else {
            unreachable!("the C record and the Rust record differ in size")
        };
        // An entry that the kernel removes meanwhile is an error of this step alone.
        for (key, value) in map.iter().flatten() {
            take(&key, &value);
        }
    }

    /// The only entry of an array of one counter.
    pub(super) fn counter(&self, map: &str) -> u64 {
        let map = self.0.map(map).and_then(|map| Array::<&MapData, u64>::try_from(map).ok());
        map.and_then(|map| map.get(&0, 0).ok()).unwrap_or(0)
    }
}

fn attach(ebpf: &mut Ebpf, name: &str, btf: &Btf) -> Result<(), String> {
    let Some(Program::BtfTracePoint(program)) = ebpf.program_mut(name) else {
        unreachable!("all programs of the hooks are BTF tracepoints")
    };
    // Programs are named as the tracepoint that they are attached to.
    program.load(name, btf).map_err(|error| chain(&error))?;
    program.attach().map_err(|error| chain(&error))?;
    Ok(())
}

/// An error with its sources in one line, without the verifier's log.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let words = error.to_string();
        let line = words.lines().next().unwrap_or_default();
        if !text.ends_with(line) {
            let colon = if text.is_empty() { "" } else { ": " };
            let _ = write!(text, "{colon}{line}");
        }
        next = error.source();
    }
    text
}
