//! Where a test may kill a program that keeps items.

muster_fault::points! {
    /// Everything of an item is there for good; which item it is is not recorded.
    pub(crate) ITEM_WHOLE = "items.item-whole",
    /// An item is recorded; nobody has been told.
    pub(crate) ITEM_RECORDED = "items.item-recorded",
    /// What is not needed is marked; records of items that are gone are still there.
    pub(crate) RETAINED = "items.retained",
    /// Records of items that are gone are gone.
    pub(crate) FORGOTTEN = "items.forgotten",
}
