package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/socket"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// order is what apply is asked for.
type order struct {
	file, credential string
	timeout          time.Duration
	dryRun           bool
	output           string
}

func applyFlags(flags *flag.FlagSet) func(context.Context, config, io.Writer, *slog.Logger) error {
	var o order
	flags.StringVar(&o.file, "f", "", "file with a MachineAssignment in JSON; - reads standard input")
	flags.StringVar(&o.credential, "credential", "", "file with a MachineCredential in JSON, which root alone may read")
	flags.DurationVar(&o.timeout, "timeout", time.Hour, "how long to wait for the end")
	flags.BoolVar(&o.dryRun, "dry-run", false, "say which files would be written, and change nothing")
	flags.StringVar(&o.output, "o", "text", "text or json")
	return func(ctx context.Context, c config, out io.Writer, log *slog.Logger) error {
		return c.apply(ctx, o, out, log)
	}
}

// apply gives an assignment to the paver that runs on this host, or works on it itself, and does
// what a server does besides: it confirms the Node. Without a server the proof is weaker: the
// kubelet runs and has its client certificate.
func (c config) apply(ctx context.Context, o order, out io.Writer, log *slog.Logger) error {
	m, credential, err := o.read()
	if err != nil {
		return err
	}
	if o.dryRun {
		return dryRun(m, out)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return c.with(ctx, log, func(ctx context.Context, p peer) error {
		if err := p.Take(ctx, &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Assignment{Assignment: m}}); err != nil {
			return err
		}
		if credential != nil {
			if err := p.Take(ctx, &nstancev1.MachineWork{Work: &nstancev1.MachineWork_CredentialUpdate{CredentialUpdate: credential}}); err != nil {
				return err
			}
		}
		status, err := c.follow(ctx, p, m.GetEpoch(), credential != nil, out)
		if err != nil {
			return err
		}
		if err := show(out, status, o.output); err != nil {
			return err
		}
		if f := status.GetFailure(); f.GetEpoch() == m.GetEpoch() {
			return fmt.Errorf("assignment of epoch %d: %s: %s", f.GetEpoch(), f.GetReason(), f.GetMessage())
		}
		return nil
	})
}

func (o order) read() (m *nstancev1.MachineAssignment, c *nstancev1.MachineCredential, err error) {
	if o.file == "" {
		return nil, nil, fmt.Errorf("%w: -f: a file with an assignment is required", errUsage)
	}
	text, err := readFile(o.file)
	if err != nil {
		return nil, nil, err
	}
	a, err := assignment.Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", errUsage, o.file, err)
	}
	if m, err = a.Message(); err != nil {
		return nil, nil, err
	}
	if o.credential == "" {
		return m, nil, nil
	}
	if text, err = readFile(o.credential); err != nil {
		return nil, nil, err
	}
	c = &nstancev1.MachineCredential{}
	if protojson.Unmarshal(text, c) != nil { // the error quotes the file
		return nil, nil, fmt.Errorf("%w: %s: it is not a MachineCredential in JSON", errUsage, o.credential)
	}
	if c.GetEpoch() == 0 {
		c.Epoch = m.GetEpoch()
	}
	c.Sequence = max(c.GetSequence(), 1)
	return m, c, nil
}

func readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(os.Stdin, 4<<20))
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	return text, nil
}

