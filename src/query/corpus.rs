//! Everything that is there: live and stored sessions, each once. Owns the merge; must never read the records of a session.

use std::cmp::Ordering;
use std::rc::Rc;

use hostproof_spec::names::Sym;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::persistence::{Persistence, ReadError};
use crate::session::SessionStore;
use crate::session::event::Header;

/// Where a session of the corpus is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the store of this process.
    Live,
    /// In storage alone.
    Stored,
    /// It was live when the enumeration began and left before it ended, unseen by it: it may be stored, or have left nothing.
    Left,
}

/// One session of the corpus.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its header: the live one, where it is live.
    pub header: Rc<Header>,
    /// Where it is.
    pub place: Place,
}

/// Every session, in no order that means anything.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    /// The sessions, each once.
    pub members: Vec<Member>,
    /// A session whose live and stored headers cannot be of one lifecycle.
    pub conflict: Option<Sym>,
}

fn live(store: &SessionStore) -> Vec<Rc<Header>> {
    store.ids().into_iter().filter_map(|id| store.get(id)).map(|session| session.header()).collect()
}

/// Whether two headers can be two looks at one session: everything but the origin is the same.
#[must_use]
pub fn compatible(one: &Header, other: &Header) -> bool {
    let Header { version, id, created_at, parent, subagent: _, inherited, depth } = one;
    (*version, *id, *created_at, *parent, *inherited, *depth)
        == (other.version, other.id, other.created_at, other.parent, other.inherited, other.depth)
}

/// The total order of siblings: creation time, then id as UTF-16 code units.
#[must_use]
pub fn by_creation(one: (u64, &str), other: (u64, &str)) -> Ordering {
    one.0.cmp(&other.0).then_with(|| one.1.encode_utf16().cmp(other.1.encode_utf16()))
}

impl Corpus {
    /// Looks at storage once, then at the live sessions; a live session wins over what is stored of it. What is live when the call is made is in it, even if it leaves
    /// meanwhile. Without persistence only the live sessions are there.
    ///
    /// # Errors
    /// [`ReadError`] if the store cannot be enumerated.
    pub async fn gather(store: &SessionStore, persistence: Option<&Persistence>) -> Result<Self, ReadError> {
        let before = live(store);
        let stored = match persistence {
            Some(persistence) => persistence.list().await?,
            None => Vec::new(),
        };
        let mut corpus = Self::default();
        for header in live(store) {
            corpus.members.push(Member { header, place: Place::Live });
        }
        let left: Vec<Rc<Header>> = before.into_iter().filter(|header| !store.is_live(header.id)).collect();
        if !left.is_empty() {
            let seen: FxHashSet<Sym> = stored.iter().map(|header| header.id).collect();
            let unseen = left.into_iter().filter(|header| !seen.contains(&header.id));
            corpus.members.extend(unseen.map(|header| Member { header, place: Place::Left }));
        }
        for header in stored {
            match store.get(header.id) {
                Some(session) if compatible(&session.header(), &header) => {}
                Some(_) => corpus.conflict = corpus.conflict.or(Some(header.id)),
                None => corpus.members.push(Member { header, place: Place::Stored }),
            }
        }
        Ok(corpus)
    }

    /// The sessions that some session with the origin of a subagent names as its parent.
    #[must_use]
    pub fn parents_of_children(&self) -> FxHashSet<Sym> {
        self.members.iter().filter(|member| member.header.subagent).filter_map(|member| member.header.parent).collect()
    }

    /// The members by the parent that their headers name, whatever their origin: positions in `members`.
    #[must_use]
    pub fn by_parent(&self) -> FxHashMap<Sym, Vec<usize>> {
        let mut below: FxHashMap<Sym, Vec<usize>> = FxHashMap::default();
        for (at, member) in self.members.iter().enumerate() {
            if let Some(parent) = member.header.parent {
                below.entry(parent).or_default().push(at);
            }
        }
        below
    }
}
