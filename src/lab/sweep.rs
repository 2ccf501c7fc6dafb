//! A sweep: one field of one arm set to one value after the other, against an arm that stays as it is. The swept lab is an ordinary lab.

use super::{Amount, LabFiles, MetricRef, key, merge, resolve};
use crate::yaml::{self, Node, Problem, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What is swept, and which figure tells where it starts to help.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sweep {
    /// The arm whose field is set.
    pub arm: String,
    /// The field, as a path below the arm: `pods.NAME.spec.containers[NAME].resources.requests.memory`.
    pub set: String,
    /// The values, from one end to the other.
    pub values: Vec<Amount>,
    /// The figure that is compared, without an arm.
    pub metric: MetricRef,
    /// The arm it is compared with.
    pub against: String,
}

impl Sweep {
    /// The name of the arm that has this value.
    #[must_use]
    pub fn arm_of(&self, value: &Amount) -> String {
        let letters = value.0.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>();
        format!("{}-{}", self.arm, letters.trim_matches('-'))
    }

    /// The names of the arms of all values.
    pub fn arms(&self) -> impl Iterator<Item = String> {
        self.values.iter().map(|value| self.arm_of(value))
    }
}

/// Makes the swept lab: the arm that is compared with, and one arm for each value. What the lab expects and claims is about other arms and left out.
///
/// # Errors
/// A lab that cannot be read, arms that are not there, a path that cannot be one.
pub fn swept(files: &LabFiles, sweep: &Sweep) -> Result<LabFiles, Problems> {
    let problem = |message: String| Problems::from(Problem::of_file(&files.name, message));
    let mut documents = Vec::new();
    for (name, text) in &files.files {
        documents.extend(yaml::read_many(name, text)?);
    }
    let is_lab = |node: &&Node| node.get("kind").and_then(Node::text) == Some("Lab");
    let root = documents.iter().find(is_lab).ok_or_else(|| problem("no document of kind Lab".to_owned()))?;
    let known = root.get("arms").map_or(&[][..], Node::items);
    let arm = |name: &str| {
        let found = known.iter().find(|arm| arm.get("name").and_then(Node::text) == Some(name));
        found.ok_or_else(|| problem(format!("there is no arm {name} to sweep or to compare with")))
    };
    let (own, against) = (arm(&sweep.arm)?, arm(&sweep.against)?);
    let mut arms = vec![against.to_json()];
    for value in &sweep.values {
        let set = nested(&sweep.set, value).map_err(problem)?;
        let set = yaml::read("sweep", &set.to_string())?;
        let patch = own.get("patch").map_or_else(|| set.clone(), |patch| merge::merge(patch, &set));
        let about = format!("{} = {value}", sweep.set);
        arms.push(json!({"name": sweep.arm_of(value), "about": about, "patch": patch.to_json()}));
    }
    let Value::Object(mut lab) = root.to_json() else { return Err(problem("the lab is no map".to_owned())) };
    let mut paths = vec![sweep.set.clone()];
    paths.extend(root.get("vary").map_or(&[][..], Node::items).iter().filter_map(Node::text).map(str::to_owned));
    paths.dedup();
    lab.insert("arms".to_owned(), arms.into());
    lab.insert("vary".to_owned(), json!(paths));
    lab.insert("baseline".to_owned(), sweep.against.clone().into());
    lab.insert("sweep".to_owned(), json!(sweep));
    lab.insert("source".to_owned(), json!({"name": root.get("source").and_then(|s| s.get("name")).and_then(Node::text)}));
    for part in ["expectations", "acceptance"] {
        lab.remove(part);
    }
    // Of what the lab's arms may differ in, these few may not differ in all.
    let others: Vec<Value> = documents.iter().filter(|node| !is_lab(node)).map(Node::to_json).collect();
    let lab = without_unused(&files.name, lab, &others, &paths)?;
    Ok(joined(&files.name, lab, &others))
}

fn joined(name: &str, lab: Map<String, Value>, others: &[Value]) -> LabFiles {
    let text = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let mut files = vec![("lab.yaml".to_owned(), text(&Value::Object(lab)))];
    files.extend(others.iter().enumerate().map(|(i, other)| (format!("{i}.yaml"), text(other))));
    LabFiles { name: name.to_owned(), files, lesson: None }
}

fn without_unused(
    name: &str,
    mut lab: Map<String, Value>,
    others: &[Value],
    paths: &[String],
) -> Result<Map<String, Value>, Problems> {
    let trees = resolve::trees(&joined(name, lab.clone(), others))?;
    let trees: Vec<_> = trees.iter().collect();
    let mut used: Vec<&String> = paths.iter().filter(|path| key::differs_below(&trees, path)).collect();
    used.sort();
    used.dedup();
    lab.insert("vary".to_owned(), json!(used));
    Ok(lab)
}

/// `a.b[c].d` with a value as the patch `{a: {b: [{name: c, d: VALUE}]}}`.
fn nested(path: &str, value: &Amount) -> Result<Value, String> {
    // A number stays one; what is no JSON is a text.
    let mut patch = serde_json::from_str(&value.0).unwrap_or_else(|_| Value::from(value.0.clone()));
    for part in path.rsplit('.') {
        let (key, item) = match part.split_once('[') {
            None => (part, None),
            Some((key, rest)) => (key, Some(rest.strip_suffix(']').filter(|item| !item.is_empty()).unwrap_or_default())),
        };
        if key.is_empty() || item == Some("") || key.contains(']') {
            return Err(format!(
                "`{path}` is not a path: write for example pods.server.spec.containers[server].resources.requests.memory"
            ));
        }
        if let Some(item) = item {
            let mut named = json!({"name": item});
            match (&mut named, patch) {
                (Value::Object(named), Value::Object(fields)) => named.extend(fields),
                _ => return Err(format!("`{path}` ends at an item of a list: name the field of it that is set")),
            }
            patch = Value::Array(vec![named]);
        }
        patch = json!({key: patch});
    }
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{find, load};

    fn amount(text: &str) -> Amount {
        Amount(text.to_owned())
    }

    #[test]
    fn paths_become_patches() {
        let set = |path, value| nested(path, &amount(value));
        assert_eq!(set("node.kernel.swappiness", "10").unwrap(), json!({"node": {"kernel": {"swappiness": 10}}}));
        let found = set("pods.p.spec.containers[c].resources", "2Mi").unwrap();
        assert_eq!(found, json!({"pods": {"p": {"spec": {"containers": [{"name": "c", "resources": "2Mi"}]}}}}));
        for wrong in ["", "a..b", "a[", "a[].b", "a[b]", "a.b]"] {
            assert!(set(wrong, "1").is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_swept_lab_is_a_lab_whose_arms_differ_in_the_value() {
        let files = find("swap/mis-sized").unwrap();
        let sweep = load(&files).unwrap().sweep.unwrap();
        let swept = load(&swept(&files, &sweep).unwrap()).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(swept.arms.len(), sweep.values.len() + 1);
        assert_eq!(swept.baseline, sweep.against);
        for (value, name) in sweep.values.iter().zip(sweep.arms()) {
            let arm = swept.arm(&name).unwrap();
            let request = arm.pods[0].containers().next().unwrap().resources.requests.memory.unwrap().to_string();
            assert_eq!(request, value.0);
        }
        let again = load(&LabFiles::from_joined("lab.yaml", swept.text.clone())).unwrap();
        assert_eq!(again.sweep, Some(sweep), "its run can be studied again");
    }

    #[test]
    fn an_arm_that_is_not_there_is_named() {
        let files = find("swap/mis-sized").unwrap();
        let sweep = Sweep { against: "nobody".into(), ..load(&files).unwrap().sweep.unwrap() };
        assert!(swept(&files, &sweep).unwrap_err().to_string().contains("no arm nobody"));
    }
}
