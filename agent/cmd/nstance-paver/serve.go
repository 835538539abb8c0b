package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"nstance.dev/agent/paver/socket"
)

func serveFlags(flags *flag.FlagSet) func(context.Context, config, io.Writer, *slog.Logger) error {
	group := flags.String("group", "nstance", "group of the agent's user, which may connect to the socket")
	return func(ctx context.Context, c config, _ io.Writer, log *slog.Logger) error {
		c.group = *group
		return c.serve(ctx, log)
	}
}

// serve works on this host until ctx ends. The machines go on without it.
func (c config) serve(ctx context.Context, log *slog.Logger) error {
	unlock, err := c.takeLock()
	if err != nil {
		return err
	}
	defer unlock()
	l, err := c.open(ctx, log)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.run, 0o755); err != nil {
		return fmt.Errorf("make directory of the socket: %w", err)
	}
	server, err := socket.Listen(socket.Options{Path: c.socket, Group: c.group, Version: version, Paver: l.paver, Log: log})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Run(ctx) })
	g.Go(func() error { return l.host.Survey(ctx) })
	g.Go(func() error { return l.paver.Run(ctx) })
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		log.WarnContext(ctx, "service manager not notified", "error", err)
	}
	log.InfoContext(ctx, "ready", "version", version, "socket", c.socket)
	return g.Wait()
}
