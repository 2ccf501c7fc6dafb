//! The index of the offload tier: which block of which request lies in which slot, least recently used first out.

use std::collections::{BTreeMap, HashMap};

type Key = (u64, u32);

/// Slots of the tier. A block's content is named by its request and its place in it: no two requests share a prefix here.
#[derive(Debug)]
pub struct Offload {
    slots: u32,
    unused: Vec<u32>,
    by_key: HashMap<Key, (u32, u64)>,
    by_age: BTreeMap<u64, Key>,
    clock: u64,
}

impl Offload {
    /// An empty tier.
    pub fn new(slots: u32) -> Offload {
        Offload { slots, unused: (0..slots).rev().collect(), by_key: HashMap::new(), by_age: BTreeMap::new(), clock: 0 }
    }

    /// How many slots there are.
    pub fn total(&self) -> usize {
        self.slots as usize
    }

    /// How many hold a block.
    pub fn used(&self) -> usize {
        self.by_key.len()
    }

    /// The slot to write a block to, which becomes the most recently used; none if the tier has no slot or holds the block already.
    pub fn store(&mut self, request: u64, block: u32) -> Option<u32> {
        let key = (request, block);
        if self.slots == 0 || self.by_key.contains_key(&key) {
            return None;
        }
        let slot = match self.unused.pop() {
            Some(slot) => slot,
            None => {
                let (_, oldest) = self.by_age.pop_first()?;
                self.by_key.remove(&oldest)?.0
            }
        };
        self.clock += 1;
        self.by_key.insert(key, (slot, self.clock));
        self.by_age.insert(self.clock, key);
        Some(slot)
    }

    /// The slots of a request's first blocks, as many as lie here without a gap and at most `most`; they become the most recently used.
    pub fn prefix(&mut self, request: u64, most: u32) -> Vec<u32> {
        let mut found = Vec::new();
        for block in 0..most {
            let Some((slot, age)) = self.by_key.get_mut(&(request, block)) else { break };
            found.push(*slot);
            self.by_age.remove(age);
            self.clock += 1;
            *age = self.clock;
            self.by_age.insert(self.clock, (request, block));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut tier = Offload::new(2);
        assert_eq!((tier.store(7, 0), tier.store(7, 1)), (Some(0), Some(1)));
        assert_eq!(tier.store(7, 1), None, "it is there");
        assert_eq!(tier.prefix(7, 1), [0], "used again");
        assert_eq!(tier.store(8, 0), Some(1), "the place of block 1");
        assert_eq!(tier.prefix(7, 9), [0]);
        assert_eq!(tier.prefix(8, 9), [1]);
        assert_eq!(tier.prefix(9, 9), [0u32; 0]);
        assert_eq!((tier.used(), tier.total()), (2, 2));
        assert_eq!(Offload::new(0).store(1, 0), None);
    }
}
