//! What a LAB argument means: a name of the catalogue, a directory, or one file with all documents.

use super::Exit;
use crate::lab::{self, Arm, LESSON, Lab, LabFiles};
use crate::record::{RunDir, SEEDS, Seeds};
use camino::{Utf8Path, Utf8PathBuf};

/// Reads and resolves a lab; every error of it is one of input.
pub fn lab(argument: &str) -> anyhow::Result<Lab> {
    lab::load(&files(argument)?).map_err(|problems| Exit::BadInput.because(problems))
}

/// These arms of a lab in its own order; all of them when none is named.
pub fn arms<'a>(lab: &'a Lab, names: &[String]) -> anyhow::Result<Vec<&'a Arm>> {
    for name in names {
        lab.known_arm(name).map_err(|unknown| Exit::BadInput.because(unknown))?;
    }
    Ok(lab.arms.iter().filter(|arm| names.is_empty() || names.contains(&arm.name)).collect())
}

/// The lab that a run was made from, as the run kept it.
pub fn recorded(run: &RunDir) -> anyhow::Result<Lab> {
    let mut files = LabFiles::from_joined(run.file("lab.yaml").as_str(), run.read_text("lab.yaml")?);
    if run.file(LESSON).is_file() {
        files.lesson = Some((run.file(LESSON).to_string(), run.read_text(LESSON)?));
    }
    lab::load(&files).map_err(|problems| Exit::BadInput.because(problems))
}

/// A run of one seed.
pub fn one(path: &Utf8Path) -> anyhow::Result<RunDir> {
    let run = RunDir::open(path).map_err(|e| Exit::BadInput.because(e))?;
    if run.file(SEEDS).is_file() {
        let seeds: Seeds = run.read_json(SEEDS)?;
        let runs: Vec<_> = seeds.seeds.iter().map(|seed| run.file(&seed.run).to_string()).collect();
        return Err(Exit::BadInput.because(format!("{path} holds the runs of several seeds: name one of {}", runs.join(", "))));
    }
    Ok(run)
}

/// Finds the texts of a lab.
pub fn files(argument: &str) -> anyhow::Result<LabFiles> {
    let path = Utf8Path::new(argument);
    if path.is_dir() {
        return directory(path);
    }
    if path.is_file() {
        let name = path.file_stem().unwrap_or("lab").to_owned();
        return Ok(LabFiles { name, files: vec![(argument.to_owned(), text(path)?)], lesson: None });
    }
    lab::find(argument).map_err(|message| Exit::BadInput.because(message))
}

fn directory(dir: &Utf8Path) -> anyhow::Result<LabFiles> {
    let absolute = dir.canonicalize_utf8().map_err(|e| Exit::BadInput.because(format!("{dir}: {e}")))?;
    let mut paths = yaml_files(dir)?;
    if dir.join("pods").is_dir() {
        paths.extend(yaml_files(&dir.join("pods"))?);
    }
    // The file that is ours stands first, as in the catalogue.
    paths.sort_by_key(|p| (p.file_name() != Some("lab.yaml"), p.clone()));
    let files = paths.into_iter().map(|p| Ok((p.to_string(), text(&p)?))).collect::<anyhow::Result<_>>()?;
    Ok(LabFiles::new(absolute.file_name().unwrap_or("lab").to_owned(), files))
}

fn yaml_files(dir: &Utf8Path) -> anyhow::Result<Vec<Utf8PathBuf>> {
    let entries = dir.read_dir_utf8().map_err(|e| Exit::BadInput.because(format!("{dir}: {e}")))?;
    let paths = entries.map(|entry| Ok(entry?.into_path())).collect::<Result<Vec<_>, std::io::Error>>();
    let mut paths = paths.map_err(|e| Exit::BadInput.because(format!("{dir}: {e}")))?;
    paths.retain(|p| matches!(p.extension(), Some("yaml" | "yml")));
    Ok(paths)
}

fn text(path: &Utf8Path) -> anyhow::Result<String> {
    fs_err::read_to_string(path).map_err(|e| Exit::BadInput.because(e))
}
