//! The nodes of a system as its Main Node knows them, and the stream between a Secondary Node and it.
