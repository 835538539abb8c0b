package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"nstance.dev/admin/clusterops"
	"nstance.dev/admin/output"
	"nstance.dev/admin/shardclient"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// shardFlags say which servers a command talks to, and for how long.
type shardFlags struct {
	shardclient.Flags
	timeout time.Duration
}

const defaultTimeout = 30 * time.Second

// addShardFlags gives a command and all below it the flags of shards.
func addShardFlags(env *Env, cmd *cobra.Command) *shardFlags {
	f := &shardFlags{}
	f.addTo(env, cmd)
	return f
}

func (f *shardFlags) addTo(env *Env, cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.Config, "config", "", configFlagHelp)
	flags.StringVar(&f.Context, "context", "", "context with servers and identity: a `NAME` in the configuration file, or a file (NSTANCE_ADMIN_CONTEXT)")
	flags.StringVar(&f.Servers, "servers", "", "addresses of the servers' operator API (port 8993), `SHARD=HOST:PORT,...` (NSTANCE_ADMIN_SERVERS)")
	flags.StringVar(&f.IdentityDir, "identity-dir", "", "`DIR` with ca.crt, identity.crt and identity.key (NSTANCE_ADMIN_IDENTITY_DIR)")
	flags.StringVar(&f.Shard, "shard", "", "the `SHARD` to work on (NSTANCE_ADMIN_SHARD)")
	flags.BoolVar(&f.AllShards, "all-shards", false, "work on every shard")
	flags.DurationVar(&f.timeout, "timeout", defaultTimeout, "how long to try, per shard; 10m with --wait")
	cmd.MarkFlagsMutuallyExclusive("shard", "all-shards")
	_ = cmd.MarkPersistentFlagFilename("config", "yaml", "yml")
	_ = cmd.RegisterFlagCompletionFunc("context", completeContexts(env, &f.Config))
}

// shard is a connection to one shard.
type shard struct {
	name  string
	label string // the name where several shards are worked on, else empty
	api   nstancev1.OperatorServiceClient
	conn  *shardclient.Conn
}

// wrap says which shard an error is about, where that is a question.
func (s *shard) wrap(err error) error {
	if err == nil || s.label == "" {
		return err
	}
	if list, ok := errors.AsType[failures](err); ok {
		wrapped := slices.Clone(list)
		for i := range wrapped {
			wrapped[i] = s.wrap(wrapped[i])
		}
		return wrapped
	}
	return fmt.Errorf("shard %s: %w", s.name, err)
}

// prefix begins the lines about this shard where there are several.
func (s *shard) prefix() string {
	if s.label == "" {
		return ""
	}
	return s.label + ": "
}

// selectShards returns what the flags select, and the identity that goes there.
func selectShards(env *Env, f *shardFlags) (shardclient.Selection, *shardclient.Identity, error) {
	selection, err := shardclient.Resolve(f.Flags, env.Getenv)
	if err != nil {
		return selection, nil, err
	}
	if selection.IdentityDir == "" {
		selection.IdentityDir = filepath.Join(env.TempDir, clusterops.TempIdentityDir)
		if err := clusterops.CheckPrivateDir(selection.IdentityDir); err != nil {
			return selection, nil, fmt.Errorf("identity: name its folder with --identity-dir or a context; the default does not do: %w", err)
		}
	}
	id, err := shardclient.LoadIdentity(selection.IdentityDir, selection.ClusterID, selection.Tenant, env.Now())
	return selection, id, err
}

// openShards connects to what the flags select; the caller closes with the
// function that it gets.
func openShards(env *Env, f *shardFlags) ([]*shard, func(), error) {
	selection, id, err := selectShards(env, f)
	if err != nil {
		return nil, nil, err
	}
	var shards []*shard
	for _, target := range selection.Targets {
		s := &shard{name: target.Shard, conn: shardclient.Dial(target, id, shardclient.Options{Patience: f.timeout, Now: env.Now})}
		s.api = nstancev1.NewOperatorServiceClient(s.conn)
		if f.AllShards {
			s.label = s.name
		}
		shards = append(shards, s)
	}
	return shards, func() {
		for _, s := range shards {
			_ = s.conn.Close()
		}
	}, nil
}

// onEachShard does some work on one shard after the other. A failure does not
// keep the rest from being done.
func onEachShard(ctx context.Context, env *Env, f *shardFlags, work func(context.Context, *shard) error) error {
	shards, done, err := openShards(env, f)
	if err != nil {
		return err
	}
	defer done()
	var failed failures
	for _, s := range shards {
		failed.add(s.wrap(onShard(ctx, f.timeout, s, work)))
	}
	return failed.err()
}

func onShard(ctx context.Context, timeout time.Duration, s *shard, work func(context.Context, *shard) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return work(ctx, s)
}

// gather asks all shards at once and returns the answers in their order. What
// some shards answered is returned along with the error about the others.
func gather[T any](ctx context.Context, env *Env, f *shardFlags, ask func(context.Context, *shard) ([]T, error)) ([]T, error) {
	shards, done, err := openShards(env, f)
	if err != nil {
		return nil, err
	}
	defer done()
	answers := make([][]T, len(shards))
	errs := make([]error, len(shards))
	var group errgroup.Group
	for i, s := range shards {
		group.Go(func() error {
			errs[i] = onShard(ctx, f.timeout, s, func(ctx context.Context, s *shard) (err error) {
				answers[i], err = ask(ctx, s)
				return err
			})
			return nil
		})
	}
	_ = group.Wait() // each error stands in errs
	var all []T
	var failed failures
	for i, s := range shards {
		all = append(all, answers[i]...)
		failed.add(s.wrap(errs[i]))
	}
	return all, failed.err()
}

// itemOf returns a message as one of a shard.
func itemOf[T proto.Message](s *shard, message T) output.Item[T] {
	return output.Item[T]{Shard: s.label, Message: message}
}

// addOutputFlag gives a command the flag -o. Its help and completion offer the given
// kinds, the first by default; all of them if there are none.
func addOutputFlag(cmd *cobra.Command, format *output.Format, offered ...output.Kind) {
	*format = output.Offering(offered...)
	names := format.Offers()
	last := len(names) - 1
	cmd.Flags().VarP(format, "output", "o", "`FORMAT`: "+strings.Join(names[:last], ", ")+" or "+names[last])
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// addListFlags gives a command that prints a list the flag -o and what goes with it.
func addListFlags(cmd *cobra.Command, format *output.Format, offered ...output.Kind) {
	addOutputFlag(cmd, format, offered...)
	cmd.Flags().BoolVar(&format.NoHeaders, "no-headers", false, "leave the headers of tables out")
	cmd.Flags().StringVar(&format.SortBy, "sort-by", "", "sort by this `FIELD` of the JSON, such as .created_at")
}

// addStreamFlags gives a command that prints a stream the flag -o and what goes with it.
func addStreamFlags(cmd *cobra.Command, format *output.Format) {
	addOutputFlag(cmd, format)
	cmd.Flags().BoolVar(&format.NoHeaders, "no-headers", false, "leave the headers of tables out")
}
