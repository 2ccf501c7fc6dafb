//! Effective protection: what memory.min or memory.low of a cgroup really protects at one moment.
//!
//! It depends on usage and on the siblings, so it is an outcome and not a control. The rule is the kernel's (mm/page_counter.c, "effective
//! protection"; Documentation/admin-guide/cgroup-v2.rst): what a cgroup uses of its own setting, cut in proportion when the siblings claim
//! more than the parent affords; with memory_recursiveprot, what the siblings leave unclaimed goes to usage beyond the setting.

/// A cgroup's part in the sharing. All figures in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Its usage.
    pub usage: u64,
    /// Its memory.min or memory.low.
    pub setting: u64,
}

impl Claim {
    fn protected(self) -> u64 {
        self.usage.min(self.setting)
    }
}

/// The effective protection of each sibling, in pages.
///
/// `parent` is the parent's usage and effective protection; `None` means the parent is the root, whose children keep their settings.
#[must_use]
pub fn effective_protection(parent: Option<(u64, u64)>, siblings: &[Claim], recursive: bool) -> Vec<u64> {
    let Some((parent_usage, afforded)) = parent else {
        return siblings.iter().map(|s| s.setting).collect();
    };
    let claimed: u64 = siblings.iter().map(|s| s.protected()).sum();
    let scale = |part: u64, by: u64, of: u64| (u128::from(part) * u128::from(by) / u128::from(of)) as u64;
    siblings
        .iter()
        .map(|s| {
            if claimed > afforded {
                return scale(s.protected(), afforded, claimed);
            }
            let beyond = s.usage - s.protected();
            if !recursive || afforded == claimed || parent_usage <= claimed || beyond == 0 {
                return s.protected();
            }
            s.protected() + scale(afforded - claimed, beyond, parent_usage - claimed)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(usage: u64, setting: u64) -> Claim {
        Claim { usage, setting }
    }

    /// The example of cgroup-v2.rst: claims beyond what the parent affords are cut in proportion to the protected usage.
    #[test]
    fn overcommitted_claims_are_cut_in_proportion() {
        assert_eq!(effective_protection(Some((30, 10)), &[claim(10, 10), claim(30, 10)], true), [5, 5]);
        assert_eq!(effective_protection(Some((30, 10)), &[claim(5, 20), claim(15, 20)], true), [2, 7]);
    }

    #[test]
    fn a_leaf_without_an_ancestor_s_protection_has_none() {
        assert_eq!(effective_protection(Some((30, 0)), &[claim(10, 10)], true), [0]);
    }

    #[test]
    fn what_nobody_claims_goes_to_usage_only_when_recursive() {
        let siblings = [claim(20, 0), claim(10, 0)];
        assert_eq!(effective_protection(Some((30, 15)), &siblings, true), [10, 5]);
        assert_eq!(effective_protection(Some((30, 15)), &siblings, false), [0, 0]);
    }

    #[test]
    fn children_of_the_root_keep_their_setting() {
        assert_eq!(effective_protection(None, &[claim(1, 100)], false), [100]);
    }

    proptest! {
        #[test]
        fn never_more_than_the_parent_affords(
            list in proptest::collection::vec((0u64..1 << 40, 0u64..1 << 40), 1..6), afforded in 0u64..1 << 42, recursive: bool
        ) {
            let siblings: Vec<_> = list.into_iter().map(|(usage, setting)| claim(usage, setting)).collect();
            let usage = siblings.iter().map(|s| s.usage).sum();
            let effective = effective_protection(Some((usage, afforded)), &siblings, recursive);
            prop_assert!(effective.iter().sum::<u64>() <= afforded);
            for (e, s) in effective.iter().zip(&siblings) {
                prop_assert!(recursive || *e <= s.usage.min(s.setting));
            }
        }
    }
}
