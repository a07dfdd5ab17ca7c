//! Choices: where everything but the schedule's next task is decided. Owns the streams, their keys and the log of what was drawn; must never know what a choice
//! means.
//!
//! Every draw answers a small number, and **0 is always the dull answer** (no fault, no delay, the first of several). So a trial is described by its
//! deviations: a [`Recorded`](Source::Recorded) source answers 0 to everything that it does not list.
//!
//! With a seed, what a trial is made of is a mix of (key of its class, site, entity, occurrence). Inside the trial each site has a stream of its own: a mix of (key, site, number of
//! the draw), and for what is rare the distance to its next firing ([`fuse`]). So a draw that is added at one site moves no other site. Only scheduling draws come from a
//! stream that all share.
//!
//! Answers are known by (site, entity, occurrence) all the same: occurrences are counted while a log is kept or a recorded source is followed, and cost nothing otherwise.

use std::cell::{Cell, RefCell};

use arbitrary::Unstructured;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rustc_hash::FxHashMap;

mod counts;
mod fuse;

use counts::Counts;
use fuse::Fuses;

/// What a choice is about. Each class has a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Which operations there are, and what the model answers.
    Workload,
    /// Which classes of faults, operations and observers a trial has at all.
    Swarm,
    /// Storage faults and injected failures.
    Fault,
    /// Latency, extra yields, the wall clock.
    World,
}

impl Class {
    /// Whether it is drawn in the course of a trial. What a trial is made of is drawn before it runs, and is kept as such.
    fn inside(self) -> bool {
        matches!(self, Self::Fault | Self::World)
    }
}

/// A named place that draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its class.
    pub class: Class,
    /// Its name, stable: recordings name it.
    pub name: &'static str,
    hash: u64,
}

impl Site {
    /// A site.
    #[must_use]
    pub const fn new(class: Class, name: &'static str) -> Self {
        Self { class, name, hash: text_hash(name) }
    }
}

/// Stable hash of a text (FNV-1a with a final mix); 0 for the empty text.
#[must_use]
pub const fn text_hash(text: &str) -> u64 {
    let bytes = text.as_bytes();
    if bytes.is_empty() {
        return 0;
    }
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    mix64(hash)
}

/// A bijective mix of 64 bits (the finaliser of SplitMix64).
#[must_use]
pub const fn mix64(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Folds `value` into a running hash.
#[must_use]
pub const fn fold(hash: u64, value: u64) -> u64 {
    mix64(hash.rotate_left(5) ^ value)
}

/// Stirs two values into a running hash: one long multiplication, for what happens at every tick. Weaker than two [`fold`]s, and far better than an audit needs.
#[must_use]
pub const fn stir(hash: u64, one: u64, other: u64) -> u64 {
    let product = (hash ^ one) as u128 * (other ^ 0xa076_1d64_78bd_642f) as u128;
    // The sum keeps what was there even if a factor is 0.
    (product as u64 ^ (product >> 64) as u64).wrapping_add(hash.rotate_left(23))
}

/// An answer that was not 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Where.
    pub site: &'static str,
    /// Hash of the entity's text ([`text_hash`]).
    pub entity: u64,
    /// How many draws of this site and entity came before.
    pub occurrence: u32,
    /// The answer.
    pub value: u32,
}

/// Where answers come from.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// The seed.
    #[default]
    Seed,
    /// A list of deviations; everything else is 0.
    Recorded(FxHashMap<(u64, u64, u32), u32>),
    /// Bytes of a fuzzer; when they are used up, everything is 0.
    Bytes(Vec<u8>),
}

impl Source {
    /// A source that repeats deviations: site, entity hash, occurrence, answer.
    pub fn recorded<'a>(deviations: impl IntoIterator<Item = (&'a str, u64, u32, u32)>) -> Self {
        Self::Recorded(
            deviations
                .into_iter()
                .map(|(site, entity, occurrence, value)| ((text_hash(site), entity, occurrence), value))
                .collect(),
        )
    }
}

/// The choices of one trial. Cleared and reused.
pub struct Chooser {
    source: RefCell<Source>,
    keys: Cell<[u64; 4]>,
    schedule: RefCell<ChaCha8Rng>,
    fuses: RefCell<Fuses>,
    occurrences: RefCell<Counts>,
    /// Whether occurrences inside the trial are counted.
    counting: Cell<bool>,
    draws: Cell<u64>,
    at: Cell<usize>,
    log: RefCell<Option<Vec<Drawn>>>,
    fired: RefCell<Vec<&'static str>>,
}

