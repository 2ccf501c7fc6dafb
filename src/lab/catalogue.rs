//! The catalogue: the labs of this repository, carried inside the program.

/// The texts of a lab, before they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabFiles {
    /// Its name in the catalogue, or its directory's.
    pub name: String,
    /// Name and text of each YAML file, `lab.yaml` first.
    pub files: Vec<(String, String)>,
    /// Name and text of `lesson.yaml`, which says nothing about the node and so is no part of what is run.
    pub lesson: Option<(String, String)>,
}

impl LabFiles {
    /// The files of a directory: `lesson.yaml` is taken out of the documents.
    #[must_use]
    pub fn new(name: String, mut files: Vec<(String, String)>) -> LabFiles {
        let is_lesson = |(file, _): &(String, String)| file.rsplit('/').next() == Some(LESSON);
        let lesson = files.iter().position(is_lesson).map(|at| files.remove(at));
        LabFiles { name, files, lesson }
    }

    /// All documents as one text of several YAML documents. Its first line keeps the name, each document its file's.
    #[must_use]
    pub fn joined(&self) -> String {
        let part = |(name, text): &(String, String)| format!("# {name}\n{}\n", text.trim_end().trim_start_matches("---\n"));
        let parts: Vec<_> = self.files.iter().map(part).collect();
        format!("{JOINED}{}\n{}", self.name, parts.join("---\n"))
    }

    /// Takes a joined text as one file again.
    #[must_use]
    pub fn from_joined(file: &str, text: String) -> LabFiles {
        let name = text.lines().next().and_then(|line| line.strip_prefix(JOINED)).unwrap_or("lab").to_owned();
        LabFiles { name, files: vec![(file.to_owned(), text)], lesson: None }
    }
}

/// The file of a lab's lesson.
pub const LESSON: &str = "lesson.yaml";

const JOINED: &str = "# lab ";

/// A lab as it is embedded: name, then name and text of each file.
type Embedded = (&'static str, &'static [(&'static str, &'static str)]);

// `static LABS: &[Embedded]`, written by build.rs from the directory labs/.
include!(concat!(env!("OUT_DIR"), "/labs.rs"));

/// Every lab, by name.
pub fn catalogue() -> impl Iterator<Item = LabFiles> {
    LABS.iter().map(|(name, files)| {
        let files = files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
        LabFiles::new((*name).to_owned(), files)
    })
}

/// A lab by name.
///
/// # Errors
/// The names that are near, or all of them.
pub fn find(name: &str) -> Result<LabFiles, String> {
    if let Some(lab) = catalogue().find(|lab| lab.name == name) {
        return Ok(lab);
    }
    let names: Vec<_> = LABS.iter().map(|(name, _)| *name).collect();
    let near = names.iter().map(|n| (strsim::jaro_winkler(n, name), n)).max_by(|a, b| a.0.total_cmp(&b.0));
    Err(match near {
        Some((score, near)) if score > 0.8 => format!("no lab {name} in the catalogue: did you mean {near}?"),
        _ => format!(
            "no lab {name} in the catalogue and no such directory: `highwater list` names the {} labs there are",
            names.len()
        ),
    })
}
