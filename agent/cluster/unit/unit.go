package unit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"nstance.dev/agent/cluster"
	"nstance.dev/protos/binding"
)

// Options say where things are. Zero fields take the defaults.
type Options struct {
	Requests string // the agent's directory with requests; /opt/nstance-agent/cluster
	State    string // the program's own directory; /var/lib/nstance-cluster
	Leave    string // executables that make the machine leave its cluster; /etc/nstance/leave.d

	CloudInit string // the program; cloud-init
	Runcmd    string // where it writes the commands of a cloud-config; /var/lib/cloud/instance/scripts/runcmd

	Env []string // of what is run, beside what it is told of the binding

	JoinTimeout  time.Duration    // of a blob; 30 minutes
	LeaveTimeout time.Duration    // of all executables together; 110 seconds, for a server waits for two minutes
	Grace        time.Duration    // for what is to end, and for what keeps output open behind it; 5 seconds
	Poll         time.Duration    // between two looks of Watch; 100 milliseconds
	Now          func() time.Time // the clock; time.Now
}

func (o Options) withDefaults() Options {
	for _, f := range []struct {
		field     *string
		otherwise string
	}{
		{&o.Requests, "/opt/nstance-agent/cluster"}, {&o.State, "/var/lib/nstance-cluster"}, {&o.Leave, "/etc/nstance/leave.d"},
		{&o.CloudInit, "cloud-init"}, {&o.Runcmd, "/var/lib/cloud/instance/scripts/runcmd"},
	} {
		if *f.field == "" {
			*f.field = f.otherwise
		}
	}
	for _, f := range []struct {
		field     *time.Duration
		otherwise time.Duration
	}{
		{&o.JoinTimeout, 30 * time.Minute}, {&o.LeaveTimeout, 110 * time.Second}, {&o.Grace, 5 * time.Second}, {&o.Poll, 100 * time.Millisecond},
	} {
		if *f.field == 0 {
			*f.field = f.otherwise
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Unit does what requests ask for. It is used by one goroutine at a time; two processes with one
// state wait for each other.
type Unit struct {
	opts Options
	log  *slog.Logger
}

// New returns a unit, which does nothing yet.
func New(o Options, log *slog.Logger) *Unit { return &Unit{o.withDefaults(), log} }

// Once deals with the requests that there are, and returns when none is left. What ran when the
// program or the machine was stopped has failed. Afterwards the status exists, by which the agent
// knows that the machine can join clusters.
//
// The error is something that keeps requests from being dealt with; what fails of what a request
// asks for is in the status. When ctx ends, what runs is ended and has failed.
func (u *Unit) Once(ctx context.Context) error {
	s, err := openStore(u.opts.State, groupOf(u.opts.Requests))
	if err != nil {
		return err
	}
	defer s.close()
	if err := u.recover(s); err != nil {
		return err
	}
	b, err := openInbox(u.opts.Requests)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer b.close()
	return u.work(ctx, s, b)
}

// Watch is Once, again and again until ctx ends: for machines without systemd.
func (u *Unit) Watch(ctx context.Context) error {
	ticker := time.NewTicker(u.opts.Poll)
	defer ticker.Stop()
	for work := true; ; work = u.waiting() {
		if work {
			if err := u.Once(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// waiting reports whether there is something to look at.
func (u *Unit) waiting() bool {
	b, err := openInbox(u.opts.Requests)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer b.close()
	names, err := b.names()
	return err != nil || len(names) > 0
}

// groupOf is the group that may read the status: that of the agent's directory, or of the one
// above before the agent has made its own. -1: the program's.
func groupOf(requests string) int {
	for _, path := range []string{requests, filepath.Dir(requests)} {
		if gid, ok := owningGroup(path); ok {
			return gid
		}
	}
	return -1
}

// recover finishes what a restart has cut off, and sees to it that there is a status.
func (u *Unit) recover(s *store) error {
	status, err := s.status()
	if err != nil {
		return err
	}
	if err := s.removePrivate(); err != nil {
		return err
	}
	if _, err := os.Stat(s.path(statusFile)); err == nil && status.Current.State != binding.Running {
		return nil
	}
	if status.Current.State == binding.Running {
		u.log.Warn("binding interrupted", "binding", status.Current.Binding, "action", status.Current.Action)
	}
	return s.keep(status.Interrupted())
}

// work deals with requests until none is left that was not looked at.
func (u *Unit) work(ctx context.Context, s *store, b *inbox) error {
	seen := map[string]bool{}
	for ctx.Err() == nil {
		names, err := b.names()
		if err != nil {
			return err
		}
		before := len(seen)
		for _, name := range names {
			if seen[name] || ctx.Err() != nil {
				continue
			}
			seen[name] = true
			if err := u.take(ctx, s, b, name); err != nil {
				return err
			}
		}
		if len(seen) == before {
			return nil
		}
	}
	return nil
}

// take deals with one request. The status says that it has begun before the request goes away,
// and the request goes away before anything is run.
func (u *Unit) take(ctx context.Context, s *store, b *inbox, name string) error {
	r, err := b.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the agent has taken it back
	}
	if err != nil {
		u.log.WarnContext(ctx, "request is refused", "error", err)
		if err := b.remove(name); err != nil { // those of others go on
			u.log.WarnContext(ctx, "refused request remains", "error", err)
		}
		return nil
	}
	status, err := s.status()
	if err != nil {
		return err
	}
	step, why := status.Next(r)
	log := u.log.With("binding", r.Binding, "action", r.Action)
	switch step {
	case cluster.Run:
		return u.run(ctx, s, b, name, r, status, log)
	case cluster.Nothing:
		log.InfoContext(ctx, "binding never began")
		err = s.keep(status.WithPast(r.Binding))
	case cluster.Refuse:
		log.WarnContext(ctx, "request is refused", "error", why)
		status.Refused = cluster.Failure(r.Binding, r.Action, why)
		err = s.keep(status)
	case cluster.Known:
	}
	if err != nil {
		return err
	}
	return b.remove(name)
}

// run does what a request asks for.
func (u *Unit) run(ctx context.Context, s *store, b *inbox, name string, r cluster.Request, status cluster.Status, log *slog.Logger) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the request waits for the next start
	}
	if r.Action == binding.Joining {
		if err := errors.Join(s.keepBlob(r.Blob), s.keepNode(r.Node)); err != nil {
			return err
		}
	}
	entry := cluster.Entry{Binding: r.Binding, Action: r.Action, State: binding.Running}
	status = status.With(entry)
	if err := s.keep(status); err != nil {
		return err
	}
	if err := b.remove(name); err != nil {
		return err
	}
	log.InfoContext(ctx, "binding begins")
	began := u.opts.Now()
	output := &tail{}
	end := u.execute(ctx, output, s, r)
	if r.Action == binding.Leaving && end == succeeded {
		if err := s.removeNode(); err != nil {
			end = outcome{binding.NoExit, err.Error()}
		}
	}
	if err := s.removePrivate(); err != nil {
		end = outcome{binding.NoExit, err.Error()}
	}
	entry.State, entry.ExitCode, entry.Output, entry.Error = binding.Done, end.exit, output.last(), end.err[:min(len(end.err), binding.MaxError)]
	if end != succeeded {
		entry.State = binding.Failed
	}
	log.InfoContext(ctx, "binding ended", "state", entry.State, "exit_code", end.exit, "error", end.err, "took", u.opts.Now().Sub(began).String())
	return s.keep(status.With(entry))
}

var errTimeout = errors.New("ended because it took longer than allowed")

// execute runs what a request asks for, for as long as it may take.
func (u *Unit) execute(ctx context.Context, output *tail, s *store, r cluster.Request) outcome {
	env := environment(u.opts.Env, r)
	if r.Action == binding.Leaving {
		ctx, cancel := context.WithTimeoutCause(ctx, u.opts.LeaveTimeout, fmt.Errorf("%w: %v", errTimeout, u.opts.LeaveTimeout))
		defer cancel()
		return u.runLeave(ctx, output, env)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, u.opts.JoinTimeout, fmt.Errorf("%w: %v", errTimeout, u.opts.JoinTimeout))
	defer cancel()
	kind, err := binding.KindOf(r.Blob)
	switch {
	case err != nil:
		return outcome{binding.NoExit, err.Error()}
	case kind == binding.CloudConfig:
		return u.runCloudConfig(ctx, output, env, s.blob(), r.Blob)
	}
	return u.command(ctx, output, env, s.blob())
}
