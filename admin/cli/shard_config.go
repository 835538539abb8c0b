package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
	aws "nstance.dev/providers/aws/rules"
	gcp "nstance.dev/providers/gcp/rules"
	local "nstance.dev/providers/local/rules"
	proxmox "nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/config"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/schema"
	"nstance.dev/server/driver"
)

// providerRules are what the configurations of every provider are checked by.
func providerRules() []*driver.Rules {
	return []*driver.Rules{local.New(), aws.New(), gcp.New(), proxmox.New()}
}

// maxConfigSize is the size of the largest configuration that is read, in bytes.
const maxConfigSize = jsonc.MaxBytes

// newShardConfigCommand returns the commands about configurations of servers.
func newShardConfigCommand(env *Env) *cobra.Command {
	return newParentCommand("config", "Check configurations of servers, see and change what is in force",
		newConfigValidateCommand(env), newConfigSchemaCommand(env), newConfigStatusCommand(env), newConfigRefreshCommand(env), newShardConfigPlanCommand(env))
}

func newConfigValidateCommand(env *Env) *cobra.Command {
	opts := config.LoadOptions{Providers: providerRules()}
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check configuration files",
		Long: `Check configuration files as a server of their provider would, and print every
problem with its file, line and column. The exit code is 1 if there is any. What
only a cloud knows, such as whether a subnet exists, is not checked.`,
		Example: `  nstance-admin shard config validate config/us-west-2a.jsonc
  nstance-admin shard config validate --shard local - < local.jsonc`,
		Args: usedArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			var failed failures
			for _, path := range args {
				failed.add(validateConfig(env, path, opts))
			}
			return failed.err()
		},
	}
	cmd.Flags().StringVar(&opts.Shard, "shard", "", "the `SHARD` that the file must be for")
	cmd.Flags().StringVar(&opts.Storage, "storage", "", "also check against the limits of this `STORE`: s3, gcs or file")
	return cmd
}

func validateConfig(env *Env, path string, opts config.LoadOptions) error {
	data, err := readInput(env, path, maxConfigSize)
	if err != nil {
		return err
	}
	if path == "-" {
		path = stdinName
	}
	cfg, err := config.Load(path, data, opts)
	if err != nil {
		return &invalidConfigError{path: path, err: err}
	}
	for _, warning := range cfg.Warnings {
		fmt.Fprintf(env.Err, "warning: %s\n", warning)
	}
	fmt.Fprintf(env.Out, "%s: valid\n", path)
	return nil
}

// invalidConfigError is about a configuration whose problems have lines of their
// own, which editors can follow.
type invalidConfigError struct {
	path string
	err  error
}

func (e *invalidConfigError) Error() string { return e.err.Error() }
func (e *invalidConfigError) Unwrap() error { return e.err }

func newConfigSchemaCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of configurations",
		Long: `Print the JSON Schema of configurations, with which editors complete and check
them. It says less than "shard config validate" does.`,
		Example:           `  nstance-admin shard config schema > config.schema.json`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			_, err := env.Out.Write(schema.JSON())
			return err
		},
	}
}

func newConfigStatusCommand(env *Env) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which configuration a shard uses",
		Example: `  nstance-admin shard config status
  nstance-admin shard config status --all-shards -o json`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := addShardFlags(env, cmd)
	addListFlags(cmd, &format)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		items, err := gather(cmd.Context(), env, flags, configStatus)
		return printList(env.Out, format, configStatusView(), items, err)
	}
	return cmd
}

// configStatus always says the shard: the answer itself names nothing.
func configStatus(ctx context.Context, s *shard) ([]output.Item[*nstancev1.GetConfigStatusResponse], error) {
	response, err := s.api.GetConfigStatus(ctx, &emptypb.Empty{})
	if err != nil {
		return nil, err
	}
	return []output.Item[*nstancev1.GetConfigStatusResponse]{{Shard: s.name, Message: response}}, nil
}

func newConfigRefreshCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "refresh",
		Short: "Let a shard read its configuration again",
		Long: `Let a shard read its configuration again at once. A configuration with problems
is not applied, and all of its problems are printed. Where several tenants share the
shard, only operators of the tenants in server.admin_tenants may do this.`,
		Example:           `  nstance-admin shard config refresh --all-shards`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := addShardFlags(env, cmd)
	how := addDryRunFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			if how.dryRun {
				return showConfig(ctx, env, s)
			}
			return refreshConfig(ctx, env, s)
		})
	}
	return cmd
}

// showConfig says which configuration is in force, and where the plan of a new one is.
func showConfig(ctx context.Context, env *Env, s *shard) error {
	response, err := s.api.GetConfigStatus(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "%s: etag %s is in force, and the stored file would be read again; 'nstance-admin shard config plan FILE' shows what a file would cause\n",
		s.name, response.GetEtag())
	return nil
}

func refreshConfig(ctx context.Context, env *Env, s *shard) error {
	response, err := s.api.RefreshConfig(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	if response.GetUpdated() {
		fmt.Fprintf(env.Out, "%s: updated (etag %s, before %s)\n", s.name, response.GetEtag(), response.GetPrevEtag())
		return nil
	}
	// Who does not administrate a shared shard gets the same answer, and nothing was read: the
	// status tells the two apart.
	switch status, err := s.api.GetConfigStatus(ctx, &emptypb.Empty{}); {
	case err != nil:
		return fmt.Errorf("whether the configuration was read: %w", err)
	case status.GetLastModified() == nil:
		return errors.New("nothing was read: several tenants share the shard, and this identity's does not administrate it; " +
			"refresh as an operator of a tenant in server.admin_tenants")
	}
	fmt.Fprintf(env.Out, "%s: unchanged (etag %s)\n", s.name, response.GetEtag())
	return nil
}
