package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/providers/gcp/gcpfake"
	"nstance.dev/server/driver/drivertest/guest"
)

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	cleanup, err := s.absolute()
	if err != nil {
		return err
	}
	defer cleanup()
	return s.serve(ctx, stdout, slog.New(slog.NewTextHandler(stderr, nil)))
}

// serve runs the API, and a metadata server for each machine that a server may be on.
func (s settings) serve(ctx context.Context, stdout io.Writer, log *slog.Logger) error {
	opts := s.options()
	var cloud *gcpfake.Cloud
	opts.Run = func(m gcpfake.Machine) (func(), error) { return s.boot(cloud, m, log) }
	cloud = gcpfake.New(opts)
	defer cloud.Close()
	if err := furnish(cloud, s.servers); err != nil {
		return err
	}

	api, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return serveUntil(ctx, api, withPeople(cloud), log) })
	text := fmt.Sprintf("export FAKE_GCE='http://%[1]s'\nexport NSTANCE_GCE_ENDPOINT='http://%[1]s'\n", api.Addr())
	for n := range s.servers {
		name := serverName(n)
		meta, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			_ = api.Close()
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error { return serveUntil(ctx, meta, cloud.Metadata(name), log) })
		if n > 0 {
			text += "# for a server on " + name + ": "
		}
		text += fmt.Sprintf("export GCE_METADATA_HOST='%s'\n", meta.Addr())
	}
	if err := s.announce(stdout, text); err != nil {
		_ = api.Close()
		return errors.Join(err, g.Wait())
	}
	log.InfoContext(ctx, "serving", "address", api.Addr().String(), "machines", s.dir)
	return g.Wait()
}

// announce prints the variables, and writes them to a file that appears as a whole.
func (s settings) announce(stdout io.Writer, text string) error {
	if _, err := io.WriteString(stdout, text); err != nil || s.env == "" {
		return err
	}
	part := s.env + ".part"
	if err := os.WriteFile(part, []byte(text), 0o600); err != nil {
		return fmt.Errorf("--env: %w", err)
	}
	return os.Rename(part, s.env)
}

func serverName(n int) string { return fmt.Sprintf("server-%d", n+1) }

// furnish makes what the usage text promises.
func furnish(cloud *gcpfake.Cloud, servers int) error {
	zone := cloud.Region() + "-b"
	errs := []error{cloud.AddInstanceGroup(zone, "web"), cloud.AddEndpointGroup(zone, "web", 443)}
	for n := range servers {
		errs = append(errs, cloud.Plant(zone, serverName(n), nil))
	}
	return errors.Join(errs...)
}

// serveUntil serves until ctx ends.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// boot runs a machine as processes, with a metadata server of its own that scripts find
// in GCE_METADATA_HOST. One without user data runs nothing.
func (s settings) boot(cloud *gcpfake.Cloud, m gcpfake.Machine, log *slog.Logger) (stop func(), err error) {
	data, everyBoot := m.Metadata["startup-script"], true
	if data == "" {
		data, everyBoot = m.Metadata["user-data"], false
	}
	log.Info("machine starts", "machine", m.Name, "zone", m.Zone, "user_data", len(data))
	if data == "" {
		return func() {}, nil
	}
	meta, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := serveUntil(ctx, meta, cloud.Metadata(m.Name), log); err != nil {
			log.Error("metadata server", "machine", m.Name, "error", err)
		}
	}()
	vm, err := guest.Start(guest.Options{
		Dir: filepath.Join(s.dir, m.Name), UserData: []byte(data), Agent: s.agent, EveryBoot: everyBoot,
		Env: []string{"GCE_METADATA_HOST=" + meta.Addr().String()}, Grace: 2 * time.Second,
	})
	if err != nil {
		log.Error("machine does not start", "machine", m.Name, "error", err)
	}
	return func() {
		if vm != nil {
			vm.Stop()
		}
		cancel()
		<-done
		log.Info("machine ends", "machine", m.Name)
	}, nil
}
