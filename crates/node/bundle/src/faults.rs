//! Moments at which a test may kill the Service Manager.

muster_fault::points! {
    /// The folder is there, nothing is in it.
    pub AFTER_FOLDER = "bundle.after-folder",
    /// Everything is ready to be started.
    pub AFTER_PREPARE = "bundle.after-prepare",
    /// The start is recorded, the init system was not asked.
    pub BEFORE_UNIT = "bundle.before-unit",
    /// The unit runs, nobody was told.
    pub AFTER_UNIT = "bundle.after-unit",
    /// The unit is gone, its traces are not.
    pub AFTER_STOP = "bundle.after-stop",
    /// Nothing is mounted any more, the folder is still there.
    pub AFTER_CLEAR = "bundle.after-clear",
}
