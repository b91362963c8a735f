#!/usr/bin/env bash
#: about cargo: a workspace of crates is built, tested, changed and built again
#: needs cargo=cargo rustc=rustc
#: version cargo --version
. "$COMMON"

unset CARGO_TARGET_DIR RUSTFLAGS
export CARGO_INCREMENTAL=1 CARGO_TERM_COLOR=never
mkdir "$MNT/ws"
cd "$MNT/ws"
crates=$((6 * SCALE))
printf '[workspace]\nresolver = "2"\nmembers = ["c*"]\n' >Cargo.toml
for i in $(seq 0 $crates); do
    mkdir -p "c$i/src"
    printf '[package]\nname = "c%s"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n' "$i" >"c$i/Cargo.toml"
    if [ "$i" = 0 ]; then
        echo 'pub fn f() -> u32 { 1 }' >"c$i/src/lib.rs"
    else
        echo "c$((i - 1)) = { path = \"../c$((i - 1))\" }" >>"c$i/Cargo.toml"
        printf 'pub fn f() -> u32 { c%s::f() + 1 }\n#[test]\nfn sum() { assert_eq!(f(), %s); }\n' $((i - 1)) $((i + 1)) >"c$i/src/lib.rs"
    fi
done
cargo build -q --offline
cargo test -q --offline
sed -i 's/{ 1 }/{ 0 + 1 }/' c0/src/lib.rs
cargo test -q --offline
cargo build -q --offline --release
echo "$((crates + 1)) crates, three builds"
