//! The cloud.
