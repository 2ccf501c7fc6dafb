//! `highwater report RUN`: studies an old run again, from its files only; several runs of one lab with different seeds are decided
//! together, and `--framework` makes one page of many runs.

use super::{Exit, comparable, input, print, print_json, studied};
use crate::lab::Lab;
use crate::record::{NodeRecord, RunDir, SCHEMA, SEEDS, SeedRun, Seeds};
use crate::report::{self, FrameworkRun};
use crate::study::{self, LabResult, LineVerdict, Says};
use camino::{Utf8Path, Utf8PathBuf};
use comfy_table::{Table, presets};

/// What to report on.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run directory; several are runs of one lab with different seeds, to be decided together; with --framework all runs there are, and
    /// directories of them.
    #[arg(value_name = "RUN", required_unless_present = "framework")]
    runs: Vec<Utf8PathBuf>,
    /// Write the talk's decision framework as a page: each line with what these runs say about it.
    #[arg(long)]
    framework: bool,
    /// The page to write, by default framework.html; with several runs the directory for what they say together.
    #[arg(long, value_name = "PATH")]
    out: Option<Utf8PathBuf>,
    /// Decide although the runs differ in more than the seed, or the rules were changed after the run; the result records it.
    #[arg(long)]
    anyway: bool,
}

/// Writes `result.json` and `report.html` of a run anew and prints its table, or writes the page of the framework.
pub fn run(args: &Args, json: bool) -> anyhow::Result<Exit> {
    if args.framework {
        return framework(args, json);
    }
    let (run, lab) = match (&args.runs[..], &args.out) {
        ([path], None) => {
            let run = RunDir::open(path).map_err(|e| Exit::BadInput.because(e))?;
            let lab = if run.file(SEEDS).is_file() { input::recorded(&run)? } else { comparable::seeded(&run)? };
            (run, lab)
        }
        ([_], Some(_)) => {
            return Err(Exit::BadInput.because("--out is for several runs or --framework: a run's report lies in it"));
        }
        (_, None) => return Err(Exit::BadInput.because("name with --out the directory for what these runs say together")),
        (runs, Some(out)) => together(runs, out, args.anyway)?,
    };
    let studied = studied::open(&run, &lab, args.anyway)?;
    studied.write(&run)?;
    if json {
        print_json(&serde_json::json!({"run": run.path(), "result": studied.result}))?;
    } else {
        print(studied.terminal())?;
        print(format!("\nreport  {}", run.file("report.html")))?;
    }
    Ok(studied.exit())
}

/// A directory that lists runs of one lab, by seed.
fn together(paths: &[Utf8PathBuf], out: &Utf8Path, anyway: bool) -> anyhow::Result<(RunDir, Lab)> {
    let mut members = Vec::new();
    for path in paths {
        let run = input::one(path)?;
        members.push((comparable::seeded(&run)?, run));
    }
    members.sort_by_key(|(lab, _)| lab.seed);
    let lab = members[0].0.clone();
    let mut differing = Vec::new();
    for pair in members.windows(2) {
        if pair[0].0.seed == pair[1].0.seed {
            let message = format!("{} and {} have the same seed, {}", pair[0].1.path(), pair[1].1.path(), pair[0].0.seed);
            return Err(Exit::BadInput.because(message));
        }
        differing.extend(comparable::voids(&lab, &members[0].1, &pair[1].1)?);
    }
    comparable::allow(&differing, anyway)?;
    let absolute =
        |run: &RunDir| run.path().canonicalize_utf8().map_err(|e| Exit::BadInput.because(format!("{}: {e}", run.path())));
    let seeds = members.iter().map(|(lab, run)| Ok(SeedRun { seed: lab.seed, run: absolute(run)?.into_string() }));
    let seeds = seeds.collect::<anyhow::Result<_>>()?;
    let run = RunDir::create(out).map_err(|e| Exit::BadInput.because(e))?;
    run.write("lab.yaml", lab.text.as_bytes())?;
    run.write_json(SEEDS, &Seeds { schema: SCHEMA, seeds, anyway: differing })?;
    Ok((run, lab))
}

fn framework(args: &Args, json: bool) -> anyhow::Result<Exit> {
    let out = args.out.as_deref().unwrap_or(Utf8Path::new("framework.html"));
    let mut found = Vec::new();
    for path in &args.runs {
        let before = found.len();
        find(path, &mut found).map_err(|e| Exit::BadInput.because(format!("{path}: {e}")))?;
        if found.len() == before {
            return Err(Exit::BadInput.because(format!("{path}: there is no run in it")));
        }
    }
    let (mut results, mut runs) = (Vec::new(), Vec::new());
    for run in &found {
        let read = |error| Exit::BadInput.because(format!("{error}; `highwater report {}` writes it", run.path()));
        let result: LabResult = run.read_json("result.json").map_err(read)?;
        let node: NodeRecord = run.read_json("node.json").map_err(|e| Exit::BadInput.because(e))?;
        runs.push(FrameworkRun {
            path: run.path().to_string(),
            report: link(out, &run.file("report.html"))?,
            conclusion: result.conclusion.to_string(),
            identity: node.identity,
        });
        results.push(result);
    }
    let lines = study::framework(&results);
    fs_err::write(out, report::framework_html(&lines, &runs)?).map_err(|e| Exit::BadInput.because(e))?;
    if json {
        let runs: Vec<_> = runs.iter().map(|run| serde_json::json!({"path": run.path, "conclusion": run.conclusion})).collect();
        print_json(&serde_json::json!({"page": out, "lines": lines, "runs": runs}))?;
    } else {
        print(table(&lines))?;
        print(format!("\n{}\npage    {}", report::framework_headline(&lines), out))?;
    }
    // A page on which nothing is decided is as uninformative as such a run.
    let decided = lines.iter().any(|line| matches!(line.says, Says::Backed | Says::Mixed | Says::Refuted));
    Ok(if decided { Exit::AsExpected } else { Exit::Uninformative })
}

/// The runs at a path or below it, in order.
fn find(path: &Utf8Path, found: &mut Vec<RunDir>) -> std::io::Result<()> {
    if let Ok(run) = RunDir::open(path)
        && run.file("node.json").is_file()
    {
        found.push(run);
        return Ok(());
    }
    let mut entries = path.read_dir_utf8()?.map(|entry| Ok(entry?.into_path())).collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    entries.iter().filter(|entry| entry.is_dir()).try_for_each(|entry| find(entry, found))
}

/// A link from the page: relative where the report lies below the page's folder, so that both can be moved together.
fn link(page: &Utf8Path, report: &Utf8Path) -> anyhow::Result<String> {
    let folder = page.parent().filter(|folder| !folder.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let absolute = |path: &Utf8Path| path.canonicalize_utf8().map_err(|e| Exit::BadInput.because(format!("{path}: {e}")));
    let report = absolute(report)?;
    Ok(report.strip_prefix(absolute(folder)?).unwrap_or(&report).to_string())
}

fn table(lines: &[LineVerdict]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["LINE", "VERDICT", "LABS"]);
    for line in lines {
        let labs: Vec<String> = line.labs.iter().map(|lab| format!("{} ({})", lab.lab, lab.says.words())).collect();
        table.add_row([line.line.to_owned(), line.says.words().to_owned(), labs.join(", ")]);
    }
    table.trim_fmt()
}
