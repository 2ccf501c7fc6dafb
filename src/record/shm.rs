//! The shared memory between host and guest: the arm's input and the log of frames, in one file that the guest sees as a PCI device.
//!
//! Layout, all numbers little-endian `u64` at fixed offsets of the first page ([`HEADER`] bytes):
//!
//! | offset | field |
//! |---|---|
//! | 0 | magic, the bytes `HIGHWTR` and one NUL |
//! | 8 | version of this layout, [`VERSION`] |
//! | 16 | size of the whole region |
//! | 24, 32 | offset and length of the guest program (an ELF file) |
//! | 40, 48 | offset and length of the order |
//! | 56, 64 | offset and capacity of the output |
//! | 128 | head: bytes of output published so far; the only field the guest writes |
//!
//! The host writes everything but the head before the guest runs (again); the guest appends to the output and then publishes the new
//! head with a release store, so whatever lies below a head that was read with an acquire load is complete. Output is never
//! overwritten: a region that is full ends the run.
//!
//! In the guest the region is BAR 2 of the PCI device [`PCI_VENDOR`]:[`PCI_DEVICE`] (QEMU's `ivshmem-plain`). The init stub starts the guest
//! program as PID 1, `argv = [/highwater-node, guest]`, with the path of that resource in [`ENV_SHM`] and what it measured as JSON in
//! [`ENV_FACTS`]. The program ends the machine with [`super::port::end`].

use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Version of the layout.
pub const VERSION: u64 = 1;
/// Bytes before the first area.
pub const HEADER: usize = 4096;
/// Default size of the region: 64 MiB.
pub const DEFAULT_SIZE: usize = 64 << 20;
/// PCI vendor id of the device that carries the region.
pub const PCI_VENDOR: u16 = 0x1af4;
/// PCI device id of the device that carries the region.
pub const PCI_DEVICE: u16 = 0x1110;
/// Environment variable: path of the file that is the region (in the guest the device's `resource2`).
pub const ENV_SHM: &str = "HIGHWATER_SHM";
/// Environment variable: [`super::NodeFacts`] as JSON.
pub const ENV_FACTS: &str = "HIGHWATER_FACTS";
const MAGIC: [u8; 8] = *b"HIGHWTR\0";
const HEAD: usize = 128;

/// Why a region cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ShmError {
    /// The file could not be opened, sized or mapped.
    #[error("cannot map the shared memory {path}: {source}")]
    Map {
        /// The file.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The header is not one.
    #[error(
        "the shared memory does not begin with a header of version {VERSION}: host and guest program are of different builds"
    )]
    Header,
    /// An area reaches beyond the region.
    #[error("the header of the shared memory names an area beyond its end")]
    Area,
    /// Program and order leave no room for output.
    #[error("the shared memory of {size} bytes is too small for an input of {input} bytes; make it larger")]
    TooSmall {
        /// Size of the region.
        size: usize,
        /// Bytes of program and order.
        input: usize,
    },
}

/// The output has no room for this append; nothing of it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the output area of {capacity} bytes is full: sample less often or make the shared memory larger")]
pub struct Full {
    /// Bytes the output can hold.
    pub capacity: usize,
}

/// The mapped region, on either side. Clones share the mapping.
#[derive(Debug, Clone)]
pub struct Region {
    map: Arc<Map>,
}

#[derive(Debug)]
struct Map {
    base: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping lives as long as the value; bytes that both sides touch are ordered by the head, an atomic.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: base and size are what mmap returned, and no reference outlives the Arc that owns this value.
        unsafe { _ = rustix::mm::munmap(self.base.as_ptr().cast(), self.size) }
    }
}

/// What the guest is given.
#[derive(Debug, Clone)]
pub struct Input {
    region: Region,
    program: (usize, usize),
    order: (usize, usize),
}

impl Input {
    /// The guest program, an ELF file.
    pub fn program(&self) -> &[u8] {
        self.region.bytes(self.program)
    }

    /// The order.
    pub fn order(&self) -> &[u8] {
        self.region.bytes(self.order)
    }
}

