// Package agent is what runs in every machine of a shard: it proves who the machine is,
// keeps one stream to the shard's leader, holds the keys and files that the server sends
// for, and says how the machine is.
//
// The packages below it each do one of these things and know little of each other:
//
//	settings     what the environment says
//	credentials  authority, nonce, own key and certificate, as files
//	link         which address to dial, how, and how long to wait after a failure
//	enroll       from the nonce to the certificate
//	session      the stream: welcome, reports, renewal, reconnecting, goodbye
//	keys, files  what the server asks for and what it delivers
//	cluster      the machine's binding to a cluster: what is handed over to a program with
//	             the machine's rights, and that program
//	hostlink     the conversation with the paver, which builds the host's node machine
//	report       measurements
//	interruption whether the cloud takes the machine away
//	healthz      liveness for whoever watches the process
//	durable      files that a crash cannot tear
//
// The agent executes nothing that it is told over the network (what it hands over for that is
// run by cluster/unit or by the paver, processes of their own, where a machine is set up so), listens on nothing but
// [settings.Settings.HealthAddr], and does not give up: without a server the machine works
// on with what it has.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/agent/cluster/handover"
	"nstance.dev/agent/credentials"
	"nstance.dev/agent/enroll"
	"nstance.dev/agent/files"
	"nstance.dev/agent/healthz"
	"nstance.dev/agent/hostlink"
	"nstance.dev/agent/interruption"
	"nstance.dev/agent/keys"
	"nstance.dev/agent/link"
	"nstance.dev/agent/report"
	"nstance.dev/agent/session"
	"nstance.dev/agent/settings"
)

// Options are what a process or a test adds to the settings; zero fields take the defaults.
type Options struct {
	Version     string                                                   // of this build; "unknown"
	DialContext func(ctx context.Context, addr string) (net.Conn, error) // TCP
	// DialMetadata connects to the cloud's metadata service; TCP, to link-local addresses only.
	DialMetadata func(ctx context.Context, network, addr string) (net.Conn, error)
	Proc, Sys    string           // /proc, /sys
	Now          func() time.Time // time.Now
	Random       func() float64   // in [0, 1); rand.Float64
}

func (o Options) withDefaults() Options {
	if o.Version == "" {
		o.Version = "unknown"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return o
}

// A process that ends because its nonce did is started again by its service manager; the
// pause keeps a shard's worth of them from coming back at once.
const (
	exitPause  = 10 * time.Second
	exitSpread = 30 * time.Second
)

// Run is the agent's life. It returns nil when ctx ends, after a goodbye and within five
// seconds.
//
// Where no attempt can help it logs why, once, and waits for ctx instead of returning: the
// server replaces the machine, and a restart would only repeat the question. An error is
// something that a restart or a human can repair: a directory that cannot be used, an
// address that is taken, or [enroll.ErrNonceExpired], with which Run returns late.
func Run(ctx context.Context, s settings.Settings, o Options, log *slog.Logger) error {
	o = o.withDefaults()
	log = log.With("instance", s.InstanceID)
	log.InfoContext(ctx, "starting", "version", o.Version, "environment", s.Environment)
	err := run(ctx, s, o, log)
	switch {
	case ctx.Err() != nil:
		log.InfoContext(ctx, "stopped")
		return nil //nolint:nilerr // the error is that the context ended, as asked for
	case errors.Is(err, enroll.ErrRefused):
		log.ErrorContext(ctx, "this machine will not be admitted; waiting to be replaced", "error", err)
		<-ctx.Done()
		return nil
	case errors.Is(err, enroll.ErrNonceExpired):
		pause := exitPause + time.Duration(o.Random()*float64(exitSpread))
		log.ErrorContext(ctx, "registration failed: nonce expired; exiting", "error", err, "exit_in", pause.String())
		if link.Sleep(ctx, pause) != nil {
			return nil //nolint:nilerr // stopped while it was about to end anyway
		}
	}
	return err
}

func run(ctx context.Context, s settings.Settings, o Options, log *slog.Logger) error {
	dir, err := credentials.Open(s.Identity.Dir, s.Identity.Mode, s.Identity.DirMode(), s.InstanceID)
	if err != nil {
		return err
	}
	roots, err := dir.Roots()
	if err != nil {
		return err
	}
	dialer := link.Dialer{Roots: roots, UserAgent: "nstance-agent/" + o.Version, DialContext: o.DialContext}
	id, err := identify(ctx, s, o, dir, dialer, log)
	if err != nil {
		return err
	}
	spot := interruption.New(interruption.Options{
		Provider: s.Provider, Interval: s.SpotPollInterval, Addr: s.MetadataAddr, DialContext: o.DialMetadata,
	}, log)
	host := hostlink.New(hostlink.Options{Socket: s.PaverSocket, Version: o.Version, Log: log})
	conversation, err := prepare(s, o, dir, id, dialer, spot, host, log)
	if err != nil {
		return err
	}

	g, ctx := errgroup.WithContext(ctx)
	if s.HealthAddr != "" {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.HealthAddr)
		if err != nil {
			return fmt.Errorf("listen for health checks: %w", err)
		}
		g.Go(func() error { return healthz.Serve(ctx, l) })
	}
	g.Go(func() error { return spot.Run(ctx) })
	g.Go(func() error { return host.Run(ctx) })
	g.Go(func() error { return conversation.Run(ctx) })
	return g.Wait()
}

