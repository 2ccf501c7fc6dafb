//! How a machine can fail, each with what to do.

use crate::provider::FileError;
use crate::record::shm::ShmError;
use std::fmt;
use std::time::Duration;

/// Where in a machine's life something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// From power-on to the checkpoint.
    Boot,
    /// While the checkpoint was written.
    Save,
    /// While a checkpoint was read.
    Restore,
    /// While an arm ran.
    Run,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Boot => "booting",
            Stage::Save => "saving the checkpoint",
            Stage::Restore => "restoring the checkpoint",
            Stage::Run => "running the arm",
        })
    }
}

/// The last words of a machine: the ends of its console and of QEMU's stderr.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastWords {
    /// End of the guest's console.
    pub console: String,
    /// End of QEMU's stderr.
    pub stderr: String,
    /// The console says that the kernel panicked; the trace that follows may push the line out of the tail.
    pub panicked: bool,
}

impl fmt::Display for LastWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, text) in [("console", &self.console), ("qemu", &self.stderr)] {
            for line in text.lines() {
                write!(f, "\n  {name}: {line}")?;
            }
        }
        Ok(())
    }
}

/// Why a machine gave no result.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// There is no QEMU.
    #[error("{program} was not found: install QEMU (Debian: apt-get install qemu-system-x86), or name it with HIGHWATER_QEMU")]
    NoQemu {
        /// What was looked for.
        program: String,
    },
    /// QEMU does not even say its version.
    #[error("{program} does not work: {reason}")]
    BadQemu {
        /// The program.
        program: String,
        /// What happened.
        reason: String,
    },
    /// QEMU ended although the script had not.
    #[error("QEMU was killed by signal {signal} while {stage}: run again; if memory is short, run fewer arms at a time{last}")]
    Killed {
        /// When.
        stage: Stage,
        /// The signal.
        signal: i32,
        /// Console and stderr.
        last: LastWords,
    },
    /// QEMU itself refused or failed.
    #[error("QEMU failed with status {status} while {stage}{last}")]
    Failed {
        /// When.
        stage: Stage,
        /// Exit status.
        status: i32,
        /// Console and stderr.
        last: LastWords,
    },
    /// The kernel of the guest panicked.
    #[error("the guest's kernel panicked while {stage}: the arm has no result{last}")]
    Panicked {
        /// When.
        stage: Stage,
        /// Console and stderr.
        last: LastWords,
    },
    /// The guest switched itself off before its script ended.
    #[error("the guest switched itself off while {stage}: the arm has no result{last}")]
    SwitchedOff {
        /// When.
        stage: Stage,
        /// Console and stderr.
        last: LastWords,
    },
    /// The wall-clock guard fired.
    #[error("the guest did not finish within {} s of wall time while {stage} and was ended: this is a fault, not a result{last}", guard.as_secs())]
    Hung {
        /// When.
        stage: Stage,
        /// The guard.
        guard: Duration,
        /// Console and stderr.
        last: LastWords,
    },
    /// The user asked to stop.
    #[error("interrupted; everything that was created has been removed")]
    Interrupted,
    /// The monitor answered with an error.
    #[error("QEMU's monitor refused {command}: {reason}")]
    Refused {
        /// The command.
        command: String,
        /// QEMU's reason.
        reason: String,
    },
    /// The host cannot hold the machine while it boots.
    #[error(
        "the node needs {} MiB of this machine's memory while it boots and {} MiB are available: make its disks smaller",
        needs >> 20,
        available >> 20
    )]
    HostMemory {
        /// Bytes needed.
        needs: u64,
        /// Bytes available.
        available: u64,
    },
    /// What the guest reported is not a record.
    #[error(
        "the guest reported facts that cannot be read ({reason}): build highwater and its node programs from the same sources"
    )]
    Facts {
        /// The decoder's reason.
        reason: String,
    },
    /// The shared memory.
    #[error(transparent)]
    Shm(#[from] ShmError),
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
}

impl LastWords {
    /// Reads the ends of both files; a file that is not there says nothing.
    pub(super) fn read(dir: &std::path::Path) -> LastWords {
        let read = |name: &str| {
            let bytes = std::fs::read(dir.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let tail = |text: &str| {
            let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
            lines[lines.len().saturating_sub(12)..].join("\n")
        };
        let (console, stderr) = (read(super::qemu::CONSOLE), read(super::qemu::STDERR));
        let panic = console.find("Kernel panic");
        // What led to a panic says more than the trace behind it.
        let cut = panic.map_or(console.len(), |at| console[at..].find('\n').map_or(console.len(), |end| at + end));
        let console = &console[..cut];
        let (cause, last) = (cause(console), tail(console));
        // The cause may be among the last lines already.
        let console = if last.starts_with(&cause) || last.contains(&format!("\n{cause}")) { last } else { cause + "\n" + &last };
        LastWords { console, stderr: tail(&stderr), panicked: panic.is_some() }
    }
}

/// The first lines of a kernel's report of its own fault, which say what happened, in which process and where; registers and a trace follow.
fn cause(console: &str) -> String {
    let begins = |line: &&str| ["Oops: ", "BUG: ", "PANIC: "].iter().any(|word| line.contains(word));
    let lines: Vec<_> = console.lines().map(str::trim_end).skip_while(|line| !begins(line)).take(5).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_keep_the_cause_before_registers_and_trace() {
        let dir = tempfile::tempdir().unwrap();
        let read = |console: &str| {
            fs_err::write(dir.path().join("console.log"), console).unwrap();
            LastWords::read(dir.path())
        };
        let trace: String = (0..40).map(|n| format!("[ 3.9] ? function_{n}+0x1f/0xa0\n")).collect();
        let report = format!("[ 3.1] PANIC: double fault, error_code: 0x0\n[ 3.2] CPU: 1 PID: 10839 Comm: sleep\n{trace}");
        let words = read(&format!("early line\n{report}[ 4.0] Kernel panic - not syncing: Fatal exception\n[ 4.1] behind it\n"));
        assert!(words.panicked);
        let lines: Vec<_> = words.console.lines().collect();
        assert_eq!(lines[0], "[ 3.1] PANIC: double fault, error_code: 0x0");
        assert_eq!(*lines.last().unwrap(), "[ 4.0] Kernel panic - not syncing: Fatal exception");
        assert!(lines.len() == 17 && !words.console.contains("early line"), "{}", words.console);
        // A report that fits is not said twice.
        let short = read("a\n[ 3.1] BUG: bad page\nb\n");
        assert_eq!((short.console.as_str(), short.panicked), ("a\n[ 3.1] BUG: bad page\nb", false));
        assert_eq!(read("only this\n").console, "only this");
    }
}
