//! Modelled nanoseconds, by the virtual clock.

use super::{Device, ModelStore, Pace, Request, VirtualPace};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TURN: u64 = 8_333_333;

fn read(offset: u64, len: u64) -> Request {
    Request::Read { offset, len }
}

fn write(offset: u64, len: u64) -> Request {
    Request::Write { offset, len }
}

/// One request after the other; what each of them takes.
fn one_by_one(device: &mut Device, begin: u64, requests: &[Request]) -> Vec<u64> {
    let mut now = begin;
    let took = |request: &Request| {
        let done = device.serve(now, *request);
        let took = done - now;
        now = done;
        took
    };
    requests.iter().map(took).collect()
}

#[test]
fn ssd_requests_take_what_the_data_sheet_says() {
    let mut ssd = Device::ssd();
    let took = one_by_one(&mut ssd, 0, &[write(0, 4096), write(GIB, 4096), read(0, 4096), write(0, MIB)]);
    // 36,000 writes and 10,000 reads of 4 KiB a second, one at a time.
    assert_eq!(took, [27_876, 27_876, 97_447, 2_036_492]);
}

#[test]
fn ssd_flushes_cost_when_something_was_written() {
    let mut ssd = Device::ssd();
    let took = one_by_one(&mut ssd, 0, &[Request::Flush, write(0, 4096), Request::Flush, Request::Flush]);
    assert_eq!(took, [30_000, 27_876, 1_000_000, 30_000]);
    // What is not yet programmed is waited for: as long again as the transfer took, less what was acknowledged
    // meanwhile.
    let took = one_by_one(&mut ssd, GIB, &[write(0, 16 * MIB), Request::Flush]);
    let bytes = 16 * MIB * 1000 / 520;
    assert_eq!(took, [3_000 + bytes + 17_000, bytes - 17_000 + 1_000_000]);
}

#[test]
fn ssd_requests_overlap_but_for_the_link_and_flushes() {
    let mut ssd = Device::ssd();
    let done: Vec<u64> = (0..4).map(|n| ssd.serve(0, read(n * MIB, 4096))).collect();
    assert_eq!(done, [97_447, 107_894, 118_341, 128_788]);
    assert_eq!(ssd.serve(0, Request::Flush), 128_788 + 30_000, "a flush waits for all before it");
    assert_eq!(ssd.serve(0, read(0, 4096)), 158_788 + 97_447, "and all after it wait for the flush");
}

#[test]
fn hdd_writes_are_absorbed_and_flushes_pay() {
    let mut hdd = Device::hdd(GIB);
    let took = one_by_one(&mut hdd, 0, &[Request::Flush, write(GIB / 3, 4096)]);
    assert_eq!(took, [50_000, 57_447]);
    let flush = one_by_one(&mut hdd, 107_447, &[Request::Flush])[0];
    let seek = 8_500_000;
    assert!((seek..seek + TURN + 100_000).contains(&flush), "a seek over a third and up to one turn: {flush}");
    let again = one_by_one(&mut hdd, GIB, &[write(GIB / 3 + 4096, 4096), Request::Flush])[1];
    assert!(again < TURN + 100_000, "what comes next on the track waits for the platter only: {again}");
}

#[test]
fn hdd_sweeps_once_over_what_lies_together() {
    let mut hdd = Device::hdd(GIB);
    // Three hundred blocks, every other one of a track and a half, in falling order.
    let scattered: Vec<Request> = (0..300).rev().map(|n| write(8192 * n, 4096)).collect();
    let absorbed: u64 = one_by_one(&mut hdd, 0, &scattered).iter().sum();
    let flush = one_by_one(&mut hdd, absorbed, &[Request::Flush])[0];
    assert!(flush < 4 * TURN, "{flush}");
    assert_eq!((hdd.way(), Device::ssd().way()), (Some(299 * 4096), None), "over what lies between them");
    let mut hdd = Device::hdd(GIB);
    let far: Vec<Request> = (0..300).map(|n| write(n * 3 * MIB, 4096)).collect();
    let absorbed: u64 = one_by_one(&mut hdd, 0, &far).iter().sum();
    let flush = one_by_one(&mut hdd, absorbed, &[Request::Flush])[0];
    assert!(flush > 300 * 1_500_000, "each its own track: {flush}");
}

#[test]
fn hdd_streams_at_the_speed_of_the_platter() {
    let mut hdd = Device::hdd(GIB);
    let parts: Vec<Request> = (0..64).map(|n| read(n * MIB, MIB)).collect();
    let took: u64 = one_by_one(&mut hdd, 0, &parts).iter().sum();
    let platter = 64 * MIB * TURN / 1_638_400;
    assert!((platter..platter + TURN + 64 * 60_000).contains(&took), "{took}");
    let random: Vec<Request> = (0..64).map(|n| read(n * 7919 * 4096 % GIB, 4096)).collect();
    let took: u64 = one_by_one(&mut hdd, 0, &random).iter().sum();
    assert!(took > 64 * 5_000_000, "{took}");
}

#[test]
fn hdd_cache_is_written_back_when_full_and_read_from() {
    let mut hdd = Device::hdd(GIB);
    let fill: Vec<Request> = (0..64).map(|n| write(n * MIB, MIB)).collect();
    let took = one_by_one(&mut hdd, 0, &fill);
    assert!(took.iter().all(|&t| t == 50_000 + MIB * 1000 / 550), "{took:?}");
    let now: u64 = took.iter().sum();
    let took = one_by_one(&mut hdd, now, &[read(5 * MIB + 8192, 4096), write(0, MIB), write(GIB / 2, 4096)]);
    assert_eq!(took[0], 57_447, "out of the cache");
    let same = one_by_one(&mut Device::hdd(GIB), 0, &[write(0, MIB)])[0];
    assert!(took[1] > same && took[2] > 0, "64 MiB and one more: {took:?}");
    assert!(took[1] > 64 * MIB * TURN / 1_638_400 / 2, "the whole cache goes: {took:?}");
}

#[test]
fn a_store_waits_once_it_is_slow() {
    let pace = Arc::new(VirtualPace::default());
    let store = ModelStore::new(RamStore::new(1 << 20), Device::ssd(), pace.clone());
    store.write(0, &[7; 4096]).unwrap();
    store.flush().unwrap();
    assert_eq!(pace.now(), 0);
    store.set_slow(true);
    store.write(4096, &[8; 4096]).unwrap();
    store.flush().unwrap();
    let mut back = [0; 8192];
    store.read(0, &mut back).unwrap();
    assert_eq!((back[4095], back[4096]), (7, 8));
    assert_eq!(pace.now(), 27_876 + 1_000_000 + 3_000 + 14_894 + 87_000);
    assert_eq!((store.stats().writes, store.stats().flushes, store.inner().stats().reads), (2, 2, 1));
    store.set_slow(false);
    store.flush().unwrap();
    assert_eq!(pace.now(), 1_132_770);
}
