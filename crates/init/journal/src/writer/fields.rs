//! What may be the field of an entry.

use super::AppendError;
use crate::format::{DATA_SIZE_MAX, ENTRY_FIELDS_MAX, FIELD_NAME_MAX};

pub(super) fn check_fields<F: AsRef<[u8]>>(fields: &[F]) -> Result<(), AppendError> {
    if fields.is_empty() {
        return Err(AppendError::NoFields);
    }
    if fields.len() > ENTRY_FIELDS_MAX {
        return Err(AppendError::TooManyFields {
            count: fields.len(),
        });
    }
    for (index, field) in fields.iter().enumerate() {
        let field = field.as_ref();
        let window = &field[..field.len().min(FIELD_NAME_MAX + 1)];
        let name = window
            .iter()
            .position(|byte| *byte == b'=')
            .map(|end| &window[..end]);
        if !name.is_some_and(is_field_name) {
            return Err(AppendError::FieldName { index });
        }
        if u64::try_from(field.len()).unwrap_or(u64::MAX) > DATA_SIZE_MAX {
            return Err(AppendError::FieldSize {
                index,
                size: field.len(),
            });
        }
    }
    Ok(())
}

/// Whether journals allow this as the name of a field: capitals, digits and underscores, at most 64 of
/// them, no digit in front.
#[must_use]
pub fn is_field_name(name: &[u8]) -> bool {
    (1..=FIELD_NAME_MAX).contains(&name.len())
        && !name[0].is_ascii_digit()
        && name
            .iter()
            .all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'))
}