impl Default for Chooser {
    fn default() -> Self {
        Self {
            source: RefCell::default(),
            keys: Cell::default(),
            schedule: RefCell::new(ChaCha8Rng::seed_from_u64(0)),
            fuses: RefCell::default(),
            occurrences: RefCell::default(),
            counting: Cell::new(false),
            draws: Cell::new(0),
            at: Cell::new(0),
            log: RefCell::default(),
            fired: RefCell::default(),
        }
    }
}

impl Chooser {
    /// Begins a trial: derives a key per class from `seed`. With `log`, answers other than 0 are kept for [`Chooser::drawn`].
    pub fn reset(&self, seed: u64, source: Source, log: bool) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        self.keys.set([rng.next_u64(), rng.next_u64(), rng.next_u64(), rng.next_u64()]);
        *self.schedule.borrow_mut() = rng;
        self.fuses.borrow_mut().clear();
        self.occurrences.borrow_mut().clear();
        self.counting.set(log || matches!(source, Source::Recorded(_)));
        self.draws.set(0);
        self.at.set(0);
        *self.source.borrow_mut() = source;
        *self.log.borrow_mut() = log.then(Vec::new);
        self.fired.borrow_mut().clear();
    }

    /// From now on another seed answers about faults and circumstances, and decides the schedule. Nothing happens unless a seed answers.
    pub fn branch(&self, seed: u64) {
        if !matches!(&*self.source.borrow(), Source::Seed) {
            return;
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut keys = self.keys.get();
        keys[Class::Fault as usize] = rng.next_u64();
        keys[Class::World as usize] = rng.next_u64();
        self.keys.set(keys);
        self.fuses.borrow_mut().clear();
        *self.schedule.borrow_mut() = rng;
    }

    /// How many faults and circumstances were drawn since [`Chooser::reset`]: the same number in a recorded trial.
    pub fn draws(&self) -> u64 {
        self.draws.get()
    }

    /// How many answers other than 0 are in the log.
    pub fn logged(&self) -> u32 {
        self.log.borrow().as_ref().map_or(0, |log| u32::try_from(log.len()).expect("fewer than 2^32 draws"))
    }

    /// The answers other than 0 about faults and circumstances, in order; empty without a log.
    pub fn drawn(&self) -> Vec<Drawn> {
        self.log.borrow().clone().unwrap_or_default()
    }

    /// Hands out the sites of the faults that fired since the last call, in order.
    pub fn take_fired(&self, mut each: impl FnMut(&'static str)) {
        let mut fired = self.fired.borrow_mut();
        if !fired.is_empty() {
            fired.drain(..).for_each(&mut each);
        }
    }

    /// A uniform answer below `n`. Draws nothing when `n <= 1`.
    pub fn draw(&self, site: Site, entity: u64, n: u32) -> u32 {
        if n <= 1 {
            return 0;
        }
        let from_seed = |occurrence| below(self.bits(site, entity, occurrence), n);
        self.answer(site, entity, from_seed, |bytes| self.next_byte_choice(bytes, n - 1), n - 1)
    }

    /// 0 with a probability of `1000 - per_mille` in a thousand, else one of `1..=kinds`. Draws nothing when it cannot fire.
    pub fn chance(&self, site: Site, entity: u64, per_mille: u32, kinds: u32) -> u32 {
        if per_mille == 0 || kinds == 0 {
            return 0;
        }
        let from_seed = |occurrence| {
            if site.class.inside() {
                let fired = self.fuses.borrow_mut().burn(site, self.key(site), per_mille);
                return fired.map_or(0, |bits| 1 + below(bits, kinds));
            }
            let bits = self.bits(site, entity, occurrence);
            if below(bits, 1000) < per_mille { 1 + below(mix64(bits), kinds) } else { 0 }
        };
        // One byte says whether something rare happens at all, so that inputs of zeros are dull.
        let from_bytes = |bytes: &[u8]| {
            if self.next_byte_choice(bytes, 255) < 224 { 0 } else { 1 + self.next_byte_choice(bytes, kinds - 1) }
        };
        self.answer(site, entity, from_seed, from_bytes, kinds)
    }

    /// Whether a chance of `per_mille` in a thousand fires.
    pub fn one_in(&self, site: Site, entity: u64, per_mille: u32) -> bool {
        self.chance(site, entity, per_mille, 1) == 1
    }

    /// The answer to a chance that something else than the source gives: it counts, and is logged, as if it had been drawn.
    pub fn given(&self, site: Site, entity: u64, fires: bool) -> bool {
        let value = u32::from(fires);
        self.answer_with(site, entity, |_| value) == 1
    }

    /// A scheduling draw below `n`, from the running stream (or the fuzzer's bytes). Recorded trials do not ask.
    pub fn schedule(&self, n: u32) -> u32 {
        if n <= 1 {
            return 0;
        }
        match &*self.source.borrow() {
            Source::Bytes(bytes) => self.next_byte_choice(bytes, n - 1),
            _ => below(self.schedule.borrow_mut().next_u64(), n),
        }
    }

    fn key(&self, site: Site) -> u64 {
        self.keys.get()[site.class as usize]
    }

    /// The random bits that the seed has for a draw.
    fn bits(&self, site: Site, entity: u64, occurrence: u32) -> u64 {
        if site.class.inside() {
            return self.fuses.borrow_mut().draw(site, self.key(site), entity);
        }
        let numbered = u64::from(occurrence).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mix64(mix64(self.key(site) ^ site.hash).wrapping_add(entity) ^ numbered)
    }

    /// How many draws of this site and entity came before; 0 where nobody asks.
    fn occurrence(&self, site: Site, entity: u64) -> u32 {
        if site.class.inside() && !self.counting.get() {
            return 0;
        }
        self.occurrences.borrow_mut().next(site.hash, entity)
    }

    fn answer(
        &self,
        site: Site,
        entity: u64,
        from_seed: impl FnOnce(u32) -> u32,
        from_bytes: impl FnOnce(&[u8]) -> u32,
        greatest: u32,
    ) -> u32 {
        self.answer_with(site, entity, |occurrence| match &*self.source.borrow() {
            Source::Seed => from_seed(occurrence),
            Source::Recorded(all) => all.get(&(site.hash, entity, occurrence)).copied().unwrap_or(0).min(greatest),
            Source::Bytes(bytes) => from_bytes(bytes),
        })
    }

    fn answer_with(&self, site: Site, entity: u64, value: impl FnOnce(u32) -> u32) -> u32 {
        let inside = site.class.inside();
        self.draws.set(self.draws.get() + u64::from(inside));
        let occurrence = self.occurrence(site, entity);
        let value = value(occurrence);
        if value != 0 && site.class == Class::Fault {
            self.fired.borrow_mut().push(site.name);
        }
        if value != 0
            && inside
            && let Some(log) = &mut *self.log.borrow_mut()
        {
            log.push(Drawn { site: site.name, entity, occurrence, value });
        }
        value
    }

    fn next_byte_choice(&self, bytes: &[u8], greatest: u32) -> u32 {
        let mut rest = Unstructured::new(&bytes[self.at.get().min(bytes.len())..]);
        let before = rest.len();
        let value = rest.int_in_range(0..=greatest).unwrap_or(0);
        self.at.set(self.at.get() + before - rest.len());
        value
    }
}

/// Maps 64 random bits to a number below `n`, without division.
fn below(raw: u64, n: u32) -> u32 {
    (((raw >> 32) * u64::from(n)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Site = Site::new(Class::Fault, "test/a");
    const B: Site = Site::new(Class::World, "test/b");

    fn chooser(seed: u64) -> Chooser {
        let chooser = Chooser::default();
        chooser.reset(seed, Source::Seed, true);
        chooser
    }

    #[test]
    fn a_draw_added_at_one_site_moves_no_other_site_and_in_a_workload_no_other_entity() {
        const W: Site = Site::new(Class::Workload, "test/w");
        let plain = chooser(7);
        let disturbed = chooser(7);
        for turn in 0..50 {
            if turn % 3 == 0 {
                disturbed.draw(B, 9, 10);
                disturbed.chance(B, 9, 300, 4);
                disturbed.draw(W, 2, 10);
            }
            assert_eq!(plain.draw(A, 1, 1000), disturbed.draw(A, 1, 1000));
            assert_eq!(plain.chance(A, turn, 100, 9), disturbed.chance(A, turn, 100, 9));
            assert_eq!(plain.draw(W, 1, 1000), disturbed.draw(W, 1, 1000));
            assert_eq!(plain.schedule(12), disturbed.schedule(12));
        }
        assert!(disturbed.draws() > plain.draws());
    }

    #[test]
    fn a_branch_shares_the_beginning_and_then_goes_the_way_of_the_other_seed() {
        const W: Site = Site::new(Class::Workload, "test/w");
        let answers = |chooser: &Chooser| -> Vec<(u32, u32, u32)> {
            (0..30).map(|_| (chooser.draw(A, 1, 1000), chooser.draw(B, 1, 1000), chooser.schedule(1000))).collect()
        };
        let (plain, branched) = (chooser(7), chooser(7));
        assert_eq!(answers(&plain), answers(&branched));
        branched.branch(8);
        assert_ne!(answers(&plain), answers(&branched));
        assert_eq!(
            plain.draw(W, 0, 1_000_000),
            branched.draw(W, 0, 1_000_000),
            "a branch is another course of the same workload"
        );
        let again = chooser(7);
        answers(&again);
        again.branch(8);
        assert_eq!(answers(&again), {
            let same = chooser(7);
            answers(&same);
            same.branch(8);
            answers(&same)
        });
        let log = branched.drawn();
        let replayed = Chooser::default();
        replayed.reset(0, Source::recorded(log.iter().map(|d| (d.site, d.entity, d.occurrence, d.value))), true);
        (0..60).for_each(|_| {
            replayed.draw(A, 1, 1000);
            replayed.draw(B, 1, 1000);
        });
        let order = |mut log: Vec<Drawn>| {
            log.sort_by_key(|d| (d.site, d.occurrence));
            log
        };
        assert_eq!(order(replayed.drawn()), order(log), "a branched trial replays from its log alone");
    }

    #[test]
    fn nothing_is_drawn_where_there_is_no_choice() {
        let chooser = chooser(1);
        assert_eq!((chooser.draw(A, 0, 1), chooser.draw(A, 0, 0), chooser.schedule(1), chooser.chance(A, 0, 0, 4)), (0, 0, 0, 0));
        assert_eq!(chooser.draws(), 0);
    }

    #[test]
    fn answers_are_spread_and_chances_have_their_rate() {
        let chooser = chooser(3);
        let mut counts = [0_u32; 5];
        for _ in 0..5000 {
            counts[chooser.draw(A, 4, 5) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        let hits = (0..10_000).filter(|_| chooser.one_in(B, 0, 50)).count();
        assert!((400..600).contains(&hits), "{hits}");
    }

    #[test]
    fn keeping_a_log_changes_no_answer() {
        let (kept, plain) = (chooser(5), Chooser::default());
        plain.reset(5, Source::Seed, false);
        for turn in 0..300 {
            assert_eq!(kept.chance(A, turn % 7, 90, 3), plain.chance(A, turn % 7, 90, 3));
            assert_eq!(kept.draw(B, turn % 3, 40), plain.draw(B, turn % 3, 40));
        }
        assert_eq!((kept.draws(), plain.drawn()), (plain.draws(), Vec::new()));
    }

    #[test]
    fn a_recorded_source_repeats_the_answers_and_is_dull_elsewhere() {
        let first = chooser(11);
        let answers: Vec<u32> = (0..200).map(|turn| first.chance(A, turn % 4, 100, 3)).collect();
        let drawn = first.drawn();
        let again = Chooser::default();
        again.reset(99, Source::recorded(drawn.iter().map(|d| (d.site, d.entity, d.occurrence, d.value))), true);
        assert_eq!(answers, (0..200).map(|turn| again.chance(A, turn % 4, 100, 3)).collect::<Vec<_>>());
        assert_eq!(again.drawn(), drawn);
        assert_eq!(again.draw(B, 0, 1000), 0);
    }

    #[test]
    fn kept_fuzzer_inputs_decide_and_then_run_dry() {
        let chooser = Chooser::default();
        chooser.reset(0, Source::Bytes(vec![250, 2, 0, 3]), false);
        assert_eq!(chooser.chance(A, 0, 10, 3), 3, "a high byte lets it fire, the next picks the kind");
        assert_eq!(chooser.chance(A, 0, 10, 3), 0, "a low byte is dull");
        assert_eq!(chooser.schedule(4), 3);
        assert_eq!((chooser.draw(B, 0, 9), chooser.schedule(9), chooser.chance(A, 0, 999, 3)), (0, 0, 0));
    }
}
