//! Slabs keyed by symbols: what every invariant keeps its state in. Owns reuse between trials; must never iterate in any order but that of first sight.

use crate::names::Sym;

/// State that is emptied and used again.
pub(super) trait Reset: Default {
    /// Forgets everything and keeps the capacity.
    fn reset(&mut self) {
        *self = Self::default();
    }
}

/// One `T` a symbol. Looking up is two array reads; clearing touches only what was used.
#[derive(Debug)]
pub(super) struct Table<T> {
    index: Vec<u32>,
    keys: Vec<Sym>,
    slots: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { index: Vec::new(), keys: Vec::new(), slots: Vec::new() }
    }
}

impl<T: Reset> Table<T> {
    fn slot(&self, key: Sym) -> Option<usize> {
        match self.index.get(key.0 as usize) {
            Some(slot) if *slot != 0 => Some(*slot as usize - 1),
            _ => None,
        }
    }

    pub(super) fn get(&self, key: Sym) -> Option<&T> {
        self.slot(key).map(|slot| &self.slots[slot])
    }

    pub(super) fn get_mut(&mut self, key: Sym) -> Option<&mut T> {
        let slot = self.slot(key)?;
        Some(&mut self.slots[slot])
    }

    /// The state of `key`, made empty on first sight.
    pub(super) fn entry(&mut self, key: Sym) -> &mut T {
        let slot = match self.slot(key) {
            Some(slot) => slot,
            None => {
                let at = key.0 as usize;
                if self.index.len() <= at {
                    self.index.resize(at + 1, 0);
                }
                let slot = self.keys.len();
                self.keys.push(key);
                if self.slots.len() == slot {
                    self.slots.push(T::default());
                } else {
                    self.slots[slot].reset();
                }
                self.index[at] = u32::try_from(slot + 1).expect("fewer than 2^32 names in a history");
                slot
            }
        };
        &mut self.slots[slot]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Sym, &T)> {
        self.keys.iter().copied().zip(self.slots.iter())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Sym, &mut T)> {
        self.keys.iter().copied().zip(self.slots.iter_mut())
    }

    pub(super) fn clear(&mut self) {
        for key in self.keys.drain(..) {
            self.index[key.0 as usize] = 0;
        }
    }
}
