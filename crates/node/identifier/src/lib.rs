//! Which system a node belongs to and for whom it works: system id, unit model, subjects, from plugins behind one trait.
