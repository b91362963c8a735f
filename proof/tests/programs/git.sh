#!/usr/bin/env bash
#: about git: clone, commit, gc, fsck
#: needs git=git
#: version git --version
. "$COMMON"

export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
git() { command git -c user.name=a -c user.email=a@b -c safe.directory='*' "$@"; }
mkdir repo
git -C repo init -q
for round in $(seq 5); do
    mkdir "repo/round $round"
    tree "repo/round $round"
    git -C repo add -A
    git -C repo commit -qm "round $round"
done
for number in $(seq "$SCALE"); do
    clone="$MNT/clone $number"
    git clone -q --no-hardlinks "file://$HOST/repo" "$clone"
    git -C "$clone" fsck --full --strict --no-progress
    [ -z "$(git -C "$clone" status --porcelain)" ]
    git clone -q "$clone" "$clone linked"
    git -C "$clone linked" checkout -qb other HEAD~2
    mv "$clone linked/round 1" "$clone linked/moved"
    git -C "$clone linked" add -A
    git -C "$clone linked" commit -qm moved
    git -C "$clone linked" gc -q --prune=now
    git -C "$clone linked" fsck --full --strict --no-progress
    git -C "$clone linked" worktree add -q "$clone tree" HEAD
    [ -z "$(git -C "$clone tree" status --porcelain)" ]
done
echo "$((SCALE * 2)) clones, $(find "$MNT" | wc -l) files"
