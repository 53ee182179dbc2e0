//! Images on a node: a content-addressed store that is whole after a power cut, and the ways into it.
