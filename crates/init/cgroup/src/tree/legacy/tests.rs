use super::*;

#[test]
fn devices_are_summed() {
    let text = "8:0 Read 10\n8:0 Write 3\n8:0 Total 13\n8:16 Read 5\nTotal 18\n8:32 Read x\n";
    assert_eq!((total(text, "Read"), total(text, "Write")), (15, 3));
    assert_eq!(total("", "Read"), 0);
}
