//! The initramfs: the stub, its modules and what it is to do. Equal input gives equal bytes.

use crate::provider::FileError;
use crate::provider::kernel::Kernel;
use cpio::newc::{self, Builder, ModeFileType};
use std::io::{self, Write};
use std::path::Path;

/// Builds it. `conf` is `/boot.conf` without the lines for modules, which are put before it; `disks` the content of disks by name, for `/ext4`.
///
/// # Errors
/// When a file cannot be read.
pub fn build(init: &Path, kernel: &Kernel, conf: &str, disks: &[(&str, Vec<u8>)]) -> Result<Vec<u8>, FileError> {
    let mut archive = Archive { bytes: Vec::new(), inode: 1 };
    let read = |path: &Path| std::fs::read(path).map_err(FileError::at(path));
    let mut modules = String::new();
    archive.add("dev", ModeFileType::Directory, 0o755, &[])?;
    archive.add("dev/console", ModeFileType::Char, 0o600, &[])?;
    archive.add("modules", ModeFileType::Directory, 0o755, &[])?;
    for module in &kernel.modules {
        let name = module.path.file_name().unwrap_or_default().to_string_lossy();
        archive.add(&format!("modules/{name}"), ModeFileType::Regular, 0o644, &read(&module.path)?)?;
        let how = if module.compressed { "compressed" } else { "plain" };
        modules.push_str(&format!("module /modules/{name} {how}\n"));
    }
    for (number, (name, content)) in disks.iter().enumerate() {
        if number == 0 {
            archive.add("ext4", ModeFileType::Directory, 0o755, &[])?;
        }
        archive.add(&format!("ext4/{name}"), ModeFileType::Regular, 0o644, content)?;
    }
    archive.add("boot.conf", ModeFileType::Regular, 0o644, format!("{modules}{conf}").as_bytes())?;
    archive.add("init", ModeFileType::Regular, 0o755, &read(init)?)?;
    newc::trailer(archive.bytes).map_err(FileError::at("initramfs"))
}

struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

impl Archive {
    fn add(&mut self, name: &str, kind: ModeFileType, mode: u32, content: &[u8]) -> Result<(), FileError> {
        self.write(name, kind, mode, content).map_err(FileError::at("initramfs"))
    }

    fn write(&mut self, name: &str, kind: ModeFileType, mode: u32, content: &[u8]) -> io::Result<()> {
        let mut entry = Builder::new(name).ino(self.inode).nlink(1).mode(mode).set_mode_file_type(kind);
        self.inode += 1;
        if name == "dev/console" {
            entry = entry.rdev_major(5).rdev_minor(1);
        }
        let mut writer = entry.write(&mut self.bytes, content.len() as u32);
        writer.write_all(content)?;
        writer.finish()?;
        Ok(())
    }
}
