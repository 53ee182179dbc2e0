//! What the node and its instances use, and when that is too much.
