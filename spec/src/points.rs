//! Rare states: places in a host or simulator that a good campaign must reach. Owns the link-time list; must never influence a trial.

/// One place. Made by [`sometimes!`](crate::sometimes) and listed by [`points`].
#[derive(Debug, PartialEq, Eq)]
pub struct Point {
    /// Stable name, `area/what`.
    pub name: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Source line.
    pub line: u32,
}

inventory::collect!(&'static Point);

/// Every rare-state point that is linked into this program, by name.
#[must_use]
pub fn points() -> Vec<&'static Point> {
    let mut all: Vec<&'static Point> = inventory::iter::<&'static Point>.into_iter().copied().collect();
    all.sort_by_key(|point| (point.name, point.file, point.line));
    all
}

/// Reports to `$env` (anything with a method `reached(&'static Point)`) that a rare state was reached, when `$cond` holds.
#[macro_export]
macro_rules! sometimes {
    ($env:expr, $cond:expr, $name:literal) => {{
        static POINT: $crate::points::Point = $crate::points::Point { name: $name, file: file!(), line: line!() };
        $crate::inventory::submit! { &POINT }
        if $cond {
            $env.reached(&POINT);
        }
    }};
}
