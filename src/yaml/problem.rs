//! What is wrong with a text, where, and what to do: one problem per line of the user's attention.

use super::{Mark, Path};
use std::fmt;

/// One error in a file the user wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file's name, for errors that have no line.
    pub file: String,
    /// The line, when one is to blame.
    pub mark: Option<Mark>,
    /// The field, from the document's root.
    pub path: Path,
    /// What is wrong and what to do: lower case, no final dot.
    pub message: String,
}

impl Problem {
    /// A problem of a whole file.
    #[must_use]
    pub fn of_file(file: &str, message: impl Into<String>) -> Problem {
        Problem { file: file.to_owned(), mark: None, path: Path::root(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mark {
            Some(mark) => write!(f, "{}:{}:{}: ", self.file, mark.line, mark.column)?,
            None => write!(f, "{}: ", self.file)?,
        }
        if !self.path.is_root() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if let Some(mark) = &self.mark
            && let Some(line) = mark.source.text.lines().nth(mark.line as usize - 1)
        {
            let (gutter, column) = (mark.line.to_string().len(), mark.column as usize);
            write!(f, "\n  {} | {line}\n  {:gutter$} | {:>column$}", mark.line, "", "^")?;
        }
        Ok(())
    }
}

/// All errors of one or more files, in the order of the lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Adds one.
    pub fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// Takes the value of a result, or keeps its problems.
    pub fn keep<T>(&mut self, result: Result<T, Problems>) -> Option<T> {
        result.map_err(|more| self.0.extend(more.0)).ok()
    }

    /// The value if there were no problems, else all of them.
    ///
    /// # Errors
    /// The problems, sorted by file and line, each once.
    pub fn or<T>(mut self, value: T) -> Result<T, Problems> {
        if self.0.is_empty() {
            return Ok(value);
        }
        let key = |p: &Problem| (p.file.clone(), p.mark.as_ref().map(|m| (m.line, m.column)), p.message.clone());
        self.0.sort_by_key(key);
        self.0.dedup_by_key(|p| key(p));
        Err(self)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        if self.0.len() > 1 {
            write!(f, "\n{} errors", self.0.len())?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
