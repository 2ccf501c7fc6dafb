//! The command `highwater`.

fn main() -> std::process::ExitCode {
    highwater::cli::main()
}
