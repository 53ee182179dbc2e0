use proptest::prelude::*;

use super::*;

const DAY: i64 = 24 * 60 * 60;

fn id() -> InstanceId {
    InstanceId::new("one").unwrap()
}

const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 17, 0, 2);

/// What can happen to an instance's traffic.
#[derive(Debug, Clone)]
enum Event {
    Traffic {
        download: u64,
        upload: u64,
    },
    /// The clock goes on, or is set, also back.
    Clock(i64),
    /// The instance is stopped and started; the kernel forgets its counters.
    Restart,
    /// The process ends and begins; the kernel goes on.
    Reload,
    /// The machine restarts: the kernel forgets its counters.
    Reboot,
    /// Somebody throws the rules away.
    Flush,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0u64..60, 0u64..60).prop_map(|(download, upload)| Event::Traffic { download, upload }),
        4 => prop::sample::select(vec![10, 3600, DAY, 31 * DAY, -10, -DAY, -400 * DAY]).prop_map(Event::Clock),
        1 => Just(Event::Restart),
        1 => Just(Event::Reload),
        1 => Just(Event::Reboot),
        1 => Just(Event::Flush),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let limit = || prop::option::of(prop::sample::select(vec![0u64, 50, 100, 300]));
    (limit(), limit(), limit(), limit()).prop_map(|(dd, du, md, mu)| Limits {
        daily_download: dd,
        daily_upload: du,
        monthly_download: md,
        monthly_upload: mu,
    })
}

/// The kernel's side: a counter that drops what it is told to drop.
#[derive(Default)]
struct Kernel {
    counted: Option<Amounts>,
    blocked: (bool, bool),
}

impl Kernel {
    fn put(&mut self, meter: &Meter) {
        self.blocked = (meter.download_blocked, meter.upload_blocked);
        self.counted.get_or_insert_default();
    }

    fn carry(&mut self, download: u64, upload: u64) -> Amounts {
        let carried = Amounts {
            download: if self.blocked.0 { 0 } else { download },
            upload: if self.blocked.1 { 0 } else { upload },
        };
        if let Some(counted) = &mut self.counted {
            counted.download += carried.download;
            counted.upload += carried.upload;
        }
        carried
    }

    fn counters(&self) -> Counters {
        let instances = self.counted.map(|amounts| (id(), amounts));
        Counters::new(Amounts::default(), instances)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Whatever happens: amounts are what was carried, limits hold as soon as they are seen, and no clock lifts them by
    /// going back.
    #[test]
    fn accounts_and_limits_hold_whatever_happens(
        limits in limits(),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut now = 1_767_225_600; // 2026-01-01
        let mut kernel = Kernel::default();
        let mut ledger = Ledger::default();
        kernel.put(&ledger.add(id(), ADDRESS, limits, false, Moment::new(now)));
        let mut carried = Amounts::default();
        let mut before = Usage::default();
        for event in events {
            let earlier = now;
            let mut lost = false;
            match event {
                Event::Traffic { download, upload } => {
                    let amounts = kernel.carry(download, upload);
                    carried.download += amounts.download;
                    carried.upload += amounts.upload;
                }
                Event::Clock(seconds) => now += seconds,
                Event::Restart => {
                    // The last reading is taken before the meter goes.
                    ledger.observe(&kernel.counters(), Moment::new(now));
                    ledger.remove(&id());
                    kernel = Kernel::default();
                    kernel.put(&ledger.add(id(), ADDRESS, limits, false, Moment::new(now)));
                }
                Event::Reload => {
                    let accounts = ledger.accounts().clone();
                    ledger = Ledger::new(accounts);
                    kernel.put(&ledger.add(id(), ADDRESS, limits, true, Moment::new(now)));
                }
                Event::Reboot => {
                    ledger.observe(&kernel.counters(), Moment::new(now));
                    let accounts = ledger.accounts().clone();
                    ledger = Ledger::new(accounts);
                    kernel = Kernel::default();
                    kernel.put(&ledger.add(id(), ADDRESS, limits, false, Moment::new(now)));
                }
                Event::Flush => {
                    ledger.observe(&kernel.counters(), Moment::new(now));
                    kernel = Kernel::default();
                    lost = true;
                }
            }
            let changed = ledger.observe(&kernel.counters(), Moment::new(now));
            prop_assert!(!lost || !changed.is_empty(), "a lost meter is made again");
            changed.iter().for_each(|meter| kernel.put(meter));

            let usage = ledger.instances()[&id()];
            prop_assert_eq!((usage.download, usage.upload), (carried.download, carried.upload));
            prop_assert!(usage.today.download <= usage.this_month.download || now < earlier);
            let passed = |used: u64, limit: Option<u64>| limit.is_some_and(|limit| used >= limit);
            let download = passed(usage.today.download, limits.daily_download)
                || passed(usage.this_month.download, limits.monthly_download);
            let upload = passed(usage.today.upload, limits.daily_upload)
                || passed(usage.this_month.upload, limits.monthly_upload);
            prop_assert_eq!(kernel.blocked, (download, upload), "the kernel does what the limits say");
            prop_assert_eq!((usage.download_blocked, usage.upload_blocked), (download, upload));
            if now <= earlier {
                prop_assert!(usage.today.download >= before.today.download, "a clock took something off");
                prop_assert!(usage.this_month.upload >= before.this_month.upload);
                prop_assert!(download || !before.download_blocked, "a clock that went back lifted a limit");
            }
            let (day, earlier_day) = (now.div_euclid(DAY), earlier.div_euclid(DAY));
            if day > earlier_day {
                prop_assert_eq!(usage.today, Amounts::default(), "a new day begins at nought");
            }
            before = usage;
        }
    }
}

#[test]
fn a_meter_that_was_not_installed_is_offered_again() {
    let limits = Limits {
        daily_download: Some(10),
        ..Limits::default()
    };
    let now = Moment::new(0);
    let mut ledger = Ledger::default();
    let counters = |bytes| {
        let amounts = Amounts {
            download: bytes,
            upload: 0,
        };
        Counters::new(Amounts::default(), [(id(), amounts)])
    };
    assert!(
        !ledger
            .add(id(), ADDRESS, limits, false, now)
            .download_blocked
    );
    let offered = ledger.observe(&counters(10), now);
    assert!(offered[0].download_blocked);
    ledger.not_installed(&offered[0]);
    assert_eq!(ledger.observe(&counters(10), now), offered);
    assert_eq!(ledger.observe(&counters(10), now), []);
}

#[test]
fn old_accounts_are_forgotten_and_others_are_not() {
    let mut ledger = Ledger::default();
    let other = InstanceId::new("other").unwrap();
    ledger.add(id(), ADDRESS, Limits::default(), false, Moment::new(0));
    ledger.add(other, ADDRESS, Limits::default(), false, Moment::new(0));
    ledger.observe(&Counters::default(), Moment::new(0));
    ledger.remove(&id());
    assert_eq!(ledger.forget_old(Moment::new(FORGOTTEN_AFTER_SECONDS)), []);
    // A month that could still be limited is not over.
    const { assert!(FORGOTTEN_AFTER_SECONDS >= 31 * DAY) };
    let old = ledger.forget_old(Moment::new(FORGOTTEN_AFTER_SECONDS + 1));
    assert_eq!(old, [Holder::Instance(id())]);
    assert_eq!(
        ledger.accounts().len(),
        2,
        "the node's, and that of the one that runs"
    );
}
