//! Unpacks image layers from people nobody trusts into a folder, and nowhere else.
