//! Runs CNI plugins: lists of plugins, their results kept, in order up and in reverse order down.
