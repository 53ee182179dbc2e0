//! The Service Manager of a node.
