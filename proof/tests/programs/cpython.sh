#!/usr/bin/env bash
#: about CPython's own tests of os, shutil, mmap, sqlite3 and others, as root and as nobody, working on the mount
#: needs python3=python3 runuser=util-linux
#: version python3 --version
#: seconds 900
#: root
#: compared
. "$COMMON"

python3 -c 'import test.test_os, test.test_sqlite3' 2>/dev/null || skip 'tests are missing: apt install libpython3.11-testsuite'
# test_largefile writes 2.5 GB unless it is not asked for.
tests='test_os test_shutil test_mmap test_sqlite3 test_posix test_pathlib test_tempfile test_glob test_zipfile test_fileio
    test_largefile test_dbm_dumb test_mailbox test_file test_io test_stat test_ftruncate test_import test_fcntl test_posixpath
    test_genericpath test_filecmp test_tarfile test_gzip test_lzma test_shelve test_pickle test_zipapp test_zipimport'
present=()
for test in $tests; do
    python3 -c "import test.$test" 2>/dev/null && present+=("$test")
done
cat >cases.py <<'PY'
import sys, xml.etree.ElementTree as tree
for case in tree.parse(sys.argv[1]).iter('testcase'):
    name = case.get('name')
    bad = any(case.find(kind) is not None for kind in ('failure', 'error'))
    skipped = case.get('result') == 'skipped' or case.find('skipped') is not None
    print(sys.argv[2] + ':' + name.replace(' ', '_'), 'FAILED' if bad else 'skipped' if skipped else 'ok')
PY
: >"$LIST"
for user in root nobody; do
    mkdir "$MNT/$user"
    chown $user "$MNT/$user"
    (cd "$MNT/$user" && TMPDIR="$MNT/$user" HOME="$MNT/$user" runuser -u $user -- \
        python3 -m test --tempdir "$MNT/$user" --junit-xml "$MNT/$user/cases.xml" --timeout 300 "${present[@]}" 2>&1) || true
    python3 cases.py "$MNT/$user/cases.xml" $user | sort >>"$LIST"
done
echo "$(wc -l <"$LIST") cases: $(cut -d' ' -f2 "$LIST" | sort | uniq -c | paste -sd' ' | tr -s ' ')"
