// Package config is what the operator is told: by flags and environment variables when it
// starts ([Settings]), and by a file and ConfigMaps, which it follows while it runs
// ([Config]): the cluster and tenant that it works for, the shards and where they are, and
// what it imports.
//
// One table has all flags (flags_table.go), and the help and the page of the documentation
// come from that table. [ParseFlags] is pure and reports everything that is wrong at once.
//
// [Parse] makes a [Config] of a YAML file and, where there is one, of a ConfigMap that
// lists the shards instead. It is strict, because a misspelt key that is overlooked
// shows only when something is missing: it refuses what it does not know, and reports
// everything that is wrong at once. [Diff] says what a new configuration changes, and
// which of that a running process cannot follow. Both are pure.
//
// [Follow] is the loop around them. It reads the file again and again rather than
// waiting for the kernel to report a change: a mounted ConfigMap is replaced by swapping
// links, which not every file system reports, and the file is small.
//
// What a change means for connections, pools and identity is decided elsewhere.
package config
