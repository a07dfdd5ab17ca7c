//! Names of one history: text and numbers behind small copyable symbols. Owns the mapping; must never
//! depend on anything but the order of first sight, so that equal histories have equal symbols.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use rustc_hash::FxHashMap;

/// An interned name: a session, message, agent object, Activation, run, operation or text.
///
/// Symbols are dense from 0 in order of first sight within one [`Names`] table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sym(pub u32);

impl fmt::Debug for Sym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[derive(Clone)]
enum Name {
    Text(Rc<str>),
    Numbered(&'static str, u32),
}

/// Most texts that are kept from one history to the next: histories of one simulator mostly have the same.
const KEPT: usize = 1 << 13;

/// A text that was seen, in this history or an earlier one.
struct Seen {
    text: Rc<str>,
    sym: Sym,
    /// The history in which `sym` was given.
    history: u32,
}

#[derive(Default)]
struct Table {
    names: Vec<Name>,
    by_text: FxHashMap<Rc<str>, Seen>,
    history: u32,
}

/// The table of one trial or evaluation. Shared by reference; single-threaded.
#[derive(Default)]
pub struct Names {
    table: RefCell<Table>,
}

impl Names {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The symbol of `text`, made on first sight.
    pub fn intern(&self, text: &str) -> Sym {
        let mut table = self.table.borrow_mut();
        let Table { names, by_text, history } = &mut *table;
        let sym = Sym(u32::try_from(names.len()).expect("fewer than 2^32 names in a history"));
        match by_text.get_mut(text) {
            Some(seen) if seen.history == *history => return seen.sym,
            Some(seen) => {
                (seen.sym, seen.history) = (sym, *history);
                names.push(Name::Text(seen.text.clone()));
            }
            None => {
                let text: Rc<str> = Rc::from(text);
                names.push(Name::Text(text.clone()));
                by_text.insert(text.clone(), Seen { text, sym, history: *history });
            }
        }
        sym
    }

    /// A new name that only this process uses, such as `agent:4`; it costs no text until it is rendered.
    pub fn numbered(&self, prefix: &'static str, number: u32) -> Sym {
        let mut table = self.table.borrow_mut();
        let sym = Sym(u32::try_from(table.names.len()).expect("fewer than 2^32 names in a history"));
        table.names.push(Name::Numbered(prefix, number));
        sym
    }

    /// The symbol of `text` if it was seen before.
    #[must_use]
    pub fn lookup(&self, text: &str) -> Option<Sym> {
        let table = self.table.borrow();
        table.by_text.get(text).filter(|seen| seen.history == table.history).map(|seen| seen.sym)
    }

    /// The text of `sym`.
    ///
    /// # Panics
    /// If `sym` comes from another table.
    #[must_use]
    pub fn text(&self, sym: Sym) -> Rc<str> {
        match &self.table.borrow().names[sym.0 as usize] {
            Name::Text(text) => text.clone(),
            Name::Numbered(prefix, number) => Rc::from(format!("{prefix}:{number}")),
        }
    }

    /// How many names the table holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.borrow().names.len()
    }

    /// Whether no name was seen yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets every name, and keeps the capacity and a bounded number of texts: none of them has a symbol before it is seen again.
    pub fn clear(&self) {
        let mut table = self.table.borrow_mut();
        table.names.clear();
        if table.by_text.len() > KEPT || table.history == u32::MAX {
            table.by_text.clear();
        }
        table.history = table.history.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_histories_have_equal_symbols_whatever_came_before() {
        let (fresh, used) = (Names::new(), Names::new());
        for text in ["c", "x", "a"] {
            used.intern(text);
        }
        used.clear();
        assert_eq!((used.len(), used.lookup("a")), (0, None), "a text of an earlier history has no symbol");
        for names in [&fresh, &used] {
            assert_eq!(["a", "b", "a", "c"].map(|text| names.intern(text).0), [0, 1, 0, 2]);
            assert_eq!(names.numbered("agent", 7), Sym(3));
            assert_eq!((&*names.text(Sym(2)), &*names.text(Sym(3))), ("c", "agent:7"));
            assert_eq!((names.lookup("b"), names.lookup("x")), (Some(Sym(1)), None));
        }
        for number in 0..3 * KEPT {
            used.clear();
            used.intern(&number.to_string());
        }
        assert!(used.table.borrow().by_text.len() <= KEPT + 1, "what is kept is bounded");
    }
}
