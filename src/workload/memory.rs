//! Memory that a workload really uses: anonymous or mapped from a file, filled so that it cannot be compressed, touched line by line.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, mmap_anonymous, munmap};
use std::fs::File;
use std::io;
use std::ptr::NonNull;

/// Bytes of a cache line: reading one word of it costs what reading all of it costs.
pub const LINE: usize = 64;
const PAGE: usize = 4096;

/// A mapping of its own, given back when dropped.
#[derive(Debug)]
pub struct Block {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is owned by the value and reached only through it.
unsafe impl Send for Block {}
// SAFETY: through a shared reference memory is only read, by volatile reads; writing takes a unique one.
unsafe impl Sync for Block {}

impl Block {
    /// Anonymous memory; takes no page until it is written. `len` is rounded up to a page.
    ///
    /// # Errors
    /// What mmap says.
    pub fn anonymous(len: usize) -> io::Result<Block> {
        let len = len.max(1).next_multiple_of(PAGE);
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address the kernel chooses aliases nothing.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), len, prot, MapFlags::PRIVATE)? };
        Ok(Block { base: NonNull::new(base.cast()).expect("mmap never gives 0 unasked"), len })
    }

    /// A file's first bytes, shared and writable: with a file on tmpfs this is shared memory. `len` must be a multiple of the page size and
    /// at most the file's length.
    ///
    /// # Errors
    /// What mmap says.
    pub fn shared(file: &File, len: usize) -> io::Result<Block> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address the kernel chooses aliases nothing in this process.
        let base = unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, file, 0)? };
        Ok(Block { base: NonNull::new(base.cast()).expect("mmap never gives 0 unasked"), len })
    }

    /// Takes every page now, as MADV_POPULATE_WRITE does (Linux 5.14).
    ///
    /// # Errors
    /// What madvise says.
    pub fn populate(&mut self) -> io::Result<()> {
        // SAFETY: the range is the mapping; populating changes no content.
        unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxPopulateWrite)? };
        Ok(())
    }

    /// Takes every page now and keeps it in memory: never swapped, `unevictable` in memory.stat.
    ///
    /// # Errors
    /// What mlock says, ENOMEM or EPERM beyond RLIMIT_MEMLOCK.
    pub fn pin(&mut self) -> io::Result<()> {
        // SAFETY: the range is the mapping, and locking changes no content.
        unsafe { mlock(self.base.as_ptr().cast(), self.len)? };
        Ok(())
    }

    /// The pages go back to the system; the next use finds zeros.
    ///
    /// # Errors
    /// What madvise says, EINVAL for pinned memory.
    pub fn discard(&mut self) -> io::Result<()> {
        // SAFETY: the range is the mapping, to which no reference exists; anonymous memory reads as zeros afterwards.
        unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxDontNeed)? };
        Ok(())
    }

    /// Copies a stretch from another block, as long as both reach.
    pub fn copy(&mut self, at: usize, from: &Block, from_at: usize, len: usize) {
        let (at, end) = self.clip(at, len);
        let (from_at, from_end) = from.clip(from_at, len);
        let len = (end - at).min(from_end - from_at);
        // SAFETY: both stretches lie in their mappings, and two blocks never overlap.
        unsafe { from.base.as_ptr().add(from_at).copy_to_nonoverlapping(self.base.as_ptr().add(at), len) };
    }

    /// The bytes of a stretch (clipped to the block).
    pub fn bytes(&self, from: usize, len: usize) -> &[u8] {
        let (from, end) = self.clip(from, len);
        // SAFETY: the stretch lies in the mapping, which this reference keeps alive and unwritten; anonymous or shared memory that only
        // this process maps, filled before it is read.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(from), end - from) }
    }

    /// The bytes of a stretch, to read a file into (clipped to the block).
    pub fn bytes_mut(&mut self, from: usize, len: usize) -> &mut [u8] {
        let (from, end) = self.clip(from, len);
        // SAFETY: as in `bytes`, and the reference is unique.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(from), end - from) }
    }

    /// A file's content, read-only; its pages are page cache. None for an empty file.
    ///
    /// # Errors
    /// What fstat or mmap says.
    pub fn of_file(file: &File) -> io::Result<Option<Block>> {
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if len == 0 {
            return Ok(None);
        }
        // SAFETY: as above; the file is only read, and only through volatile reads, so a change beneath is not undefined behaviour here.
        let base = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file, 0)? };
        Ok(Some(Block { base: NonNull::new(base.cast()).expect("mmap never gives 0 unasked"), len }))
    }

    /// Bytes of it that are in memory; of a file, those in the page cache.
    ///
    /// # Errors
    /// What mincore says.
    pub fn resident(&self) -> io::Result<u64> {
        let mut pages = vec![0u8; self.len.div_ceil(PAGE)];
        // SAFETY: the range is the mapping, and the vector has a byte for each of its pages.
        match unsafe { libc::mincore(self.base.as_ptr().cast(), self.len, pages.as_mut_ptr()) } {
            0 => Ok((pages.iter().filter(|page| **page & 1 == 1).count() * PAGE) as u64),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true: a block has at least a page, or a byte of a file.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes a stretch (clipped to the block) with words from a generator, so that neither zswap nor same-page tricks make it cheap.
    pub fn fill(&mut self, from: usize, len: usize, seed: u64) {
        let (from, end) = self.clip(from, len);
        let mut state = seed ^ (from as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for at in (from..end.saturating_sub(7)).step_by(8) {
            // SAFETY: at + 8 <= end <= len, and the mapping is page-aligned and `from` a multiple of 8.
            unsafe { self.base.as_ptr().add(at).cast::<u64>().write(split_mix(&mut state)) };
        }
    }

    /// Writes one word of zeros per page of a stretch: pages that compress to nothing, to show what they hide.
    pub fn fill_zero(&mut self, from: usize, len: usize) {
        let (from, end) = self.clip(from, len);
        for at in (from..end.saturating_sub(7)).step_by(PAGE) {
            // SAFETY: as in `fill`.
            unsafe { self.base.as_ptr().add(at).cast::<u64>().write(0) };
        }
    }

    /// Reads one word of each cache line of a stretch (clipped to the block).
    pub fn touch(&self, from: usize, len: usize) {
        let (from, end) = self.clip(from, len);
        let lines = (end - from + LINE - 8) / LINE;
        if lines > 0 {
            // SAFETY: the last line begins at least 8 bytes before `end`, which lies in the mapping; `from` is a multiple of 8.
            unsafe { read_lines(self.base.as_ptr().add(from), lines) };
        }
    }

    fn clip(&self, from: usize, len: usize) -> (usize, usize) {
        let from = (from & !7).min(self.len);
        (from, from.saturating_add(len).min(self.len))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: base and len are what mmap gave.
        unsafe { _ = munmap(self.base.as_ptr().cast(), self.len) }
    }
}

// Three instructions a line, whatever a compiler would make of a loop: 21.3 GB/s where an instruction takes a nanosecond, about one channel
// of memory. What a token costs must not change with the compiler.
#[cfg(target_arch = "x86_64")]
unsafe fn read_lines(first: *const u8, lines: usize) {
    let bytes = lines * LINE;
    // SAFETY: reads one word at each of `lines` lines from `first` on, which the caller vouches for; writes no memory.
    unsafe {
        std::arch::asm!(
            "2:",
            "add {sum}, qword ptr [{end} + {offset}]",
            "add {offset}, {line}",
            "jnz 2b",
            sum = inout(reg) 0u64 => _,
            end = in(reg) first.wrapping_add(bytes),
            offset = inout(reg) bytes.wrapping_neg() => _,
            line = const LINE,
            options(nostack, readonly),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn read_lines(first: *const u8, lines: usize) {
    let mut sum = 0u64;
    for line in 0..lines {
        // SAFETY: the caller vouches for `lines` lines from `first` on.
        sum = sum.wrapping_add(unsafe { std::ptr::read_volatile(first.add(line * LINE).cast::<u64>()) });
    }
    std::hint::black_box(sum);
}

/// The next number of a SplitMix64 generator: two multiplications a word, and no two pages alike.
pub fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The seed of this process: HIGHWATER_SEED, 0 when it is absent or no number.
pub fn seed() -> u64 {
    std::env::var(super::ENV_SEED).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::read_volatile;

    #[test]
    fn filled_memory_is_resident_and_not_repetitive() {
        let mut block = Block::anonymous(8 << 20).unwrap();
        assert_eq!(block.resident().unwrap(), 0);
        block.fill(0, block.len(), 7);
        assert_eq!(block.resident().unwrap(), 8 << 20);
        // SAFETY: the block lives and nobody writes.
        let words = unsafe { std::slice::from_raw_parts(block.base.as_ptr().cast::<u64>(), block.len() / 8) };
        let distinct: std::collections::HashSet<_> = words.iter().collect();
        assert_eq!(distinct.len(), words.len(), "no word twice");
        block.touch(0, usize::MAX);
        block.touch(block.len() - 3, 100);
    }

    #[test]
    fn shared_memory_is_taken_at_once_and_copies_arrive() {
        let file = tempfile();
        file.set_len(8 * PAGE as u64).unwrap();
        let mut pool = Block::shared(&file, 8 * PAGE).unwrap();
        pool.populate().unwrap();
        let mut source = Block::anonymous(PAGE).unwrap();
        source.fill(0, PAGE, 9);
        pool.copy(2 * PAGE, &source, 0, PAGE);
        assert_eq!(pool.bytes(2 * PAGE, PAGE), source.bytes(0, PAGE));
        assert!(pool.bytes(3 * PAGE, PAGE).iter().all(|byte| *byte == 0));
        pool.copy(7 * PAGE + 8, &source, 0, PAGE);
        assert_eq!(pool.bytes(7 * PAGE + 8, PAGE), source.bytes(0, PAGE - 8), "clipped");
        source.discard().unwrap();
        assert!(source.bytes(0, PAGE).iter().all(|byte| *byte == 0));
    }

    fn tempfile() -> File {
        let path = std::env::temp_dir().join(format!("highwater-memory-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_however_it_is_cut() {
        let read = |block: &Block, at: usize| unsafe { read_volatile(block.base.as_ptr().add(at).cast::<u64>()) };
        let (mut a, mut b) = (Block::anonymous(2 * PAGE).unwrap(), Block::anonymous(2 * PAGE).unwrap());
        a.fill(PAGE, PAGE, 3);
        b.fill(PAGE, PAGE, 3);
        assert_eq!(read(&a, PAGE + 8), read(&b, PAGE + 8));
        b.fill(PAGE, PAGE, 4);
        assert_ne!(read(&a, PAGE + 8), read(&b, PAGE + 8));
    }
}