// identify returns the identity that the machine has, or registers. A certificate that has
// ended counts where there is no nonce to get another one with.
func identify(ctx context.Context, s settings.Settings, o Options, dir *credentials.Dir, dialer link.Dialer, log *slog.Logger) (credentials.Identity, error) {
	id, err := dir.Identity()
	if err == nil && !id.Expired(o.Now()) {
		return id, dir.DiscardNonce()
	}
	if err != nil && !errors.Is(err, credentials.ErrNoIdentity) {
		return id, err
	}
	_, _, nonceErr := dir.Nonce()
	if errors.Is(nonceErr, fs.ErrNotExist) {
		if err == nil {
			return id, nil
		}
		return id, fmt.Errorf("%w: %w, and %w", enroll.ErrRefused, err, nonceErr)
	}
	log.InfoContext(ctx, "registering")
	id, err = enroll.Run(ctx, enroll.Options{
		Credentials: dir,
		Book:        link.NewBook(s.RegistrationAddrs, s.AddrFile, link.Registration),
		Dialer:      dialer,
		Host:        enroll.Detect(enroll.Host{Hostname: s.Hostname, IPv4: s.IPv4, IPv6: s.IPv6}),
		Now:         o.Now,
		Random:      o.Random,
	}, log)
	if err != nil {
		return id, err
	}
	log.InfoContext(ctx, "registered", "tenant", id.Peer.Tenant, "shard", id.Peer.Shard, "expires_at", id.Peer.NotAfter)
	return id, nil
}

// prepare opens what a session needs on this machine.
func prepare(s settings.Settings, o Options, dir *credentials.Dir, id credentials.Identity, dialer link.Dialer, spot *interruption.Watcher, host *hostlink.Link, log *slog.Logger) (*session.Session, error) {
	keyStore, err := keys.Open(s.Keys.Dir, s.Keys.Mode, s.Keys.DirMode())
	if err != nil {
		return nil, err
	}
	received, err := files.Open(files.Options{
		Dir: s.Recv.Dir, Mode: s.Recv.Mode, DirMode: s.Recv.DirMode(), StoreHash: dir.StoreConfigHash,
	})
	if err != nil {
		return nil, err
	}
	collector, err := report.New(report.Options{
		Version: o.Version, InstanceID: s.InstanceID, Interface: s.MetricsInterface,
		Proc: o.Proc, Sys: o.Sys, Now: o.Now,
	})
	if err != nil {
		return nil, err
	}
	return session.New(session.Options{
		Version: o.Version, Credentials: dir, Identity: id,
		Book:   link.NewBook(s.AgentAddrs, s.AddrFile, link.Agent),
		Dialer: dialer, Keys: keyStore, Files: received, Collector: collector,
		Cluster: handover.New(s.Cluster.Dir, s.Cluster.Status), Host: host, Interruption: spot, Report: s.Report, Now: o.Now, Random: o.Random,
	}, log), nil
}
