//! The OOM killer's summary line in the kernel log.

/// What one `oom-kill:` line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OomLine {
    /// Why it was invoked, for example CONSTRAINT_MEMCG.
    pub constraint: String,
    /// The cgroup whose limit was hit; "/" when the node itself was out of memory.
    pub oom_memcg: String,
    /// The victim's cgroup.
    pub task_memcg: String,
    /// The victim's command name.
    pub task: String,
    /// The victim's process id.
    pub pid: u32,
}

/// Reads a record of /dev/kmsg (`PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT`) or its bare text. None when it is another message.
///
/// The kernel writes `oom-kill:constraint=C,nodemask=N,cpuset=S,mems_allowed=M[,oom_memcg=P|,global_oom],task_memcg=P,task=T,pid=P,uid=U`
/// (`dump_oom_summary` in mm/oom_kill.c and `mem_cgroup_print_oom_context`). A command name may itself contain a comma, so the fixed tail
/// is found from the end.
pub fn parse_oom_line(record: &str) -> Option<OomLine> {
    let start = record.find("oom-kill:")? + "oom-kill:".len();
    let fields = record[start..].lines().next()?;
    let constraint = between(fields, "constraint=", ",")?;
    let (head, tail) = fields.rsplit_once(",pid=")?;
    let (places, task) = head.split_once(",task=")?;
    let task_memcg = &places[places.find(",task_memcg=")? + ",task_memcg=".len()..];
    let oom_memcg = match between(places, ",oom_memcg=", ",task_memcg=") {
        Some(path) => path,
        None if places.contains(",global_oom") => "/",
        None => return None,
    };
    let digits = tail.find(|c: char| !c.is_ascii_digit()).map_or(tail, |end| &tail[..end]);
    Some(OomLine {
        constraint: constraint.to_owned(),
        oom_memcg: oom_memcg.to_owned(),
        task_memcg: task_memcg.to_owned(),
        task: task.to_owned(),
        pid: digits.parse().ok()?,
    })
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let rest = &text[text.find(open)? + open.len()..];
    Some(&rest[..rest.find(close)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limit_and_node() {
        let limit = "6,812,5140698,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/kubepods/podA,\
                     task_memcg=/kubepods/podA/c1,task=highwater-node,pid=77,uid=0\n SUBSYSTEM=x\n";
        let line = parse_oom_line(limit).unwrap();
        assert_eq!((line.constraint.as_str(), line.oom_memcg.as_str()), ("CONSTRAINT_MEMCG", "/kubepods/podA"));
        assert_eq!((line.task_memcg.as_str(), line.task.as_str(), line.pid), ("/kubepods/podA/c1", "highwater-node", 77));
        let node = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task=a,pid=1,uid=0";
        assert_eq!(parse_oom_line(node).unwrap().oom_memcg, "/");
        assert_eq!(parse_oom_line("6,1,2,-;Memory cgroup out of memory: Killed process 7 (a)"), None);
    }

    proptest! {
        #[test]
        fn fields_come_back(oom in "/[a-z0-9./_-]{0,40}", task_memcg in "/[a-z0-9./_-]{0,40}", task in "[ -~]{1,15}", pid in any::<u32>()) {
            prop_assume!(!task.contains(",pid=") && !task.contains(",task="));
            let text = format!("6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={oom},task_memcg={task_memcg},task={task},pid={pid},uid=0");
            let line = parse_oom_line(&text).unwrap();
            prop_assert_eq!((line.oom_memcg, line.task_memcg, line.task, line.pid), (oom, task_memcg, task, pid));
        }

        #[test]
        fn any_text_is_survived(text in ".{0,200}", cut in 0usize..60) {
            parse_oom_line(&text);
            let whole = "oom-kill:constraint=C,global_oom,task_memcg=/a,task=a,pid=1,uid=0";
            parse_oom_line(&whole[..cut]);
        }
    }
}
