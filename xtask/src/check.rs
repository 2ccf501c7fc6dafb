//! The house rules as checks: module order, module sentences, file sizes, format, clippy, licences.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// No source file is longer than this.
const MOST_LINES: usize = 800;

pub fn run(sh: &Shell) -> Result<()> {
    tidy(&sh.current_dir())?;
    cmd!(sh, "cargo fmt --all -- --check").run().context("run `cargo fmt --all`")?;
    cmd!(sh, "cargo clippy --quiet --workspace --all-targets -- -D warnings").run()?;
    cmd!(sh, "cargo clippy --quiet --no-default-features --features node --lib --bins -- -D warnings").run()?;
    crate::deny::run(sh)
}

/// Checks the sources and reports everything that is wrong at once.
fn tidy(root: &Path) -> Result<()> {
    let order = module_order(&std::fs::read_to_string(root.join("src/lib.rs"))?);
    let mut wrong = Vec::new();
    for file in rust_files(&[root.join("src"), root.join("xtask/src"), root.join("tests")])? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let shown = file.strip_prefix(root).unwrap_or(&file);
        wrong.extend(check_file(shown, &text, &order));
    }
    if !wrong.is_empty() {
        bail!("{} house rules are broken:\n{}", wrong.len(), wrong.join("\n"));
    }
    Ok(())
}

/// The modules in the order in which `lib.rs` names them.
fn module_order(lib: &str) -> Vec<String> {
    lib.lines().filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';')).map(str::to_owned).collect()
}

fn check_file(path: &Path, text: &str, order: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    let shown = path.display();
    if !text.starts_with("//! ") {
        wrong.push(format!("{shown}:1: open with one `//!` sentence that says what this is"));
    }
    let lines = text.lines().count();
    if lines > MOST_LINES {
        wrong.push(format!("{shown}: {lines} lines; split it, {MOST_LINES} is the most"));
    }
    let Some(here) = module_of(path).and_then(|m| order.iter().position(|o| *o == m)) else { return wrong };
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for used in code.match_indices("crate::").map(|(at, _)| &code[at + "crate::".len()..]) {
            for name in first_names(used) {
                if order.iter().position(|o| o == name).is_some_and(|there| there > here) {
                    let module = &order[here];
                    wrong.push(format!(
                        "{shown}:{}: `{module}` imports `{name}`, which stands below it in src/lib.rs",
                        number + 1
                    ));
                }
            }
        }
    }
    wrong
}

/// The first path segments after `crate::`, also those of a group.
fn first_names(used: &str) -> Vec<&str> {
    let word = |s: &'_ str| s.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(s.len());
    match used.strip_prefix('{') {
        Some(group) => {
            group.split(['{', '}']).next().unwrap_or_default().split(',').map(|p| p.trim()).map(|p| &p[..word(p)]).collect()
        }
        None => vec![&used[..word(used)]],
    }
}

/// The top module a file of `src` belongs to.
fn module_of(path: &Path) -> Option<String> {
    let below = path.strip_prefix("src").ok()?;
    let first = below.components().next()?.as_os_str().to_str()?;
    Some(first.strip_suffix(".rs").unwrap_or(first).to_owned())
}

fn rust_files(roots: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = roots.iter().filter(|r| r.is_dir()).cloned().collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_from_below_is_named_with_its_line() {
        let order = ["units", "plan", "cli"].map(String::from);
        let text = "//! A.\nuse crate::units::Quantity;\nuse crate::{units, cli::Exit};\n";
        let wrong = check_file(Path::new("src/plan/mod.rs"), text, &order);
        assert_eq!(wrong, ["src/plan/mod.rs:3: `plan` imports `cli`, which stands below it in src/lib.rs"]);
        assert!(check_file(Path::new("src/cli/run.rs"), text, &order).is_empty());
    }

    #[test]
    fn a_file_without_a_sentence_is_named() {
        assert_eq!(check_file(Path::new("tests/a.rs"), "use x;\n", &[]).len(), 1);
    }
}
