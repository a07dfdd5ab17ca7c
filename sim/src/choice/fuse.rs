//! When the next fault of a site comes, if a seed decides. Owns one fuse a site; must never know for whom an occasion is, so that an occasion costs a multiplication
//! and no look into a map.
//!
//! A fuse is lit with a random threshold between 0 and 1. Each occasion with probability *p* multiplies what is left of the fuse by 1 - *p*; it fires when less is left than the
//! threshold, and is lit anew. With a constant rate that is a geometric distance to the next firing. With a rate that changes, each occasion still fires with exactly its own
//! probability, whatever came before: a rate of 0 leaves the fuse as it is, and a rate of 1000 in a thousand always fires.

use super::{Site, mix64};

/// 1 in the fixed point of a fuse, as nearly as 64 bits hold it.
const WHOLE: u64 = u64::MAX;
const THOUSANDTH: u64 = WHOLE / 1000;
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a seed has decided at one site.
#[derive(Clone, Copy, Debug, Default)]
struct Fuse {
    /// Hash of the site's name; 0 in a place of the table that no site has.
    site: u64,
    /// Which trial, or branch of one, the rest belongs to.
    epoch: u32,
    /// Draws that were no chances.
    draws: u32,
    /// Times that it was lit.
    lit: u32,
    base: u64,
    left: u64,
    threshold: u64,
}

impl Fuse {
    fn begin(&mut self, key: u64, epoch: u32) {
        let base = mix64(key ^ self.site);
        *self = Self { site: self.site, epoch, draws: 0, lit: 0, base, left: 0, threshold: 0 };
        self.light();
    }

    fn light(&mut self) {
        self.lit += 1;
        self.left = WHOLE;
        self.threshold = mix64(!self.base ^ u64::from(self.lit).wrapping_mul(STRIDE));
    }

    /// One occasion; the random bits of a firing.
    fn burn(&mut self, per_mille: u32) -> Option<u64> {
        let spared = u64::from(1000 - per_mille.min(1000)) * THOUSANDTH;
        self.left = ((u128::from(self.left) * u128::from(spared)) >> 64) as u64;
        if self.threshold < self.left {
            return None;
        }
        let bits = mix64(self.threshold);
        self.light();
        Some(bits)
    }
}

/// The fuses of one chooser, found by their sites' hashes. Sites stay from trial to trial; what was decided does not.
#[derive(Debug)]
pub(super) struct Fuses {
    /// Open addressing by the upper bits; at most half full.
    table: Vec<Fuse>,
    sites: usize,
    epoch: u32,
}

impl Default for Fuses {
    fn default() -> Self {
        Self { table: vec![Fuse::default(); 64], sites: 0, epoch: 1 }
    }
}

impl Fuses {
    /// Forgets what was decided.
    pub(super) fn clear(&mut self) {
        if self.epoch == u32::MAX {
            self.table.iter_mut().for_each(|fuse| fuse.epoch = 0);
            self.epoch = 0;
        }
        self.epoch += 1;
    }

    /// One occasion of a site whose class has `key`; the random bits of a firing.
    pub(super) fn burn(&mut self, site: Site, key: u64, per_mille: u32) -> Option<u64> {
        self.fuse(site, key).burn(per_mille)
    }

    /// The random bits of a site's next draw.
    pub(super) fn draw(&mut self, site: Site, key: u64, entity: u64) -> u64 {
        let fuse = self.fuse(site, key);
        let number = fuse.draws;
        fuse.draws += 1;
        mix64(fuse.base.wrapping_add(entity) ^ u64::from(number).wrapping_mul(STRIDE))
    }

    fn fuse(&mut self, site: Site, key: u64) -> &mut Fuse {
        let hash = site.hash.max(1);
        let mut place = self.place(hash);
        if self.table[place].site == 0 {
            if self.sites * 2 >= self.table.len() {
                self.grow();
                place = self.place(hash);
            }
            self.table[place].site = hash;
            self.sites += 1;
        }
        let fuse = &mut self.table[place];
        if fuse.epoch != self.epoch {
            fuse.begin(key, self.epoch);
        }
        fuse
    }

    /// Where the fuse of a site is, or would be.
    fn place(&self, hash: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut place = (hash >> 32) as usize & mask;
        while self.table[place].site != hash && self.table[place].site != 0 {
            place = (place + 1) & mask;
        }
        place
    }

