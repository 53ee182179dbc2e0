//! The balancer's promises, by example and by property.

mod oracle;
mod properties;
mod scenarios;
mod world;
