//! Runs the example and checks what it prints.

use std::process::Command;

#[test]
fn d3_example_recovers_gives_up_and_resets() {
    let output = Command::new(env!("CARGO_BIN_EXE_pleach-example-embassy-std")).output().expect("the example starts");
    let text = String::from_utf8(output.stdout).expect("the output is text");
    // The parts in the order in which they must appear. Other lines may come in between.
    let expected = [
        "/user/sensors/barometer failed: no answer on the bus; restart in 10ms",
        "/user/sensors/barometer failed: no answer on the bus; restart in 20ms",
        "/user/sensors/barometer failed: no answer on the bus; restart in 40ms",
        "press 2: the mean of the readings is 21",
        "/user/sensors/barometer failed: no answer on the bus; restart in 80ms",
        "supervisor /user/sensors gave up after 4 restarts in 60s; 2 children stopped",
        "did not report within 200ms: the hardware watchdog is not fed and resets the chip",
        "reset; ",
    ];
    let mut lines = text.lines();
    for part in expected {
        assert!(lines.any(|line| line.contains(part)), "no {part:?} after the lines before it:\n{text}");
    }
    assert_eq!(lines.next(), None, "{text}");
    assert!(output.status.success());
}
