package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"nstance.dev/server/cache"
	"nstance.dev/server/calls"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/lease/handback"
)

// Bounds of the command release: what the kernel may still have to send, and the calls of
// the store. A standby does not wait for longer than a lease in any case.
const (
	unsentLimit  = 500 * time.Millisecond
	releaseLimit = 4 * time.Second
)

// newReleaseCommand makes the command that a service manager runs after the server's end.
func newReleaseCommand(p Provider) *cobra.Command {
	var f Flags
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Give back the leases of a server that has ended",
		Long: `Give back the leases of a server process that was killed or has crashed, so that a
standby leads at once. It takes the flags of that server; systemd runs it as
ExecStopPost.

A lease is given back only while it is in a version that the process with this
--cachedir has written. Nothing is given back while a process has the folder,
or while a closed connection of this machine has data to send after half a second:
the lease then runs out by itself.`,
		Example: fmt.Sprintf("  nstance-server-%s release --id server-1 --shard zone-a --storage file --bucket /srv/nstance --cachedir /var/cache/nstance", p.Kind),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), releaseLimit)
			defer cancel()
			return f.release(ctx, cmd.OutOrStdout())
		},
	}
	f.add(cmd)
	return cmd
}

// release gives back what the process with these flags held, and says what it did.
func (f Flags) release(ctx context.Context, out io.Writer) (err error) {
	unlock, err := cache.LockDir(f.CacheDir)
	if err != nil {
		return fmt.Errorf("no lease is given back: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	notes := handback.In(f.CacheDir)
	held := map[string][]lease.Document{}
	locks := []string{layout.LeaderKey(f.Shard), layout.ClusterLeaderKey}
	for _, key := range locks {
		if held[key], err = notes.Of(key); err != nil {
			return fmt.Errorf("no lease is given back: %w", err)
		}
	}
	unsent := func() ([]handback.Connection, error) { return handback.Unsent(listening(held)) }
	if err := handback.Await(ctx, unsentLimit, unsent); err != nil {
		return fmt.Errorf("no lease is given back, it runs out by itself: %w", err)
	}
	store, err := f.openStore(ctx, &calls.Book{}, newStorageCalls())
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range locks {
		o, err := handback.Release(ctx, store, key, held[key], time.Now)
		switch {
		case err != nil:
			errs = append(errs, err)
		case o.Given:
			fmt.Fprintf(out, "lease %s given back, term %d: %s\n", key, o.Term, o.Why)
		default:
			fmt.Fprintf(out, "lease %s left alone: %s\n", key, o.Why)
		}
	}
	return errors.Join(errs...)
}

// listening are the ports at which the ended process was reached, as it told the others.
func listening(held map[string][]lease.Document) []uint16 {
	var ports []uint16
	for _, docs := range held {
		for _, doc := range docs[max(0, len(docs)-1):] {
			for _, addr := range []string{doc.LeaderAddr, doc.Addrs.Registration, doc.Addrs.Operator, doc.Addrs.Agent} {
				_, port, _ := net.SplitHostPort(addr)
				if n, err := strconv.ParseUint(port, 10, 16); err == nil {
					ports = append(ports, uint16(n))
				}
			}
		}
	}
	return ports
}
