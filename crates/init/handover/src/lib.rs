//! muster-handover.
