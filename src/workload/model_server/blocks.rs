//! Blocks: numbered pieces of a fixed store, each free or taken.

/// A pool of blocks that are handed out lowest number last freed first, and that knows which are taken.
#[derive(Debug)]
pub struct Blocks {
    free: Vec<u32>,
    taken: Vec<bool>,
}

impl Blocks {
    /// So many free blocks.
    pub fn new(count: u32) -> Blocks {
        Blocks { free: (0..count).rev().collect(), taken: vec![false; count as usize] }
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.taken.len()
    }

    /// How many are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// How many are taken.
    pub fn used(&self) -> usize {
        self.total() - self.free()
    }

    /// Takes `count` blocks, or none if there are not so many.
    pub fn take(&mut self, count: usize) -> Option<Vec<u32>> {
        let rest = self.free.len().checked_sub(count)?;
        let mut blocks = self.free.split_off(rest);
        blocks.reverse();
        for block in &blocks {
            self.taken[*block as usize] = true;
        }
        Some(blocks)
    }

    /// Gives blocks back.
    ///
    /// # Panics
    /// One of them is free already: the caller lost count, and what it computes from now on is wrong.
    pub fn give_back(&mut self, blocks: impl IntoIterator<Item = u32>) {
        for block in blocks {
            let taken = &mut self.taken[block as usize];
            assert!(*taken, "block {block} is given back twice");
            *taken = false;
            self.free.push(block);
        }
    }
}
