// Package dev is the command that brings a whole cluster up on this box: storage,
// keys, configuration, a server, and machines that are processes.
//
// The directory holds everything, so a second start resumes where the first one
// stopped: the same cluster, the same instances, stopped machines started again.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"nstance.dev/providers/local"
	"nstance.dev/server/driver"
	"nstance.dev/server/serve"
)

// options are the command's flags.
type options struct {
	dir    string
	size   int
	group  string
	demand string
	keep   bool
	plain  bool
	// console is whether the web console is served beside the shard.
	console bool
}

// NewCommand makes the command for a build of the local provider.
func NewCommand(p serve.Provider, version string) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a cluster on this box until interrupted",
		Long: `Run a cluster on this box until interrupted. The directory keeps everything:
the next start with it goes on with the same cluster and the same instances.

The command makes what is missing: keys, configuration, storage, an operator's
identity, and DIR/admin.json, the context for nstance-admin. It takes free ports
where the usual ones are taken. Once a machine runs it prints the address of the
web console, which works once; with each browser that logs in it prints another.`,
		Example: `  nstance-server-local dev --dir .dev --size 3
  NSTANCE_ADMIN_CONTEXT=.dev/admin.json nstance-admin instance list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), p, version, o, cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.dir, "dir", ".dev", "directory of the cluster")
	fl.IntVar(&o.size, "size", 3, "machines of the group; counts only while the directory is new")
	fl.StringVar(&o.group, "group", "web", "name of the group; counts only while the directory is new")
	fl.StringVar(&o.demand, "demand", "", `make a group of mode demand instead of one with a size: its block "demand" as JSON, such as '`+demandExample+`'; counts only while the directory is new`)
	fl.BoolVar(&o.keep, "keep", false, "leave the machines running when the server stops")
	fl.BoolVar(&o.console, "console", true, "serve the web console too, as soon as nstance-admin is beside this program")
	fl.BoolVar(&o.plain, "plain", false, "print a line for each change instead of a table")
	return cmd
}

// run brings the cluster up, shows it until ctx ends, and stops it in order.
func run(ctx context.Context, p serve.Provider, version string, o options, out io.Writer) (err error) {
	// The terminal that goes away takes the cluster with it.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	box := Box{Dir: dir}
	unlock, err := box.Prepare(ctx, ConfigOptions{Group: o.group, Size: o.size, Demand: o.demand, Userdata: local.DefaultUserData})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	s := newScreen(out, o)
	log, closeLog, err := openLog(filepath.Join(dir, "server.log"), s.alarm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()

	if err := box.Hide(); err != nil {
		return err
	}
	machines := &machines{provider: p, keep: o.keep}
	err = serve.Run(ctx, serve.Options{
		Flags: box.Flags(), Provider: machines.resumed(), Version: version, Log: log,
		OnServing: func(ctx context.Context, serving *serve.Serving) { show(ctx, box, s, serving, o.console, log) },
	})
	return errors.Join(err, box.Hide(), machines.stop(log), s.bye(o.keep))
}

// show publishes the cluster for the CLI and displays it until ctx ends.
func show(ctx context.Context, box Box, s *screen, serving *serve.Serving, withConsole bool, log *slog.Logger) {
	path, err := box.Publish(ctx, serving, s.now())
	if err != nil {
		log.ErrorContext(ctx, "context for nstance-admin not written", "error", err)
		return
	}
	var beside sync.WaitGroup
	if withConsole {
		c, err := newConsole(path, s.note, log)
		if err != nil {
			log.ErrorContext(ctx, "web console not started", "error", err)
		} else {
			beside.Go(func() { c.run(ctx, serving) })
		}
	}
	s.run(ctx, serving, path)
	beside.Wait()
}

// machines starts what was stopped before the server judges it, and stops it
// again after the server.
type machines struct {
	provider serve.Provider
	keep     bool

	drv   driver.Driver
	owner driver.Owner
}

// resumed is the provider whose driver starts with its machines running.
func (m *machines) resumed() serve.Provider {
	p := m.provider
	p.New = func(ctx context.Context, s serve.Settings) (driver.Driver, error) {
		drv, err := m.provider.New(ctx, s)
		if err != nil {
			return nil, err
		}
		m.drv, m.owner = drv, s.Owner
		if r, ok := drv.(driver.Resumer); ok {
			n, err := r.Resume(ctx, s.Owner)
			if err != nil {
				return nil, fmt.Errorf("start the stopped machines: %w", err)
			}
			s.Log.InfoContext(ctx, "machines started again", "count", n)
		}
		return drv, nil
	}
	return p
}

// haltTimeout bounds the stop of the machines.
const haltTimeout = 30 * time.Second

func (m *machines) stop(log *slog.Logger) error {
	r, ok := m.drv.(driver.Resumer)
	if !ok || m.keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), haltTimeout)
	defer cancel()
	log.InfoContext(ctx, "stopping the machines")
	if err := r.Halt(ctx, m.owner); err != nil {
		return fmt.Errorf("stop the machines: %w", err)
	}
	return nil
}

// openLog opens the server's log, which a table on the terminal must not share;
// errors are told as well.
func openLog(path string, tell func(string)) (*slog.Logger, func() error, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	return slog.New(alarms{serve.NewLogger(f, false).Handler(), tell}), f.Close, nil
}

// newScreen draws a table on a terminal, unless told otherwise.
func newScreen(out io.Writer, o options) *screen {
	s := &screen{out: out, dir: o.dir, now: time.Now}
	if o.demand == "" {
		s.scaling = fmt.Sprintf("  bin/nstance-admin group scale %s 5 --wait --timeout 60s\n", o.group)
	}
	if f, ok := out.(*os.File); ok && !o.plain && term.IsTerminal(int(f.Fd())) {
		s.live = true
		s.size = func() (int, int) {
			columns, rows, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 80, 24
			}
			return columns, rows
		}
	}
	return s
}
