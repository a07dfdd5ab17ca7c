//! A scripted refactoring of the simulated host, for tests of recordings that must outlive one: labels renamed, awaits inserted, a background task added, listeners
//! reordered. Owns what differs; must never change what the host promises.
//!
//! It is applied where the host meets its world, because the host's own code cannot have two versions in one build. For a recording this is the same:
//! * a role that [`crate::world::World`] translates when a task is spawned is a role that the host calls otherwise, in paths, hashes and fingerprints alike;
//! * a yield before a hold is an await that the host has one more of: it is polled once more there, and others go first;
//! * a task that the host's first spawned task brings along is a child of the same parent, wakes by the same clock, and shifts ready sets, ticks and jumps of the clock;
//! * counting before checking, and acting in the opposite order of arming, are listeners that were registered the other way round.
//!
//! None of it changes a fact or an answer, so every recorded failure is still there to be found.

use hostproof::env::TaskLabel;
use hostproof_spec::wire::HoldPoint;

use crate::aliases::{Alias, Named};

/// The renamings of the refactoring, as the change that makes them would add them to [`crate::aliases::RENAMED`].
pub(crate) const RENAMED: &[Alias] = &[
    Alias { named: Named::Role, old: "operation", new: "request" },
    Alias { named: Named::Role, old: "turn-driver", new: "turn-loop" },
    Alias { named: Named::Role, old: "log-writer", new: "journal" },
    Alias { named: Named::Role, old: "activation-release", new: "epoch-release" },
    Alias { named: Named::Site, old: "hold", new: "gate" },
];

/// Where an await was inserted.
const AWAITS: [HoldPoint; 3] = [HoldPoint::StoreAppend, HoldPoint::StartCreate, HoldPoint::ModelRequest];

/// How often the background task wakes, and how long it sleeps each time, in milliseconds.
pub(crate) const BACKGROUND: (u32, u64) = (6, 7);

/// The label of a task after the refactoring.
pub(crate) fn label(label: TaskLabel) -> TaskLabel {
    let renamed = RENAMED.iter().find(|alias| alias.named == Named::Role && alias.old == label.role);
    TaskLabel { role: renamed.map_or(label.role, |alias| alias.new), ..label }
}

/// Whether the host awaits once more before `point`.
pub(crate) fn awaits_at(point: HoldPoint) -> bool {
    AWAITS.contains(&point)
}
