//! A small certificate authority for those who have no cloud.
