//! Short histories for tests. Owns a builder that reads like a story; must never know what an invariant expects.
