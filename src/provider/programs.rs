//! The programs a node is made of beside QEMU and the kernel, and where they are found.

use std::path::{Path, PathBuf};

/// Environment variable that names their folder.
pub const ENV_DIR: &str = "HIGHWATER_NODE_DIR";

/// Files of the node programs, checked to be static.
#[derive(Debug, Clone)]
pub struct NodePrograms {
    /// The init stub, part of the boot.
    pub init: PathBuf,
    /// The guest program, given to every fork.
    pub node: PathBuf,
    /// A library that QEMU is started with: it stops the wall clock (see src/provider/machine/preload.rs).
    pub clock: PathBuf,
}

/// Why the node programs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Not found anywhere.
    #[error(
        "the node programs are missing (looked in {looked}): build them with `cargo xtask build`, or set {ENV_DIR} to their folder"
    )]
    Missing {
        /// The folders.
        looked: String,
    },
    /// Not a static x86-64 program.
    #[error("{path} cannot run in the node: {reason}; build it with `cargo xtask build`")]
    Unfit {
        /// The file.
        path: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// Unreadable.
    #[error(transparent)]
    File(#[from] super::FileError),
}

impl NodePrograms {
    /// Finds them: in the folder of [`ENV_DIR`], else beside this executable, else where `cargo xtask build` of this checkout puts them.
    ///
    /// # Errors
    /// [`ProgramError`]; a folder named by the environment is the only one that is looked into.
    pub fn find() -> Result<NodePrograms, ProgramError> {
        if let Some(dir) = std::env::var_os(ENV_DIR) {
            return NodePrograms::among(&[dir.into()]);
        }
        let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/guest/x86_64-unknown-linux-gnu/node");
        NodePrograms::among(&beside.into_iter().chain([built]).collect::<Vec<_>>())
    }

    fn among(dirs: &[PathBuf]) -> Result<NodePrograms, ProgramError> {
        // A debug build leaves dynamic programs of the same names beside the executable; the last folder may still have the right ones.
        let mut unfit = None;
        for dir in dirs {
            let programs = NodePrograms {
                init: dir.join("highwater-init"),
                node: dir.join("highwater-node"),
                clock: dir.join("libhighwater_clock.so"),
            };
            if ![&programs.init, &programs.node, &programs.clock].into_iter().all(|file| file.is_file()) {
                continue;
            }
            match check_static(&programs.init).and_then(|()| check_static(&programs.node)) {
                Ok(()) => return Ok(programs),
                Err(error) => unfit = Some(error),
            }
        }
        let looked = dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ");
        Err(unfit.unwrap_or(ProgramError::Missing { looked }))
    }
}

/// Checks that a file is a static x86-64 executable: there is no loader in the node.
fn check_static(path: &Path) -> Result<(), ProgramError> {
    let bytes = std::fs::read(path).map_err(super::FileError::at(path))?;
    let unfit = |reason| ProgramError::Unfit { path: path.display().to_string(), reason };
    let number = |at: usize, length: usize| {
        let field = bytes.get(at..at + length)?;
        Some(field.iter().rev().fold(0usize, |value, byte| value << 8 | usize::from(*byte)))
    };
    // Offsets of the ELF64 header: e_ident, e_machine 18, e_phoff 32, e_phentsize 54, e_phnum 56.
    if !bytes.starts_with(b"\x7fELF\x02\x01") || number(18, 2) != Some(62) {
        return Err(unfit("it is not an x86-64 ELF file"));
    }
    let headers = (number(32, 8), number(54, 2), number(56, 2));
    let (Some(offset), Some(size), Some(count)) = headers else { return Err(unfit("its ELF header is cut off")) };
    const PT_INTERP: usize = 3;
    if (0..count).any(|i| number(offset + i * size, 4) == Some(PT_INTERP)) {
        return Err(unfit("it is linked dynamically"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_and_a_text_file_are_refused() {
        let this = check_static(&std::env::current_exe().unwrap()).unwrap_err().to_string();
        assert!(this.contains("linked dynamically"), "{this}");
        let text = check_static(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap_err().to_string();
        assert!(text.contains("not an x86-64 ELF file"), "{text}");
    }

    #[test]
    fn a_missing_folder_says_what_to_do() {
        let error = NodePrograms::among(&["/nowhere".into()]).unwrap_err().to_string();
        assert!(error.contains("/nowhere") && error.contains("cargo xtask build"), "{error}");
    }
}
