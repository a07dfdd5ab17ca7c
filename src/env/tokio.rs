//! Real files, clock and tasks (to be written).
