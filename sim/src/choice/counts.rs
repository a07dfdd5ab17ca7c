//! How often each site was asked about each entity in a trial. Owns a table that is forgotten at once; must never depend on the order in which it grew.

/// One pair of site and entity.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    site: u64,
    entity: u64,
    /// The trial that it was counted in; of any other it means nothing.
    epoch: u32,
    count: u32,
}

/// Counters by the hashes of site and entity. Forgetting all of them costs nothing.
#[derive(Debug)]
pub(super) struct Counts {
    /// Open addressing; at most half of the places are of this trial.
    table: Vec<Count>,
    used: usize,
    epoch: u32,
}

impl Default for Counts {
    fn default() -> Self {
        Self { table: vec![Count::default(); 256], used: 0, epoch: 1 }
    }
}

impl Counts {
    /// Forgets every count.
    pub(super) fn clear(&mut self) {
        if self.epoch == u32::MAX {
            self.table.fill(Count::default());
            self.epoch = 0;
        }
        self.epoch += 1;
        self.used = 0;
    }

    /// How often this was called for the same pair before.
    pub(super) fn next(&mut self, site: u64, entity: u64) -> u32 {
        let mut place = self.place(site, entity);
        if self.table[place].epoch != self.epoch {
            if self.used * 2 >= self.table.len() {
                self.grow();
                place = self.place(site, entity);
            }
            self.table[place] = Count { site, entity, epoch: self.epoch, count: 0 };
            self.used += 1;
        }
        let count = &mut self.table[place].count;
        *count += 1;
        *count - 1
    }

    /// Where a pair is, or would be.
    fn place(&self, site: u64, entity: u64) -> usize {
        let mask = self.table.len() - 1;
        let hash = (site ^ entity.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut place = (hash >> 32) as usize & mask;
        loop {
            let there = &self.table[place];
            if there.epoch != self.epoch || there.site == site && there.entity == entity {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![Count::default(); self.table.len() * 2];
        for count in std::mem::replace(&mut self.table, larger) {
            if count.epoch == self.epoch {
                let place = self.place(count.site, count.entity);
                self.table[place] = count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_is_counted_by_itself_however_many_there_are() {
        let mut counts = Counts::default();
        for round in 0..3 {
            for pair in 0..2_000_u64 {
                assert_eq!(counts.next(pair % 7, pair / 7), round);
            }
        }
        counts.clear();
        assert_eq!((counts.next(3, 5), counts.next(5, 3), counts.next(3, 5)), (0, 0, 1), "nothing of the last trial is left");
    }

    #[test]
    fn forgetting_goes_on_for_ever() {
        let mut counts = Counts { epoch: u32::MAX - 1, ..Counts::default() };
        counts.next(1, 1);
        for _ in 0..4 {
            counts.clear();
            assert_eq!((counts.next(1, 1), counts.next(1, 1)), (0, 1));
        }
    }
}
