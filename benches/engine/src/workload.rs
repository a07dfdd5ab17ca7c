//! What is run: the sizes, what each actor's own random numbers decide, and what must come out. Owns the workloads; must never measure anything.

/// A parent, its children, and what they tell each other.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Children of the one parent.
    pub children: u64,
    /// Numbers that the parent sends; each is answered, so there are twice as many messages.
    pub pings: u64,
}

/// Tasks of [`Workload::T`].
pub const NAPPERS: u64 = 8;
/// Sleeps of each of them.
pub const NAPS: u64 = 20;

/// Tasks of [`Workload::Y`].
pub const YIELDERS: u64 = 9;
/// How often each of them gives way.
pub const YIELDS: u64 = 80;

/// One of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Nothing: making a simulation and ending it.
    E,
    /// One parent, two children, ten messages.
    S,
    /// One parent, eight children, a thousand messages.
    M,
    /// Nine tasks that give way eighty times each and do nothing else: what a poll itself costs.
    Y,
    /// Eight tasks that sleep twenty times each, about 1.2 simulated seconds.
    T,
}

impl Workload {
    /// Every workload.
    pub const ALL: [Self; 5] = [Self::E, Self::S, Self::M, Self::Y, Self::T];

    /// Its letter.
    pub fn name(self) -> &'static str {
        match self {
            Self::E => "E",
            Self::S => "S",
            Self::M => "M",
            Self::Y => "Y",
            Self::T => "T",
        }
    }

    /// The conversation of a workload that has one.
    pub fn shape(self) -> Option<Shape> {
        match self {
            Self::S => Some(Shape { children: 2, pings: 5 }),
            Self::M => Some(Shape { children: 8, pings: 500 }),
            Self::E | Self::Y | Self::T => None,
        }
    }

    /// What a run with `seed` must come to.
    pub fn expected(self, seed: u64) -> u64 {
        match self.shape() {
            Some(shape) => (0..shape.pings).map(|ping| ping * 3 + ping % shape.children).sum(),
            None if self == Self::T => (0..NAPPERS).flat_map(|number| naps(seed, number)).sum(),
            None if self == Self::Y => YIELDERS * YIELDS,
            None => 0,
        }
    }

    /// Milliseconds that a run with `seed` lasts on its own clock.
    pub fn simulated_ms(self, seed: u64) -> u64 {
        if self == Self::T { (0..NAPPERS).map(|number| naps(seed, number).sum()).max().unwrap_or(0) } else { 0 }
    }
}

fn naps(seed: u64, number: u64) -> impl Iterator<Item = u64> {
    let mut pace = Pace::new(seed, number);
    (0..NAPS).map(move |_| pace.nap_ms())
}

/// An actor's own random numbers: SplitMix64.
pub struct Pace(u64);

impl Pace {
    /// The numbers of one actor.
    pub fn new(seed: u64, actor: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ actor.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Whether the actor gives way now: one time in four.
    pub fn yields(&mut self) -> bool {
        self.next() >> 62 == 0
    }

    /// How long the actor sleeps: 1 to 99 ms.
    pub fn nap_ms(&mut self) -> u64 {
        1 + self.next() % 99
    }
}
