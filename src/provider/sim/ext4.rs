//! The file system of a data disk: made by the host's mke2fs on a sparse file, whose written blocks the booting node copies to its disk.

use crate::provider::{FileError, machine};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::Duration;

const BLOCK: usize = 4096;
/// Identity and time of every file system, so that equal sizes give equal bytes.
const UUID: &str = "68696768-7761-4572-8000-000000000001";
const TIME: &str = "1700000000";
/// What mke2fs.conf of Debian 12 gives an ext4, but 64bit, which no disk of a lab needs.
const FEATURES: &str = "none,has_journal,ext_attr,extent,filetype,flex_bg,sparse_super,large_file,huge_file,dir_index,dir_nlink,extra_isize,\
                        metadata_csum,resize_inode";

/// Why there is no file system.
#[derive(Debug, thiserror::Error)]
pub enum Ext4Error {
    /// mke2fs is missing.
    #[error("mke2fs was not found, which makes the node's data disk: install it (Debian: apt-get install e2fsprogs)")]
    Missing,
    /// mke2fs refused.
    #[error("mke2fs cannot make a file system of {size} bytes: {reason}")]
    Refused {
        /// Bytes of the disk.
        size: u64,
        /// Its own words.
        reason: String,
    },
    /// The file it writes into.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The blocks of a fresh file system that are not zero: each as its number, 8 bytes little-endian, and its 4096 bytes.
///
/// # Errors
/// [`Ext4Error`].
pub fn blocks(size: u64) -> Result<Vec<u8>, Ext4Error> {
    let refused = |reason: String| Ext4Error::Refused { size, reason };
    // In memory: whatever kills this process leaves no file behind.
    let failed = || FileError::at("a file in memory");
    let memory = rustix::fs::memfd_create("ext4", rustix::fs::MemfdFlags::CLOEXEC);
    let file = File::from(memory.map_err(|error| failed()(error.into()))?);
    file.set_len(size).map_err(failed())?;
    let mut command = Command::new(machine::in_path("mke2fs".as_ref()).ok_or(Ext4Error::Missing)?);
    command.args(["-q", "-F", "-b", "4096", "-I", "256", "-m", "0", "-U", UUID, "-O", FEATURES]);
    command.arg("-E").arg(format!("hash_seed={UUID},lazy_itable_init=0,nodiscard,root_owner=0:0"));
    command.arg(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    // Without the machine's own configuration file, so that the same mke2fs makes the same file system everywhere.
    command.env("E2FSPROGS_FAKE_TIME", TIME).env("MKE2FS_CONFIG", "/dev/null");
    let output = machine::run_with_deadline(&mut command, Duration::from_secs(60)).map_err(|error| refused(error.to_string()))?;
    if !output.status.success() {
        return Err(refused(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")));
    }
    let mut records = Vec::new();
    let mut block = [0; BLOCK];
    for number in written(&file, size).map_err(failed())? {
        file.read_exact_at(&mut block, number * BLOCK as u64).map_err(failed())?;
        if block.iter().any(|byte| *byte != 0) {
            records.write_all(&number.to_le_bytes()).and_then(|()| records.write_all(&block)).map_err(failed())?;
        }
    }
    Ok(records)
}

/// The blocks of a sparse file that are not holes.
fn written(file: &File, size: u64) -> std::io::Result<Vec<u64>> {
    use rustix::fs::{SeekFrom, seek};
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // No data behind this offset.
            Err(rustix::io::Errno::NXIO) => return Ok(found),
            Err(error) => return Err(error.into()),
        };
        at = seek(file, SeekFrom::Hole(data))?;
        found.extend(data / BLOCK as u64..at.min(size).div_ceil(BLOCK as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sizes_give_equal_bytes_and_e2fsck_finds_nothing_to_mend() {
        let size = 64 << 20;
        let records = blocks(size).unwrap();
        assert_eq!(records, blocks(size).unwrap());
        assert!(records.len() < 1 << 20, "{} bytes travel in the initramfs", records.len());
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(size).unwrap();
        for record in records.chunks_exact(8 + BLOCK) {
            let number = u64::from_le_bytes(record[..8].try_into().unwrap());
            file.as_file().write_all_at(&record[8..], number * BLOCK as u64).unwrap();
        }
        let check = Command::new("/usr/sbin/e2fsck").args(["-f", "-n"]).arg(file.path()).output().unwrap();
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    }

    #[test]
    fn a_disk_too_small_is_refused_in_mke2fs_s_words() {
        let error = blocks(4096).unwrap_err();
        assert!(matches!(error, Ext4Error::Refused { size: 4096, .. }), "{error}");
    }
}
