//! The input of a tool: an object as JSON text. Owns that what does not fit is refused without repeating any of it; must never guess what was meant.

use serde::de::DeserializeOwned;

use super::ToolError;

/// Reads the input of `tool`; `wanted` says what it should be.
pub(super) fn read<T: DeserializeOwned>(tool: &str, wanted: &str, input: &str) -> Result<T, ToolError> {
    let given: Option<serde_json::Value> = serde_json::from_str(input).ok();
    // A sequence would be taken for the members in their order.
    given
        .filter(serde_json::Value::is_object)
        .and_then(|given| serde_json::from_value(given).ok())
        .ok_or_else(|| ToolError::new("INVALID_ARGUMENT", format!("{tool}: the input must be {wanted}")))
}