// dryRun prints what would be written.
func dryRun(m *nstancev1.MachineAssignment, out io.Writer) error {
	plan, err := render.Render(m, render.Host{Machine: "node-a"}, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	for _, f := range plan.Files {
		fmt.Fprintln(out, f)
	}
	for _, s := range plan.Sysctls {
		fmt.Fprintf(out, "sysctl %s = %s\n", s.Name, s.Value)
	}
	for _, module := range plan.Modules {
		fmt.Fprintf(out, "module %s\n", module)
	}
	return nil
}

// peer is a paver: that of another process, or this one's.
type peer interface {
	Take(ctx context.Context, w *nstancev1.MachineWork) error
	Next(ctx context.Context) (*nstancev1.MachineStatus, error)
}

// with has work done by the paver that runs on this host; where none does, by one of its own.
func (c config) with(ctx context.Context, log *slog.Logger, work func(context.Context, peer) error) error {
	unlock, err := c.takeLock()
	if errors.Is(err, errLocked) {
		client, err := socket.Dial(ctx, c.socket, version)
		if err != nil {
			return err
		}
		defer client.Close() //nolint:errcheck // nothing waits on it
		return work(ctx, client)
	}
	if err != nil {
		return err
	}
	defer unlock()
	l, err := c.open(ctx, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.paver.Run(ctx) })
	g.Go(func() error {
		defer cancel() // the machines go on without this process
		return work(ctx, &own{local: l})
	})
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// own is the paver of this process.
type own struct {
	*local
	last    *nstancev1.MachineStatus
	changed <-chan struct{}
}

func (o *own) Take(ctx context.Context, w *nstancev1.MachineWork) error { return o.paver.Take(ctx, w) }

func (o *own) Next(ctx context.Context) (*nstancev1.MachineStatus, error) {
	for {
		if o.changed != nil {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-o.changed:
			}
		}
		if o.last, o.changed = o.paver.Status(); o.last != nil {
			return o.last, nil
		}
	}
}

// certificate is what a kubelet has once its machine has joined.
const certificate = "var/lib/kubelet/pki/kubelet-client-current.pem"

// follow prints each stage that is new until the assignment has come to an end, one way or the
// other, and confirms the Node when its kubelet has joined.
func (c config) follow(ctx context.Context, p peer, epoch int64, joins bool, out io.Writer) (*nstancev1.MachineStatus, error) {
	last := ""
	for {
		s, err := p.Next(ctx)
		if err != nil {
			return nil, fmt.Errorf("wait for the end of epoch %d: %w", epoch, err)
		}
		if line := progress(s); line != last {
			last = line
			fmt.Fprintln(out, line)
		}
		for _, problem := range s.GetProblems() {
			if r := problem.GetReason(); r == "EpochConflict" || r == "AssignmentInvalid" || r == "JournalCorrupt" {
				return nil, fmt.Errorf("%s: %s", r, problem.GetMessage())
			}
		}
		switch {
		case s.GetEpoch() < epoch:
			continue
		case s.GetEpoch() > epoch:
			return nil, fmt.Errorf("epoch %d was replaced by epoch %d", epoch, s.GetEpoch())
		case ended(s):
			return s, nil
		case s.GetCredentialNeeded() && !joins:
			return nil, fmt.Errorf("%w: -credential: the machine needs one to join with", errUsage)
		case s.GetStage() == nstancev1.MachineStage_MACHINE_STAGE_JOIN && s.GetKubeletActive():
			if err := c.confirm(ctx, p, s); err != nil {
				return nil, err
			}
		}
	}
}

func ended(s *nstancev1.MachineStatus) bool {
	switch s.GetStage() {
	case nstancev1.MachineStage_MACHINE_STAGE_RUNNING, nstancev1.MachineStage_MACHINE_STAGE_FAILED, nstancev1.MachineStage_MACHINE_STAGE_RESET:
		return true
	}
	return false
}

// confirm says that a machine has joined whose kubelet runs and has its client certificate.
func (c config) confirm(ctx context.Context, p peer, s *nstancev1.MachineStatus) error {
	for _, slot := range s.GetSlots() {
		if slot.GetBootId() == "" {
			continue
		}
		if _, err := os.Lstat(filepath.Join(c.machines, "node-"+slot.GetName(), certificate)); err != nil {
			continue
		}
		confirmed := &nstancev1.NodeConfirmed{Epoch: s.GetEpoch(), BootId: slot.GetBootId()}
		if err := p.Take(ctx, &nstancev1.MachineWork{Work: &nstancev1.MachineWork_NodeConfirmed{NodeConfirmed: confirmed}}); err != nil {
			return err
		}
	}
	return nil
}
