//! A compiled hook in the kernel: loaded, attached, and its maps read. Maps are read as bytes,
//! which the hook's folder turns into its record.

use std::fmt::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::programs::{BtfTracePoint, Program};
use aya::{Btf, Ebpf, EbpfLoader, Pod};

use super::Scope;
use super::served::SLOW_NS;
use crate::sample::Share;

/// A hook in the kernel. Its programs are attached by descriptors of this process: the kernel
/// detaches them when the process ends, however it ends.
pub(super) struct Object {
    ebpf: Ebpf,
    /// Links of the programs that are attached, with their names.
    links: Vec<(String, BtfTracePointLinkId)>,
    /// Records, where the hook writes some.
    ring: Option<RingBuf<MapData>>,
}

impl Object {
    /// Loads a compiled hook and attaches each of its programs to the BTF tracepoint that its
    /// section names. A refusal of the kernel is returned as a sentence.
    pub(super) fn load(elf: &[u8], btf: &Btf, scope: &Scope) -> Result<Self, String> {
        let netns = scope.netns.unwrap_or(0);
        let limit = scope.sample.share.limit().unwrap_or(0);
        let mut loader = EbpfLoader::new();
        loader.btf(Some(btf));
        loader.override_global("scope_netns", &netns, true);
        loader.override_global("scope_sample_limit", &limit, true);
        loader.override_global("scope_slow_ns", &SLOW_NS, false);
        loader.override_global("scope_sample_seed", &scope.sample.seed, true);
        let mut ebpf = loader.load(elf).map_err(|error| chain(&error))?;
        let names: Vec<String> = ebpf.programs().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            // Programs are named as the tracepoint that they are attached to.
            program(&mut ebpf, &name).load(&name, btf).map_err(|error| chain(&error))?;
        }
        let ring = ebpf.take_map("ring").map(RingBuf::try_from).transpose();
        let ring = ring.map_err(|error| chain(&error))?;
        let mut object = Self { ebpf, links: Vec::new(), ring };
        object.attach()?;
        Ok(object)
    }

    /// Attaches the programs that are not attached.
    pub(super) fn attach(&mut self) -> Result<(), String> {
        let names: Vec<String> = self.ebpf.programs().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            if self.links.iter().all(|(attached, _)| *attached != name) {
                let link = program(&mut self.ebpf, &name).attach().map_err(|it| chain(&it))?;
                self.links.push((name, link));
            }
        }
        Ok(())
    }

    /// Detaches the programs, which stay loaded with their maps.
    pub(super) fn detach(&mut self) {
        for (name, link) in self.links.drain(..) {
            // There is no link whose end the kernel refuses.
            let _ = program(&mut self.ebpf, &name).detach(link);
        }
    }

    /// Looks from now on at this share of the connections.
    pub(super) fn set_share(&mut self, share: Share) -> Result<(), String> {
        let Some(map) = self.ebpf.map_mut(".data") else { return Ok(()) };
        let mut map = Array::<&mut MapData, u32>::try_from(map).map_err(|error| chain(&error))?;
        map.set(0, share.limit().unwrap_or(0), 0).map_err(|error| chain(&error))
    }

    /// Removes all entries of a hash map.
    pub(super) fn clear<const K: usize, const V: usize>(&mut self, map: &str) {
        let mut all: Vec<[u8; K]> = Vec::new();
        self.each::<K, V>(map, |key, _| all.push(*key));
        self.remove::<K, V>(map, &all);
    }

    fn remove<const K: usize, const V: usize>(&mut self, map: &str, keys: &[[u8; K]]) {
        let Some(map) = self.ebpf.map_mut(map) else { return };
        let Ok(mut map) = HashMap::<&mut MapData, [u8; K], [u8; V]>::try_from(map) else { return };
        for key in keys {
            // The key may not exist any more.
            let _ = map.remove(key);
        }
    }

    /// Fills in what the hook looks at, with the first value of each, if it has a map of that name.
    pub(super) fn choose<K: Pod>(
        &mut self,
        map: &str,
        chosen: &[K],
        value: u32,
    ) -> Result<(), String> {
        let Some(map) = self.ebpf.map_mut(map) else { return Ok(()) };
        let mut map = HashMap::<&mut MapData, K, u32>::try_from(map).map_err(|it| chain(&it))?;
        chosen.iter().try_for_each(|it| map.insert(it, value, 0)).map_err(|error| chain(&error))
    }

    /// Returns a descriptor that is readable while there are records.
    pub(super) fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.ring.as_ref().map(AsFd::as_fd)
    }

    /// Calls `take` with each record that is there.
    pub(super) fn records(&mut self, mut take: impl FnMut(&[u8])) {
        let Some(ring) = &mut self.ring else { return };
        while let Some(record) = ring.next() {
            take(&record);
        }
    }

    /// Calls `take` with each key and value of a hash map.
    pub(super) fn each<const K: usize, const V: usize>(
        &self,
        map: &str,
        mut take: impl FnMut(&[u8; K], &[u8; V]),
    ) {
        let Some(map) = self.ebpf.map(map) else { return };
        let Ok(map) = HashMap::<&MapData, [u8; K], [u8; V]>::try_from(map) else {
            unreachable!("the C record and the Rust record differ in size")
        };
        // An entry that the kernel removes meanwhile is an error of this step alone.
        for (key, value) in map.iter().flatten() {
            take(&key, &value);
        }
    }

    /// Removes the entries of a hash map whose last event was before `before_ns`: the last eight
    /// bytes of each value are the time of that.
    pub(super) fn forget<const K: usize, const V: usize>(&mut self, map: &str, before_ns: u64) {
        let mut idle: Vec<[u8; K]> = Vec::new();
        self.each::<K, V>(map, |key, value| {
            let last = value.last_chunk().map_or(0, |last| u64::from_ne_bytes(*last));
            if last < before_ns {
                idle.push(*key);
            }
        });
        self.remove::<K, V>(map, &idle);
    }

    /// Returns how long its programs ran, while the kernel measures that.
    pub(super) fn run_time(&self) -> Duration {
        let all = self.ebpf.programs().filter_map(|(_, program)| program.info().ok());
        all.map(|it| it.run_time()).sum()
    }

    /// Returns the value of a counter: the only entry of an array.
    pub(super) fn counter(&self, map: &str) -> u64 {
        let map = self.ebpf.map(map).and_then(|map| Array::<&MapData, u64>::try_from(map).ok());
        map.and_then(|map| map.get(&0, 0).ok()).unwrap_or(0)
    }
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> &'a mut BtfTracePoint {
    let Some(Program::BtfTracePoint(program)) = ebpf.program_mut(name) else {
        unreachable!("all programs of the hooks are BTF tracepoints")
    };
    program
}

/// Returns an error with its sources in one line, without the verifier's log.
pub fn chain(error: &dyn std::error::Error) -> String {
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
