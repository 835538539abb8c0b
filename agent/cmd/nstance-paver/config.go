package main

import (
	"errors"
	"flag"

	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/socket"
)

// version is set by the linker.
var version = "dev"

// config is where everything of a host is, from flags.
type config struct {
	dir, machines, run, socket, group, lock, policy, mode, storage string
	debug                                                          bool
}

func (c *config) add(flags *flag.FlagSet) {
	flags.StringVar(&c.dir, "dir", "/var/lib/nstance-paver", "directory of the journal, the cache and directories that survive a repave")
	flags.StringVar(&c.machines, "machines", "/var/lib/machines", "directory of the node machines' root file systems")
	flags.StringVar(&c.run, "run", "/run/nstance", "directory of the credential; its file system must be in memory")
	flags.StringVar(&c.socket, "socket", socket.Path, "socket that the agent connects to")
	flags.StringVar(&c.lock, "lock", "/run/lock/nstance-paver.lock", "file that is locked while a process works on this host")
	flags.StringVar(&c.policy, "policy", policy.Path, "what may be done on this host")
	flags.StringVar(&c.mode, "mode", "auto", "how machines are run: service (by systemd), direct (without), auto")
	flags.StringVar(&c.storage, "storage-url", "", "address below which this host reads the objects of its servers' storage, for archives with a storageKey; empty: none can be used")
	flags.BoolVar(&c.debug, "debug", false, "log debug messages")
}

// errUsage is matched by errors about flags and files.
var errUsage = errors.New("usage")