    fn grow(&mut self) {
        let larger = vec![Fuse::default(); self.table.len() * 2];
        for fuse in std::mem::replace(&mut self.table, larger) {
            if fuse.site != 0 {
                let place = self.place(fuse.site);
                self.table[place] = fuse;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Class;
    use super::*;

    const A: Site = Site::new(Class::Fault, "test/a");
    const B: Site = Site::new(Class::World, "test/b");

    /// Occasions between firings at a constant rate.
    fn distances(key: u64, per_mille: u32, firings: usize) -> Vec<u32> {
        let mut fuses = Fuses::default();
        let mut distance = 0;
        let mut all = Vec::new();
        while all.len() < firings {
            distance += 1;
            if fuses.burn(A, key, per_mille).is_some() {
                all.push(std::mem::take(&mut distance));
            }
        }
        all
    }

    #[test]
    fn distances_are_geometric() {
        for per_mille in [1, 15, 50, 150, 500, 800] {
            let firings = 4000;
            let all = distances(u64::from(per_mille), per_mille, firings);
            let rate = f64::from(per_mille) / 1000.0;
            let mean = all.iter().map(|distance| f64::from(*distance)).sum::<f64>() / firings as f64;
            // The mean of n geometric distances deviates by sqrt((1 - p) / n) / p; four of those are allowed.
            let deviation = ((1.0 - rate) / firings as f64).sqrt() / rate;
            assert!((mean - 1.0 / rate).abs() < 4.0 * deviation, "{per_mille}: mean {mean}");
            for tail in [1_i32, 2, 5] {
                let beyond = all.iter().filter(|distance| **distance > tail as u32).count() as f64 / firings as f64;
                let expected = (1.0 - rate).powi(tail);
                let deviation = (expected * (1.0 - expected) / firings as f64).sqrt();
                assert!((beyond - expected).abs() < 4.0 * deviation, "{per_mille}: {beyond} beyond {tail}, expected {expected}");
            }
        }
    }

    #[test]
    fn each_occasion_fires_at_its_own_rate_when_rates_change() {
        let rates = [20, 300, 0, 700, 100];
        let mut fired = [0_u32; 5];
        let rounds = 20_000;
        let mut fuses = Fuses::default();
        for _ in 0..rounds {
            for (count, per_mille) in fired.iter_mut().zip(rates) {
                *count += u32::from(fuses.burn(B, 99, per_mille).is_some());
            }
        }
        for (count, per_mille) in fired.into_iter().zip(rates) {
            let expected = f64::from(rounds * per_mille) / 1000.0;
            let deviation = (expected * (1.0 - f64::from(per_mille) / 1000.0)).sqrt();
            assert!((f64::from(count) - expected).abs() <= 4.0 * deviation, "{per_mille}: {count}, expected {expected}");
        }
    }

    #[test]
    fn a_rate_of_nothing_changes_nothing_and_a_rate_of_everything_always_fires() {
        let (mut plain, mut held) = (Fuses::default(), Fuses::default());
        for _ in 0..2000 {
            for _ in 0..3 {
                assert_eq!(held.burn(A, 5, 0), None);
            }
            assert_eq!(plain.burn(A, 5, 80), held.burn(A, 5, 80));
        }
        assert!((0..100).all(|_| plain.burn(A, 5, 1000).is_some()));
    }

    #[test]
    fn consecutive_distances_and_the_bits_of_firings_are_independent() {
        let all = distances(3, 100, 20_000);
        // Whether a distance is longer than usual says nothing about the next.
        let long: Vec<bool> = all.iter().map(|distance| *distance > 6).collect();
        let share = long.iter().filter(|long| **long).count() as f64 / long.len() as f64;
        let both = long.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64 / (long.len() - 1) as f64;
        assert!((both - share * share).abs() < 0.012, "{both} against {}", share * share);
        let mut fuses = Fuses::default();
        let bits: Vec<u64> = (0..40_000).filter_map(|_| fuses.burn(A, 3, 500)).collect();
        let ones = bits.iter().filter(|bits| *bits >> 63 == 1).count() as f64 / bits.len() as f64;
        assert!((ones - 0.5).abs() < 0.015, "{ones}");
    }

    #[test]
    fn sites_do_not_disturb_each_other_however_many_there_are() {
        let names: Vec<&'static str> = (0..200).map(|number| &*Box::leak(format!("test/{number}").into_boxed_str())).collect();
        let alone: Vec<Vec<bool>> = names
            .iter()
            .map(|name| {
                let mut fuses = Fuses::default();
                (0..60).map(|_| fuses.burn(Site::new(Class::Fault, name), 8, 200).is_some()).collect()
            })
            .collect();
        let mut together = Fuses::default();
        let mut seen = vec![Vec::new(); names.len()];
        for _ in 0..60 {
            for (seen, name) in seen.iter_mut().zip(&names) {
                seen.push(together.burn(Site::new(Class::Fault, name), 8, 200).is_some());
            }
        }
        assert_eq!(seen, alone);
        together.clear();
        let again: Vec<bool> = (0..60).map(|_| together.burn(Site::new(Class::Fault, names[7]), 8, 200).is_some()).collect();
        assert_eq!(again, alone[7], "nothing is left of the trial before");
    }
}
