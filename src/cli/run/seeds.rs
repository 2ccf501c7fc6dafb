//! Where the runs of several seeds go: one directory each below the run's, and a list of them.

use crate::lab::{LESSON, Lab};
use crate::record::{RunDir, SCHEMA, SEEDS, SeedRun, Seeds};

/// The lab with each seed, and the directory of its records: the run's own when there is only one.
pub fn members(run: &RunDir, lab: &Lab, count: u64) -> anyhow::Result<Vec<(Lab, RunDir)>> {
    if count == 1 {
        return Ok(vec![(lab.clone(), run.clone())]);
    }
    let (mut members, mut list) = (Vec::new(), Vec::new());
    for number in 0..count {
        let lab = Lab { seed: lab.seed.wrapping_add(number), ..lab.clone() };
        let name = format!("seed-{}", lab.seed);
        list.push(SeedRun { seed: lab.seed, run: name.clone() });
        members.push((lab, RunDir::create(&run.file(&name))?));
    }
    run.write("lab.yaml", lab.text.as_bytes())?;
    if let Some(lesson) = &lab.lesson_text {
        run.write(LESSON, lesson.as_bytes())?;
    }
    run.write_json(SEEDS, &Seeds { schema: SCHEMA, seeds: list, anyway: Vec::new() })?;
    Ok(members)
}
