//! `cargo xtask docs`: a page per lab, an index per course and a page and a man page per command, from what the program itself knows.

use anyhow::{Context, Result};
use clap::ValueEnum;
use highwater::cli::{self, Course};
use highwater::lab::{self, Lab, Lesson, Part, one_line, parts};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Where they are written, in the repository.
const OUT: &str = "target/docs";

/// Writes the pages and says where.
#[expect(clippy::print_stdout, reason = "says where the pages are")]
pub fn run(root: &Path) -> Result<()> {
    let (out, pages) = (root.join(OUT), pages()?);
    if out.exists() {
        std::fs::remove_dir_all(&out).with_context(|| format!("emptying {}", out.display()))?;
    }
    for (name, text) in &pages {
        let path = out.join(name);
        std::fs::create_dir_all(path.parent().expect("it lies in the folder"))?;
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    println!("{} pages: {OUT}/README.md, man pages: man -l {OUT}/man/highwater.1", pages.len());
    Ok(())
}

/// Every page by its path below the folder.
fn pages() -> Result<BTreeMap<String, String>> {
    let labs: Vec<Lab> = lab::catalogue().map(|files| lab::load(&files)).collect::<Result<_, _>>().map_err(anyhow::Error::msg)?;
    let mut pages: BTreeMap<String, String> = labs.iter().map(|lab| (lab_page(&lab.name), lab_text(lab))).collect();
    let mut index = String::from("# Highwater\n\nEach lab asks one question about memory pressure on a Kubernetes node.\n");
    for course in Course::value_variants() {
        let value = course.to_possible_value().expect("no course is hidden");
        let about = value.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(index, "\n## Course {}\n\n{}\n", value.get_name(), text(&about));
        for (number, name) in course.labs().iter().enumerate() {
            let lab = labs.iter().find(|lab| lab.name == *name).with_context(|| format!("no lab {name}"))?;
            let _ = writeln!(index, "{}. [{}]({}): {}", number + 1, lab.name, lab_page(&lab.name), text(&lab.title));
        }
    }
    index += "\n## Commands\n\n";
    let mut program = cli::command().disable_help_subcommand(true);
    program.build();
    commands(&program, "", &mut pages, &mut index)?;
    pages.insert("README.md".into(), index);
    Ok(pages)
}

fn lab_page(name: &str) -> String {
    format!("labs/{name}.md")
}

/// A command with those below it: its help as a page, its man page, its line in the index.
fn commands(command: &clap::Command, above: &str, pages: &mut BTreeMap<String, String>, index: &mut String) -> Result<()> {
    let name = if above.is_empty() { command.get_name().to_owned() } else { format!("{above}-{}", command.get_name()) };
    let spoken = name.replace('-', " ");
    let help = command.clone().term_width(100).render_long_help();
    pages.insert(
        format!("commands/{name}.md"),
        format!("# `{spoken}`\n\n```text\n{}\n```\n\n[All labs and commands](../README.md)\n", help.to_string().trim_end()),
    );
    let mut man = Vec::new();
    clap_mangen::Man::new(command.clone()).title(name.as_str()).render(&mut man)?;
    pages.insert(format!("man/{name}.1"), String::from_utf8(man)?);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(index, "* [`{spoken}`](commands/{name}.md): {}", text(&about));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        commands(below, &name, pages, index)?;
    }
    Ok(())
}

fn lab_text(lab: &Lab) -> String {
    let mut out = format!("# {}\n\n`{}`\n\n> {}\n", text(&lab.title), lab.name, text(&lab.question));
    if let Some(lesson) = &lab.lesson {
        let _ = writeln!(out, "\n## Predict before it runs\n\n{}\n", text(&lesson.predict.ask));
        for (number, choice) in lesson.predict.choices.iter().enumerate() {
            let _ = writeln!(out, "{}. {}", number + 1, text(choice));
        }
    }
    let _ = writeln!(
        out,
        "\n## Run it\n\n```console\n$ highwater learn {0}\n$ highwater run {0}\n```\n\n\
         [`learn`](../../commands/highwater-learn.md) asks for the prediction first, [`run`](../../commands/highwater-run.md) \
         compares the arms, [`show`](../../commands/highwater-show.md) prints all of the lab.",
        lab.name
    );
    let _ = writeln!(out, "\n## Arms\n");
    for arm in &lab.arms {
        let base = if arm.name == lab.baseline { " (baseline)" } else { "" };
        let _ = writeln!(out, "* **{}**{base}: {}", text(&arm.name), text(&arm.about));
    }
    if let Some(lesson) = &lab.lesson {
        lesson_text(lesson, &mut out);
    }
    let _ = writeln!(out, "\n## What is expected, and the arm in which it is false\n");
    for e in &lab.expectations {
        let _ = writeln!(out, "* {} (false in {})", text(&e.say), text(&e.false_in));
    }
    let _ = writeln!(out, "\n## Source\n\n{}\n", text(&lab.source.name));
    for claim in &lab.source.claims {
        let _ = writeln!(out, "* {}", text(&claim.says));
    }
    let _ = writeln!(
        out,
        "\nScaled down by {}: {}\n\n[All labs and commands](../../README.md)",
        lab.scale.factor,
        text(&lab.scale.how)
    );
    out
}