/// The guest's end of the output: an append-only log. There is one writer; share it behind a lock.
#[derive(Debug)]
pub struct Output {
    region: Region,
    at: usize,
    capacity: usize,
    head: usize,
}

impl Output {
    /// Appends all of `bytes` and publishes them, or nothing.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if bytes.len() > self.capacity - self.head {
            return Err(Full { capacity: self.capacity });
        }
        // SAFETY: the area was checked to lie inside the mapping when this value was made, and the host reads only below the head.
        unsafe {
            let target = self.region.map.base.as_ptr().add(self.at + self.head);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        self.head += bytes.len();
        self.region.head().store((self.head as u64).to_le(), Ordering::Release);
        Ok(())
    }

    /// Bytes appended so far.
    pub fn len(&self) -> usize {
        self.head
    }

    /// True before the first append.
    pub fn is_empty(&self) -> bool {
        self.head == 0
    }

    /// Bytes the output can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

impl Region {
    /// Maps an existing region: in the guest the path of [`ENV_SHM`], on the host the file behind the device.
    ///
    /// # Errors
    /// [`ShmError::Map`]. The header is read by [`Region::input`] and [`Region::output`] only, because at the checkpoint there is none yet.
    pub fn open(path: &Path) -> Result<Region, ShmError> {
        let fail = |source| ShmError::Map { path: path.display().to_string(), source };
        let file = File::options().read(true).write(true).open(path).map_err(fail)?;
        let size = file.metadata().map_err(fail)?.len();
        Self::map(&file, usize::try_from(size).unwrap_or(0)).map_err(fail)
    }

    /// Makes a region of `size` bytes out of an empty file, with its input and an empty output. Host only.
    ///
    /// # Errors
    /// [`ShmError::TooSmall`] or [`ShmError::Map`].
    pub fn create(file: &File, size: usize, program: &[u8], order: &[u8]) -> Result<Region, ShmError> {
        let order_at = (HEADER + program.len()).next_multiple_of(HEADER);
        let output_at = (order_at + order.len()).next_multiple_of(HEADER);
        if output_at + HEADER > size {
            return Err(ShmError::TooSmall { size, input: program.len() + order.len() });
        }
        let fail = |source| ShmError::Map { path: "(new)".into(), source };
        file.set_len(size as u64).map_err(fail)?;
        // Written through the file, not the mapping: a full disk is then an error here and not a SIGBUS.
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        let fields = [VERSION as usize, size, HEADER, program.len(), order_at, order.len(), output_at, size - output_at];
        for (i, field) in fields.into_iter().enumerate() {
            header[8 + i * 8..16 + i * 8].copy_from_slice(&(field as u64).to_le_bytes());
        }
        for (at, bytes) in [(0, &header[..]), (HEADER, program), (order_at, order)] {
            std::os::unix::fs::FileExt::write_all_at(file, bytes, at as u64).map_err(fail)?;
        }
        Self::map(file, size).map_err(fail)
    }

