//! Coverage of one trial: which pairs of things met. Owns the keys and their names; must never influence a trial, and never give a key that depends on a process, a
//! machine or an order of interning.
//!
//! Two kinds of pairs are counted. *Meetings*: an event about a session after an event of another task about the same session, each with the role of its task.
//! *Hits*: a fault that fired, with the role of the task that it hit. Rare states are counted elsewhere (`sometimes!`).

use std::collections::BTreeMap;

use hostproof_spec::names::Sym;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::choice::{fold, text_hash};

/// What an event or a fault is called: its kind and the role of the task that it happened in.
#[derive(Clone, Copy, Debug)]
struct Label {
    kind: &'static str,
    role: &'static str,
    hash: u64,
}

/// The last event about a session.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    /// 0 for none, else the task's node and one.
    by: u32,
    label: u32,
}

/// Pairs of a trial. Cleared and reused; the names of keys stay.
#[derive(Debug, Default)]
pub struct Coverage {
    /// By the addresses of the texts, which is quick: equal texts at two addresses have two labels with one hash.
    known: FxHashMap<(usize, usize), u32>,
    /// The last label that was asked for, by some bits of the addresses: nearly every question is one of a few dozen.
    recent: Recent<((usize, usize), u32)>,
    labels: Vec<Label>,
    /// By symbol of the session.
    last: Vec<Last>,
    keys: Distinct,
    /// Labels of every key that was seen since the names were asked for.
    named: FxHashMap<u32, (u32, u32)>,
    /// Some of the keys that are in `named`.
    recently_named: Recent<u32>,
}

/// A cache with one place a value and without a promise: what is not in it is looked up.
#[derive(Debug)]
struct Recent<T>([T; 256]);

impl<T: Copy + Default> Default for Recent<T> {
    fn default() -> Self {
        Self([T::default(); 256])
    }
}

impl<T> Recent<T> {
    fn place(&mut self, hash: u64) -> &mut T {
        &mut self.0[(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize]
    }
}

impl Coverage {
    /// A trial begins.
    pub fn begin(&mut self) {
        self.last.clear();
        self.keys.clear();
    }

    /// An event of `kind` about `session`, in the task `node` of `role`.
    pub fn event(&mut self, kind: &'static str, session: Sym, node: u32, role: &'static str) {
        let label = self.label(kind, role);
        let at = session.0 as usize;
        if self.last.len() <= at {
            self.last.resize(at + 1, Last::default());
        }
        let before = std::mem::replace(&mut self.last[at], Last { by: node + 1, label });
        if before.by != 0 && before.by != node + 1 {
            self.pair(before.label, label);
        }
    }

    /// A fault of `site` fired in a task of `role`.
    pub fn hit(&mut self, site: &'static str, role: &'static str) {
        let (site, role) = (self.label(site, ""), self.label("", role));
        self.pair(site, role);
    }

    /// The keys of the trial so far, each once, in order of first sight. A key is a hash of texts.
    #[must_use]
    pub fn keys(&self) -> &[u32] {
        &self.keys.found
    }

    /// Adds the name of every key that was seen since the last call.
    pub fn drain_names(&mut self, names: &mut BTreeMap<u32, String>) {
        self.recently_named = Recent::default();
        for (key, (one, two)) in self.named.drain() {
            let (one, two) = (self.labels[one as usize], self.labels[two as usize]);
            names.entry(key).or_insert_with(|| {
                if two.kind.is_empty() {
                    format!("{} hits {}", one.kind, two.role)
                } else {
                    format!("{} by {}, then {} by {}", one.kind, one.role, two.kind, two.role)
                }
            });
        }
    }

    fn label(&mut self, kind: &'static str, role: &'static str) -> u32 {
        let address = (kind.as_ptr() as usize, role.as_ptr() as usize);
        let recent = self.recent.place((address.0 as u64).rotate_left(32) ^ address.1 as u64);
        if recent.0 != address {
            let labels = &mut self.labels;
            let label = *self.known.entry(address).or_insert_with(|| {
                labels.push(Label { kind, role, hash: fold(text_hash(kind), text_hash(role)) });
                u32::try_from(labels.len() - 1).expect("few labels")
            });
            *recent = (address, label);
        }
        recent.1
    }

    fn pair(&mut self, one: u32, two: u32) {
        let key = (fold(self.labels[one as usize].hash, self.labels[two as usize].hash) >> 32) as u32;
        let key = key.max(1);
        if self.keys.insert(key) {
            let recent = self.recently_named.place(u64::from(key));
            if *recent != key {
                *recent = key;
                self.named.entry(key).or_insert((one, two));
            }
        }
    }
}

/// A set of small size that is cleared by forgetting what is in it. Keys are hashes, never 0.
#[derive(Debug)]
struct Distinct {
    slots: Vec<u32>,
    found: Vec<u32>,
}

impl Default for Distinct {
    fn default() -> Self {
        Self { slots: vec![0; 256], found: Vec::new() }
    }
}

impl Distinct {
    fn clear(&mut self) {
        for key in &self.found {
            let mut at = *key as usize & (self.slots.len() - 1);
            // The whole run goes: every key in it is in the list.
            while self.slots[at] != 0 {
                self.slots[at] = 0;
                at = (at + 1) & (self.slots.len() - 1);
            }
        }
        self.found.clear();
    }

