//! How many different histories a campaign saw, in bounded memory. Owns the sketch and its text form; must never depend on the order of what it is shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::mix64;

/// The `k` smallest hashes of everything that was shown ("k minimum values"), each with the first index that showed it: exact below `k`, an estimate above, and the
/// same whether parts are shown together or merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    most: usize,
    kept: BTreeMap<u64, u64>,
    /// Whether anything was left out: what is kept is then no longer all there was.
    full: bool,
}

/// What a sketch can say of how many there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Distinct {
    /// How many different ones.
    pub count: u64,
    /// Whether that is a count, or an estimate with a standard error of 0.4 %.
    pub exact: bool,
}

impl Default for Sketch {
    fn default() -> Self {
        Self::keeping(Self::K)
    }
}

impl Sketch {
    /// How many hashes a campaign keeps.
    pub const K: usize = 65_536;

    fn keeping(most: usize) -> Self {
        Self { most, kept: BTreeMap::new(), full: false }
    }

    /// Shows the hash of one history and the index of its trial.
    pub fn show(&mut self, shape: u64, index: u64) {
        self.keep(mix64(shape), index);
    }

    fn keep(&mut self, hash: u64, index: u64) {
        if self.kept.len() == self.most && self.kept.last_key_value().is_some_and(|(largest, _)| hash > *largest) {
            self.full = true;
            return;
        }
        self.kept.entry(hash).and_modify(|first| *first = index.min(*first)).or_insert(index);
        if self.kept.len() > self.most {
            self.kept.pop_last();
            self.full = true;
        }
    }

    /// Takes in what another sketch was shown.
    pub fn merge(&mut self, other: Self) {
        // What it left out lies above all that it kept, and so does whatever cannot be among the smallest of both.
        if other.full {
            let largest = other.kept.last_key_value().map(|(largest, _)| *largest);
            self.full = true;
            self.kept.retain(|hash, _| Some(*hash) <= largest);
        }
        for (hash, index) in other.kept {
            self.keep(hash, index);
        }
    }

    /// How many different histories were shown.
    #[must_use]
    pub fn distinct(&self) -> Distinct {
        Distinct { count: self.scaled(self.kept.len()), exact: !self.full }
    }

    /// How many of them were first shown at `index` or later, counted or estimated like all of them.
    #[must_use]
    pub fn since(&self, index: u64) -> u64 {
        self.scaled(self.kept.values().filter(|first| **first >= index).count())
    }

    /// What `part` of the kept ones stand for.
    fn scaled(&self, part: usize) -> u64 {
        match self.kept.last_key_value() {
            Some((largest, _)) if self.full => {
                // The k-th smallest of n uniform values lies at about k / n of the range; k - 1 takes out the bias.
                let all = (self.kept.len() as f64 - 1.0) / ((*largest as f64 + 1.0) / 2f64.powi(64));
                (all * part as f64 / self.kept.len() as f64).round() as u64
            }
            _ => part as u64,
        }
    }

    fn text(&self) -> String {
        let mut text = String::from(if self.full { "most" } else { "all" });
        for (hash, first) in &self.kept {
            let _ = write!(text, " {hash:016x}:{first}");
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let full = match words.next()? {
            "most" => true,
            "all" => false,
            _ => return None,
        };
        let mut sketch = Self::default();
        for word in words {
            let (hash, first) = word.split_once(':')?;
            let hash = if hash.len() == 16 { u64::from_str_radix(hash, 16).ok()? } else { return None };
            sketch.kept.insert(hash, first.parse().ok()?);
        }
        sketch.full = full;
        (sketch.kept.len() <= sketch.most).then_some(sketch)
    }
}

impl Serialize for Sketch {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for Sketch {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("it is no sketch of histories"))
    }
}

impl JsonSchema for Sketch {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Sketch".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "`all` or `most`, then `<16 hex digits>:<first index>` for each kept history, in order of the hashes",
            "pattern": "^(all|most)( [0-9a-f]{16}:[0-9]+)*$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(most: usize, shapes: impl IntoIterator<Item = (u64, u64)>) -> Sketch {
        let mut sketch = Sketch::keeping(most);
        shapes.into_iter().for_each(|(shape, index)| sketch.show(shape, index));
        sketch
    }

    #[test]
    fn below_its_size_it_counts_and_above_it_estimates() {
        let few = shown(1024, (0..2000).map(|index| (index % 1000, index)));
        assert_eq!(few.distinct(), Distinct { count: 1000, exact: true });
        assert_eq!(few.since(900), 100, "what came again is not new");
        let many = shown(1024, (0..200_000).map(|index| (index, index)));
        let Distinct { count, exact } = many.distinct();
        assert!(!exact && (185_000..215_000).contains(&count), "{count}");
        assert!((15_000..25_000).contains(&many.since(180_000)), "{}", many.since(180_000));
        assert_eq!(many.kept.len(), 1024);
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole_in_any_order(shapes in prop::collection::vec(0_u64..400, 0..600), cuts in prop::collection::vec(0_usize..3, 600)) {
            let all: Vec<(u64, u64)> = shapes.iter().copied().zip(0..).collect();
            let whole = shown(64, all.iter().copied());
            let part = |wanted| shown(64, all.iter().zip(&cuts).filter(|(_, cut)| **cut == wanted).map(|(one, _)| *one));
            for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
                let mut merged = Sketch::keeping(64);
                order.into_iter().for_each(|wanted| merged.merge(part(wanted)));
                prop_assert_eq!(&merged, &whole);
            }
        }

        #[test]
        fn its_text_round_trips_and_no_other_text_makes_it_panic(shapes in prop::collection::vec(any::<(u64, u64)>(), 0..50), junk in ".{0,30}") {
            let sketch = shown(Sketch::K, shapes);
            prop_assert_eq!(Sketch::parse(&sketch.text()), Some(sketch));
            let _ = Sketch::parse(&junk);
        }
    }
}