    fn map(file: &File, size: usize) -> io::Result<Region> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        if size < HEADER {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is smaller than its header"));
        }
        // SAFETY: a new mapping chosen by the kernel aliases nothing of this process.
        let base = unsafe {
            mmap(std::ptr::null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)
                .map_err(io::Error::from)?
        };
        let base = NonNull::new(base.cast()).expect("the kernel never maps at 0 unasked");
        Ok(Region { map: Arc::new(Map { base, size }) })
    }

    /// The guest's input.
    ///
    /// # Errors
    /// [`ShmError::Header`] or [`ShmError::Area`].
    pub fn input(&self) -> Result<Input, ShmError> {
        self.check()?;
        Ok(Input { program: self.area(24)?, order: self.area(40)?, region: self.clone() })
    }

    /// The guest's output, continued at its head. There must be only one.
    ///
    /// # Errors
    /// [`ShmError::Header`] or [`ShmError::Area`].
    pub fn output(&self) -> Result<Output, ShmError> {
        self.check()?;
        let (at, capacity) = self.area(56)?;
        let head = self.published();
        if head > capacity {
            return Err(ShmError::Area);
        }
        Ok(Output { region: self.clone(), at, capacity, head })
    }

    /// Bytes of output that are complete. Cheap: the host may poll it while the guest runs.
    pub fn published(&self) -> usize {
        usize::try_from(u64::from_le(self.head().load(Ordering::Acquire))).unwrap_or(usize::MAX)
    }

    /// The output published so far, from byte `from` on.
    ///
    /// # Errors
    /// [`ShmError::Area`] when the guest damaged the header or head.
    pub fn frames(&self, from: usize) -> Result<&[u8], ShmError> {
        let (at, capacity) = self.area(56)?;
        let head = self.published();
        if head > capacity || from > head {
            return Err(ShmError::Area);
        }
        Ok(self.bytes((at + from, head - from)))
    }

    fn check(&self) -> Result<(), ShmError> {
        let known = self.bytes((0, 8)) == MAGIC && self.field(8) == VERSION && self.field(16) == self.map.size as u64;
        if known { Ok(()) } else { Err(ShmError::Header) }
    }

    fn field(&self, offset: usize) -> u64 {
        let bytes = self.bytes((offset, 8));
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    }

    fn area(&self, offset: usize) -> Result<(usize, usize), ShmError> {
        let (at, len) = (self.field(offset), self.field(offset + 8));
        let end = at.checked_add(len).ok_or(ShmError::Area)?;
        if at < HEADER as u64 || end > self.map.size as u64 {
            return Err(ShmError::Area);
        }
        Ok((at as usize, len as usize))
    }

    fn bytes(&self, (at, len): (usize, usize)) -> &[u8] {
        assert!(at + len <= self.map.size, "an area inside the mapping");
        // SAFETY: inside the mapping, and below the head or written by the host before the guest ran, so nobody writes it any more.
        unsafe { std::slice::from_raw_parts(self.map.base.as_ptr().add(at), len) }
    }

    fn head(&self) -> &AtomicU64 {
        // SAFETY: inside the header, aligned to 128 bytes, and only ever accessed as an atomic.
        unsafe { AtomicU64::from_ptr(self.map.base.as_ptr().add(HEAD).cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(size: usize, input: &[u8]) -> (File, Result<Region, ShmError>) {
        let file = File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        let region = Region::create(&file, size, input, b"{}");
        (file, region)
    }

    fn reopen(file: &File) -> Region {
        use std::os::fd::AsRawFd;
        Region::open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd()))).unwrap()
    }

    #[test]
    fn both_sides_see_input_and_output() {
        let (file, host) = create(64 << 10, b"elf");
        let (host, guest) = (host.unwrap(), reopen(&file));
        let input = guest.input().unwrap();
        assert_eq!((input.program(), input.order()), (&b"elf"[..], &b"{}"[..]));
        let mut output = guest.output().unwrap();
        output.append(b"one").unwrap();
        assert_eq!(host.frames(0).unwrap(), b"one");
        output.append(b"two").unwrap();
        assert_eq!(host.frames(3).unwrap(), b"two");
        drop(output);
        assert_eq!(guest.output().unwrap().len(), 6, "a second writer continues at the head");
    }

    #[test]
    fn a_full_output_takes_nothing_of_an_append() {
        let (_file, host) = create(4 * HEADER, b"elf");
        let host = host.unwrap();
        let mut output = host.output().unwrap();
        assert_eq!(output.capacity(), HEADER);
        output.append(&[7; HEADER - 1]).unwrap();
        assert_eq!(output.append(&[8; 2]), Err(Full { capacity: HEADER }));
        output.append(&[9]).unwrap();
        assert_eq!(host.published(), HEADER);
    }

    #[test]
    fn damage_is_an_error() {
        assert!(matches!(create(HEADER, b"elf").1, Err(ShmError::TooSmall { .. })));
        let (file, host) = create(4 * HEADER, b"elf");
        let host = host.unwrap();
        host.head().store(u64::MAX, Ordering::Release);
        assert!(matches!(host.frames(0), Err(ShmError::Area)));
        assert!(matches!(host.output(), Err(ShmError::Area)));
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; HEADER], 0).unwrap();
        assert!(matches!(reopen(&file).input(), Err(ShmError::Header)));
    }
}