/// The lesson; figures are a run's, so here a word stands for each.
fn lesson_text(lesson: &Lesson, out: &mut String) {
    let told = |said: &str| {
        let piece = |part: Part<'_>| match part {
            Part::Text(said) => escaped(said),
            Part::Figure(id) => format!("⟨{}⟩", escaped(id)),
        };
        parts(&one_line(said)).into_iter().map(piece).collect::<String>()
    };
    let _ = writeln!(out, "\n## What happens\n\n{}\n\nWhat stands in ⟨ ⟩ is measured by the run.", told(&lesson.happened));
    let _ = writeln!(out, "\n## Why\n\n{}\n\n## What to try next\n", told(&lesson.why));
    for next in &lesson.next {
        let _ = writeln!(out, "* {}", linked(&one_line(next), &told(next)));
    }
}

/// A step with its command linked, and its lab.
fn linked(step: &str, told: &str) -> String {
    let mut words = step.split_whitespace();
    let Some(command) = words.by_ref().find(|word| *word == "highwater").and_then(|_| words.next()) else {
        return told.to_owned();
    };
    let command = command.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let lab = words.next().map(|word| word.trim_end_matches([':', '.', ','])).filter(|word| lab::find(word).is_ok());
    let lab = lab.map(|lab| format!(", [{lab}](../{lab}.md)")).unwrap_or_default();
    format!("{told} ([`{command}`](../../commands/highwater-{command}.md){lab})")
}

fn text(text: &str) -> String {
    escaped(&one_line(text))
}

/// Text that is no markup.
fn escaped(text: &str) -> String {
    let special = |c: char| matches!(c, '\\' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#');
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The targets of a page's links.
    fn links(text: &str) -> impl Iterator<Item = &str> {
        text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
    }

    #[test]
    fn every_lab_and_command_has_its_page_and_every_link_resolves() {
        let pages = pages().unwrap();
        let mut followed = 0;
        for (name, text) in pages.iter().filter(|(name, _)| name.ends_with(".md")) {
            for target in links(text) {
                let mut path: Vec<&str> = name.split('/').collect();
                path.pop();
                for part in target.split('/') {
                    if part == ".." { path.pop().map(drop).expect("it stays in the folder") } else { path.push(part) }
                }
                assert!(pages.contains_key(&path.join("/")), "{name}: {target} leads nowhere");
                followed += 1;
            }
        }
        assert!(followed > 100, "{followed}");
        let index = &pages["README.md"];
        for files in lab::catalogue() {
            assert!(index.contains(&format!("({})", lab_page(&files.name))), "{} is not in the index", files.name);
            assert!(pages[&lab_page(&files.name)].contains(&format!("highwater run {}", files.name)));
        }
        for command in ["run", "watch", "docker-up", "capture"] {
            assert!(index.contains(&format!("(commands/highwater-{command}.md)")), "{command}: {index}");
        }
    }

    #[test]
    fn man_pages_have_the_sections_that_man_shows() {
        let pages = pages().unwrap();
        let man: Vec<_> = pages.iter().filter(|(name, _)| name.ends_with(".1")).collect();
        assert!(man.len() > 20, "{}", man.len());
        for (name, text) in man {
            let title = name.trim_start_matches("man/").trim_end_matches(".1");
            assert!(text.contains(&format!(".TH {title} 1")), "{name}: {text}");
            for section in ["NAME", "SYNOPSIS", "OPTIONS"] {
                assert!(text.contains(&format!(".SH {section}")), "{name} has no {section}");
            }
            let known = [".TH", ".SH", ".TP", ".IP", ".RS", ".RE", ".br", ".sp", ".ie", ".el", ".SS"];
            let requests = text.lines().filter(|line| line.starts_with('.'));
            let unknown: Vec<_> = requests.filter(|line| !known.iter().any(|k| line.starts_with(k))).collect();
            assert!(unknown.is_empty(), "{name}: {unknown:?}");
        }
    }

    #[test]
    fn a_step_links_its_command_and_its_lab() {
        let step = "highwater learn swap/tiers: where the cache goes";
        assert!(linked(step, step).ends_with("([`learn`](../../commands/highwater-learn.md), [swap/tiers](../swap/tiers.md))"));
        assert_eq!(linked("Take the arm", "Take the arm"), "Take the arm");
        assert_eq!(text("a <b>\n c_d"), "a \\<b\\> c\\_d");
    }
}
