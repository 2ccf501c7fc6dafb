//! Build script: lists the labs of this directory so that the program carries them inside.

#![allow(clippy::print_stdout, reason = "a build script speaks to cargo on stdout")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("labs");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut labs = Vec::new();
    for family in entries(&root) {
        labs.extend(entries(&family).into_iter().filter(|dir| dir.join("lab.yaml").is_file()));
    }
    let mut text = String::from("static LABS: &[Embedded] = &[\n");
    for lab in labs {
        let name = below(&root, &lab);
        let mut files = entries(&lab);
        files.extend(entries(&lab.join("pods")));
        files.retain(|file| file.extension().is_some_and(|e| e == "yaml"));
        // The file that is ours stands first; errors and copies read better so.
        files.sort_by_key(|file| (file.file_name() != Some("lab.yaml".as_ref()), file.clone()));
        writeln!(text, "    ({name:?}, &[").expect("a String takes everything");
        for file in files {
            writeln!(
                text,
                "        ({:?}, include_str!({:?})),",
                format!("{name}/{}", below(&lab, &file)),
                file.display().to_string()
            )
            .expect("a String takes everything");
        }
        text.push_str("    ]),\n");
    }
    text.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("labs.rs");
    fs::write(&out, text).unwrap_or_else(|e| panic!("{}: {e}", out.display()));
}

/// What a directory holds, in order; nothing if it is none.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
    found.sort();
    found
}

fn below(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).expect("it was listed there").to_string_lossy().into_owned()
}
