package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
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

	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/server/driver/drivertest/guest"
)

// settings are the flags.
type settings struct {
	listen string
	dir    string
	agent  string
	caFile string
	speed  float64
}

const usage = `A Proxmox VE cluster in memory, for trying things out. It prints the environment
variables that lead nstance-server-proxmox to it, and serves until it is interrupted.

The cluster has the nodes pve1, pve2 and pve3 with the bridges vmbr0 and vmbr1; the
storages local (ISO images), local-lvm and ceph (disks); the templates debian-13 on
each node (9001 to 9003, on local-lvm) and debian-13-ceph (9100, on ceph).

What users do without the API is beside it, and asks for no token:

  GET  /fake/machines
  POST /fake/machines/{name}/kill | remove | move/{node}
  POST /fake/nodes/{node}/away | back

Usage: fake-proxmox [flags]

`

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("fake-proxmox", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8006", "address to serve on; port 0 takes a free one")
	flags.StringVar(&s.dir, "dir", "", "directory for the machines' disks, kept at the end (default: a temporary one, removed)")
	flags.StringVar(&s.agent, "agent", "", "program that machines have as /usr/local/bin/nstance-agent")
	flags.StringVar(&s.caFile, "ca-file", "", "serve HTTPS with a certificate made for this run, and write its authority here")
	flags.Float64Var(&s.speed, "speed", 10, "how many times as fast as a real cluster tasks are")
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q; see --help", flags.Arg(0))
	case s.speed <= 0:
		return s, fmt.Errorf("--speed %v is not above 0", s.speed)
	}
	return s, nil
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "fake-proxmox-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(s.dir) }()
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	if s.agent != "" {
		if s.agent, err = filepath.Abs(s.agent); err != nil {
			return err
		}
	}
	return s.serve(ctx, stdout, slog.New(slog.NewTextHandler(stderr, nil)))
}

func (s settings) serve(ctx context.Context, stdout io.Writer, log *slog.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	scheme := "http"
	if s.caFile != "" {
		config, err := makeTLS(listener.Addr(), s.caFile)
		if err != nil {
			return err
		}
		listener, scheme = tls.NewListener(listener, config), "https"
	}
	token := proxmoxfake.Token{ID: proxmoxfake.DefaultToken.ID, Secret: rand.Text()}
	cloud := proxmoxfake.New(proxmoxfake.Options{Tokens: []proxmoxfake.Token{token}, Speed: s.speed, Run: s.boot(log)})
	defer cloud.Close()
	// Refusals take HTTP/1.1: version 2 has no reason phrases.
	server := &http.Server{Handler: withPeople(cloud), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	_, err = fmt.Fprintf(stdout, "export PROXMOX_API_URL='%s://%s/api2/json'\nexport PROXMOX_TOKEN_ID='%s'\nexport PROXMOX_TOKEN_SECRET='%s'\n",
		scheme, listener.Addr(), token.ID, token.Secret)
	if err != nil {
		return err
	}
	log.Info("serving", "address", listener.Addr().String(), "machines", s.dir)
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// boot runs machines as processes. One without user data runs nothing.
func (s settings) boot(log *slog.Logger) func(proxmoxfake.Guest) (proxmoxfake.Running, error) {
	return func(g proxmoxfake.Guest) (proxmoxfake.Running, error) {
		log.Info("machine starts", "machine", g.Name, "vmid", g.VMID, "node", g.Node, "user_data", len(g.UserData))
		if len(g.UserData) == 0 {
			return nil, nil
		}
		return guest.Start(guest.Options{
			Dir: filepath.Join(s.dir, fmt.Sprintf("%d-%s", g.VMID, filepath.Base(g.Name))), UserData: g.UserData, Agent: s.agent,
			Grace: 2 * time.Second,
		})
	}
}
