//! `cargo xtask pictures`: the pictures of the README, from a real run: two of the terminal as SVG, one of the report as PNG.

use anyhow::{Context, Result, ensure};
use highwater::report::xml;
use std::fmt::Write;
use std::path::Path;
use xshell::{Shell, cmd};

/// The lab they show: small, and each arm ends otherwise.
const LAB: &str = "swap/cpu-inference";
/// Where they lie, in the repository.
const OUT: &str = "xtask/pictures";
/// Columns of the terminal.
const COLUMNS: usize = 110;
/// Bytes of a picture at most.
const MOST: usize = 150_000;

/// Makes the pictures anew, of this run of the lab or of one made for it. Needs util-linux' `script` and Chromium.
pub fn run(sh: &Shell, given: Option<&Path>) -> Result<()> {
    cmd!(sh, "cargo build --quiet").run()?;
    let root = sh.current_dir();
    let (program, folder) = (root.join("target/debug/highwater"), sh.create_temp_dir()?);
    let made = folder.path().join("run");
    if given.is_none() {
        cmd!(sh, "{program} run {LAB} --out {made}").ignore_stdout().run()?;
    }
    let run = given.unwrap_or(&made);
    sh.create_dir(OUT)?;

    let table = on_a_terminal(sh, &program, "report", run)?;
    // The arms side by side; what was expected and claimed is too wide for a picture.
    let arms: Vec<&str> = table.split("\n\n").take(2).collect();
    save(sh, "table.svg", picture(&format!("$ highwater run {LAB}\n\n{}", arms.join("\n\n"))).as_bytes())?;
    let watched = on_a_terminal(sh, &program, "watch", run)?;
    let drawn = watched.rsplit_once("\n\n").map_or(watched.as_str(), |(drawn, _conclusion)| drawn);
    save(sh, "watch.svg", picture(&format!("$ highwater watch RUN\n\n{drawn}")).as_bytes())?;

    let (page, shot) = (run.join("report.html"), folder.path().join("report.png"));
    let (page, shot) = (format!("file://{}", page.display()), format!("--screenshot={}", shot.display()));
    let flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,1000"];
    cmd!(sh, "chromium {flags...} --virtual-time-budget=1500 {shot} {page}").quiet().ignore_stderr().run()?;
    let bytes = sh.read_binary_file(folder.path().join("report.png"))?;
    save(sh, "report.png", &bytes)
}

/// What a command on the run shows on a terminal.
fn on_a_terminal(sh: &Shell, program: &Path, command: &str, run: &Path) -> Result<String> {
    let line = format!("stty cols {COLUMNS} rows 60; '{}' {command} '{}'", program.display(), run.display());
    let shown = cmd!(sh, "script -qec {line} /dev/null").stdin("").read().context("util-linux' script is needed")?;
    Ok(shown.replace('\r', ""))
}

fn save(sh: &Shell, name: &str, bytes: &[u8]) -> Result<()> {
    ensure!(bytes.len() <= MOST, "{name} has {} bytes, more than {MOST}", bytes.len());
    sh.write_file(format!("{OUT}/{name}"), bytes).map_err(Into::into)
}

/// A terminal with this text, as wide as its longest line. Each line is stretched to its columns, whatever the reader's font.
fn picture(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let (width, height) = (columns as f64 * 7.8 + 32.0, lines.len() as f64 * 17.0 + 32.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#14181f\"/>\n\
         <g font-family=\"ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"13\" fill=\"#e6e9ef\">\n"
    );
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let (y, length) = (number as f64 * 17.0 + 28.0, line.chars().count() as f64 * 7.8);
        let _ = writeln!(
            out,
            "<text x=\"16\" y=\"{y}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\">{}</text>",
            xml(line)
        );
    }
    out + "</g>\n</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pictures_of_the_readme_are_there_and_small() {
        let root = crate::repository();
        let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
        let named: Vec<_> = readme.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)).collect();
        let pictures: Vec<_> = named.into_iter().filter(|target| target.starts_with(OUT)).collect();
        assert_eq!(pictures.len(), 3, "{pictures:?}");
        for picture in pictures {
            let size = std::fs::metadata(root.join(picture)).unwrap_or_else(|e| panic!("{picture}: {e}")).len();
            assert!((1_000..=MOST as u64).contains(&size), "{picture} has {size} bytes");
        }
    }

    #[test]
    fn a_line_of_the_terminal_is_text_of_the_picture() {
        let drawn = picture("a <b>\n\n▁█ c");
        assert!(drawn.contains(">a &lt;b&gt;</text>") && drawn.contains("y=\"62\"") && drawn.contains(">▁█ c</text>"), "{drawn}");
    }
}
