//! The KV tier on the host: real memory in slots of a block, written and read as transfers to and from the device would.

use super::scheduler::HostTier;
use crate::workload::memory::Block;
use crate::workload::{Args, ArgsError, WorkloadError, system};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// What the tier is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolSettings {
    kind: Kind,
    bytes: usize,
    pinned: bool,
    shm: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    SwapPool,
    Offload,
}

impl PoolSettings {
    /// `--cpu-kv=none|swap-pool|offload` (V0's pool for preempted requests; today's cache tier) · `--cpu-kv-size` (vLLM's `--swap-space`
    /// and `--kv-offloading-size`) · `--pinned=off|on` · `--shm` (where the offload tier's file lies, /dev/shm).
    pub(super) fn parse(args: &mut Args) -> Result<PoolSettings, ArgsError> {
        let kind = match args.word("cpu-kv", &["none", "swap-pool", "offload"])? {
            "none" => Kind::None,
            "swap-pool" => Kind::SwapPool,
            _ => Kind::Offload,
        };
        let bytes = if kind == Kind::None { args.size("cpu-kv-size")?.unwrap_or(0) } else { args.required_size("cpu-kv-size")? };
        Ok(PoolSettings {
            kind,
            bytes,
            pinned: args.word("pinned", &["off", "on"])? == "on",
            shm: args.text("shm")?.map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from),
        })
    }

    /// The scheduler's view, with blocks of so many bytes.
    pub fn tier(&self, block_bytes: usize) -> HostTier {
        let slots = u32::try_from(self.bytes / block_bytes).unwrap_or(u32::MAX);
        match self.kind {
            Kind::None => HostTier::None,
            Kind::SwapPool => HostTier::SwapPool(slots),
            Kind::Offload => HostTier::Offload(slots),
        }
    }

    /// Bytes asked for and the name vLLM has for the backend.
    pub fn offloading(&self) -> Option<(usize, &'static str)> {
        (self.kind == Kind::Offload).then_some((self.bytes, "native"))
    }
}

/// The slots.
#[derive(Debug)]
pub struct Pool {
    memory: Block,
    device: Block,
    block_bytes: usize,
    /// It was asked to be pinned and the system did not let it be; as in vLLM, the server goes on with pageable memory.
    pub pin_failed: Option<String>,
}

impl Pool {
    /// Makes the tier. The swap pool of V0 is zeroed memory of the process: pinned it is taken whole at once, used or not; pageable it is
    /// taken as it is written. The offload pool is a file on tmpfs, shared, populated at once and unlinked.
    ///
    /// # Errors
    /// There is no room on the tmpfs, or the system refuses the mapping.
    pub fn open(settings: &PoolSettings, block_bytes: usize, seed: u64) -> Result<Option<Pool>, WorkloadError> {
        let len = settings.bytes / block_bytes * block_bytes;
        if settings.kind == Kind::None || len == 0 {
            return Ok(None);
        }
        let mut memory = match settings.kind {
            Kind::Offload => offload_file(&settings.shm, len)?,
            _ => Block::anonymous(len).map_err(system(format!("map a swap pool of {len} bytes")))?,
        };
        let pin_failed = settings.pinned.then(|| memory.pin().err()).flatten().map(|error| error.to_string());
        let mut device = Block::anonymous(block_bytes).map_err(system("map a staging block"))?;
        device.fill(0, block_bytes, seed);
        Ok(Some(Pool { memory, device, block_bytes, pin_failed }))
    }

    /// Writes slots with what comes from the device. The device has no content here; what arrives is incompressible.
    pub fn write(&mut self, slots: &[u32]) {
        for slot in slots {
            self.memory.copy(*slot as usize * self.block_bytes, &self.device, 0, self.block_bytes);
        }
    }

    /// Reads slots for the device.
    pub fn read(&self, slots: &[u32]) {
        for slot in slots {
            self.memory.touch(*slot as usize * self.block_bytes, self.block_bytes);
        }
    }
}

fn offload_file(directory: &Path, len: usize) -> Result<Block, WorkloadError> {
    let path = directory.join(format!("highwater_offload_{}.mmap", std::process::id()));
    let what = |verb: &str| format!("{verb} the offload pool {} of {len} bytes", path.display());
    let space = rustix::fs::statvfs(directory).map_err(|e| system(what("make"))(e.into()))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free < len as u64 {
        let reason = format!("insufficient space in {}: {free} bytes are free; make the volume larger", directory.display());
        return Err(system(what("make"))(io::Error::new(io::ErrorKind::StorageFull, reason)));
    }
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).map_err(system(what("make")))?;
    file.set_len(len as u64).map_err(system(what("make")))?;
    let mut memory = Block::shared(&file, len.next_multiple_of(4096)).map_err(system(what("map")))?;
    memory.populate().map_err(system(what("populate")))?;
    std::fs::remove_file(&path).map_err(system(what("unlink")))?;
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(arguments: &[&str]) -> PoolSettings {
        let list: Vec<_> = arguments.iter().map(|s| (*s).to_owned()).collect();
        PoolSettings::parse(&mut Args::new("model-server", &list).unwrap()).unwrap()
    }

    #[test]
    fn slots_of_both_kinds_hold_what_was_written() {
        let shm = format!("--shm={}", std::env::temp_dir().display());
        for kind in ["--cpu-kv=swap-pool", "--cpu-kv=offload"] {
            let settings = settings(&[kind, "--cpu-kv-size=66Ki", &shm]);
            assert!(matches!(settings.tier(8192), HostTier::SwapPool(8) | HostTier::Offload(8)));
            let mut pool = Pool::open(&settings, 8192, 5).unwrap().unwrap();
            pool.write(&[7, 2]);
            pool.read(&[7]);
            assert_eq!(pool.memory.bytes(7 * 8192, 8192), pool.device.bytes(0, 8192));
            assert!(pool.memory.bytes(3 * 8192, 8192).iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn a_volume_without_room_is_named() {
        let shm = format!("--shm={}", std::env::temp_dir().display());
        let settings = settings(&["--cpu-kv=offload", "--cpu-kv-size=1Ei", &shm]);
        let error = Pool::open(&settings, 4096, 1).unwrap_err().to_string();
        assert!(error.contains("insufficient space in /"), "{error}");
    }
}
