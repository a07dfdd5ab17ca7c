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

#[derive(Default)]
struct Table {
    names: Vec<Name>,
    by_text: FxHashMap<Rc<str>, Sym>,
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
        if let Some(sym) = table.by_text.get(text) {
            return *sym;
        }
        let sym = Sym(u32::try_from(table.names.len()).expect("fewer than 2^32 names in a history"));
        let text: Rc<str> = Rc::from(text);
        table.names.push(Name::Text(text.clone()));
        table.by_text.insert(text, sym);
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
        self.table.borrow().by_text.get(text).copied()
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

    /// Forgets every name and keeps the capacity.
    pub fn clear(&self) {
        let mut table = self.table.borrow_mut();
        table.names.clear();
        table.by_text.clear();
    }
}
