package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"nstance.dev/admin/console"
	"nstance.dev/admin/gateway"
	"nstance.dev/admin/httpapi"
	"nstance.dev/admin/hub"
	"nstance.dev/protos/identity"
)

// consoleFlags say where the console is, and what it may do.
type consoleFlags struct {
	bind         string
	hosts        []string
	allowActions bool
	tlsFiles
}

// callPatience is how long a call of a browser or a program is repeated while no server
// serves it: they ask again themselves.
const callPatience = 10 * time.Second

func newConsoleCommand(env *Env) *cobra.Command {
	var flags *shardFlags
	var c consoleFlags
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve the web console to browsers of this box",
		Long: `Serve the web console until interrupted, and print its address. The token in the
address works once, for one browser; with each that logs in another address is
printed. It acts with the identity of the context, so a viewer's is enough:
"cluster register-operator --role viewer". Without --allow-actions it only shows.

It listens on this box alone. From elsewhere use a tunnel: ssh -L 8088:127.0.0.1:8088.`,
		Example: `  nstance-admin console --context .dev/admin.json
  nstance-admin console --bind 127.0.0.1:8088 --allow-actions`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runConsole(cmd.Context(), env, flags, c)
		},
	}
	flags = addShardFlags(env, cmd)
	f := cmd.Flags()
	f.StringVar(&c.bind, "bind", "127.0.0.1:0", "`HOST:PORT` to listen on; port 0 is a free one")
	f.StringSliceVar(&c.hosts, "host", nil, "`NAME` by which browsers call the console, beside those of this box; may be repeated")
	f.BoolVar(&c.allowActions, "allow-actions", false, "let pages scale, pause, replace and delete")
	c.addFlags(cmd)
	return cmd
}

func runConsole(ctx context.Context, env *Env, flags *shardFlags, c consoleFlags) error {
	conf, err := c.load()
	if err != nil {
		return err
	}
	if conf == nil && !loopback(c.bind) {
		return usagef("--bind: %s is not of this box: give --tls-cert and --tls-key, or use a tunnel", c.bind)
	}
	shards, done, err := openAllShards(env, flags)
	if err != nil {
		return err
	}
	defer done()
	log := slog.New(slog.NewTextHandler(env.Err, nil))
	calls, err := gatewayTo(shards)
	if err != nil {
		return err
	}
	follow := hub.New(followed(shards), hub.Options{Now: env.Now, Log: log})
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.bind)
	if err != nil {
		return fmt.Errorf("--bind: %w", err)
	}
	address := url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/"}
	if conf != nil {
		address.Scheme = "https"
	}
	show := func(token string) {
		address.RawQuery = url.Values{"token": {token}}.Encode()
		fmt.Fprintf(env.Out, "console: %s\n", address.String())
	}
	_, port, _ := net.SplitHostPort(l.Addr().String()) // a listener has one
	server, err := console.New(console.Options{
		Who: shards[0].conn.Identity().Peer, Version: env.Version, Hub: follow, Gateway: calls,
		AllowActions: c.allowActions, Hosts: lowered(c.hosts), Secure: conf != nil, Cookie: "nstance-console-" + port, LoggedIn: show, Now: env.Now,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	show(server.Token())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		follow.Run(ctx)
		return nil
	})
	g.Go(func() error { return served(httpapi.Listen(ctx, l, conf, server, log)) })
	return g.Wait()
}

// served is nil where a server has ended because it was to.
func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// loopback reports whether an address is of this box alone.
func loopback(bind string) bool {
	host, _, err := net.SplitHostPort(bind)
	if err != nil {
		return true // Listen says what is wrong with it
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func lowered(names []string) []string {
	var out []string
	for _, name := range names {
		out = append(out, strings.ToLower(name))
	}
	return out
}

// openAllShards is openShards for what serves others: all shards unless one is named, and
// little patience.
func openAllShards(env *Env, flags *shardFlags) ([]*shard, func(), error) {
	f := *flags
	f.AllShards = f.Shard == "" && env.Getenv(identity.EnvAdminShard) == ""
	f.timeout = min(cmp.Or(f.timeout, callPatience), callPatience)
	return openShards(env, &f)
}

func gatewayTo(shards []*shard) (*gateway.Gateway, error) {
	var to []gateway.Shard
	for _, s := range shards {
		to = append(to, gateway.Shard{Name: s.name, Conn: s.conn, Leader: s.conn.Leader})
	}
	return gateway.New(to, gateway.Options{})
}

func followed(shards []*shard) []hub.Shard {
	var to []hub.Shard
	for _, s := range shards {
		to = append(to, hub.Shard{Name: s.name, API: s.api, Leader: s.conn.Leader})
	}
	return to
}

// tlsFiles are where a certificate for browsers and programs is.
type tlsFiles struct{ cert, key string }

func (t *tlsFiles) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.cert, "tls-cert", "", "`FILE` with the certificate to show callers, PEM")
	f.StringVar(&t.key, "tls-key", "", "`FILE` with its private key, PEM")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
}

// load returns the settings of a listener; nil: no files are named.
func (t *tlsFiles) load() (*tls.Config, error) {
	if t.cert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(t.cert, t.key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	return httpapi.TLS(cert, nil), nil
}
