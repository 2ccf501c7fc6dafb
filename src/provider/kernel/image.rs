//! Reading a bzImage's header: that it is one, and which release.

use super::KernelError;
use crate::provider::FileError;
use std::io::Read;
use std::path::Path;

/// `uname -r` of a bzImage (Documentation/arch/x86/boot.rst: "HdrS" at 0x202, kernel_version at 0x20e).
///
/// # Errors
/// [`KernelError::Image`] or a file error.
pub fn release(path: &Path) -> Result<String, KernelError> {
    let wrong = |reason| KernelError::Image { path: path.to_owned(), reason };
    let mut head = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(64 << 10).read_to_end(&mut head)).map_err(FileError::at(path))?;
    if head.get(0x202..0x206) != Some(b"HdrS") {
        return Err(wrong("it has no boot header (a bzImage such as /boot/vmlinuz-… is needed)"));
    }
    let pointer = head.get(0x20e..0x210).map_or(0, |bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])));
    let text = head.get(pointer + 0x200..).unwrap_or_default();
    let end = text.iter().position(|byte| *byte == b' ' || *byte == 0).unwrap_or(0);
    let release = std::str::from_utf8(&text[..end]).unwrap_or_default();
    if pointer == 0 || release.is_empty() { Err(wrong("it does not name its release")) } else { Ok(release.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_and_other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vmlinuz");
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        image[0x300..0x310].copy_from_slice(b"6.1.0-9-cloud #1");
        std::fs::write(&path, &image).unwrap();
        assert_eq!(release(&path).unwrap(), "6.1.0-9-cloud");
        std::fs::write(&path, b"\x7fELF").unwrap();
        assert!(matches!(release(&path), Err(KernelError::Image { .. })));
        image[0x20e..0x210].copy_from_slice(&0xfff0u16.to_le_bytes());
        std::fs::write(&path, &image).unwrap();
        assert!(matches!(release(&path), Err(KernelError::Image { .. })));
    }
}
