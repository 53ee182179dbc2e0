//! Moments at which tests kill the daemon.

muster_fault::points! {
    /// The controller's list is on disk, and no network is made.
    pub LIST_WRITTEN = "network.list-written",
    /// One step of a network's links is made, and others are not.
    pub LINK_STEP = "network.link-step",
    /// A network's links are right, and it has no rules.
    pub LINKS_MADE = "network.links-made",
    /// A network has its rules, and no name server.
    pub RULES_MADE = "network.rules-made",
    /// It is on disk that an instance is being put into a network, and nothing is made.
    pub INSTANCE_BEGUN = "network.instance-begun",
    /// The instance's namespace is there, and empty.
    pub NAMESPACE_MADE = "network.namespace-made",
    /// All plugins are through, and it is not on disk.
    pub PLUGINS_DONE = "network.plugins-done",
    /// It is on disk that the instance is in its network, and nobody was told.
    pub INSTANCE_MADE = "network.instance-made",
    /// It is on disk that an instance is being removed, and nothing is.
    pub REMOVAL_BEGUN = "network.removal-begun",
    /// All plugins have undone their parts, and the namespace is there.
    pub PLUGINS_UNDONE = "network.plugins-undone",
    /// The namespace is gone, and the record is there.
    pub NAMESPACE_REMOVED = "network.namespace-removed",
    /// A network's links are gone, and its record is there.
    pub LINKS_REMOVED = "network.links-removed",
}
