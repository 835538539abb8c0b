package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/providers/aws/awsfake"
	"nstance.dev/server/driver/drivertest/guest"
)

// run serves an account until ctx ends, and then ends everything that it started.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "fake-ec2-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	}
	cloud := awsfake.New(awsfake.Options{
		Region: o.region, Lag: o.lag, Boot: o.boot, Stop: o.end, End: o.end,
		PageSize: o.page, Enforce: o.limits, Speed: o.speed, Run: o.guest(),
	})
	defer cloud.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { // whose failure ends the rest
		api, err := serve(ctx, g, "--listen", o.listen, people(cloud))
		if err != nil {
			return err
		}
		servers, err := o.plant(ctx, g, cloud)
		if err != nil {
			return err
		}
		return o.announce(out, api, servers)
	})
	return g.Wait()
}

// server is an instance that a server can run on.
type server struct {
	id       string
	metadata net.Addr
}

// plant makes the servers' instances. Their metadata services have ports of their own.
func (o options) plant(ctx context.Context, g *errgroup.Group, cloud *awsfake.Cloud) ([]server, error) {
	var all []server
	address := o.metadata
	for range o.servers {
		id := cloud.Plant(map[string]string{"Name": "server"})
		at, err := serve(ctx, g, "--metadata", address, cloud.Metadata(id))
		if err != nil {
			return nil, err
		}
		all = append(all, server{id, at})
		host, _, _ := net.SplitHostPort(at.String())
		address = net.JoinHostPort(host, "0")
	}
	return all, nil
}

// serve answers at an address until ctx ends, and returns what address that is.
func serve(ctx context.Context, g *errgroup.Group, flag, address string, h http.Handler) (net.Addr, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	g.Go(func() error {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return s.Close()
	})
	return l.Addr(), nil
}

// guest is what machines are made of: processes in a directory that has the
// machine's id, which stays for as long as the directory of all does.
func (o options) guest() func(awsfake.Machine) (func(), error) {
	return func(m awsfake.Machine) (func(), error) {
		if o.empty || len(m.UserData) == 0 {
			return func() {}, nil
		}
		machine, err := guest.Start(guest.Options{Dir: filepath.Join(o.dir, m.ID), UserData: m.UserData, Agent: o.agent})
		if err != nil {
			fmt.Fprintf(os.Stderr, "fake-ec2: %s does not boot: %v\n", m.ID, err)
			return nil, err
		}
		return machine.Stop, nil
	}
}

// announce prints how to reach the account, and what is in it.
func (o options) announce(out io.Writer, api net.Addr, servers []server) error {
	var env strings.Builder
	for _, v := range [][2]string{
		{"FAKE_EC2", "http://" + api.String()},
		{"AWS_ENDPOINT_URL_EC2", "http://" + api.String()},
		{"AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2", "http://" + api.String()},
		{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://" + servers[0].metadata.String()},
		{"AWS_REGION", o.region},
		{"AWS_ACCESS_KEY_ID", awsfake.AccessKey},
		{"AWS_SECRET_ACCESS_KEY", awsfake.SecretKey},
	} {
		fmt.Fprintf(&env, "export %s='%s'\n", v[0], v[1])
	}
	if _, err := fmt.Fprint(out, env.String(), o.inventory(servers)); err != nil {
		return err
	}
	if o.env == "" {
		return nil
	}
	// Whoever waits for the file finds all of it.
	part := o.env + ".part"
	if err := os.WriteFile(part, []byte(env.String()), 0o600); err != nil {
		return fmt.Errorf("--env: %w", err)
	}
	return os.Rename(part, o.env)
}

// inventory is what is in the account, as comments of a shell.
func (o options) inventory(servers []server) string {
	account := awsfake.DefaultAccount(o.region)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "# "+format+"\n", args...) }
	for _, s := range account.Subnets {
		line("subnet %s in %s: %s", s.ID, s.Zone, s.IPv4)
	}
	for _, i := range account.Images {
		line("image %s: %s, %s", i.ID, i.Name, i.Architecture)
	}
	var names []string
	for _, t := range account.Types {
		names = append(names, t.Name)
	}
	line("instance types %s", strings.Join(names, ", "))
	line("security groups %s; instance profile %s", strings.Join(account.SecurityGroups, ", "), strings.Join(account.Profiles, ", "))
	for _, i := range account.Interfaces {
		line("network interface %s with %s", i.ID, i.IPv4)
	}
	for _, t := range account.TargetGroups {
		line("target group %s", t.ARN)
	}
	for _, s := range servers {
		line("instance %s is for a server with AWS_EC2_METADATA_SERVICE_ENDPOINT='http://%s'", s.id, s.metadata)
	}
	line("machines are under %s", o.dir)
	return b.String()
}
