//! How the process ends: the exit codes that scripts may rely on.

use std::process::ExitCode;

/// The documented exit codes of `highwater`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: as expected.
    AsExpected,
    /// 1: an expectation or a verdict failed, or Highwater itself did.
    Failed,
    /// 2: bad input (arguments, lab files, manifests).
    BadInput,
    /// 3: the substrate is missing something or broke; `highwater doctor` says what.
    Substrate,
    /// 4: inconclusive or uninformative: the pressure a lab is about never occurred.
    Uninformative,
    /// 130: interrupted by Ctrl-C; everything that was created has been removed.
    Interrupted,
}

/// An error that knows its exit code. Commands attach it to the errors a user can cause; every other error is code 1.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Ended {
    /// The code to end with.
    pub exit: Exit,
    /// What went wrong and what to do, one or more whole lines.
    pub message: String,
}

impl Exit {
    /// Wraps an error so that the process ends with this code.
    pub fn because(self, error: impl std::fmt::Display) -> anyhow::Error {
        Ended { exit: self, message: error.to_string() }.into()
    }

    /// Prints an error with its causes to stderr and gives the code it carries.
    #[expect(clippy::print_stderr, reason = "the one place where errors leave the program")]
    pub fn report(error: &anyhow::Error) -> Exit {
        eprintln!("error: {}", crate::report::plain(&format!("{error:#}")));
        error.chain().find_map(|cause| cause.downcast_ref::<Ended>()).map_or(Exit::Failed, |ended| ended.exit)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::AsExpected => 0,
            Exit::Failed => 1,
            Exit::BadInput => 2,
            Exit::Substrate => 3,
            Exit::Uninformative => 4,
            Exit::Interrupted => 130,
        })
    }
}