    fn insert(&mut self, key: u32) -> bool {
        if self.found.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let new = place(&mut self.slots, key);
        if new {
            self.found.push(key);
        }
        new
    }

    fn grow(&mut self) {
        self.slots = vec![0; self.slots.len() * 2];
        for key in &self.found {
            place(&mut self.slots, *key);
        }
    }
}

fn place(slots: &mut [u32], key: u32) -> bool {
    let mut at = key as usize & (slots.len() - 1);
    loop {
        match slots[at] {
            0 => {
                slots[at] = key;
                return true;
            }
            there if there == key => return false,
            _ => at = (at + 1) & (slots.len() - 1),
        }
    }
}

/// What a block of trials has covered so far.
#[derive(Clone, Debug, Default)]
pub struct Covered {
    keys: FxHashSet<u32>,
}

impl Covered {
    /// Adds the keys of a trial and says how many were new.
    pub fn add(&mut self, keys: &[u32]) -> usize {
        keys.iter().filter(|key| self.keys.insert(**key)).count()
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Sym = Sym(3);
    const T: Sym = Sym(9);

    fn names(coverage: &mut Coverage) -> Vec<String> {
        let mut names = BTreeMap::new();
        coverage.drain_names(&mut names);
        let mut names: Vec<String> = names.into_values().collect();
        names.sort();
        names
    }

    #[test]
    fn tasks_meet_on_a_session_in_an_order_and_nowhere_else() {
        let mut coverage = Coverage::default();
        coverage.begin();
        coverage.event("appended", S, 1, "writer");
        coverage.event("durable", S, 1, "writer");
        coverage.event("claimed", T, 2, "driver");
        assert!(coverage.keys().is_empty(), "one task a session meets nobody");
        coverage.event("claimed", S, 2, "driver");
        coverage.event("appended", S, 1, "writer");
        coverage.event("claimed", S, 2, "driver");
        coverage.event("appended", S, 1, "writer");
        assert_eq!(coverage.keys().len(), 3, "{:?}", coverage.keys());
        assert_eq!(
            names(&mut coverage),
            [
                "appended by writer, then claimed by driver",
                "claimed by driver, then appended by writer",
                "durable by writer, then claimed by driver"
            ]
        );
    }

    #[test]
    fn the_first_task_of_a_trial_meets_nobody_of_the_last() {
        let mut coverage = Coverage::default();
        coverage.begin();
        coverage.event("appended", S, 1, "writer");
        coverage.begin();
        coverage.event("claimed", S, 2, "driver");
        assert!(coverage.keys().is_empty());
        coverage.event("appended", S, 1, "writer");
        let first = coverage.keys().to_vec();
        coverage.begin();
        coverage.event("claimed", S, 7, "driver");
        coverage.event("appended", S, 8, "writer");
        assert_eq!(coverage.keys(), first, "a key is about texts, not about nodes");
    }

    #[test]
    fn faults_hit_roles() {
        let mut coverage = Coverage::default();
        coverage.hit("disk/append", "writer");
        coverage.hit("disk/append", "writer");
        coverage.hit("disk/append", "operation");
        assert_eq!(coverage.keys().len(), 2);
        assert_eq!(names(&mut coverage), ["disk/append hits operation", "disk/append hits writer"]);
        assert!(names(&mut coverage).is_empty(), "names are handed out once");
    }

    #[test]
    fn keys_stay_the_same_between_builds() {
        let mut coverage = Coverage::default();
        coverage.hit("disk/append", "writer");
        coverage.event("appended", S, 1, "writer");
        coverage.event("claimed", S, 2, "driver");
        assert_eq!(coverage.keys(), [632_394_590, 946_918_408]);
    }

    #[test]
    fn many_keys_are_each_counted_once() {
        let mut keys = Distinct::default();
        for round in 0..3_u32 {
            for key in 1..2000_u32 {
                assert!(keys.insert(key.wrapping_mul(0x9e37_79b9) | 1), "round {round}, key {key}");
                assert!(!keys.insert(key.wrapping_mul(0x9e37_79b9) | 1));
            }
            keys.clear();
            assert!(keys.slots.iter().all(|slot| *slot == 0));
        }
        let mut covered = Covered::default();
        assert_eq!((covered.add(&[1, 2, 3]), covered.add(&[3, 4]), covered.len()), (3, 1, 4));
    }
}
