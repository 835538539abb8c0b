package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"nstance.dev/admin/gateway"
	"nstance.dev/admin/httpapi"
	"nstance.dev/admin/shardclient"
	"nstance.dev/admin/tokens"
	"nstance.dev/protos/identity"
)

// serveFlags say where the HTTP API is and who may call it.
type serveFlags struct {
	bind      string
	tokenFile string
	plain     bool
	others    []string
	tlsFiles
}

func newServeCommand(env *Env) *cobra.Command {
	var flags *shardFlags
	var s serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the HTTP API to programs that do not speak gRPC",
		Long: `Serve the HTTP API until interrupted. /openapi.json describes it.

A caller brings a client certificate of the cluster, of an operator or a viewer, or
a token of --token-file ("token create"). It sees its own tenant, if that is the one
of the context's identity or of one of --tenant-identity-dir; what it changes is
changed as that identity.

Callers come over TLS 1.3: --tls-cert and --tls-key are the certificate that is shown
to them. Where a proxy of this box ends TLS, --plain-http serves it on a loopback
address; callers have tokens then.`,
		Example: `  nstance-admin token create --token-file tokens.json --tenant default --access read
  nstance-admin serve --bind 0.0.0.0:8443 --tls-cert api.crt --tls-key api.key --token-file tokens.json
  curl -H "Authorization: Bearer $TOKEN" https://api.example:8443/v1/shards`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runServe(cmd.Context(), env, flags, s)
		},
	}
	flags = addShardFlags(env, cmd)
	f := cmd.Flags()
	f.StringVar(&s.bind, "bind", "127.0.0.1:8080", "`HOST:PORT` to listen on")
	f.BoolVar(&s.plain, "plain-http", false, "serve without TLS, to this box alone")
	f.StringArrayVar(&s.others, "tenant-identity-dir", nil, "`DIR` with the identity for one more tenant; may be repeated")
	addTokenFileFlag(cmd, &s.tokenFile)
	s.addFlags(cmd)
	cmd.MarkFlagsMutuallyExclusive("plain-http", "tls-cert")
	return cmd
}

// runServe listens until ctx ends.
func runServe(ctx context.Context, env *Env, flags *shardFlags, s serveFlags) error {
	s.tokenFile = cmp.Or(s.tokenFile, env.Getenv(identity.EnvAdminTokenFile))
	conf, err := s.load()
	switch {
	case err != nil:
		return err
	case conf == nil && !s.plain:
		return usagef("give --tls-cert and --tls-key, the certificate for callers; or --plain-http, for a proxy on this box")
	case conf == nil && !loopback(s.bind):
		return usagef("--bind: %s is not of this box, and --plain-http serves no other", s.bind)
	case conf == nil && s.tokenFile == "":
		return usagef("--token-file: without TLS there are no client certificates, so no caller could be let in")
	}
	gateways, id, done, err := openTenants(env, flags, s.others)
	if err != nil {
		return err
	}
	defer done()
	log := slog.New(slog.NewTextHandler(env.Err, nil))
	opts := httpapi.Options{Cluster: id.Peer.Cluster, Gateways: gateways, Now: env.Now, Log: log}
	if s.tokenFile != "" {
		opts.Tokens = tokens.Open(s.tokenFile, env.Now).Check
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.bind)
	if err != nil {
		return fmt.Errorf("--bind: %w", err)
	}
	scheme := "http"
	if conf != nil {
		scheme, conf = "https", httpapi.TLS(conf.Certificates[0], id.Roots())
	}
	fmt.Fprintf(env.Out, "api: %s://%s\n", scheme, l.Addr())
	return served(httpapi.Listen(ctx, l, conf, httpapi.New(opts), log))
}

// openTenants connects to the shards as the identity of the context, and as each of some
// others, which are of other tenants of the same cluster.
func openTenants(env *Env, flags *shardFlags, dirs []string) (gateways map[string]*gateway.Gateway, first *shardclient.Identity, done func(), err error) {
	shards, closeFirst, err := openAllShards(env, flags)
	if err != nil {
		return nil, nil, nil, err
	}
	closing := []func(){closeFirst}
	done = func() {
		for _, f := range closing {
			f()
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	first = shards[0].conn.Identity()
	gateways = map[string]*gateway.Gateway{}
	if gateways[first.Peer.Tenant], err = gatewayTo(shards); err != nil {
		return nil, nil, nil, err
	}
	for _, dir := range dirs {
		id, err := shardclient.LoadIdentity(dir, first.Peer.Cluster, "", env.Now())
		if err != nil {
			return nil, nil, nil, fmt.Errorf("--tenant-identity-dir: %w", err)
		}
		if gateways[id.Peer.Tenant] != nil {
			return nil, nil, nil, usagef("--tenant-identity-dir: %s is of tenant %q, of which there is an identity already", dir, id.Peer.Tenant)
		}
		as, closeThese := openAs(env, shards, id)
		closing = append(closing, closeThese)
		if gateways[id.Peer.Tenant], err = gatewayTo(as); err != nil {
			return nil, nil, nil, err
		}
	}
	return gateways, first, done, nil
}

// openAs connects to shards once more, as somebody else.
func openAs(env *Env, shards []*shard, id *shardclient.Identity) (as []*shard, done func()) {
	for _, s := range shards {
		as = append(as, &shard{name: s.name, conn: shardclient.Dial(s.conn.Target(), id, shardclient.Options{Patience: callPatience, Now: env.Now})})
	}
	return as, func() {
		for _, s := range as {
			_ = s.conn.Close()
		}
	}
}
